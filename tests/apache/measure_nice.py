#!/usr/bin/env python3
"""Latencies of small plain requests beside eight large responses at level 19, by priority of weft's threads.

    tests/apache/measure_nice.py [--runs N] [--nice 0,10]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(HERE, "..", "nginx"), HERE]

from harness import http1  # noqa: E402
from httpd.case import ApacheSite, body  # noqa: E402

LOAD = os.path.join(HERE, "..", "nginx", "harness", "load.py")


def beside(nice, threads=2, seconds=6.0):
    files = {"small.txt": body("text", 1000), "large.html": body("script", 1_000_000)}
    server = "<Location /large.html>\nWeft zstd\nWeftLevel zstd=19\nSetOutputFilter WEFT\n</Location>\n"
    site = ApacheSite(server=server, main=f"MaxKeepAliveRequests 0\nKeepAliveTimeout 60\nWeftThreads {threads}\nWeftNice {nice}\nWeftOverload Off\n", files=files)
    site.start()
    ending = threading.Event()

    def fetch():
        while not ending.is_set():
            assert http1.get(site.port, "/large.html", timeout=60).complete

    try:
        clients = [threading.Thread(target=fetch) for _ in range(8)]
        for client in clients:
            client.start()
        time.sleep(0.5)
        words = [sys.executable, "-B", LOAD, str(site.port), "/small.txt", "300", str(seconds)]
        found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        ending.set()
        for client in clients:
            client.join()
    finally:
        site.stop()
    # A busy Apache closes connections that are kept; a request that is sent then is lost.
    if found["failed"] > len(found["ms"]) / 5:
        raise AssertionError(f"{found['failed']} of {len(found['ms'])} small requests failed")
    ms = sorted(found["ms"])
    return [ms[len(ms) // 2], ms[int(len(ms) * 0.99)], ms[-1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--nice", default="0,10")
    options = parser.parse_args()
    values = [int(word) for word in options.nice.split(",")]
    found = {nice: [] for nice in values}
    for _ in range(options.runs):
        for nice in values:
            found[nice].append(beside(nice))
    print(f"300 small requests a second, ms; medians of {options.runs} runs in turn")
    print(f"{'WeftNice':>8} {'p50':>8} {'p99':>8} {'slowest':>8}")
    for nice in values:
        print(f"{nice:>8} " + " ".join(f"{statistics.median(column):8.1f}" for column in zip(*found[nice])))


if __name__ == "__main__":
    main()
