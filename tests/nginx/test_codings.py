"""The rules of coding, each over zstd, br and gzip, with the pool and without, over HTTP/1.1 and HTTP/2, and
over HTTP/3 where nginx has it and aioquic is there. Apache and HAProxy run the same list.

The name of a test is its rule. What needs no second coding or protocol to show is in the other files.
"""

import asyncio
import functools
import itertools
import time

from harness import coding, http1, http2, http3
from harness.case import NginxCase, body
from harness.nginx import has, slowness
from test_choice import path

CODINGS = ("zstd", "br", "gzip")
SIZES = (20, 21, 4096, 65537, 400000)
PAGE = body("text", 50000)
LARGE = body("json", 900000)


def locations():
    """A location of each kind under /CODING/POOL/."""
    for name in CODINGS:
        for pool in ("pool", "inline"):
            off = "weft_thread_pool off;" if pool == "inline" else ""
            set_up = f"weft {name}; {off} weft_types text/css text/event-stream application/grpc;"
            set_up += " weft_segment_size 64k;"
            start = f"/{name}/{pool}"
            yield f"""
            location {start}/ {{ {set_up} alias www/; }}
            location {start}/up/ {{ {set_up} proxy_pass http://%UP%/; }}
            location {start}/direct/ {{ {set_up} proxy_buffering off; proxy_pass http://%UP%/; }}
            location {start}/vary/ {{ {set_up} alias www/; add_header Vary Cookie; }}
            location {start}/star/ {{ {set_up} alias www/; add_header Vary *; }}
            location {start}/charset/ {{ {set_up} alias www/; charset utf-8; charset_types text/css; }}
            location {start}/ssi/ {{ {set_up} alias www/ssi/; ssi on; }}
            """


POOLS = ("pool", "inline") if has("threads") else ("inline",)
HTTP3 = has("http_v3_module") and http3.connect is not None
PROTOCOLS = ("h1", "h2", "h3") if HTTP3 else ("h1", "h2")


def each(test):
    """Runs a test for each coding, pool and protocol: self.coding, self.protocol, and the prefix."""

    @functools.wraps(test)
    def run(self):
        for self.coding, pool, self.protocol in itertools.product(self.codings, self.pools, self.protocols):
            with self.subTest(coding=self.coding, pool=pool, protocol=self.protocol):
                test(self, f"/{self.coding}/{pool}")

    return run


