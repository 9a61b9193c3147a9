"""The base of all cases: a HAProxy with the filter, and the upstream of tests/nginx behind it.

    client, HTTP/1 or HTTP/2  ->  HAProxy, filter weft  ->  upstream, HTTP/1
                                                        ->  HAProxy without it, HTTP/2  ->  upstream
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from harness import coding, http1, http2
from harness.case import KEEP, NginxCase, Site, Upstream, body, certificate
from harness.nginx import free_ports, slowness

__all__ = ["BINARY", "CODINGS", "HaproxyCase", "HaproxySite", "SharedCase", "body", "not_here", "version"]

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BINARY = os.environ.get("HAPROXY_BIN", os.path.join(ROOT, "target/haproxy/haproxy"))
# More words for it, as -dMno-cache: what HAProxy's pools keep a sanitizer does not see freed.
MORE = os.environ.get("HAPROXY_ARGS", "").split()


def version():
    """As a tuple, (2, 6)."""
    if not os.path.exists(BINARY):
        return (0, 0)
    said = subprocess.run([BINARY, "-v"], capture_output=True, text=True).stdout
    return tuple(int(part) for part in re.search(r"version (\d+)\.(\d+)", said).groups())


CODINGS = ("zstd", "br", "gzip")

# UBSan's reports about HAProxy itself, which are many, name its files as src/..; ours do not.
FAULT = re.compile(r"Sanitizer:|^(?!src/|include/).*runtime error:|panicked at|\[ALERT\]|FATAL|BUG|Thread \d+ is about to kill")

CONFIG = """
global
    nbthread %THREADS%
    stats socket %DIR%/stats.sock mode 600 level admin
    log stdout format raw local0
    %GLOBAL%
defaults
    mode http
    timeout connect 10s
    timeout client 60s
    timeout server 60s
    timeout http-keep-alive 60s
    log global
    log-format "log %HM %HU %ST %B %ts weft=\\"%[weft.status]\\" in=%[weft.bytes_in] out=%[weft.bytes_out]"
    %DEFAULTS%
frontend near
    bind 127.0.0.1:%0%
    bind 127.0.0.1:%1% ssl crt %DIR%/both.pem alpn h2,http/1.1
    %BEFORE%
    filter weft %FILTER%
    %FRONTEND%
    default_backend up
frontend far
    bind 127.0.0.1:%2%
    bind 127.0.0.1:%3% ssl crt %DIR%/both.pem alpn h2,http/1.1
    %BEFORE%
    filter weft %FILTER%
    %FRONTEND%
    default_backend up_h2
backend up
    %BACKEND%
    server up 127.0.0.1:%UP%
backend up_h2
    server up 127.0.0.1:%4% proto h2
frontend inner
    bind 127.0.0.1:%4% proto h2
    default_backend up
