"""(c) One large response: its time, its first byte, with 1, 2 and 4 tasks. And that it is the same."""

import hashlib
import shutil
import subprocess
import time
import zlib

from harness import http1
from plot import bars
from report import Section, Table
from site_ import PLAIN, Bench, Variant, variants
from stats import length, median, number, with_spread

NAME = "large"
TASKS = (1, 2, 4)
FILE = "typescript.js"


def run(ctx):
    kinds = ctx.pick(
        [("zstd", 3), ("zstd", 9), ("zstd", 19), ("br", 5), ("br", 9), ("gzip", 6)],
        [("zstd", 3), ("zstd", 19), ("br", 5), ("gzip", 6)],
        [("zstd", 3), ("br", 5), ("gzip", 6)],
    )
    body = ctx.files[FILE][: ctx.pick(None, None, 3 << 20)]
    chosen = [PLAIN] + [Variant("pool", *kind, tasks) for kind in kinds for tasks in TASKS]
    chosen += variants("peer", br=(5,), gzip=(6,))
    cells, sums, decoded = {}, {}, set()
    with Bench(chosen, {FILE: body}, threads=max(TASKS)) as bench:
        for turn in range(ctx.runs):
            for variant in chosen:
                ctx.say(f"large {turn + 1}/{ctx.runs}: {variant.label}")
                found, coded = fetch(bench, variant)
                cell = cells.setdefault(variant.key, {**ctx.named(variant), "tasks": variant.tasks})
                cell.setdefault("runs", []).append(found)
                if variant.how == "pool":
                    name = f"{variant.coding}{variant.level}"
                    sums.setdefault(name, set()).add(hashlib.sha256(coded).hexdigest())
                    if turn == 0 and variant.tasks == 1 and decodes(variant.coding, coded, body):
                        decoded.add(variant.coding)
    same = {name: len(values) == 1 for name, values in sums.items()}
    return {"length": len(body), "cells": cells, "same": same, "decoded": sorted(decoded)}


def fetch(bench, variant):
    bench = bench.of(variant)
    bench.settle()
    cpu, begin = bench.cpu(), time.monotonic()
    with http1.Connection(bench.port, 300) as connection:
        connection.send(f"/{variant.key}/{FILE}", variant.accept)
        response = connection.read()
        end = time.monotonic()
    if not response.complete:
        raise SystemExit(f"bench: {variant.key}: {response.error}")
    found = {"first": response.pieces[0][0] - begin, "seconds": end - begin}
    bench.settle()
    return {**found, "cpu": bench.cpu() - cpu}, response.body


def decodes(coding, coded, plain):
    """Whether another program makes the same of it."""
    if coding == "gzip":
        good = zlib.decompress(coded, 31) == plain
    else:
        tool = {"zstd": "zstd", "br": "brotli"}[coding]
        if shutil.which(tool) is None:
            return False
        done = subprocess.run([tool, "-dc"], input=coded, capture_output=True)
        good = done.stdout == plain
    if not good:
        raise SystemExit(f"bench: {coding} does not decode to what was sent")
    return True


def section(raw):
    out = Section(
        "One large response",
        f"{length(raw['length'])} of script, alone, on a pool of {max(TASKS)} threads. The first "
        "byte is that of the body.",
        "a client of ours on one connection: GET, and the time of each piece",
    )
    rows = []
    for cell in raw["cells"].values():
        runs = cell["runs"]
        share = median([run["first"] / run["seconds"] for run in runs])
        figures = [with_spread([run[name] for run in runs], 1e3) for name in
                   ("first", "seconds", "cpu")]
        rows.append([cell["label"], *figures, number(share)])
    head = ["", "first byte, ms", "all, ms", "CPU, ms", "first byte / all"]
    out.add(Table("", head, rows))
    for name, what in (("seconds", "Time of the whole response"), ("first", "Time to first byte")):
        marks = [(cell["label"], [run[name] * 1e3 for run in cell["runs"]])
                 for cell in raw["cells"].values()]
        out.add(bars(f"{what}, ms", marks))
    return out
