"""(g) Instructions for each small response, counted by callgrind, which noise does not change."""

import glob
import os
import re
import shutil
import subprocess
import time

from harness import http1
from harness.nginx import ROOT, free_ports
from plot import bars
from report import Section, Table
from site_ import PLAIN, Bench, variants

NAME = "instructions"
WARM, COUNT = 100, 200
FILE = "small.json"


def run(ctx):
    if shutil.which("valgrind") is None:
        return {"cells": {}, "why": "no valgrind"}
    coded = variants("pool", zstd=(3,), br=(5,), gzip=(6,)) + variants("peer", br=(5,), gzip=(6,))
    chosen = [PLAIN, *coded]
    bench = Bench(chosen, {FILE: ctx.files[FILE]})
    cells = {}
    try:
        ctx.say("instructions")
        for site in bench.sites:
            with Counted(site) as counted:
                for variant in site.chosen:
                    each = counted.each(f"/{variant.key}/{FILE}", variant.accept, ctx)
                    cells.setdefault(variant.key, {**ctx.named(variant), "each": each})
    finally:
        bench.discard()
    return {"cells": cells}


class Counted:
    """nginx as one process under callgrind."""

    def __init__(self, bench):
        self.bench = bench
        nginx = bench.nginx
        nginx.ports = free_ports(1)
        nginx.write_config()
        self.out = os.path.join(bench.folder, "callgrind.out")
        words = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.out}", "-q"]
        words += nginx.command("-g", "master_process off;")
        self.log = open(os.path.join(bench.folder, "valgrind.log"), "w+")
        self.process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )

    def __enter__(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                http1.get(self.bench.nginx.ports[0], f"/plain/{FILE}", "identity")
                return self
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        self.__exit__()
        raise SystemExit("bench: nginx does not start under valgrind")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def control(self, word):
        done = subprocess.run(
            ["callgrind_control", word, str(self.process.pid)], capture_output=True, text=True
        )
        if done.returncode or "Error" in done.stdout + done.stderr:
            raise SystemExit(f"bench: callgrind_control {word}: {done.stdout}{done.stderr}")

    def total(self):
        """What the last dump counted."""
        last = max(glob.glob(self.out + ".*"), key=lambda name: int(name.rsplit(".", 1)[1]))
        with open(last) as file:
            found = re.findall(r"^(?:totals|summary): (\d+)", file.read(), re.M)
        return int(found[-1])

    def each(self, path, accept, ctx):
        count = ctx.pick(COUNT, COUNT, 20)
        with http1.Connection(self.bench.nginx.ports[0], 120) as connection:

            def ask(times):
                for _ in range(times):
                    connection.send(path, accept)
                    connection.read()

            ask(ctx.pick(WARM, WARM, 10))
            self.control("--zero")
            ask(count)
            self.control("--dump")
        return self.total() / count


def section(raw):
    out = Section(
        "Instructions for each small response",
        "User instructions of all threads of an nginx of one process, for each response of 1.9 KB on "
        f"one connection, over {COUNT} of them after {WARM} others. With what nginx itself needs.",
        "valgrind --tool=callgrind nginx -g 'master_process off;', callgrind_control --zero, --dump",
    )
    if not raw["cells"]:
        out.text += f" Not measured: {raw['why']}."
        return out
    plain = raw["cells"]["plain"]["each"]
    rows = [
        [cell["label"], round(cell["each"]), round(cell["each"] - plain)]
        for cell in raw["cells"].values()
    ]
    out.add(Table("", ["1.9 KB", "instructions", "beyond no coding"], rows))
    marks = [(cell["label"], [cell["each"]]) for cell in raw["cells"].values()]
    out.add(bars("Instructions for each response of 1.9 KB", marks))
    return out
