"""The nginx that is measured: one worker, a location for each coding, level and way of doing it."""

import glob
import os
import re
import time

from harness import http1
from harness.case import Site
from harness.nginx import MODULE, cpu_seconds

NGX_BROTLI = next(
    (
        path
        for folder in ("/usr/lib/nginx/modules", "/usr/share/nginx/modules")
        for path in glob.glob(f"{folder}/ngx_http_brotli_filter_module.so")
    ),
    None,
)

# The threads of the pool, unless a measure says otherwise.
THREADS = 2

ACCEPT = {"plain": "identity", "zstd": "zstd", "br": "br", "gzip": "gzip"}


class Variant:
    """One way to send a body: plain, or coded by weft (pool, inline) or by a peer."""

    def __init__(self, how, coding="plain", level=0, tasks=None):
        self.how, self.coding, self.level, self.tasks = how, coding, level, tasks

    @property
    def key(self):
        """Its location, and its name in the results."""
        if self.how == "plain":
            return "plain"
        return f"{self.how}-{self.coding}{self.level}" + (f"-t{self.tasks}" if self.tasks else "")

    @property
    def label(self):
        if self.how == "plain":
            return "no coding"
        who = {"pool": "weft, pool", "inline": "weft, inline"}.get(self.how)
        who = who or {"br": "ngx_brotli", "gzip": "gzip filter"}[self.coding]
        tasks = f", {self.tasks} task{'s' * (self.tasks > 1)}" if self.tasks else ""
        return f"{self.coding} {self.level} {who}{tasks}"

    @property
    def foreign(self):
        """Whether it needs an nginx without weft's module, which has ngx_brotli's directives too."""
        return self.how == "peer" and self.coding == "br"

    @property
    def accept(self):
        return ACCEPT[self.coding]

    @property
    def directives(self):
        if self.how == "plain":
            return ""
        if self.how == "peer":
            name = {"br": "brotli", "gzip": "gzip"}[self.coding]
            return f"{name} on; {name}_comp_level {self.level}; {name}_types *;"
        pool = "default" if self.how == "pool" else "off"
        words = f"weft {self.coding}; weft_level {self.coding}={self.level}; weft_types *;"
        words += f" weft_thread_pool {pool};"
        return words + (f" weft_parallel_tasks {self.tasks};" if self.tasks else "")


PLAIN = Variant("plain")


def variants(how, **levels):
    """variants("pool", zstd=(3, 9), br=(5,)) and so on."""
    return [Variant(how, coding, level) for coding in levels for level in levels[coding]]


class Bench(Site):
    """A Site with a location for each variant. Those of ngx_brotli are in an nginx of their own."""

    def __init__(
        self, chosen, files, threads=THREADS, extra="", http="", events="", main="", weft=True, **more
    ):
        chosen = list(chosen)
        foreign = [variant for variant in chosen if variant.foreign]
        self.other = None
        if foreign and len(foreign) == len(chosen):
            weft = False
        elif foreign and weft:
            chosen = [variant for variant in chosen if not variant.foreign]
            beside = [PLAIN, *foreign]
            self.other = Bench(beside, files, threads, extra, http, events, main, False, **more)
        self.weft, self.chosen = weft, chosen
        server = "        access_log off;\n" + extra
        for variant in chosen:
            server += f"        location /{variant.key}/ {{ alias www/; {variant.directives} }}\n"
        main += f"thread_pool default threads={threads};\n"
        if not weft and MODULE and NGX_BROTLI:
            main += f"load_module {NGX_BROTLI};\n"
        # As in Debian's nginx.conf; connections are kept, and nothing is refused for being too much.
        http = "    sendfile on;\n    tcp_nopush on;\n    keepalive_requests 1000000000;\n" + http
        http += "    weft_overload off;\n" if weft else ""
        events = events or "    worker_connections 4096;\n"
        super().__init__(server, http, main, events, files, **more)

    def config(self, ports):
        text = super().config(ports)
        if self.weft:
            return text
        return re.sub(r"\$weft_\w+", "-", text.replace(f"load_module {MODULE};\n", "", 1))

    @property
    def sites(self):
        return [self, self.other] if self.other else [self]

    def of(self, variant):
        """The nginx that has this variant."""
        return self.other if self.other and variant.foreign else self

    def start(self):
        for site in self.sites[1:]:
            site.start()
        return super().start()

    def stop(self, allowed=None):
        problems = super().stop(allowed)
        for site in self.sites[1:]:
            problems += site.stop(allowed)
        return problems

    def discard(self):
        for site in self.sites[1:]:
            site.discard()
        super().discard()

    def probe(self, variant, name):
        """Fetches once and sees that it is coded as it should be; returns (response, CPU seconds)."""
        self = self.of(variant)
        before = self.cpu()
        response = http1.get(self.port, f"/{variant.key}/{name}", variant.accept, timeout=120)
        expected = None if variant.how == "plain" else variant.coding
        if response.status != 200 or not response.complete or response.coding != expected:
            raise SystemExit(f"bench: {variant.key} {name}: {response.status} {response.coding}")
        return response, self.cpu() - before

    def cpu(self):
        return worker_cpu(self.nginx.worker)

    def settle(self, limit=60.0):
        """Waits until the worker has nothing to do."""
        settle(self.nginx.worker, limit)


def settle(pid, limit=60.0, step=0.05):
    until = time.monotonic() + limit
    while time.monotonic() < until:
        before = worker_cpu(pid)
        time.sleep(step)
        if worker_cpu(pid) - before < step / 25:
            return


def worker_cpu(pid):
    """CPU seconds of all threads of a process, finer than the ticks where the kernel tells."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
    except OSError:
        return cpu_seconds(pid)
    return total / 1e9


def faults(pid):
    """Page faults of a process so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[7])


def peak(pid):
    """(anonymous bytes now, most resident bytes since reset_peak)."""
    with open(f"/proc/{pid}/status") as file:
        text = file.read()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) * 1024
