"""The lines that issue 5 must show: target, figure, met or not. What was not measured says so."""

from report import Section, Table
from stats import median, number

CONCERNS = ("zstd", "br", "gzip")


class Line:
    def __init__(self, number_, what, target, figure=None, met=None):
        self.row = [number_, what, target, "not measured" if figure is None else figure]
        self.row.append("" if met is None else "met" if met else "missed")


def _worst(pairs):
    """(label, value) with the greatest value."""
    return max(pairs, key=lambda pair: pair[1])


def latency(found):
    if "latency" not in found:
        yield Line(1, "p99 of small requests beside eight large ones", "at most 2x no coding")
        return
    cells = found["latency"]["cells"]

    def p99(key):
        return median([run["p99"] for run in cells[key]["runs"]])

    base = p99("plain/8")
    pool = [(c["label"], p99(k) / base) for k, c in cells.items() if k.endswith("/8")
            and c["how"] == "pool"]
    label, worst = _worst(pool)
    yield Line(
        1,
        f"p99 beside eight large ones, worst of {len(pool)} levels in the pool ({label}); "
        f"no coding {number(base)} ms, alone {number(p99('plain/0'))} ms",
        "at most 2x no coding",
        f"{number(worst)}x; {sum(value <= 2 for _, value in pool)} of {len(pool)} levels met",
        worst <= 2,
    )
    for key in ("peer-br6/8", "peer-gzip6/8"):
        if key in cells:
            ratio = p99(key) / base
            label = cells[key]["label"]
            yield Line(1, f"the same of the peer: {label}", "at least 10x", f"{number(ratio)}x",
                       ratio >= 10)


def _cpu(cells, name, key):
    cell = cells.get(f"{name}/{key}")
    return median([run["cpu_each"] for run in cell["runs"]]) if cell else None


def cpu(found):
    what = "CPU in segments against one piece, "
    if "size" in found:
        # Noise and what is coded already are shown, and are no response of a server.
        rows = [r for r in found["size"]["rows"] if r["file"] not in ("random.bin", "font.woff2")]
        # brotli at 2.5 MiB and zstd at 2 MiB a segment, gzip at 512 KiB.
        for longer, most, name in ((True, 1.10, "files over one segment"),
                                   (False, 1.03, "files of one segment")):
            some = [(f"{r['codec']} {r['level']:.0f} {r['file']}", median(r["ratios"]))
                    for r in rows if (r["length"] > segment(r)) == longer]
            if some:
                label, worst = _worst(some)
                good = sum(value <= most for _, value in some)
                yield Line(2, f"{what}{name}, worst ({label})", f"at most {most:.2f}",
                           f"x{worst:.2f}; {good} of {len(some)} met", worst <= most)
    else:
        yield Line(2, what + "by the library", "at most 1.10 and 1.03")
    cells = found.get("throughput", {}).get("cells", {})
    for level in (5, 6, 9, 11):
        for name in ("jquery.min.js", "script.js"):
            ours, theirs = (_cpu(cells, name, f"{how}-br{level}") for how in ("pool", "peer"))
            if ours is None or theirs is None:
                continue
            most = 0.5 if (level, name) == (9, "jquery.min.js") else 1.15
            yield Line(2, f"CPU for each response against ngx_brotli, quality {level}, {name}",
                       f"at most {most}", f"x{ours / theirs:.2f}", ours / theirs <= most)


def segment(row):
    """The longest body that is one segment, as docs/architecture.md has them."""
    level = row["level"]
    if row["codec"] == "zstd":
        return (2.5 if 5 <= level <= 12 else 2) * (1 << 20)
    if row["codec"] == "brotli":
        return (2.5 if 2 <= level <= 9 else 1) * (1 << 20)
    return 512 << 10


def large(found):
    cells = found.get("large", {}).get("cells", {})
    by = {}
    for cell in cells.values():
        if cell["how"] == "pool":
            by.setdefault((cell["coding"], cell["level"]), {})[cell["tasks"]] = cell
    for (coding, level), tasks in by.items():
        if 1 in tasks and 2 in tasks:
            one, two = (median([r["seconds"] for r in tasks[t]["runs"]]) for t in (1, 2))
            yield Line(3, f"9 MB at {coding} {level}, two tasks against one", "at most 0.6",
                       f"x{two / one:.2f}", two / one <= 0.6)
    cell = by.get(("zstd", 19), {}).get(2)
    if cell:
        share = median([run["first"] / run["seconds"] for run in cell["runs"]])
        yield Line(3, "9 MB at zstd 19, first byte of the body, two tasks",
                   "within a twentieth of the total", f"{share:.3f} of it", share <= 0.05)
    if not by:
        yield Line(3, "9 MB: two threads against one; its first byte", "at most 0.6; a twentieth")


