#!/usr/bin/env python3
"""Idle event streams: memory for each in the worker, and when each event could be decoded."""

import argparse
import sys

sys.dont_write_bytecode = True

from harness import measure  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--events", type=int, default=20)
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=8, help="over which they are opened")
    parser.add_argument("--levels", default="3,19")
    options = parser.parse_args()
    print(f"{options.streams} streams, each of {options.events} events of {options.size} bytes")
    print(f"{'level':>6} {'KiB each':>9} {'Pss each':>9} {'left, KiB':>10} {'p50 ms':>7} {'p99 ms':>7} {'slowest ms':>11}")
    for level in ["plain", *options.levels.split(",")]:
        coded = level != "plain"
        found = measure.idle_streams(
            options.streams, options.events, options.size, options.seconds, int(level) if coded else 0, coded
        )
        print(
            f"{level:>6} {found['per_stream'] / 1024:9.1f} {found['pss_per_stream'] / 1024:9.1f}"
            f" {found['left'] / 1024:10.0f} {found['p50']:7.2f} {found['p99']:7.1f} {found['slowest']:11.1f}"
        )


if __name__ == "__main__":
    main()
