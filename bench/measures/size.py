"""(e) Size and CPU of the library's segments against the same encoder in one piece."""

from plot import bars
from report import Section, Table
from stats import median, with_spread

NAME = "size"


def plan(ctx):
    """[(files, codec, levels, runs)]"""
    if ctx.smoke:
        return [(["jquery.min.js"], codec, "5" if codec == "brotli" else "6", 3) for codec in CODECS]
    small = [
        (["small.json", "jquery.min.js"], "zstd", "3,9,19", 9),
        (["small.json", "jquery.min.js"], "brotli", "5,6,9,11", 9),
        (["small.json", "jquery.min.js"], "gzip", "6,9", 9),
    ]
    if ctx.quick:
        return small + [
            (["typescript.js"], "zstd", "3,9", 3),
            (["typescript.js"], "brotli", "5", 3),
            (["typescript.js"], "gzip", "6", 3),
        ]
    large = ["react-dom.js", "caniuse.json", "typescript.js"]
    return small + [
        (large, "zstd", "3,9", 5),
        (large, "zstd", "19", 3),
        (large, "brotli", "5,6,9", 3),
        (["react-dom.js"], "brotli", "11", 3),
        (large, "gzip", "6,9", 3),
        (["random.bin", "font.woff2"], "zstd", "3,19", 3),
        (["random.bin", "font.woff2"], "brotli", "5,11", 3),
        (["random.bin", "font.woff2"], "gzip", "6", 3),
    ]


CODECS = ("zstd", "brotli", "gzip")


def run(ctx):
    rows = []
    for names, codec, levels, runs in plan(ctx):
        ctx.say(f"size: {codec} {levels}: {' '.join(names)}")
        more = {"CODEC": codec, "LEVELS": levels, "RUNS": str(runs)}
        rows += ctx.cargo_bench("segments", names, more)
    return {"rows": rows}


def section(raw):
    out = Section(
        "Segments against one piece",
        "The library alone, on the caller's thread: CPU of a body in segments, as a share of the CPU "
        "of the plain encoder of the same crate for the whole body, in turn in one process. A body "
        "of one segment differs only by what weft adds.",
        "JSON=1 CODEC=.. LEVELS=.. RUNS=.. cargo bench --bench segments -- FILE..",
    )
    rows, marks = [], []
    for row in raw["rows"]:
        growth = row["bytes"] / row["whole_bytes"] - 1
        rows.append(
            [
                row["file"],
                f"{row['codec']} {row['level']:.0f}",
                int(row["length"]),
                int(row["whole_bytes"]),
                int(row["bytes"]),
                f"{growth * 100:+.2f} %",
                f"{median(row['whole_seconds']) * 1e3:.3g}",
                with_spread(row["ratios"]),
            ]
        )
        marks.append((f"{row['codec']} {row['level']:.0f} {row['file']} weft", row["ratios"]))
    head = ["file", "level", "bytes", "one piece", "segments", "size", "one piece, ms", "CPU ratio"]
    out.add(Table("", head, rows))
    out.add(bars("CPU in segments against one piece", marks))
    return out
