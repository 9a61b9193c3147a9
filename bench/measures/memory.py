"""(d) Memory of the worker by responses in flight and by idle event streams."""

import select
import socket
import time

from harness.nginx import free_ports, memory, reset_peak
from plot import bars
from report import Section, Table
from site_ import PLAIN, Bench, settle, variants
from stats import median, number

NAME = "memory"
MIB = 1 << 20
FILE = "script.js"
EVENTS, SIZE = 6, 300


def run(ctx):
    counts = ctx.pick((1, 4, 8, 64, 256), (4, 16), (4,))
    slow = ctx.pick((1, 4, 8, 64), (4, 16), ())
    cheap = variants("pool", zstd=(3,), br=(5,), gzip=(6,)) + variants("peer", br=(5,), gzip=(6,))
    length = ctx.pick(MIB, MIB, 200_000)
    plan = [(variant, count) for count in counts for variant in [PLAIN, *cheap]]
    if ctx.quick:
        plan = [(variant, count) for variant, count in plan if variant.how != "plain"]
    plan += [(variant, count) for count in slow for variant in variants("pool", zstd=(19,))]
    flight = {}
    for turn in range(ctx.runs):
        for variant, count in plan:
            # What takes long is the same each time but for a few pages.
            if turn and (count > 64 or variant.level > 9 and count > 8):
                continue
            ctx.say(f"memory {turn + 1}/{ctx.runs}: {variant.label}, {count} in flight")
            found = in_flight(ctx, variant, count, length)
            cell = flight.setdefault(
                f"{variant.key}/{count}", {**ctx.named(variant), "count": count}
            )
            for name, value in found.items():
                cell.setdefault(name, []).append(value)
    idle = {}
    counts = ctx.pick((100, 1000, 10000), (200,), (50,))
    for count in counts:
        for variant in [PLAIN, *cheap]:
            # An encoder for each takes what the machine does not have.
            if variant.how == "peer" and count > 1000:
                continue
            ctx.say(f"memory: {variant.label}, {count} idle streams")
            cell = {**ctx.named(variant), "count": count, "each": [idle_streams(variant, count)]}
            idle[f"{variant.key}/{count}"] = cell
    return {"length": length, "flight": flight, "idle": idle}


class Client:
    """Many connections that read nothing until they are told to."""

    def __init__(self, port, path, accept):
        self.port, self.poll, self.open = port, select.epoll(), {}
        self.request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {accept}\r\n"

    def begin(self, count, buffer=None, close=True):
        request = self.request + ("Connection: close\r\n\r\n" if close else "\r\n")
        for _ in range(count):
            sock = socket.socket()
            if buffer:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            sock.settimeout(60)
            sock.connect(("127.0.0.1", self.port))
            sock.sendall(request.encode())
            sock.setblocking(False)
            self.open[sock.fileno()] = [sock, b"", 0]
            self.poll.register(sock, select.EPOLLIN)

    def read(self, quiet):
        """Reads until all are closed or nothing has come for so many seconds."""
        while self.open:
            ready = self.poll.poll(quiet)
            if not ready:
                return
            for number_, _ in ready:
                entry = self.open[number_]
                data = entry[0].recv(1 << 18)
                entry[1] = entry[1] or data[:600]
                entry[2] += len(data)
                if not data:
                    self.poll.unregister(entry[0])
                    entry[0].close()
                    del self.open[number_]

    def close(self):
        for sock, _, _ in self.open.values():
            sock.close()
        self.open = {}


def in_flight(ctx, variant, count, length):
    """Bytes that the worker grows by at most, and that it has more when all are done."""
    files = {FILE: ctx.files[FILE][:length], "small.json": ctx.files["small.json"]}
    # Loopback sockets would take in a whole coded body, and the response would be over.
    (port,) = free_ports(1)
    extra = f"        listen 127.0.0.1:{port} backlog=4096 sndbuf=8k;\n"
    with Bench([variant], files, extra=extra) as bench:
        worker = bench.nginx.worker
        bench.probe(variant, "small.json")
        bench.settle()
        reset_peak(worker)
        before = memory(worker)["Rss"]
        client = Client(port, f"/{variant.key}/{FILE}", variant.accept)
        client.begin(count, buffer=4096)
        # All of them are begun, and none can end: what they hold now is the most.
        settle(worker, 10, 0.1)
        client.read(60)
        if client.open:
            raise SystemExit(f"bench: {variant.key}: {len(client.open)} responses do not end")
        bench.settle()
        after = memory(worker)
    return {"peak": after["VmHWM"] - before, "after": after["Rss"] - before}


def idle_streams(variant, count):
    """Anonymous bytes of the worker for each stream that has had its events and is idle."""
    extra = (
        f"        location /{variant.key}/ {{ {variant.directives} proxy_pass http://%UP%/;"
        " proxy_buffering off; proxy_http_version 1.1; }\n"
    )
    http = "    send_timeout 900s;\n    proxy_read_timeout 900s;\n"
    events = f"    worker_connections {count * 2 + 200};\n"
    main = f"worker_rlimit_nofile {max(4096, count * 3)};\n"
    more = {"main": main, "weft": not variant.foreign, "upstream": True}
    with Bench([], {}, extra=extra, http=http, events=events, **more) as bench:
        worker = bench.nginx.worker
        path = f"/{variant.key}/events?size={SIZE}&pause=0.05&count={EVENTS}"
        warm = Client(bench.port, path, variant.accept)
        warm.begin(4)
        warm.read(5)
        bench.settle()
        before = memory(worker)["Anonymous"]
        client = Client(bench.port, path + "&stay=900", variant.accept)
        for start in range(0, count, 50):
            client.begin(min(50, count - start), close=False)
            client.read(0.001)
        client.read(2)
        heads = [entry for entry in client.open.values() if b" 200 " in entry[1]]
        coded = [one for one in heads if f"Encoding: {variant.coding}".encode() in one[1]]
        if len(heads) != count or variant.how != "plain" and len(coded) != count:
            raise SystemExit(f"bench: {variant.key}: {len(heads)} streams, {len(coded)} coded")
        each = (memory(worker)["Anonymous"] - before) / count
        client.close()
        bench.settle()
    return each


def section(raw):
    out = Section(
        "Memory",
        "Growth of the worker's memory. In flight: clients ask for "
        f"{raw['length']} bytes of script and read nothing until all have asked and the worker has "
        "come to rest, so that no response can end; then they read. Idle: streams that have had "
        f"{EVENTS} events of {SIZE} bytes through an unbuffered proxy, each flushed, and wait; "
        "nginx's own memory for two connections is in it, as `no coding` shows.",
        "VmHWM and Anonymous of the worker in /proc, a new nginx for each figure",
    )
    for name, what, unit, title in (
        ("flight", "peak", MIB, "Peak by responses in flight, MiB"),
        ("idle", "each", 1024, "Each idle event stream, KiB"),
    ):
        counts = sorted({cell["count"] for cell in raw[name].values()})
        by = {}
        for cell in raw[name].values():
            by.setdefault(cell["label"], {})[cell["count"]] = [v / unit for v in cell[what]]
        rows = []
        for label, values in by.items():
            figures = [number(median(values[c])) if c in values else "-" for c in counts]
            rows.append([label, *figures])
        out.add(Table(title, ["", *map(str, counts)], rows))
        most = max(counts) if name == "idle" else 64
        marks = [(label, values[most]) for label, values in by.items() if most in values]
        if marks:
            out.add(bars(f"{title}: {most}", marks))
    return out
