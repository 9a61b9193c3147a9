#!/usr/bin/env python3
"""Clients that go away at random moments, reloads under load, quit: crashes, alerts, memory."""

import argparse
import sys

sys.dont_write_bytecode = True

from harness import measure  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--reloads", type=int, default=20)
    parser.add_argument("--retention", help="value of weft_retention")
    options = parser.parse_args()
    found = measure.comings_and_goings(options.clients, options.reloads, options.retention)
    names = ["new", *(f"after {options.clients // 4 * turn} clients" for turn in range(1, 5))]
    names.append(f"new, after {options.reloads} reloads")
    for name, size in zip(names, found["sizes"]):
        print(f"{size / measure.MIB:8.1f} MiB private memory of the worker: {name}")
    wrong = found["faults"] + found["problems"]
    print("\n".join(wrong) or "no crash, no alert, every complete body right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
