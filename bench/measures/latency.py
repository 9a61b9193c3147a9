"""(a) Small plain requests beside a stream of large coded responses."""

import time

from plot import dots
from report import Section, Table
from site_ import PLAIN, Bench, variants
from stats import median, number, with_spread
from tools import Wrk, oha

NAME = "latency"
CODINGS = {"zstd": (3, 9, 19), "br": (5, 6, 11), "gzip": (6, 9)}
POINTS = ("p50", "p99", "p99.9", "max")


def run(ctx):
    large = "script.js" if not ctx.smoke else "react-dom.js"
    small = "small.json"
    # The same file is sent whole by all; cut for a look that must not take long.
    body = ctx.files[large][: ctx.pick(1 << 20, 300_000, 100_000)]
    chosen = variants("pool", **CODINGS) + variants("inline", **CODINGS)
    chosen += variants("peer", br=CODINGS["br"], gzip=CODINGS["gzip"])
    at_once = ctx.pick((1, 8), (8,), (8,))
    rate, count = ctx.pick((500, 1500), (500, 300), (500, 50))
    if ctx.smoke:
        chosen = [one for one in chosen if one.level in (5, 6)]
    cells = {}

    def sample(bench, variant, beside):
        bench = bench.of(variant)
        load = None
        # A loop that waits for seconds at a time answers all that came meanwhile at once: a few such
        # rounds show it.
        asked = count if variant.level <= 9 or variant.how == "pool" else min(count, 64)
        if beside:
            load = Wrk(bench.port, f"/{variant.key}/{large}", variant.accept, beside, 600)
            time.sleep(0.3)
        try:
            words = ["-n", asked, "-q", rate, "-c", 64, "--latency-correction"]
            found = oha(bench.port, f"/plain/{small}", "identity", words)
        finally:
            done = load.wait(end=True) if load else None
        if done:
            found["large_per_second"] = done[0] / done[1]
        bench.settle()
        cell = cells.setdefault(f"{variant.key}/{beside}", {**ctx.named(variant), "beside": beside})
        cell.setdefault("runs", []).append(found)

    files = {large: body, small: ctx.files[small]}
    with Bench([PLAIN, *chosen], files) as bench:
        for variant in chosen:
            bench.probe(variant, large)
        for turn in range(ctx.runs):
            sample(bench, PLAIN, 0)
            for beside in at_once:
                for variant in [PLAIN, *chosen]:
                    # Seconds for each response, one after the other: once is enough to see.
                    if variant.level > 9 and variant.how != "pool" and turn and not ctx.quick:
                        continue
                    ctx.say(f"latency {turn + 1}/{ctx.runs}: {variant.label}, {beside} at once")
                    sample(bench, variant, beside)
    return {"large_bytes": len(body), "rate": rate, "requests": count, "cells": cells}


def middle(cell, point):
    return median([one[point] for one in cell["runs"]])


def section(raw):
    cells = raw["cells"]
    out = Section(
        "Small requests beside large ones",
        f"A small plain file (1.9 KB) is asked for {raw['rate']} times a second, {raw['requests']} "
        "times in each run (64 where a coding above level 9 holds the loop up), while the large one "
        f"({raw['large_bytes']} bytes of script) is fetched without pause, one at a time or eight "
        "at once. Latency in milliseconds, from when each request was due.",
        "oha -n N -q RATE -c 64 --latency-correction, beside wrk -t1 -cK",
    )
    alone = cells["plain/0"]
    for beside in sorted({cell["beside"] for cell in cells.values()} - {0}, reverse=True):
        own = [cell for cell in cells.values() if cell["beside"] == beside]
        base = middle(own[0], "p99")
        rows = [["alone", *(with_spread([r[p] for r in alone["runs"]]) for p in POINTS), "", "", 0]]
        for cell in own:
            figures = [with_spread([run[point] for run in cell["runs"]]) for point in POINTS]
            rate = number(median([run["large_per_second"] for run in cell["runs"]]))
            ratio = number(middle(cell, "p99") / base)
            rows.append([cell["label"], *figures, ratio, rate, len(cell["runs"])])
        rows[0][-1] = len(alone["runs"])
        head = ["beside", *POINTS, "p99 against no coding", "large a second", "runs"]
        out.add(Table(f"{beside} at once, ms", head, rows))
        marks = [(cell["label"], [middle(cell, point) for point in POINTS]) for cell in own]
        title = f"Latency of small requests beside {beside} large, ms"
        out.add(dots(title, POINTS, marks))
    return out
