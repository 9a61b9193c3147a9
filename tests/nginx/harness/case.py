"""The base of all cases: an nginx (and an upstream) for each class, checked when it ends."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from . import bodies, coding, http1
from .nginx import BINARY, MODULE, Nginx, build, has, slowness

FULL = os.environ.get("WEFT_FULL") == "1"
KEEP = os.environ.get("WEFT_KEEP") == "1"
UPSTREAM = os.path.join(os.path.dirname(__file__), "upstream.py")

# `combined` tells nothing about us.
LOG_FORMAT = "'$request_method $request_uri $status $body_bytes_sent weft=\"$weft_status\" ratio=\"$weft_ratio\"'"


class Upstream:
    """harness/upstream.py in a process of its own."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-B", UPSTREAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
        )
        self.port = int(self.process.stdout.readline())

    def stop(self):
        # It ends when its stdin does, so it also ends when the test dies.
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


def certificate(folder):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        + ["-keyout", "key.pem", "-out", "cert.pem", "-days", "30", "-subj", "/CN=localhost"],
        cwd=folder,
        check=True,
        capture_output=True,
    )


class Site:
    """A folder, an upstream and an nginx with `weft` in its log. Used by cases and measures.

    main, events, http and server are pieces of configuration; "%UP%" in them is the upstream's
    address. `server` is what stands in both servers: plain, and TLS with HTTP/2 when `tls` is set, and
    HTTP/3 when `quic` is.
    """

    def __init__(self, server="", http="", main="", events="", files=None, workers=1, upstream=False, tls=False, quic=False):
        self.pieces = {"server": server, "http": http, "main": main, "events": events}
        self.workers = workers
        self.tls = tls
        self.quic = quic
        self.folder = tempfile.mkdtemp(prefix="weft-nginx-")
        os.chmod(self.folder, 0o755)
        self.www = os.path.join(self.folder, "www")
        os.makedirs(self.www)
        os.makedirs(os.path.join(self.folder, "tmp"))
        for name, data in (files or {}).items():
            self.put(name, data)
        self.upstream = Upstream(self.folder) if upstream else None
        if tls:
            certificate(self.folder)
        self.nginx = Nginx(self.folder, self.config, 2 if tls else 1)

    def put(self, name, data):
        path = os.path.join(self.www, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def config(self, ports):
        piece = dict(self.pieces)
        if self.upstream:
            for name in piece:
                piece[name] = piece[name].replace("%UP%", f"127.0.0.1:{self.upstream.port}")
        temp = "".join(
            f"    {name}_temp_path tmp/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
            if f"--without-http_{name}_module" not in build()[1]
        )
        listen = f"listen 127.0.0.1:{ports[0]} backlog=4096;"
        servers = f"    server {{\n        {listen}\n        root www;\n{piece['server']}\n    }}\n"
        if self.tls:
            # The parameter is deprecated since the directive came.
            old = build()[0] < (1, 25, 1)
            listen = f"listen 127.0.0.1:{ports[1]} ssl{' http2' if old else ''};\n        ssl_certificate cert.pem;\n"
            listen += "" if old or not has("http_v2_module") else "        http2 on;\n"
            listen += f"        listen 127.0.0.1:{ports[1]} quic;\n        http3 on;\n" if self.quic else ""
            listen += "        ssl_certificate_key key.pem;"
            servers += f"    server {{\n        {listen}\n        root www;\n{piece['server']}\n    }}\n"
        return (
            "daemon off;\n"
            + ("user root;\n" if os.geteuid() == 0 else "")
            + (f"load_module {MODULE};\n" if MODULE else "")
            + f"worker_processes {self.workers};\n"
            + "error_log error.log info;\npid nginx.pid;\nlock_file nginx.lock;\n"
            + piece["main"]
            + "\nevents {\n"
            + ("" if "worker_connections" in piece["events"] else "    worker_connections 2048;\n")
            + f"{piece['events']}\n}}\nhttp {{\n"
            + f"    log_format weft {LOG_FORMAT};\n    access_log access.log weft;\n{temp}"
            + "    types { text/html html; text/plain txt; application/json json; text/javascript js; }\n"
            + "    default_type application/octet-stream;\n    keepalive_timeout 60s;\n"
            + f"{piece['http']}\n{servers}}}\n"
        )

    def start(self):
        self.nginx.start()
        return self

    @property
    def port(self):
        return self.nginx.ports[0]

    def stop(self, allowed=None):
        """Ends everything; returns all that was wrong."""
        problems = self.nginx.stop()
        if self.upstream:
            self.upstream.stop()
        problems += self.nginx.faults(allowed)
        if KEEP or problems:
            print(f"\nkept: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        return problems

    def discard(self):
        """For a site that was never started."""
        if self.upstream:
            self.upstream.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        problems = self.stop()
        if problems and kind is None:
            raise AssertionError("\n".join(problems))


class NginxCase(unittest.TestCase):
    server = http = main = events = ""
    files = {}
    workers = 1
    upstream = False
    tls = quic = False
    needs = ()  # parts of nginx as in --with-PART
    allowed = None  # a pattern for lines of the error log that this class provokes
    coding = "zstd"

    @classmethod
    def setUpClass(cls):
        for part in cls.needs:
            if not has(part):
                raise unittest.SkipTest(f"{BINARY} is built without {part}")
        files = cls.files() if callable(cls.files) else cls.files
        cls.site = Site(
            cls.server, cls.http, cls.main, cls.events, files, cls.workers, cls.upstream, cls.tls, cls.quic
        )
        try:
            cls.site.start()
        except BaseException:
            cls.site.stop()
            raise
        cls.nginx = cls.site.nginx
        cls.port = cls.site.port

    @classmethod
    def tearDownClass(cls):
        problems = cls.site.stop(cls.allowed)
        if problems:
            raise AssertionError("\n".join(problems))

    def tearDown(self):
        self.assertEqual(self.nginx.faults(self.allowed), [], "the error log")

    def get(self, path, ae="zstd", **more):
        more.setdefault("timeout", 20.0 * slowness())
        return http1.get(self.port, path, ae, **more)

    def connect(self, **more):
        more.setdefault("timeout", 20.0 * slowness())
        return http1.Connection(self.port, **more)

    def decoded(self, response):
        try:
            return coding.check_whole(self.coding, response.body)
        except coding.CodingError as error:
            self.fail(f"{len(response.body)} coded bytes: {error}")

    def assert_same(self, found, expected, message=""):
        """Equal bytes, without printing megabytes when they are not."""
        if found != expected:
            limit = min(len(found), len(expected))
            at = next((i for i in range(limit) if found[i] != expected[i]), limit)
            self.fail(f"{message} {len(found)} bytes, not {len(expected)}; first difference at {at}")

    def assert_coded(self, response, plain, status=200):
        """A whole coded response, with every header as it must be."""
        self.assertEqual(response.status, status)
        self.assertTrue(response.complete, response.error)
        self.assertEqual(response.all("Content-Encoding"), [self.coding])
        self.assertNotIn("Content-Length", response)
        self.assertNotIn("Accept-Ranges", response)
        self.assertNotIn("Content-Range", response)
        self.assert_varies(response)
        if "ETag" in response:
            self.assertTrue(response.get("ETag").startswith('W/"'), response.get("ETag"))
        self.assert_same(self.decoded(response), plain, "decoded:")

    def assert_plain(self, response, plain, status=200):
        self.assertEqual(response.status, status)
        self.assertTrue(response.complete, response.error)
        self.assertNotIn("Content-Encoding", response)
        self.assert_same(response.body, plain, "plain:")

    def assert_varies(self, response, times=1):
        names = [part.strip().lower() for value in response.all("Vary") for part in value.split(",")]
        self.assertEqual(names.count("accept-encoding"), times, response.all("Vary"))

    def logged(self, path, count=1, wait=3.0):
        """The weft status and ratio of the last of at least `count` log lines for that path."""
        until = time.monotonic() + wait * slowness()
        while True:
            with open(os.path.join(self.site.folder, "access.log"), errors="replace") as file:
                lines = [line for line in file if line.split(" ")[1] == path]
            if len(lines) >= count:
                fields = lines[-1].rstrip("\n").split('"')
                return fields[1], fields[3]
            if time.monotonic() > until:
                self.fail(f"{len(lines)} lines for {path} in the access log, not {count}")
            time.sleep(0.01)


def body(kind, length, seed=0):
    return bodies.make(kind, length, seed)
