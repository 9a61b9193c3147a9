"""The measurements that the must-show figures come from. The scripts print them, the tests assert them."""

import json
import os
import statistics
import subprocess
import sys
import threading
import time

from . import coding, http1
from .case import Site, body
from .clients import Load, leave_all
from .nginx import has, memory, reset_peak

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
KIB = 1 << 10


def _script(name, *words):
    command = [sys.executable, "-B", os.path.join(HERE, name), *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def load(*words):
    """What load.py finds with these arguments."""
    out, _ = _script("load.py", *words).communicate()
    return json.loads(out)


def _fetch_all(port, uris, timeout=120):
    """Fetches all at once; returns the bodies. Anything wrong raises."""
    bodies, faults = [None] * len(uris), []

    def one(number):
        try:
            response = http1.get(port, uris[number], timeout=timeout)
            if not response.complete or response.coding != "zstd":
                faults.append(f"{uris[number]}: {response.status} {response.coding} {response.error}")
            bodies[number] = response.body
        except Exception as error:
            faults.append(f"{uris[number]}: {error!r}")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(uris))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise AssertionError("; ".join(faults))
    return bodies


def small_body(level=22, size=1900, requests=200, pool=True):
    """By how much a worker grows that has coded small bodies at a high level; bytes by kind."""
    server = f"weft zstd; weft_level zstd={level};" + ("" if pool or not has("threads") else " weft_thread_pool off;")
    with Site(server, files={"small.html": body("json", size), "tiny.html": b"tiny"}) as site:
        worker = site.nginx.worker
        # What nginx itself makes at its first request is not ours.
        http1.get(site.port, "/tiny.html")
        reset_peak(worker)
        before = memory(worker)
        first = http1.get(site.port, "/small.html").body
        for _ in range(requests - 9):
            http1.get(site.port, "/small.html")
        _fetch_all(site.port, ["/small.html"] * 8)
        after = memory(worker)
        if coding.check_whole("zstd", first) != body("json", size):
            raise AssertionError("other bytes")
    found = {name: after[name] - before[name] for name in ("Anonymous", "Pss", "Rss")}
    found["peak"] = after["VmHWM"] - before["Rss"]
    found["coded"] = len(first)
    return found


