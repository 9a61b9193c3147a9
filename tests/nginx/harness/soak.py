"""A mixed load, for as long as one likes: two nginxes, one of which is reloaded all the time.

Every body that arrives whole has to be right, every one that was cut must not look whole, and memory
must not grow. All that is done follows from the seed; when it happens does not.
"""

import collections
import json
import random
import statistics
import threading
import time

from . import coding, http1, http2
from .bodies import make
from .case import Site
from .nginx import memory, slowness

KIB, MIB = 1 << 10, 1 << 20

MAIN = """
thread_pool default threads=2;
thread_pool tight threads=1 max_queue=2;
"""

HTTP = """
    weft_max_memory 48m;
    weft_overload 20ms 60ms;
    proxy_cache_path cache keys_zone=soak:1m max_size=20m inactive=10s;
    proxy_http_version 1.1;
    access_log off;
"""

SERVER = """
        weft zstd br gzip;
        weft_types *;
        weft_level zstd=$arg_l br=$arg_l gzip=$arg_l;
        location = /status { weft off; weft_status; }
        location /file/ { alias www/; }
        location /tight/ { alias www/; weft_thread_pool tight; }
        location /inline/ { alias www/; weft_thread_pool off; }
        location /limited/ { alias www/; limit_rate 400k; }
        location /up/ { proxy_pass http://%UP%/; proxy_buffering off; }
        location /held/ { proxy_pass http://%UP%/; proxy_buffers 8 4k; proxy_max_temp_file_size 0; }
        location /kept/ { proxy_pass http://%UP%/; proxy_cache soak; proxy_cache_valid 200 1s; }
"""

SIZES = [("text", 0), ("text", 1), ("json", 1900), ("script", 20_000), ("json", 90_000), ("text", 300_000)]
SIZES += [("random", 150_000), ("zero", 400_000), ("script", 1_000_000), ("json", 3_000_000), ("random", 2_000_000)]
FILES = {f"{kind}-{size}": make(kind, size) for kind, size in SIZES}

# Usual levels, then those that take long, and the largest body for them.
LEVELS = {
    "zstd": ([-5, 1, 3, 3, 3, 6, 9, 12], [15, 19, 22], 300_000),
    "br": ([0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9], [10, 11], 90_000),
    "gzip": ([1, 2, 3, 4, 5, 6, 6, 7, 8, 9], [0], 3_000_000),
}


class Fault(Exception):
    pass


def check(name, body, plain, where):
    """A body that is said to be whole: coded, or as it is where weft was at a limit."""
    if name is None:
        if body != plain:
            raise Fault(f"{where}: {len(body)} plain bytes are not those of the {len(plain)}")
        return "identity"
    try:
        decoder = coding.STREAMS[name](65536) if name != "gzip" else coding.STREAMS[name]()
        found = decoder.feed(body)
    except coding.CodingError as error:
        raise Fault(f"{where}: {error}") from None
    if found != plain or not decoder.ended:
        raise Fault(f"{where}: {len(body)} coded bytes give {len(found)}, not the {len(plain)}")
    return name