"""


class HaproxySite:
    """One HAProxy and its upstream in a folder: started, watched and ended by process id."""

    def __init__(self, filter="", threads=4, frontend="", defaults="", more="", upstream=None, before="", backend=""):
        self.folder = tempfile.mkdtemp(prefix="weft-haproxy-")
        self.values = {"FILTER": filter, "THREADS": str(threads), "FRONTEND": frontend, "BEFORE": before}
        self.values.update(DEFAULTS=defaults, GLOBAL=more, BACKEND=backend)
        certificate(self.folder)
        with open(os.path.join(self.folder, "both.pem"), "w") as both:
            for name in ("cert.pem", "key.pem"):
                with open(os.path.join(self.folder, name)) as file:
                    both.write(file.read())
        self.upstream = upstream or Upstream(self.folder)
        self.process, self._read = None, 0
        self.ports = []

    def write_config(self):
        text = CONFIG.replace("%DIR%", self.folder).replace("%UP%", str(self.upstream.port))
        for name, value in self.values.items():
            text = text.replace(f"%{name}%", value)
        for at, port in enumerate(self.ports):
            text = text.replace(f"%{at}%", str(port))
        with open(os.path.join(self.folder, "haproxy.cfg"), "w") as file:
            file.write(text)

    def command(self, *more):
        return [BINARY, "-f", os.path.join(self.folder, "haproxy.cfg"), *more]

    def test_config(self):
        """(exit status, what it printed) of `haproxy -c`."""
        self.ports = self.ports or [1, 2, 3, 4, 5]
        self.write_config()
        done = subprocess.run(self.command("-c"), capture_output=True, text=True, timeout=30 * slowness())
        return done.returncode, done.stdout + done.stderr

    def start(self):
        for attempt in range(3):
            self.ports = free_ports(5)
            self.write_config()
            with open(os.path.join(self.folder, "log"), "ab") as log:
                self.process = subprocess.Popen(
                    self.command("-db", *MORE), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            if self._listens():
                return self
            if attempt == 2 or "cannot bind" not in self.log():
                self.kill()
                raise AssertionError(f"HAProxy does not start:\n{self.log()[-3000:]}")
        return self

    def _listens(self):
        until = time.monotonic() + 20 * slowness()
        while time.monotonic() < until:
            if self.process.poll() is not None:
                return False
            try:
                for port in self.ports:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                return True
            except OSError:
                time.sleep(0.02)
        return False

    def log(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as file:
            return file.read()

    def ask(self, command):
        """What the stats socket answers."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(os.path.join(self.folder, "stats.sock"))
            sock.sendall(command.encode() + b"\n")
            data = b""
            while more := sock.recv(65536):
                data += more
        return data.decode()

    def faults(self, allowed=None):
        text = self.log()
        lines, self._read = text[self._read :].splitlines(), len(text)
        return [line for line in lines if FAULT.search(line) and not (allowed and re.search(allowed, line))]

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def stop(self, allowed=None):
        """Ends everything; returns all that was wrong."""
        problems = []
        if self.process:
            if self.process.poll() is None:
                self.process.terminate()
            try:
                status = self.process.wait(20 * slowness())
                # Without a master SIGTERM ends it with 128 + 15 or 0.
                if status not in (0, 143, -15):
                    problems.append(f"HAProxy ended with {status}")
            except subprocess.TimeoutExpired:
                problems.append("HAProxy still runs 20 s after SIGTERM")
            self.kill()
        problems += self.upstream.stop() or []
        if self.process:
            problems += self.faults(allowed)
        if KEEP or problems:
            print(f"\nkept: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        return problems


class HaproxyCase(NginxCase):
    """Of nginx's case: the checks of whole responses."""

    filter = "types text/plain,application/json,text/event-stream"
    threads = 4
    frontend = defaults = more = before = backend = ""

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(BINARY):
            raise unittest.SkipTest(f"no {BINARY}")
        cls.site = HaproxySite(
            cls.filter, cls.threads, cls.frontend, cls.defaults, cls.more, cls.source(), cls.before, cls.backend
        )
        try:
            cls.site.start()
        except BaseException:
            cls.site.stop()
            raise
        # nginx's case calls the server so.
        cls.nginx = cls.site
        cls.port = cls.site.ports[0]

    @classmethod
    def source(cls):
        """What HAProxy stands in front of, if not the upstream itself."""
        return None

    def fetch(self, where, uri, ae, method="GET", headers=()):
        """`where`: the client's protocol and the server's, as in "h1 h2"."""
        client, server = where.split()
        far = 2 if server == "h2" else 0
        if client == "h1":
            return http1.get(self.site.ports[far], uri, ae, method, headers, timeout=30 * slowness())
        options = [word for name, value in headers for word in ("-H", f"{name}: {value}")]
        options += ["-I"] if method == "HEAD" else []
        _, response = http2.curl(self.site.ports[far + 1], uri, ae, options, timeout=int(60 * slowness()))
        return response

    def assert_is(self, name, response, plain, status=200):
        """Coded as said and right, or plain and right."""
        if name is None:
            return self.assert_plain(response, plain, status)
        self.coding = name
        return self.assert_coded(response, plain, status)

    def decoded(self, response):
        return coding.check_whole(self.coding, response.body)


def not_here(reason):
    """In place of a shared test that says something of another host."""
    return unittest.skip(reason)(lambda self: None)


class SharedCase(HaproxyCase):
    """Behind it an nginx without weft has the files: a class of tests/nginx becomes one of HAProxy by
    inheriting from both, as for Apache. Its configuration is nginx's, less the words of weft."""

    filter = "codings zstd"

    @classmethod
    def source(cls):
        files = cls.files() if callable(cls.files) else cls.files
        server = re.sub(r"\bweft\w* [^;]*;", "", cls.server)
        return Site(server, cls.http, files=files, upstream=cls.upstream).start()
