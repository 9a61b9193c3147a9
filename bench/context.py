"""What a run is: how long it may take, the files, the machine."""

import json
import os
import platform
import re
import subprocess
import sys
import time

import files
from harness.nginx import BINARY, MODULE, ROOT
from report import Section, Table
from tools import OHA, WRK, version

OUT = os.path.join(ROOT, "target/bench")
CARGO = os.environ.get("CARGO", "cargo")


class Context:
    def __init__(self):
        self.smoke = os.environ.get("SMOKE") == "1"
        self.quick = self.smoke or os.environ.get("QUICK") == "1"
        self.runs = self.pick(3, 1, 1)
        self.begun = time.monotonic()
        self.files = files.all_files()

    def pick(self, full, quick, smoke):
        return smoke if self.smoke else quick if self.quick else full

    def say(self, text):
        """Progress: one line that changes on a terminal, else a line each with the seconds so far."""
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif text:
            print(f"{time.monotonic() - self.begun:6.1f} {text}", file=sys.stderr, flush=True)

    def named(self, variant):
        return {
            "label": variant.label,
            "how": variant.how,
            "coding": variant.coding,
            "level": variant.level,
        }

    def cargo_bench(self, name, names, more):
        """The rows of one of benches/*.rs."""
        words = [CARGO, "bench", "--locked", "--quiet", "--bench", name, "--"]
        words += [files.path(file) for file in names]
        env = {**os.environ, "JSON": "1", **more}
        for word in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
            env.pop(word, None)
        done = subprocess.run(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"bench: cargo bench --bench {name} failed")
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        return [json.loads(line) for line in lines]


def load():
    return os.getloadavg()[0]


def _first(path, pattern, default="?"):
    try:
        with open(path) as file:
            found = re.search(pattern, file.read(), re.M)
    except OSError:
        return default
    return found[1].strip() if found else default


def _package(name):
    words = ["dpkg-query", "-W", "-f", "${Version}", name]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout or "not there"


def _crates():
    """The versions of the encoders, from Cargo.lock."""
    with open(os.path.join(ROOT, "Cargo.lock")) as file:
        text = file.read()
    found = []
    for name in ("zstd-sys", "brotli", "zlib-rs", "compu-brotli-sys", "libdeflate-sys"):
        match = re.search(rf'name = "{name}"\nversion = "([^"]+)"', text)
        found += [f"{name} {match[1]}"] if match else []
    return ", ".join(found)


def _commit():
    words = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def about(ctx, chosen):
    kind = "smoke" if ctx.smoke else "QUICK=1: too short to be believed" if ctx.quick else "full"
    memory = int(_first("/proc/meminfo", r"^MemTotal:\s+(\d+)", "0")) / 1e6
    return {
        "run": kind,
        "runs of each figure": ctx.runs,
        "measures": " ".join(chosen),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "weft": f"{_first(os.path.join(ROOT, 'Cargo.toml'), '^version = .(.*).$')}, {_commit()}",
        "processor": _first("/proc/cpuinfo", r"^model name\s*: (.*)$"),
        "cores": os.cpu_count(),
        "memory": f"{memory:.0f} GB",
        "kernel": platform.release().split("-")[0],
        "load before": load(),
        "nginx": version([BINARY, "-v"], r"nginx/(\S+)"),
        "module": "built in" if not MODULE else "dynamic",
        "ngx_brotli": _package("libnginx-mod-http-brotli-filter"),
        "its libbrotli": _package("libbrotli1"),
        "zlib of the gzip filter": _package("zlib1g"),
        "crates": _crates(),
        "rustc": version(["rustc", "--version"], r"rustc (\S+)"),
        "oha": version([OHA, "--version"], r"oha (\S+)"),
        "wrk": version([WRK, "-v"], r"wrk \S*?(\d[\d.]+)"),
        "valgrind": version(["valgrind", "--version"], r"valgrind-(\S+)"),
        "python": platform.python_version(),
    }


def about_section(found, bodies):
    out = Section(
        "What was run",
        "Everything in one run on one machine with the same files: the client and nginx share its "
        "cores. nginx has one worker and weft's pool two threads unless said otherwise. Runs of "
        "what is compared are interleaved. Figures are medians, with the least and the greatest "
        "behind them.",
        "make bench",
    )
    out.add(Table("", ["", ""], [[name, str(value)] for name, value in found["about"].items()]))
    out.add(Table("Files", ["name", "bytes", "from", "SHA-256, begin"], bodies))
    rows = [[name, seconds] for name, seconds in found["seconds"].items()]
    out.add(Table("Time taken", ["measure", "seconds"], rows))
    return out
