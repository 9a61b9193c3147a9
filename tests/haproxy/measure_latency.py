#!/usr/bin/env python3
"""Latencies of small plain requests through HAProxy, alone and beside large responses at zstd 19.

    tests/haproxy/measure_latency.py [--runs N] [--large N] [--nice N]
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
from proxy.case import HaproxySite  # noqa: E402

LOAD = os.path.join(HERE, "..", "nginx", "harness", "load.py")


def run(large, nice, seconds=6.0):
    site = HaproxySite(f"types text/html level zstd=19 threads 2 nice {nice} overload 0", threads=1)
    site.start()
    ending = threading.Event()

    def fetch():
        while not ending.is_set():
            response = http1.get(site.ports[0], "/length?n=1000000&kind=script&type=text/html", timeout=120)
            assert response.complete and response.coding == "zstd"

    try:
        clients = [threading.Thread(target=fetch) for _ in range(large)]
        for client in clients:
            client.start()
        time.sleep(0.5)
        words = [sys.executable, "-B", LOAD, str(site.ports[0]), "/length?n=1000&type=image/png", "200", str(seconds)]
        found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        ending.set()
        for client in clients:
            client.join()
    finally:
        site.stop()
    assert found["failed"] == 0 and found["ms"], found["failed"]
    ms = sorted(found["ms"])
    return [ms[len(ms) // 2], ms[int(len(ms) * 0.99)], ms[-1]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--large", type=int, default=8)
    parser.add_argument("--nice", type=int, default=10)
    options = parser.parse_args()
    found = {0: [], options.large: []}
    for _ in range(options.runs):
        for large in found:
            found[large].append(run(large, options.nice))
    print(f"200 small requests a second, ms; medians of {options.runs} runs in turn; threads 2, nice {options.nice}")
    print(f"{'large':>8} {'p50':>8} {'p99':>8} {'slowest':>8}")
    for large, rows in found.items():
        print(f"{large:>8} " + " ".join(f"{statistics.median(column):8.1f}" for column in zip(*rows)))


if __name__ == "__main__":
    main()