def memory(found):
    raw = found.get("memory")
    if raw is None:
        yield Line(4, "peak memory; idle streams", "at most 1.5x; below 64 KiB each")
        return
    flight = raw["flight"]
    high = [cell for key, cell in flight.items() if key.startswith("pool-zstd19/")]
    few = next((cell for cell in high if cell["count"] == 4), None)
    many = max(high, key=lambda cell: cell["count"], default=None)
    if few and many["count"] > 4:
        own = [max(1, median(c["peak"]) - c["count"] * raw["length"]) for c in (few, many)]
        whole = median(many["peak"]) / median(few["peak"])
        yield Line(4, f"peak with {many['count']} responses of 1 MB at zstd 19 against 4, beyond the bodies "
                   f"(with them x{whole:.2f})", "at most 1.5",
                   f"{own[1] / 2**20:.1f} against {own[0] / 2**20:.1f} MiB",
                   own[1] <= 1.5 * max(own[0], 1 << 20))
    most = max((cell["count"] for cell in raw["idle"].values()), default=0)
    for cell in raw["idle"].values():
        if cell["how"] == "pool" and cell["count"] == most:
            each = median(cell["each"])
            yield Line(4, f"{most} idle event streams, {cell['coding']} {cell['level']}",
                       "below 64 KiB each", f"{each / 1024:.1f} KiB", each < 65536)


def small(found):
    raw = found.get("throughput")
    if raw is None:
        yield Line(5, "1.9 KB responses against plain ones", "at least 0.75")
        return
    cells = raw["cells"]

    def rate(key):
        return median([run["per_second"] for run in cells[f"small.json/{key}"]["runs"]])

    for key in ("pool-zstd3", "pool-br5", "pool-gzip6"):
        share = rate(key) / rate("plain")
        label = cells[f"small.json/{key}"]["label"]
        yield Line(5, f"1.9 KB: requests a second against plain ones, {label}", "at least 0.75",
                   f"{share:.2f}", share >= 0.75)
    for key in ("pool-zstd3", "pool-br5", "pool-gzip6"):
        runs = cells[f"small.json/{key}"]["runs"]
        fault = median([run["faults_each"] for run in runs])
        calls = raw["system"].get(key)
        each = sum(calls["calls"].values()) / max(1, calls["requests"]) if calls else None
        met = fault < 0.01 and each is not None and each < 0.01
        yield Line(5, f"page faults and system calls for memory, each response, {key}", "none",
                   f"{fault:.4f} and {'?' if each is None else f'{each:.4f}'}", met)


def urgent(found):
    raw = found.get("urgent")
    if raw is None:
        yield Line(6, "100 KB at brotli 5 behind eight of 1 MB at brotli 11, one thread",
                   "within 1.2 segment times")
        return
    segment_time = median(raw["segment"])
    share = median(raw["late"]) / segment_time
    yield Line(6, f"100 KB at brotli 5 behind eight of 1 MB at brotli 11, one thread; a segment "
               f"takes {number(segment_time)} s", "within 1.2 segment times",
               f"{share:.2f} (worst {max(raw['late']) / segment_time:.2f})", share <= 1.2)


def gzip(found):
    cells = found.get("throughput", {}).get("cells", {})
    seen = False
    for name, what in (("script.js", "JavaScript"), ("data.json", "JSON")):
        ours, theirs = (_cpu(cells, name, f"{how}-gzip6") for how in ("pool", "peer"))
        if ours is None or theirs is None:
            continue
        seen = True
        yield Line(7, f"gzip 6, requests for each CPU second against the stock filter, 1 MB {what}",
                   "at least 1.5", f"x{theirs / ours:.2f}", theirs / ours >= 1.5)
        sizes = [cells[f"{name}/{how}-gzip6"]["bytes"] for how in ("pool", "peer")]
        growth = sizes[0] / sizes[1] - 1
        yield Line(7, f"its size, 1 MB {what}", "at most 1.5 % larger", f"{growth * 100:+.2f} %",
                   growth <= 0.015)
    if not seen:
        yield Line(7, "gzip 6 against the stock filter", "at least 1.5")


def same(found):
    raw = found.get("large")
    if raw is None:
        yield Line(8, "the same bytes for any number of tasks", "the same")
        return
    wrong = [key for key, good in raw["same"].items() if not good]
    yield Line(8, f"the same bytes for 1, 2 and 4 tasks, {len(raw['same'])} codings and levels; "
               "decoded by another decoder: " + ", ".join(raw["decoded"]), "the same",
               "the same" if not wrong else "not: " + " ".join(wrong), not wrong)


def section(found):
    out = Section(
        "Must show",
        "What weft has promised of its speed and memory, and what this run found.",
    )
    lines = [line.row for part in (latency, cpu, large, memory, small, urgent, gzip, same)
             for line in part(found)]
    out.add(Table("", ["", "what", "target", "found", ""], lines))
    return out
