"""A short response that arrives behind long ones on one thread: what the order of segments brings."""

import threading
import time

from harness import http1
from report import Section, Table
from site_ import Bench, Variant
from stats import with_spread

NAME = "urgent"
LONG, SHORT = Variant("pool", "br", 11), Variant("pool", "br", 5)


def run(ctx):
    size = ctx.pick(1 << 20, 1 << 20, 200_000)
    files = {"long.js": ctx.files["script.js"][:size], "short.js": ctx.files["react-dom.js"][:100_000]}
    found = {"alone": [], "late": [], "segment": []}
    with Bench([LONG, SHORT], files, threads=1) as bench:
        bench.probe(SHORT, "short.js")
        for turn in range(ctx.pick(5, 1, 1)):
            ctx.say(f"urgent {turn + 1}")
            found["segment"].append(longest_gap(bench))
            found["alone"].append(fetch(bench))
            clients = [start(bench) for _ in range(8)]
            # At another place of the long ones' segments each time.
            time.sleep(0.3 + 0.37 * turn)
            found["late"].append(fetch(bench))
            for client in clients:
                client.close()
            bench.settle()
    return {"long": size, "short": 100_000, **found}


def start(bench):
    client = http1.Connection(bench.port, 300)
    client.send(f"/{LONG.key}/long.js", LONG.accept)
    # Read on, so that nothing waits for the client.
    threading.Thread(target=drain, args=(client,), daemon=True).start()
    return client


def drain(client):
    try:
        client.read()
    except (OSError, ValueError, http1.HttpError):
        pass


def fetch(bench):
    begin = time.monotonic()
    bench.probe(SHORT, "short.js")
    return time.monotonic() - begin


def longest_gap(bench):
    """A segment's time: the longest between two pieces of one response that is alone."""
    begin = time.monotonic()
    response, _ = bench.probe(LONG, "long.js")
    times = [begin, *(when for when, _ in response.pieces)]
    bench.settle()
    return max(after - before for before, after in zip(times, times[1:]))


def section(raw):
    out = Section(
        "A short response behind long ones",
        f"{raw['short']} bytes at brotli 5 while eight responses of {raw['long']} bytes at brotli 11 "
        "are under way, on a pool of one thread. A segment of those takes as long as the longest "
        "pause between two pieces of one that is alone.",
        "a client of ours: eight connections, then a ninth",
    )
    names = {"segment": "one long segment", "alone": "the short one alone",
             "late": "the short one behind eight"}
    rows = [[what, with_spread(raw[name], 1e3), len(raw[name])] for name, what in names.items()]
    out.add(Table("", ["", "ms", "runs"], rows))
    return out
