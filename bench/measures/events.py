"""(f) The cost of small flushed events, and of flushes in a long body."""

from report import Section, Table
from stats import number

NAME = "events"


def run(ctx):
    ctx.say("events")
    return {"rows": ctx.cargo_bench("events", ["react-dom.js"], {})}


def section(raw):
    out = Section(
        "Flushed events",
        "CPU on the caller's thread. Beside weft, an encoder that is kept for each stream, which "
        "costs memory for as long as the stream is idle. The least of five.",
        "JSON=1 cargo bench --bench events -- FILE",
    )
    of = {name: [row for row in raw["rows"] if row["bench"] == name] for name in
          ("events", "flushed", "reuse")}
    rows = [
        [f"{row['codec']} {row['level']:.0f}", row["weft_us"], row["kept_us"], row["weft_bytes"],
         row["kept_bytes"]]
        for row in of["events"]
    ]
    head = ["events of 200 bytes", "weft, us", "kept, us", "weft, bytes", "kept, bytes"]
    out.add(Table("", head, rows))
    rows = [
        [f"{row['codec']} {row['level']:.0f}", row["whole_ms"], row["flushed_ms"],
         f"x{row['flushed_ms'] / row['whole_ms']:.2f}",
         f"{(row['flushed_bytes'] / row['whole_bytes'] - 1) * 100:+.1f} %"]
        for row in of["flushed"]
    ]
    head = ["1 MB, flushed every 8 KiB", "one piece, ms", "flushed, ms", "CPU", "size"]
    out.add(Table("", head, rows))
    rows = [[row["engine"], number(row["faults"]), row["ms"]] for row in of["reuse"]]
    out.add(Table("", ["85 KB at brotli 9", "page faults each", "ms each"], rows))
    return out
