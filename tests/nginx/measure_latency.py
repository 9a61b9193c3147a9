#!/usr/bin/env python3
"""Small plain requests beside large coded ones on one worker, with the pool and without.

The small ones are sent at fixed times by a process of their own; latency counts from when each was
due, so a stall of the server is seen by every request that falls into it.
"""

import argparse
import sys

sys.dont_write_bytecode = True

from harness import measure  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", type=int, default=8, help="large responses at once")
    parser.add_argument("--size", type=int, default=1000000)
    parser.add_argument("--level", type=int, default=19)
    parser.add_argument("--rate", type=float, default=500, help="small requests a second")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"{options.large} responses of {options.size} bytes at level {options.level}, medians of {options.runs} runs")
    print(f"{'':>8} {'requests':>9} {'p50 ms':>8} {'p99 ms':>9} {'slowest ms':>11} {'large ones, s':>14}")
    both = measure.compare_beside_large(
        options.runs, large=options.large, size=options.size, level=options.level, rate=options.rate
    )
    for name, found in zip(("pool", "no pool"), both):
        print(
            f"{name:>8} {found['requests']:9.0f} {found['p50']:8.2f} {found['p99']:9.1f}"
            f" {found['slowest']:11.1f} {found['large']:14.2f}"
        )
    print(f"the slowest without the pool is {both[1]['slowest'] / both[0]['slowest']:.0f} times the slowest with it")


if __name__ == "__main__":
    main()