def beside_large(pool, large=8, size=1000000, level=19, rate=500, lead=0.5, tail=0.5):
    """Latencies in ms of small plain requests while large coded ones are under way at once.

    The small ones are sent by a process of their own, each at the time it is due.
    """
    files = {"small.html": body("text", 1000), "large.js": body("script", size)}
    server = f"location = /large.js {{ weft zstd; weft_types *; weft_level zstd={level};"
    server += " }" if pool else " weft_thread_pool off; }"
    events = "    worker_connections 8192;"
    with Site(server, events=events, files=files) as site:
        _fetch_all(site.port, ["/large.js"])  # what is made once
        begun = time.monotonic()
        _fetch_all(site.port, ["/large.js"])
        alone = time.monotonic() - begun
        # Long enough for all of them even one after the other.
        load = _script("load.py", site.port, "/small.html", rate, lead + tail + alone * large * 1.5)
        time.sleep(lead)
        begun = time.monotonic()
        bodies = _fetch_all(site.port, ["/large.js"] * large)
        took = time.monotonic() - begun
        out, _ = load.communicate()
        found = json.loads(out)
        for one in set(bodies):
            if coding.check_whole("zstd", one) != files["large.js"]:
                raise AssertionError("other bytes")
    if found["failed"] or not found["ms"]:
        raise AssertionError(f"{found['failed']} small requests failed")
    ms = sorted(found["ms"])
    return {
        "requests": len(ms),
        "p50": ms[len(ms) // 2],
        "p99": ms[int(len(ms) * 0.99)],
        "slowest": ms[-1],
        "large": took,
    }


def compare_beside_large(runs=3, **more):
    """(with the pool, without): medians of some runs, taken in turn."""
    found = {True: [], False: []}
    for _ in range(runs):
        for pool in (True, False):
            found[pool].append(beside_large(pool, **more))
    return tuple(
        {name: statistics.median(run[name] for run in found[pool]) for name in found[pool][0]} for pool in (True, False)
    )


def idle_streams(count=1000, events=20, size=300, spread=8.0, level=3, coded=True):
    """Memory of a worker that holds idle event streams, and how late each event could be read."""
    server = """
        weft_types text/event-stream;
        location /up/ { proxy_buffering off; proxy_http_version 1.1; proxy_pass http://%UP%/; }
    """
    if coded:
        server = f"weft zstd; weft_level zstd={level};" + server
    conf = {
        "events": f"    worker_connections {count * 2 + 200};",
        # Else this process has to keep a window open for each.
        "http": "    send_timeout 600s; proxy_read_timeout 600s;",
    }
    with Site(server, upstream=True, **conf) as site:
        worker = site.nginx.worker
        path = f"/up/events?size={size}&pause=0.2&count={events}&stay=600"
        warm = http1.get(site.port, path.replace("stay=600", "stay=0").replace("0.2", "0.001"))
        plain = coding.check_whole("zstd", warm.body) if coded else warm.body
        if len(plain) != events * size:
            raise AssertionError("the warm-up stream is not right")
        before = memory(worker)
        words = ["fanout.py", site.port, path, count, spread, events, size, "zstd" if coded else "identity"]
        client = _script(*words)
        try:
            line = client.stdout.readline()
            if not line:
                raise AssertionError("the client failed")
            found = json.loads(line)
            # What is given back when idle has had its time.
            time.sleep(1.5)
            after = memory(worker)
        finally:
            client.stdin.close()
            client.wait()
            client.stdout.close()
        if found["done"] != count:
            raise AssertionError(f"{found['done']} of {count} streams had all events")
        ms = sorted(found["ms"])
        # Each stream ends now, with its client; the worker lets go of all.
        time.sleep(1.5)
        ended = memory(worker)
    return {
        "per_stream": (after["Anonymous"] - before["Anonymous"]) / count,
        "pss_per_stream": (after["Pss"] - before["Pss"]) / count,
        "left": ended["Anonymous"] - before["Anonymous"],
        "events": len(ms),
        "p50": ms[len(ms) // 2],
        "p99": ms[int(len(ms) * 0.99)],
        "slowest": ms[-1],
    }


SERVER = """
    weft zstd;
    proxy_http_version 1.1;
    location /up/ { proxy_pass http://%UP%/; }
    location /high/ { alias www/; weft_level zstd=12; }
    location /inline/ { alias www/; weft_thread_pool off; }
"""


def comings_and_goings(disconnects=200, reloads=20, retention=None):
    """Clients that go away, then reloads under load, then quit.

    The memory is that of a worker that has served the same load: when it was new, after each
    quarter of the disconnects, and of the last worker after the reloads.
    """
    large, up = body("text", 700000), "/up/chunked?n=300000&piece=20000&type=text/html"
    files = {"large.html": large, "small.html": large[:3000], "big.html": body("random", 8 * MIB)}
    right = [("/large.html", large), ("/high/large.html", large), ("/small.html", large[:3000])]
    right += [("/inline/large.html", large), (up, body("text", 300000))]
    leaving = [uri for uri, _ in right] + ["/big.html", "/up/events?type=text/html&pause=0.01"]
    http = f"    weft_retention {retention};" if retention else ""
    site = Site(SERVER, http, files=files, upstream=True).start()
    faults, sizes = [], []

    def settle():
        """The same work for each worker that is looked at."""
        load = Load(site.port, right)
        load.wait_right(10, 60)
        load.end()
        faults.extend(load.faults)
        time.sleep(0.5)
        return memory(site.nginx.worker)["Anonymous"]

    try:
        sizes.append(settle())
        for turn in range(4):
            faults += leave_all(site.port, leaving, range(turn * 1000, turn * 1000 + disconnects // 4))
            sizes.append(settle())
        load = Load(site.port, right, 6)
        old = []
        for _ in range(reloads):
            time.sleep(0.1)
            old += site.nginx.workers()
            site.nginx.reload()
        load.wait_right(10)
        load.end()
        faults += load.faults
        stay = not site.nginx.wait_gone(old, 20)
        sizes.append(settle())
        load = Load(site.port, right, 6)
        time.sleep(0.5)
        right_before = load.right
        load.ending = True
        time.sleep(0.05)
    finally:
        problems = site.stop()
        load.end()
    faults += load.faults
    if stay:
        problems.append("an old worker is still there 20 s after the last reload")
    if load.cut:
        problems.append(f"quit cut {load.cut} responses: {load.last}")
    return {"sizes": sizes, "faults": faults, "problems": problems, "right": right_before}