class Client(threading.Thread):
    """One client that does one thing after the other."""

    def __init__(self, site, seed, until):
        super().__init__(daemon=True)
        self.site, self.rng, self.until = site, random.Random(seed), until
        self.counts = collections.Counter()
        self.faults = []
        self.seed = seed
        self.kept = None

    def run(self):
        deeds = [
            (self.fetch, 30),
            (self.again, 20),
            (self.proxied, 20),
            (self.multiplexed, 8),
            (self.leave, 12),
            (self.events, 6),
            (self.cut, 10),
            (self.slow, 3),
            (self.no_body, 4),
        ]
        doing, weights = zip(*deeds)
        while time.monotonic() < self.until and len(self.faults) < 5:
            (deed,) = self.rng.choices(doing, weights)
            try:
                deed()
            except (Fault, OSError, EOFError, http1.HttpError, ValueError) as error:
                self.faults.append(f"seed {self.seed}, {deed.__name__}: {error!r}")
            self.counts[deed.__name__] += 1

    # ---- what to ask for

    def choice(self, most=10 * MIB):
        """(coding, level, name of a file, its bytes)."""
        name = self.rng.choice(list(LEVELS))
        usual, long, largest = LEVELS[name]
        high = self.rng.random() < 0.04
        level = self.rng.choice(long if high else usual)
        most = min(most, largest if high else most)
        file = self.rng.choice([file for file, body in FILES.items() if len(body) <= most])
        return name, level, file, FILES[file]

    def source(self, most=600_000):
        """(coding, path of the upstream's body, its bytes), to be sent as the prefix wants it."""
        name = self.rng.choice(list(LEVELS))
        level = self.rng.choice(LEVELS[name][0])
        kind = self.rng.choice(("text", "json", "script", "random", "zero"))
        size = self.rng.choice((0, 1, 700, 9_000, 70_000, 250_000, most))
        seed = self.rng.randrange(4)
        return name, f"n={size}&kind={kind}&seed={seed}&l={level}", make(kind, size, seed)

    def connect(self, **more):
        return http1.Connection(self.site.port, 60 * slowness(), **more)

    def answer(self, connection, path, name, plain):
        connection.send(path, name)
        response = connection.read()
        where = f"{name} {path}"
        if response.status != 200 or not response.complete:
            raise Fault(f"{where}: {response.status}, {response.error}")
        self.counts[check(response.coding, response.body, plain, where)] += 1
        return response

    # ---- what to do

    def fetch(self):
        where = self.rng.choice(("file", "file", "tight", "limited", "inline"))
        name, level, file, plain = self.choice(100_000 if where == "inline" else 400_000 if where == "limited" else 10 * MIB)
        with self.connect() as connection:
            self.answer(connection, f"/{where}/{file}?l={level}", name, plain)

    def again(self):
        """On a connection that is kept: nginx may close it while nothing is asked, as a reload does."""
        for _ in range(self.rng.randint(1, 5)):
            name, level, file, plain = self.choice(400_000)
            fresh = self.kept is None
            self.kept = self.kept or self.connect()
            try:
                response = self.answer(self.kept, f"/file/{file}?l={level}", name, plain)
            except (OSError, EOFError, http1.HttpError):
                self.kept.close()
                self.kept = None
                if fresh:
                    raise
                self.counts["kept connection closed"] += 1
                continue
            if response.get("Connection") == "close":
                self.kept.close()
                self.kept = None

    def proxied(self):
        name, query, plain = self.source()
        where = self.rng.choice(("up", "held", "kept"))
        how = self.rng.choice(("length", "chunked", "until_close"))
        piece = self.rng.choice((300, 4096, 50_000)) if len(plain) < 100_000 else 50_000
        with self.connect() as connection:
            self.answer(connection, f"/{where}/{how}?{query}&piece={piece}", name, plain)

    def multiplexed(self):
        """The client by hand does not read headers: a body is the coded one or the plain one."""
        with http2.Connection(self.site.nginx.ports[1], timeout=60 * slowness()) as connection:
            asked = []
            for _ in range(self.rng.randint(2, 6)):
                name, level, file, plain = self.choice(400_000)
                path = f"/file/{file}?l={level}"
                if self.rng.random() < 0.3:
                    name, query, plain = self.source(100_000)
                    path = f"/up/chunked?{query}"
                asked.append((connection.request(path, name), name, path, plain))
            if self.rng.random() < 0.3:
                connection.step_for(self.rng.random() * 0.2)
                connection.cancel(self.rng.choice(asked)[0])
            if self.rng.random() < 0.1:
                self.counts["h2 left"] += 1
                return
            connection.finish([stream for stream, *_ in asked])
        for stream, name, path, plain in asked:
            if stream.reset == "ours":
                self.counts["h2 cancelled"] += 1
            elif not stream.ended:
                # A connection may be taken down as a whole only behind a GOAWAY.
                if connection.gone is None or stream.number <= connection.gone:
                    raise Fault(f"h2 {name} {path}: not ended, reset {stream.reset}, GOAWAY {connection.gone}")
                self.counts["h2 not taken"] += 1
            else:
                self.counts["h2 " + check(None if stream.body == plain else name, stream.body, plain, "h2 " + path)] += 1

    def leave(self):
        """Goes away at any point."""
        name, level, file, _ = self.choice()
        path = f"/{self.rng.choice(('file', 'tight', 'limited'))}/{file}?l={level}"
        if self.rng.random() < 0.4:
            name, query, _ = self.source()
            path = f"/{self.rng.choice(('up', 'held'))}/chunked?{query}&pause=0.01&piece=9000"
        connection = self.connect(receive_buffer=self.rng.choice((None, 4096)))
        connection.send(path, name)
        until = time.monotonic() + self.rng.choice((0, 0.001, 0.01, 0.05, 0.3))
        if self.rng.random() < 0.5:
            time.sleep(max(0, until - time.monotonic()))
        else:
            response = connection.head()
            for _ in connection.stream(response, most=4096):
                if time.monotonic() > until:
                    break
        connection.reset() if self.rng.random() < 0.6 else connection.close()

    def events(self):
        """Each event can be read when it is there."""
        name = self.rng.choice(list(LEVELS))
        count, size = self.rng.randint(1, 15), self.rng.choice((100, 300, 3000))
        with self.connect() as connection:
            connection.send(f"/up/events?count={count}&size={size}&pause=0.02&l={self.rng.choice((1, 5, 9))}", name)
            response = connection.head()
            decoder = coding.stream(name) if response.coding else None
            plain, leaves = b"", self.rng.random() < 0.3
            for piece in connection.stream(response):
                plain += decoder.feed(piece) if decoder else piece
                if leaves and len(plain) > count * size // 2:
                    return
            if not response.complete or len(plain) != count * size or plain.count(b"data: ") != count:
                raise Fault(f"{name}: {len(plain)} of {count * size} bytes of events, {response.error}")
            if decoder and not decoder.ended:
                raise Fault(f"{name}: an event stream without its end")

    def cut(self):
        """The upstream fails in mid-body: what arrives must not be taken for whole."""
        name, query, plain = self.source()
        if len(plain) < 2:
            return
        at = self.rng.randrange(1, len(plain))
        how = self.rng.choice(("cut_length", "cut_chunked"))
        path = f"/{self.rng.choice(('up', 'held'))}/{how}?{query}&at={at}&hold=0.05&rst={self.rng.randint(0, 1)}"
        with self.connect() as connection:
            connection.send(path, name)
            response = connection.read()
        if response.status == 502:
            self.counts["cut early"] += 1
        elif response.complete:
            raise Fault(f"{path}: looks whole")
        elif response.coding and coding.is_complete(response.coding, response.body):
            raise Fault(f"{path}: the coded body has its end")
        else:
            begin = coding.stream(response.coding).feed(response.body) if response.coding else response.body
            if not plain.startswith(begin):
                raise Fault(f"{path}: what came before the cut is not what was sent")

    def slow(self):
        """Reads little at a time for some seconds, then goes away or takes the rest."""
        name, level, file, plain = self.choice()
        with self.connect(receive_buffer=4096) as connection:
            connection.send(f"/file/{file}?l={level}", name)
            response = connection.head()
            until = time.monotonic() + self.rng.choice((1, 3, 6))
            for _ in connection.stream(response, most=4096):
                if time.monotonic() < until:
                    time.sleep(0.01)
                elif self.rng.random() < 0.01:
                    return
            if not response.complete:
                raise Fault(f"{file}: {response.error}")
            check(response.coding, response.body, plain, f"slowly {file}")

    def no_body(self):
        name, level, file, plain = self.choice(400_000)
        path = f"/file/{file}?l={level}"
        with self.connect() as connection:
            if self.rng.random() < 0.5:
                connection.send(path, name, method="HEAD")
                response = connection.read("HEAD")
                fine = response.status == 200 and response.complete
            else:
                connection.send(path, None, headers=[("Range", "bytes=0-99")])
                response = connection.read()
                fine = response.status in (206, 416) and (response.status == 416 or response.body == plain[:100])
                fine = fine or (response.status == 200 and response.body == plain)
        if not fine:
            raise Fault(f"{path}: {response.status}, {response.error}")


