"""The programs that make the load: oha (open loop, exact counts) and wrk (closed loop)."""

import json
import os
import re
import shutil
import signal
import subprocess

from harness.nginx import ROOT

OHA = os.path.join(ROOT, "target/tools/bin/oha")
WRK = shutil.which("wrk") or "wrk"


def url(port, path):
    return f"http://127.0.0.1:{port}{path}"


def oha(port, path, accept, words):
    """One run; returns milliseconds and counts. Any request that fails is an error."""
    command = [OHA, "--no-tui", "--output-format", "json", "-H", f"Accept-Encoding: {accept}"]
    # Compressed bodies are counted, not unpacked.
    command += ["--disable-compression", *map(str, words), url(port, path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"bench: oha: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    bad = sum(found["errorDistribution"].values())
    codes = found["statusCodeDistribution"]
    if bad or set(codes) != {"200"}:
        raise SystemExit(f"bench: {path}: {codes} {found['errorDistribution']}")
    points = found["latencyPercentiles"]
    return {
        "requests": codes["200"],
        "seconds": found["summary"]["total"],
        "p50": points["p50"] * 1e3,
        "p99": points["p99"] * 1e3,
        "p99.9": points["p99.9"] * 1e3,
        "max": found["summary"]["slowest"] * 1e3,
    }


class Wrk:
    """wrk in the background, ended when told or after its time."""

    def __init__(self, port, path, accept, connections, seconds):
        command = [WRK, "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "600s"]
        command += ["-H", f"Accept-Encoding: {accept}", url(port, path)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def wait(self, end=False):
        """(requests, seconds)."""
        if end and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        text, _ = self.process.communicate(timeout=600)
        found = re.search(r"(\d+) requests in ([\d.]+)(us|ms|s|m)", text)
        if found is None or "Non-2xx" in text:
            raise SystemExit(f"bench: wrk says {text}")
        unit = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60}[found[3]]
        return int(found[1]), float(found[2]) * unit


def version(command, pattern):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "not there"
    found = re.search(pattern, done.stdout + done.stderr)
    return found[1] if found else "?"
