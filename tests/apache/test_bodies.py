"""Bodies: proxied, cut short, from scripts, in chains with other filters; slow clients and lost ones."""

import os
import subprocess
import threading
import time

import test_headers
import test_proxy
from httpd import decoders
from httpd.case import ApacheCase, ApacheSite, body, not_here, of_each_coding
from harness import http1, http2
from harness.clients import Load, leave_all
from harness.nginx import children, cpu_seconds, memory, slowness
from test_choice import path

PAGE = body("text", 50000)
BY_TYPE = "AddOutputFilterByType WEFT text/html\n"


def proxies(*names, more=""):
    return "".join(f"ProxyPass /{name}/ http://%UP%/ {more}\n" for name in names)


@of_each_coding
class Proxy(ApacheCase):
    """Each size, from an upstream that counts, chunks or closes; flushed at each piece or not."""

    upstream = True
    server = "Weft %CODING%\n" + BY_TYPE + proxies("up") + proxies("unbuffered", more="flushpackets=on")

    def test_proxied_bodies(self):
        for prefix in ("/up/", "/unbuffered/"):
            for behaviour in ("length", "chunked", "until_close"):
                for size in (20, 4096, 131073, 1500000):
                    with self.subTest(prefix=prefix, behaviour=behaviour, size=size):
                        uri = path(behaviour, size, type="text/html").replace("/up/", prefix)
                        self.assert_coded(self.get(uri), body("text", size))

    def test_random_bytes_and_crumbs(self):
        for more in ({"kind": "random"}, {"piece": 7}):
            size = 5000 if "piece" in more else 1500000
            response = self.get(path("chunked", size, type="text/html", **more))
            self.assert_coded(response, body(more.get("kind", "text"), size))

    def test_head_of_each(self):
        for behaviour in ("length", "chunked"):
            response = self.get(path(behaviour, 3000, type="text/html"), method="HEAD")
            self.assertEqual(response.coding, self.coding)
            self.assertNotIn("Content-Length", response)

    def test_204_and_304(self):
        for status in (204, 304):
            uri = path("no_body", 0, status=status, type="text/html")
            self.assert_plain(self.get(uri), b"", status)

    def test_status_and_ratio_are_logged(self):
        uri = path("length", 40000, type="text/html", seed=77)
        self.get(uri)
        status, ratio = self.logged(uri)
        self.assertEqual(status, self.coding)
        self.assertGreater(float(ratio), 1.5)

    def test_truncated_body_never_decodes_as_complete(self):
        for behaviour in ("cut_length", "cut_chunked"):
            for at in (0, 1, 5000, 400000):
                for rst in (0, 1):
                    with self.subTest(behaviour=behaviour, at=at, rst=rst):
                        uri = path(behaviour, 500000, type="text/html", at=at, rst=rst, hold=0.05)
                        begun = time.monotonic()
                        response = self.get(uri)
                        self.assertLess(time.monotonic() - begun, 1.5 * slowness())
                        if response.status == 502:
                            continue
                        self.assertEqual(response.coding, self.coding)
                        self.assertFalse(response.complete)
                        self.assertFalse(decoders.is_complete(self.coding, response.body))
                        stream = decoders.stream(self.coding)
                        plain = stream.feed(response.body)
                        self.assertFalse(stream.ended)
                        if not rst:
                            self.assert_same(plain, body("text", 500000)[:at])
        self.assert_coded(self.get(path("length", 70000, type="text/html")), body("text", 70000))


class ProxiedHeaders(ApacheCase, test_headers.Proxied):
    server = (
        "Weft zstd\n" + BY_TYPE + proxies("up", "etag", "cache")
        + "CacheRoot %DIR%/cache\nCacheEnable disk /cache/\nCacheQuickHandler off\nCacheHeader on\n"
        "CacheIgnoreNoLastMod On\n"
    )

    test_one_cached_body_serves_all_clients = not_here("mod_cache keeps a variant for each client")
    test_304_from_cache = not_here("mod_cache keeps nothing that has no lifetime; see below")

    def test_cached_variants(self):
        fields = ["Cache-Control:max-age=60", 'ETag:"e3"']
        uri = path("length", len(PAGE), type="text/html", h=fields).replace("/up/", "/cache/")
        for ae in ("zstd", None, "zstd", "gzip", None, "zstd"):
            with self.subTest(ae=ae):
                response = self.get(uri, ae)
                (self.assert_coded if ae == "zstd" else self.assert_plain)(response, PAGE)
                self.assert_varies(response)
        etag = self.get(uri).get("ETag")
        response = self.get(uri, headers=[("If-None-Match", etag)])
        self.assertEqual((response.status, response.get("ETag")), (304, 'W/"e3"'))
        self.assert_varies(response)


