"""Bodies made from (kind, length, seed) alone, so that the upstream and the test agree on them."""

import functools
import json
import random

WORDS = (
    "the of and to in is that for it as was with be by on not he this are or his from at which but "
    "have an had they you were their one all we can her has there been if more when will would who "
    "so no warp thread cloth loom shuttle segment history window frame client server"
).split()


def _text(rng):
    lines = []
    for _ in range(1200):
        count = rng.randint(4, 16)
        lines.append(" ".join(rng.choice(WORDS) for _ in range(count)).capitalize() + ".\n")
    return "".join(lines)


def _json(rng):
    rows = []
    for number in range(900):
        rows.append(
            json.dumps(
                {
                    "id": rng.getrandbits(40),
                    "name": rng.choice(WORDS) + "-" + rng.choice(WORDS),
                    "price": round(rng.random() * 1000, 2),
                    "tags": [rng.choice(WORDS) for _ in range(rng.randint(0, 4))],
                    "seen": bool(rng.getrandbits(1)),
                    "row": number,
                }
            )
        )
    return ",\n".join(rows) + ",\n"


def _script(rng):
    parts = []
    for number in range(700):
        first, second = rng.choice(WORDS), rng.choice(WORDS)
        parts.append(
            f"function {first}_{second}_{number}(a, b) {{\n"
            f"  if (a.{second} === {rng.getrandbits(16)}) {{ return b.{first}(a); }}\n"
            f"  var {first} = '{rng.getrandbits(32):x}'; return {first} + b[{rng.randint(0, 99)}];\n"
            f"}}\n"
        )
    return "".join(parts)


KINDS = {"text": _text, "json": _json, "script": _script}


@functools.lru_cache(maxsize=8)
def _block(kind, seed):
    return KINDS[kind](random.Random(f"{kind}/{seed}")).encode()


@functools.lru_cache(maxsize=16)
def make(kind, length, seed=0):
    """Exactly `length` bytes; `kind` is a key of KINDS, "random" or "zero"."""
    if kind == "zero":
        return bytes(length)
    rng = random.Random(f"{kind}/{length}/{seed}")
    if kind == "random":
        return rng.randbytes(length)
    block = _block(kind, seed)
    out = bytearray(block[:length])
    # Random cuts of the block: long bodies keep matches at all distances, as real ones do.
    while len(out) < length:
        start = rng.randrange(len(block) - 500)
        out += block[start : start + rng.randint(40, 500)]
    return bytes(out[:length])