class Rules(NginxCase):
    codings, pools, protocols = CODINGS, POOLS, PROTOCOLS
    # What an answer to HEAD need not have of GET's.
    only_of_get = ("date", "transfer-encoding")
    # Protocols in which the host, with and without us, ends a body that was cut as if it were whole.
    hides_cuts = ()
    codes_http_1_0 = True
    needs = ("http_v2_module", "http_ssl_module")
    tls = True
    quic = HTTP3
    upstream = True
    files = {
        **{f"{size}.html": body("text", size) for size in SIZES},
        "page.html": PAGE,
        "large.html": LARGE,
        "style.css": PAGE,
        "short.html": b"x" * 19,
        "data.bin": PAGE,
        "ssi/page.html": b"(" * 50 + b'<!--#include virtual="/page.html" -->' + b")" * 50,
    }
    first = {}
    http = "    types { text/css css; }"
    server = "proxy_http_version 1.1;\n" + "".join(locations())

    def fetch(self, uri, ae=0, headers=(), method="GET"):
        ae = self.coding if ae == 0 else ae
        if self.protocol == "h1":
            return http1.get(self.nginx.ports[0], uri, ae, method, headers, timeout=20 * slowness())
        if self.protocol == "h3":
            (response,) = http3.get_all(self.nginx.ports[1], [(uri, ae, method, headers)], 30 * slowness())
            return response
        options = ["-I"] if method == "HEAD" else []
        for name, value in headers:
            options += ["-H", f"{name}: {value}"]
        _, response = http2.curl(self.nginx.ports[1], uri, ae, options, timeout=int(30 * slowness()))
        self.assertEqual(response.version, "HTTP/2")
        return response

    @each
    def test_every_size_is_one_whole_stream(self, prefix):
        for size in SIZES:
            self.assert_coded(self.fetch(f"{prefix}/{size}.html"), body("text", size))

    @each
    def test_same_bytes_with_and_without_pool_over_any_protocol(self, prefix):
        found = self.fetch(f"{prefix}/large.html").body
        self.assert_same(found, self.first.setdefault(self.coding, found), prefix)

    # ---- when a response is coded

    @each
    def test_default_statuses_and_no_others(self, prefix):
        for status, coded in ((200, True), (403, True), (404, True), (201, False), (500, False)):
            response = self.fetch(prefix + path(n=len(PAGE), status=status, type="text/html"))
            (self.assert_coded if coded else self.assert_plain)(response, PAGE, status)

    @each
    def test_never_what_has_a_content_range(self, prefix):
        uri = path(n=len(PAGE), status=206, type="text/html", h="Content-Range:bytes 0-49999/90000")
        self.assert_plain(self.fetch(prefix + uri), PAGE, 206)

    @each
    def test_never_a_status_without_a_body(self, prefix):
        for status in (204, 304):
            self.assert_plain(self.fetch(prefix + path("no_body", 0, status=status, type="text/html")), b"", status)

    @each
    def test_already_coded_passes_untouched(self, prefix):
        response = self.fetch(prefix + path(n=len(PAGE), type="text/html", h="Content-Encoding:x-own"))
        self.assertEqual((response.coding, response.get("Content-Length")), ("x-own", str(len(PAGE))))
        self.assert_same(response.body, PAGE)

    @each
    def test_identity_is_no_coding(self, prefix):
        uri = path(n=len(PAGE), type="text/html", h="Content-Encoding:identity")
        self.assert_coded(self.fetch(prefix + uri), PAGE)

    @each
    def test_no_transform_of_an_upstream_is_honoured(self, prefix):
        uri = path(n=len(PAGE), type="text/html", h="Cache-Control:public, no-transform")
        response = self.fetch(prefix + uri)
        self.assert_plain(response, PAGE)
        self.assertEqual(response.get("Content-Length"), str(len(PAGE)))

    @each
    def test_listed_types_and_html_and_no_others(self, prefix):
        for kind, coded in (
            ("text/html", True),
            ("Text/CSS; charset=utf-8", True),
            ("text/plain", False),
            ("application/grpc", False),
        ):
            response = self.fetch(prefix + path(n=len(PAGE), type=kind))
            (self.assert_coded if coded else self.assert_plain)(response, PAGE)

    @each
    def test_min_length_is_of_content_length_only(self, prefix):
        self.assert_plain(self.fetch(f"{prefix}/short.html"), b"x" * 19)
        self.assert_coded(self.fetch(prefix + path("chunked", 5, type="text/html")), body("text", 5))

    @each
    def test_the_client_decides(self, prefix):
        for ae in (None, "identity", "x-other", f"{self.coding};q=0", "*;q=0"):
            response = self.fetch(f"{prefix}/page.html", ae)
            self.assert_plain(response, PAGE)
            self.assertEqual(response.get("Content-Length"), str(len(PAGE)))
        for ae in ("*", f"x-other, {self.coding};q=0.2", self.coding.upper()):
            self.assert_coded(self.fetch(f"{prefix}/page.html", ae), PAGE)

    @each
    def test_all_accept_encoding_lines_count(self, prefix):
        other = [("Accept-Encoding", f"{self.coding};q=0.5")]
        self.assert_coded(self.fetch(f"{prefix}/page.html", "x-other", other), PAGE)
        self.assert_plain(self.fetch(f"{prefix}/page.html", "x-other", [("Accept-Encoding", f"{self.coding};q=0")]), PAGE)

    @each
    def test_via_and_http_1_0_are_coded(self, prefix):
        self.assert_coded(self.fetch(f"{prefix}/page.html", headers=[("Via", "1.1 proxy")]), PAGE)
        if self.protocol == "h1" and self.codes_http_1_0:
            self.assert_coded(http1.get(self.nginx.ports[0], f"{prefix}/page.html", self.coding, version="1.0"), PAGE)

    @each
    def test_subrequests_are_coded_as_part_of_the_main_response(self, prefix):
        self.assert_coded(self.fetch(f"{prefix}/ssi/page.html"), b"(" * 50 + PAGE + b")" * 50)

    # ---- headers

    @each
    def test_vary_is_there_once_coded_or_not(self, prefix):
        for ae in (self.coding, None):
            self.assert_varies(self.fetch(f"{prefix}/page.html", ae))
            response = self.fetch(f"{prefix}/vary/page.html", ae)
            self.assert_varies(response)
            self.assertIn("cookie", ", ".join(response.all("Vary")).lower())
            self.assertEqual(self.fetch(f"{prefix}/star/page.html", ae).all("Vary"), ["*"])
        self.assertNotIn("Vary", self.fetch(f"{prefix}/data.bin"))

    @each
    def test_strong_etag_becomes_weak_and_an_invalid_one_is_left_out(self, prefix):
        plain, coded = (self.fetch(f"{prefix}/page.html", ae).get("ETag") for ae in (None, self.coding))
        self.assertEqual(coded, "W/" + plain)
        for sent, expected in (('"a"', 'W/"a"'), ('W/"a"', 'W/"a"'), ("a", None), ('"a', None)):
            response = self.fetch(prefix + path(n=len(PAGE), type="text/html", h=f"ETag:{sent}"))
            self.assertEqual(response.get("ETag"), expected)

    @each
    def test_304_has_the_vary_and_etag_of_the_200(self, prefix):
        for ae in (self.coding, None):
            etag = self.fetch(f"{prefix}/page.html", ae).get("ETag")
            response = self.fetch(f"{prefix}/page.html", ae, [("If-None-Match", etag)])
            self.assertEqual((response.status, response.get("ETag"), response.body), (304, etag, b""))
            self.assert_varies(response)

    @each
    def test_head_answers_the_headers_of_get(self, prefix):
        for name in ("page.html", "vary/page.html", "data.bin", "short.html"):
            found = [self.fetch(f"{prefix}/{name}", method=method) for method in ("GET", "HEAD")]
            pairs = [sorted((k.lower(), v) for k, v in r.pairs if k.lower() not in self.only_of_get) for r in found]
            self.assertEqual(*pairs)
        response = self.fetch(prefix + path(n=len(PAGE), type="text/html"), method="HEAD")
        self.assertEqual(response.coding, self.coding)
        self.assertNotIn("Content-Length", response)

    @each
    def test_range_on_a_coded_200_is_ignored_and_on_identity_served(self, prefix):
        headers = [("Range", "bytes=10-29")]
        self.assert_coded(self.fetch(f"{prefix}/page.html", headers=headers), PAGE)
        response = self.fetch(f"{prefix}/page.html", None, headers)
        self.assert_plain(response, PAGE[10:30], 206)

    @each
    def test_charset_is_applied_before(self, prefix):
        response = self.fetch(f"{prefix}/charset/style.css")
        self.assert_coded(response, PAGE)
        self.assertEqual(response.get("Content-Type"), "text/css; charset=utf-8")

    # ---- bodies

    @each
    def test_upstream_bodies_of_every_framing(self, prefix):
        for way in ("up", "direct"):
            for behaviour in ("length", "chunked", "until_close"):
                uri = path(behaviour, 300000, type="text/html", piece=9000).replace("/up/", f"/{way}/")
                self.assert_coded(self.fetch(prefix + uri), body("text", 300000))

    @each
    def test_empty_bodies(self, prefix):
        response = self.fetch(prefix + path("chunked", 0, type="text/html"))
        self.assert_coded(response, b"")
        self.assert_plain(self.fetch(prefix + path("length", 0, type="text/html")), b"")

    @each
    def test_a_source_that_ends_early_gives_no_valid_end(self, prefix):
        for way in ("up", "direct"):
            for behaviour in ("cut_length", "cut_chunked"):
                uri = path(behaviour, 500000, type="text/html", at=200000, hold=0.02)
                response = self.fetch(prefix + uri.replace("/up/", f"/{way}/"))
                if self.protocol not in self.hides_cuts:
                    self.assertFalse(response.complete)
                self.assertFalse(coding.is_complete(self.coding, response.body))
                plain = coding.stream(self.coding).feed(response.body)
                self.assertTrue(body("text", 500000).startswith(plain))

    @each
    def test_headers_leave_first_and_each_flushed_event_can_be_decoded_when_it_arrives(self, prefix):
        """The upstream sends an event only when the one before has been decoded here."""
        for way in ("direct", "up"):
            more = {"h": "X-Accel-Buffering:no"} if way == "up" else {}
            key = f"{prefix}{self.protocol}{way}"
            uri = prefix + path("lockstep", 0, count=4, size=300, key=key, **more).replace("/up/", f"/{way}/")
            {"h1": self.lockstep1, "h2": self.lockstep2, "h3": self.lockstep3}[self.protocol](uri, key)

    def release(self, key):
        http1.get(self.nginx.ports[0], f"/{self.coding}/{self.pools[-1]}" + path("release", 0, key=key))

    def lockstep1(self, uri, key):
        decoder, plain = coding.stream(self.coding), b""
        with http1.Connection(self.nginx.ports[0], 20 * slowness()) as connection:
            connection.send(uri, self.coding)
            response = connection.head()
            self.assertEqual(response.coding, self.coding)
            self.release(key)
            events = 0
            for piece in connection.stream(response):
                plain += decoder.feed(piece)
                if len(plain) >= 300 * (events + 1):
                    events += 1
                    self.release(key)
        self.assertEqual((events, len(plain), decoder.ended), (4, 1200, True))

    def lockstep2(self, uri, key, port=None, headers_first=False):
        decoder, plain, seen, events = coding.stream(self.coding), b"", 0, 0
        with http2.Connection(port or self.nginx.ports[1], timeout=20 * slowness()) as connection:
            stream = connection.request(uri, self.coding)
            # Without us, too, nginx holds them in its TLS buffer until the first byte of a body.
            while headers_first and stream.headers_at is None:
                self.assertTrue(connection.step())
            self.release(key)
            while not stream.ended:
                self.assertTrue(connection.step())
                for _, piece in stream.pieces[seen:]:
                    plain += decoder.feed(piece)
                seen = len(stream.pieces)
                if len(plain) >= 300 * (events + 1):
                    events += 1
                    self.release(key)
        self.assertEqual((events, len(plain), decoder.ended), (4, 1200, True))

    def lockstep3(self, uri, key):
        async def play(client):
            decoder, plain, seen, events = coding.stream(self.coding), b"", 0, 0
            number = client.begin(uri, self.coding)
            response, ended = client.responses[number], client.waiting[number]
            self.release(key)
            while not ended.done():
                await asyncio.sleep(0.002)
                for _, piece in response.pieces[seen:]:
                    plain += decoder.feed(piece)
                    seen += 1
                if len(plain) >= 300 * (events + 1):
                    events += 1
                    self.release(key)
            for _, piece in response.pieces[seen:]:
                plain += decoder.feed(piece)
            return events, len(plain), decoder.ended

        self.assertEqual(http3.run(self.nginx.ports[1], play, 20 * slowness()), (4, 1200, True))

    async def leave3(self, client, uri):
        numbers = [client.begin(uri, self.coding) for _ in range(3)]
        first = client.responses[numbers[0]]
        while not first.pieces and not first.complete:
            await asyncio.sleep(0.002)
        for number in numbers:
            client.cancel(number)

    @each
    def test_clients_that_go_away_leave_the_others_right(self, prefix):
        if self.protocol == "h1":
            for _ in range(3):
                connection = http1.Connection(self.nginx.ports[0])
                connection.send(f"{prefix}/large.html", self.coding)
                connection.sock.recv(1000)
                connection.reset()
        elif self.protocol == "h3":
            uri = f"{prefix}/large.html"
            http3.run(self.nginx.ports[1], lambda client: self.leave3(client, uri), 20 * slowness())
        else:
            with http2.Connection(self.nginx.ports[1], timeout=20 * slowness()) as connection:
                streams = [connection.request(f"{prefix}/large.html", self.coding) for _ in range(3)]
                while not streams[0].pieces and not streams[0].ended:
                    self.assertTrue(connection.step())
                for stream in streams:
                    connection.cancel(stream)
        self.assert_coded(self.fetch(f"{prefix}/large.html"), LARGE)

    @each
    def test_slow_reader_holds_the_source_back_and_gets_it_all(self, prefix):
        if self.protocol == "h3":
            self.skipTest("aioquic opens its windows by itself")
        length, key = 40_000_000, f"slow{prefix}{self.protocol}"
        uri = prefix + path("length", length, kind="random", type="text/html", key=key).replace("/up/", "/direct/")
        if self.protocol == "h1":
            with http1.Connection(self.nginx.ports[0], 20 * slowness(), receive_buffer=4096) as connection:
                connection.send(uri, self.coding)
                held = self.held(prefix, key)
                found = connection.read().body
        else:
            with http2.Connection(self.nginx.ports[1], 1000, 20 * slowness()) as connection:
                stream = connection.request(uri, self.coding)
                connection.step_for(0.2)
                held = self.held(prefix, key)
                connection.greedy = True
                connection.grant(stream, 64 << 20)
                connection.finish([stream])
            found = stream.body
        self.assertLess(held, 28_000_000)
        self.assert_same(coding.check_whole(self.coding, found), body("random", length))

    def held(self, prefix, key):
        """How much was taken from the source, once that does not change."""
        before, now = None, 0
        until = time.monotonic() + 20 * slowness()
        while before != now or not now:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.5)
            before, now = now, int(http1.get(self.nginx.ports[0], f"{prefix}/direct/sent?key={key}", None).body)
        return now

    @each
    def test_a_reload_lets_what_has_begun_end(self, prefix):
        if self.protocol == "h3":
            self.skipTest("nginx brings the packets of an old worker's connections to it only with quic_bpf")
        uri = prefix + path("chunked", 3_000_000, kind="json", type="text/html", piece=200_000, pause=0.03)
        plain = body("json", 3_000_000)
        if self.protocol == "h1":
            with http1.Connection(self.nginx.ports[0], 20 * slowness()) as connection:
                connection.send(uri, self.coding)
                response = connection.head()
                old = self.nginx.workers()
                self.nginx.reload()
                for _ in connection.stream(response):
                    pass
            self.assert_coded(response, plain)
        else:
            with http2.Connection(self.nginx.ports[1], timeout=20 * slowness()) as connection:
                stream = connection.request(uri, self.coding)
                while not stream.pieces:
                    self.assertTrue(connection.step())
                old = self.nginx.workers()
                self.nginx.reload()
                connection.finish([stream])
            self.assert_same(coding.check_whole(self.coding, stream.body), plain)
        self.assertTrue(self.nginx.wait_gone(old, 10), "the old worker is still there")


class EngineFull(NginxCase):
    """No memory for an encoder: identity with its own headers, and the reason in the log."""

    codings, pools, protocols = CODINGS, POOLS, PROTOCOLS
    needs, tls, quic, fetch = Rules.needs, True, HTTP3, Rules.fetch
    upstream = True
    files = {"page.html": PAGE}
    http = "    types { text/css css; }\n    weft_max_memory 4k;"
    server = Rules.server

    @each
    def test_identity_with_its_own_headers(self, prefix):
        for uri in (f"{prefix}/page.html", prefix + path(n=len(PAGE), type="text/html", h='ETag:"a"')):
            response = self.fetch(uri)
            self.assert_plain(response, PAGE)
            self.assertEqual(response.get("Content-Length"), str(len(PAGE)))
            self.assertTrue(response.get("ETag").startswith('"'))
            self.assert_varies(response)
            self.assertEqual(self.logged(uri)[0], "off:memory")