SCRIPT = """#!/bin/sh
printf 'Content-Type: text/html\\n\\n'
for line in 1 2 3 4; do
    sleep 0.3
    echo "line $line"
done
"""


class Script(ApacheCase):
    """mod_cgid's pipe is read without blocking first."""

    cgi = {"lines": SCRIPT, "dies": "#!/bin/sh\nprintf 'Content-Type: text/html\\n\\nabcdefghij'\nkill -9 $$\n"}
    server = "Weft zstd br gzip\nSetOutputFilter WEFT\n"

    def test_cgi_is_seen_line_by_line(self):
        for coding in ("zstd", "br", "gzip"):
            with self.subTest(coding=coding), self.connect() as connection:
                stream, marks, plain = decoders.stream(coding), {}, b""
                begun = time.monotonic()
                connection.send("/cgi/lines", coding)
                response = connection.head()
                self.assertEqual(response.coding, coding)
                head = connection.arrived - begun
                for piece in connection.stream(response):
                    plain += stream.feed(piece)
                    marks.setdefault(plain.count(b"\n"), connection.arrived - begun)
                self.assertEqual(plain, b"line 1\nline 2\nline 3\nline 4\n")
                self.assertTrue(response.complete and stream.ended)
                # In order: the head before the first line, each line before the next was written.
                self.assertLess(head, marks[1])
                self.assertEqual([count for count in marks if count], [1, 2, 3, 4])
                for count in (2, 3, 4):
                    self.assertGreater(marks[count] - marks[count - 1], 0.1)


class Chain(ApacheCase):
    """Codes once, whoever else is in the chain."""

    files = {"page.html": PAGE, "part.shtml": b'<p>a <!--#include virtual="/page.html" --> z'}
    server = "".join(
        f"Alias /{name}/ %DIR%/www/\n<Location /{name}/>\nSetOutputFilter {chain}\n</Location>\n"
        for name, chain in (("brotli-weft", "BROTLI_COMPRESS;WEFT"), ("weft-deflate", "WEFT;DEFLATE"),
                            ("twice", "WEFT;WEFT"), ("include", "INCLUDES;WEFT"))
    )

    def test_chains_code_once(self):
        for name in ("brotli-weft", "weft-deflate", "twice"):
            for ae in ("br", "gzip", "zstd", "zstd, br, gzip", None):
                with self.subTest(chain=name, ae=ae):
                    response = self.get(f"/{name}/page.html", ae)
                    coding = response.coding
                    self.assertEqual(len(response.all("Content-Encoding")), 0 if ae is None else 1)
                    plain = decoders.check_whole(coding, response.body) if coding else response.body
                    self.assert_same(plain, PAGE)
                    self.assert_varies(response)

    def test_included_parts_are_coded_with_the_whole(self):
        plain = b"<p>a " + PAGE + b" z"
        self.assert_coded(self.get("/include/part.shtml"), plain)


class Http2(ApacheCase):
    upstream = tls = True
    files = {"page.html": PAGE, "large.html": body("text", 3000000)}
    server = "Weft zstd br gzip\nSetOutputFilter WEFT\n" + proxies("up")

    def test_codings(self):
        port = self.nginx.ports[1]
        for coding in ("zstd", "br", "gzip"):
            for uri, plain in (("/page.html", PAGE), ("/large.html", body("text", 3000000)),
                               (path("chunked", 200000, type="text/html"), body("text", 200000))):
                with self.subTest(coding=coding, uri=uri):
                    code, response = http2.curl(port, uri, coding)
                    self.assertEqual((code, response.version, response.coding), (0, "HTTP/2", coding))
                    self.assert_same(decoders.check_whole(coding, response.body), plain)

    def test_truncated(self):
        uri = path("cut_chunked", 500000, type="text/html", at=100000)
        code, response = http2.curl(self.nginx.ports[1], uri, "zstd")
        self.assertNotEqual(code, 0)
        self.assertFalse(decoders.is_complete("zstd", response.body))