def status(site):
    return json.loads(http1.get(site.port, "/status", None, timeout=60 * slowness()).body)


def settled(site, seconds=30):
    """The figures once no stream is left; a fault where some stay."""
    until = time.monotonic() + seconds * slowness()
    while True:
        found = status(site)
        live = sum(value for key, value in flat(found) if key.endswith("streams_live"))
        if live == 0:
            return found
        if time.monotonic() > until:
            raise Fault(f"{live} streams are left when all clients are gone")
        time.sleep(0.2)


def flat(value, prefix=""):
    """(dotted key, number) of everything in there."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}{key}.")
    elif isinstance(value, (int, float)):
        yield prefix.rstrip("."), value


class Growth:
    """Memory of the worker that is never replaced. The first part of the time is for warming up."""

    def __init__(self, seconds):
        self.warm = min(300, seconds / 3)
        # The worker of an hour swung between 113 and 152 MiB from minute to minute. Only long runs average
        # that out; in short ones nothing but a leak at full speed can be told from it.
        self.factor, self.room = (1.1, 8 * MIB) if seconds >= 900 else (1.5, 32 * MIB)
        self.samples = []
        self.begun = time.monotonic()

    def take(self, pid):
        self.samples.append((time.monotonic() - self.begun, memory(pid)["Anonymous"]))

    def verdict(self):
        """(what it was in each of two halves, a fault or None)."""
        later = [size for at, size in self.samples if at >= self.warm]
        half = len(later) // 2
        if half < 2:
            return "too short to say", None
        first, second = statistics.median(later[:half]), statistics.median(later[half:])
        text = f"{first / MIB:.1f} MiB, then {second / MIB:.1f} MiB (medians of the halves after {self.warm:.0f} s)"
        if second > first * self.factor + self.room:
            return text, f"memory grows: {text}"
        return text, None

    def by_minute(self):
        minutes = {}
        for at, size in self.samples:
            minutes.setdefault(int(at // 60), []).append(size)
        return [round(statistics.median(sizes) / MIB, 1) for sizes in minutes.values()]


def run(seconds, seed, clients=4, every=10.0, say=print):
    """Returns all that was wrong."""
    faults, problems = [], []
    site = dict(main=MAIN, http=HTTP, server=SERVER, files=FILES, upstream=True, tls=True)
    steady, restless = Site(**site), Site(**site, workers=2)
    reloads, old = 0, []
    try:
        steady.start()
        restless.start()
        until = time.monotonic() + seconds
        threads = [Client(where, f"{seed}/{n}", until) for n in range(clients) for where in (steady, restless)]
        for thread in threads:
            thread.start()
        growth = Growth(seconds)
        worker = steady.nginx.worker
        due, told = time.monotonic() + every, time.monotonic()
        while time.monotonic() < until and sum(len(thread.faults) for thread in threads) < 20:
            time.sleep(0.5)
            try:
                growth.take(worker)
            except FileNotFoundError:
                faults.append("the worker that is not reloaded has died")
                break
            if time.monotonic() >= due:
                old += restless.nginx.workers()
                restless.nginx.reload(30)
                reloads, due = reloads + 1, time.monotonic() + every
            if time.monotonic() >= told + 60:
                told += 60
                done = sum(sum(thread.counts.values()) for thread in threads)
                say(f"  {told - growth.begun:6.0f} s  {done} deeds, {growth.samples[-1][1] / MIB:.1f} MiB", flush=True)
        for thread in threads:
            thread.join(180 * slowness())
            if thread.is_alive():
                faults.append(f"seed {thread.seed}: still waits for an answer")
        faults += [fault for thread in threads for fault in thread.faults]
        if steady.nginx.workers() != [worker]:
            faults.append("the worker that was not reloaded was replaced")
        figures = {}
        for where in (steady, restless):
            try:
                figures = settled(where)
            except (Fault, OSError, EOFError, http1.HttpError) as error:
                faults.append(f"after the load: {error!r}")
        if not restless.nginx.wait_gone(old, 60):
            faults.append("old workers are still there a minute after the last client")
        text, fault = growth.verdict()
        faults += [fault] if fault else []
        counts = sum((thread.counts for thread in threads), collections.Counter())
        say(f"  {reloads} reloads; " + ", ".join(f"{key} {counts[key]}" for key in sorted(counts)))
        say(f"  memory of the worker that stays: {text}; by minute {growth.by_minute()}")
        say("  " + ", ".join(f"{key} {value}" for key, value in flat(figures) if "refused" in key and value))
    finally:
        for where in (steady, restless):
            problems += where.stop()
    return faults + problems
