#!/usr/bin/env python3
"""By how much the worker grows that codes a small file at a high level."""

import argparse
import sys

sys.dont_write_bytecode = True

from harness import measure  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1900)
    parser.add_argument("--levels", default="3,19,22")
    parser.add_argument("--requests", type=int, default=200)
    options = parser.parse_args()
    print(f"{options.requests} requests for {options.size} bytes; growth of the worker in KiB")
    print(f"{'level':>6} {'pool':>5} {'private':>8} {'Pss':>8} {'Rss':>8} {'peak Rss':>9} {'coded bytes':>12}")
    for level in options.levels.split(","):
        for pool in (True, False):
            found = measure.small_body(int(level), options.size, options.requests, pool)
            row = [found[name] // 1024 for name in ("Anonymous", "Pss", "Rss", "peak")]
            print(f"{level:>6} {'yes' if pool else 'no':>5} {row[0]:8} {row[1]:8} {row[2]:8} {row[3]:9} {found['coded']:12}")


if __name__ == "__main__":
    main()