class Clients(ApacheCase):
    upstream = True
    files = {"page.html": PAGE, "large.html": body("text", 4000000), "random.html": body("random", 12000000)}
    server = "Weft zstd\nWeftLevel zstd=3\nSetOutputFilter WEFT\n" + proxies("up")

    def test_slow_reader_is_held_back(self):
        """12 MB that nothing can shrink, for a client that reads nothing: they are not all held."""
        (pid,) = self.nginx.workers()
        self.get("/random.html")
        before = memory(pid)["Anonymous"]
        with self.connect(receive_buffer=4096) as connection:
            connection.send("/random.html")
            response = connection.head()
            time.sleep(1)
            self.assertLess(memory(pid)["Anonymous"] - before, 8 << 20)
            for _ in connection.stream(response):
                pass
            self.assert_same(self.decoded(response), body("random", 12000000))

    def test_clients_that_leave(self):
        uris = ["/large.html", "/random.html", path("chunked", 300000, type="text/html", pause=0.01)]
        self.assertEqual(leave_all(self.port, uris, range(40)), [])
        self.assert_coded(self.get("/page.html"), PAGE)

    def test_graceful_restart_under_load(self):
        import signal

        load = Load(self.port, [("/page.html", PAGE), ("/large.html", body("text", 4000000))])
        for _ in range(3):
            load.wait_right(load.right + 5)
            self.nginx.signal(signal.SIGUSR1)
            time.sleep(0.4)
        load.wait_right(load.right + 10)
        load.end()
        self.assertEqual(load.faults, [])
        self.assertEqual(load.cut, 0, load.last)


class Cpu(ApacheCase):
    files = {"large.html": body("text", 1500000)}
    main = "WeftThreads 1\nWeftOverload Off\n"
    server = "Weft zstd\nWeftLevel zstd=19\nSetOutputFilter WEFT\n"

    def test_eight_large_ones_use_one_thread(self):
        """As much CPU as seconds, at most: with no bound they would use all processors there are."""
        (pid,) = self.nginx.workers()
        found = []
        threads = [threading.Thread(target=lambda: found.append(self.get("/large.html"))) for _ in range(8)]
        begun, used = time.monotonic(), cpu_seconds(pid)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        used, spent = cpu_seconds(pid) - used, time.monotonic() - begun
        for response in found:
            self.assert_coded(response, body("text", 1500000))
        self.assertEqual(len(found), 8)
        self.assertLess(used, spent * 1.15 + 0.1)


class Limit(ApacheCase):
    files = {"page.html": PAGE}
    main = "WeftMaxMemory 1\n"
    server = "Weft zstd\nSetOutputFilter WEFT\n"
    allowed = r"weft:warn"

    def test_engine_at_its_limit_sends_identity_with_its_headers(self):
        response = self.get("/page.html")
        self.assert_plain(response, PAGE)
        self.assertEqual(response.get("Content-Length"), str(len(PAGE)))
        self.assertEqual(response.get("Accept-Ranges"), "bytes")
        self.assert_varies(response)
        self.assertEqual(self.logged("/page.html")[0], "off:memory")


class OtherMpm:
    files = {"page.html": PAGE, "large.html": body("text", 2000000)}
    upstream = True
    cgi = {"lines": SCRIPT}
    server = "Weft zstd br gzip\nSetOutputFilter WEFT\n" + proxies("up")

    def test_short_run(self):
        for coding in ("zstd", "br", "gzip"):
            for uri, plain in (("/page.html", PAGE), ("/large.html", body("text", 2000000)),
                               (path("chunked", 200000, type="text/html"), body("text", 200000)),
                               ("/cgi/lines", b"line 1\nline 2\nline 3\nline 4\n")):
                response = http1.get(self.port, uri, coding)
                self.assertEqual(response.coding, coding)
                self.assert_same(decoders.check_whole(coding, response.body), plain)

    def test_truncated(self):
        response = self.get(path("cut_chunked", 500000, type="text/html", at=100000))
        self.assertFalse(response.complete or decoders.is_complete("zstd", response.body))


class Worker(OtherMpm, ApacheCase):
    mpm = "worker"


class Prefork(OtherMpm, ApacheCase):
    mpm = "prefork"

    def test_no_thread(self):
        http1.get(self.port, "/large.html")
        for pid in children(self.nginx.process.pid):
            self.assertEqual(memory(pid)["Threads"], 1)
