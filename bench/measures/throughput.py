"""(b) Requests a second and CPU for each, closed loop, 1.9 KB to 9 MB."""

import re
import shutil
import subprocess
import time

from plot import bars
from report import Section, Table
from site_ import PLAIN, Bench, faults, variants
from stats import length, median, number, with_spread
from tools import Wrk, oha

NAME = "throughput"

SYSTEM = "mmap,munmap,mremap,brk,madvise"


def plan(ctx):
    """{file: variants}"""
    usual = [PLAIN, *variants("pool", zstd=(3,), br=(5,), gzip=(6,))]
    peers = variants("peer", br=(5,), gzip=(6,))
    short = [PLAIN, *variants("pool", zstd=(3,), br=(5, 6, 9, 11), gzip=(6,))]
    short += variants("inline", zstd=(3,), br=(5,), gzip=(6,))
    short += variants("peer", br=(5, 6, 9, 11), gzip=(6,))
    if ctx.smoke:
        return {"small.json": usual + peers}
    if ctx.quick:
        return {
            "small.json": usual + peers,
            "jquery.min.js": short[:7] + short[-5:],
            "script.js": usual + peers,
            "data.json": usual[:1] + usual[-1:] + peers[-1:],
        }
    return {
        "small.json": short,
        "jquery.min.js": short,
        "script.js": short,
        "data.json": usual + peers,
        "caniuse.json": usual + peers,
        "typescript.js": usual + peers,
    }


def run(ctx):
    wanted = plan(ctx)
    seconds = ctx.pick(1.5, 0.4, 0.3)
    cells, coded = {}, {}
    every = {variant.key: variant for chosen in wanted.values() for variant in chosen}
    files = {name: ctx.files[name] for name in wanted}
    with Bench(every.values(), files) as bench:
        for name, chosen in wanted.items():
            for variant in chosen:
                response, _ = bench.probe(variant, name)
                cost = bench.probe(variant, name)[1]
                coded[name, variant.key] = len(response.body), cost
        for turn in range(ctx.runs):
            for name, chosen in wanted.items():
                ctx.say(f"throughput {turn + 1}/{ctx.runs}: {name}")
                for variant in chosen:
                    bytes_, cost = coded[name, variant.key]
                    found = sample(bench.of(variant), variant, name, seconds, cost)
                    key = f"{name}/{variant.key}"
                    cell = cells.setdefault(key, {**ctx.named(variant), "file": name})
                    cell.update(length=len(files[name]), bytes=bytes_)
                    cell.setdefault("runs", []).append(found)
        calls = {}
        for variant in wanted["small.json"]:
            calls[variant.key] = system_calls(bench.of(variant), variant, "small.json", seconds)
    return {"cells": cells, "system": {key: one for key, one in calls.items() if one is not None}}


def sample(bench, variant, name, seconds, cost):
    worker = bench.nginx.worker
    path = f"/{variant.key}/{name}"
    bench.settle()
    cpu, fault, begin = bench.cpu(), faults(worker), time.monotonic()
    if len(bench_file(bench, name)) < 10_000:
        requests, took = Wrk(bench.port, path, variant.accept, 16, max(1, round(seconds))).wait()
    else:
        # A number of requests, since those that an end by time cuts would be paid and not counted.
        count = int(min(20_000, max(12, seconds / max(cost, 2e-5))))
        found = oha(bench.port, path, variant.accept, ["-n", count, "-c", 8])
        requests, took = found["requests"], found["seconds"]
    bench.settle()
    return {
        "requests": requests,
        "per_second": requests / took,
        "cpu_each": (bench.cpu() - cpu) / requests,
        "faults_each": (faults(worker) - fault) / requests,
        "elapsed": time.monotonic() - begin,
    }


def bench_file(bench, name):
    with open(f"{bench.www}/{name}", "rb") as file:
        return file.read(10_001)


def system_calls(bench, variant, name, seconds):
    """Calls that ask the system for memory, for each request; None where strace cannot be used."""
    if shutil.which("strace") is None:
        return None
    words = ["strace", "-f", "-c", "-e", f"trace={SYSTEM}", "-p", str(bench.nginx.worker)]
    trace = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.3)
    load = Wrk(bench.port, f"/{variant.key}/{name}", variant.accept, 16, max(1, round(seconds)))
    requests, _ = load.wait()
    trace.terminate()
    text = trace.communicate(timeout=30)[1]
    if "attached" not in text:
        return None
    counts = re.findall(rf"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+).*?({SYSTEM.replace(',', '|')})$", text, re.M)
    return {"requests": requests, "calls": {call: int(number) for number, call in counts}}


def section(raw):
    out = Section(
        "Throughput and CPU",
        "One worker, closed loop: 16 connections for 1.9 KB, 8 for what is longer. CPU of all "
        "threads of the worker for each response, its median and spread.",
        "wrk -t1 -c16 (1.9 KB); oha -n N -c 8 (the others)",
    )
    names = list(dict.fromkeys(cell["file"] for cell in raw["cells"].values()))
    for name in names:
        own = [cell for cell in raw["cells"].values() if cell["file"] == name]
        rows = []
        for cell in own:
            runs = cell["runs"]
            rows.append(
                [
                    cell["label"],
                    cell["bytes"],
                    with_spread([run["per_second"] for run in runs]),
                    with_spread([run["cpu_each"] for run in runs], 1e3),
                    number(median([run["faults_each"] for run in runs])),
                ]
            )
        size = length(own[0]["length"])
        head = ["", "bytes sent", "requests a second", "CPU ms each", "page faults each"]
        out.add(Table(f"{name}, {size}", head, rows))
        marks = [
            (cell["label"], [run["cpu_each"] * 1e3 for run in cell["runs"]])
            for cell in own
            if cell["how"] != "plain"
        ]
        out.add(bars(f"CPU for each response, ms: {name}, {size}", marks))
    rows = []
    for key, one in raw["system"].items():
        label = raw["cells"][f"small.json/{key}"]["label"]
        total = sum(one["calls"].values())
        rows.append([label, one["requests"], total, number(total / max(1, one["requests"]))])
    if rows:
        head = ["1.9 KB", "requests", f"calls of {SYSTEM.replace(',', ', ')}", "for each"]
        out.add(Table("Memory asked of the system in the steady state (strace -f -c)", head, rows))
    return out
