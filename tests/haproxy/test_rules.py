"""HOSTS sections 1 to 3 for HAProxy. The names are those of tests/nginx/test_codings.py.

What this host cannot do: it has no files and no subrequests of its own, sets no charset, and knows the end
of a response without length or chunks only as the end of its connection, which it would hand on.
"""

import functools
import itertools
import re
import time

from harness import coding, http1, http2
from harness.nginx import is_quiet, slowness
from proxy.case import CODINGS, HaproxyCase, body, version
import test_codings
from test_choice import path as nginx_path

PAGE = body("text", 50_000)
LARGE = body("json", 900_000)
WAYS = ("h1 h1", "h2 h1", "h1 h2", "h2 h2")


def path(behaviour="length", n=len(PAGE), **more):
    more.setdefault("type", "text/html")
    return nginx_path(behaviour, n, **more)


def each(test):
    """Runs a test for each coding and for HTTP/1 and HTTP/2 on both sides."""

    @functools.wraps(test)
    def run(self):
        for self.coding, self.way in itertools.product(CODINGS, WAYS):
            with self.subTest(coding=self.coding, way=self.way):
                test(self)

    return run


class Rules(HaproxyCase):
    def ask(self, uri, ae=0, headers=(), method="GET"):
        return self.fetch(self.way, uri, self.coding if ae == 0 else ae, method, headers)

    # ---- when a response is coded

    @each
    def test_every_size_is_one_whole_stream(self):
        for size in (20, 1000, 16_000, 16_384, 65_536, 300_000):
            self.assert_coded(self.ask(path(n=size)), body("text", size))

    @each
    def test_default_statuses_and_no_others(self):
        for status, coded in ((200, True), (403, True), (404, True), (201, False), (500, False)):
            response = self.ask(path(status=status))
            (self.assert_coded if coded else self.assert_plain)(response, PAGE, status)

    @each
    def test_never_what_has_a_content_range(self):
        self.assert_plain(self.ask(path(status=206, h="Content-Range:bytes 0-49999/90000")), PAGE, 206)

    @each
    def test_never_a_status_without_a_body(self):
        for status in (204, 304):
            self.assert_plain(self.ask(nginx_path("no_body", 0, status=status, type="text/html")), b"", status)

    @each
    def test_already_coded_passes_untouched(self):
        response = self.ask(path(h="Content-Encoding:x-own"))
        self.assertEqual((response.coding, response.get("Content-Length")), ("x-own", str(len(PAGE))))
        self.assert_same(response.body, PAGE)

    @each
    def test_identity_is_no_coding(self):
        self.assert_coded(self.ask(path(h="Content-Encoding:identity")), PAGE)

    @each
    def test_no_transform_of_an_upstream_is_honoured(self):
        self.assert_plain(self.ask(path(h="Cache-Control:public, no-transform")), PAGE)

    @each
    def test_listed_types_and_html_and_no_others(self):
        for kind in ("text/html", "TEXT/HTML; charset=utf-8", "text/plain;x=y", "application/json"):
            self.assert_coded(self.ask(path(type=kind)), PAGE)
        for kind in ("text/css", "image/png", "application/grpc", "application/jsonx"):
            response = self.ask(path(type=kind))
            self.assert_plain(response, PAGE)
            self.assertNotIn("Vary", response)

    @each
    def test_min_length_is_of_content_length_only(self):
        self.assert_plain(self.ask(path(n=19)), body("text", 19))
        self.assert_coded(self.ask(path("chunked", 19)), body("text", 19))

    @each
    def test_the_client_decides(self):
        for ae in (None, "identity", "x-other", f"{self.coding};q=0", "*;q=0"):
            response = self.ask(path(), ae)
            self.assert_plain(response, PAGE)
            self.assertEqual(response.get("Content-Length"), str(len(PAGE)))
        for ae in (f"x-other, {self.coding};q=0.2", self.coding.upper()):
            self.assert_coded(self.ask(path(), ae), PAGE)
        response = self.ask(path(), "*")
        self.assertEqual(response.coding, "zstd")

    @each
    def test_several_accept_encoding_lines_are_one_list(self):
        response = self.ask(path(), "x-other", [("Accept-Encoding", self.coding)])
        self.assert_coded(response, PAGE)

    # ---- headers

    @each
    def test_vary_is_there_once_coded_or_not(self):
        for ae in (self.coding, None):
            self.assert_varies(self.ask(path(), ae))
            for have in ("Cookie", "accept-encoding", "Cookie, Accept-Encoding"):
                response = self.ask(path(h=f"Vary:{have}"), ae)
                self.assert_varies(response)
                self.assertEqual("cookie" in ", ".join(response.all("Vary")).lower(), "Cookie" in have)
            self.assertEqual(self.ask(path(h="Vary:*"), ae).all("Vary"), ["*"])
        self.assertNotIn("Vary", self.ask(path(type="image/png")))

    @each
    def test_strong_etag_becomes_weak_and_an_invalid_one_is_left_out(self):
        for sent, expected in (('"a"', 'W/"a"'), ('W/"a"', 'W/"a"'), ("a", None), ('"a', None)):
            self.assertEqual(self.ask(path(h=f"ETag:{sent}")).get("ETag"), expected)
            self.assertEqual(self.ask(path(h=f"ETag:{sent}"), None).get("ETag"), sent)

    @each
    def test_304_has_the_vary_and_etag_of_the_200(self):
        uri = nginx_path("no_body", 0, status=304, type="text/html", h='ETag:W/"a"')
        response = self.ask(uri)
        self.assertEqual((response.status, response.get("ETag"), response.body), (304, 'W/"a"', b""))
        self.assert_varies(response)

    @each
    def test_head_answers_the_headers_of_get(self):
        drop = ("date", "transfer-encoding")
        for uri in (path(), path(type="image/png"), path(n=19)):
            found = [self.ask(uri, method=method) for method in ("GET", "HEAD")]
            pairs = [sorted((k.lower(), v) for k, v in r.pairs if k.lower() not in drop) for r in found]
            self.assertEqual(*pairs)
            if self.way.startswith("h1"):
                self.assertEqual(found[1].body, b"")

    def test_head_of_an_http_1_0_client_answers_the_headers_of_get(self):
        """HEAD said coded where GET was not."""
        for behaviour, more in (("length", {"h": 'ETag:"a"'}), ("chunked", {})):
            uri = path(behaviour, **more)
            found = [http1.get(self.port, uri, "zstd", method, version="1.0") for method in ("GET", "HEAD")]
            pairs = [sorted((k.lower(), v) for k, v in r.pairs if k.lower() != "date") for r in found]
            self.assertEqual(*pairs)
            self.assertNotIn("Content-Encoding", found[1])

    @each
    def test_trailers_of_the_source_come_behind_the_coded_body(self):
        client, server = self.way.split()
        response = self.ask(path("trailers", 300_000))
        self.assert_coded(response, body("text", 300_000))
        if self.way == "h1 h1":
            self.assertEqual([line.lower() for line in response.trailers], ["x-sum: 17"])

    @each
    def test_range_on_a_coded_200_is_ignored_and_on_identity_served(self):
        uri, headers = nginx_path("ranged", len(PAGE), type="image/png"), [("Range", "bytes=10-29")]
        self.assert_plain(self.ask(uri, headers=headers), PAGE[10:30], 206)
        self.assert_coded(self.ask(path(), headers=headers), PAGE)

    # ---- bodies

    @each
    def test_upstream_bodies_of_every_framing(self):
        for behaviour in ("length", "chunked"):
            self.assert_coded(self.ask(path(behaviour, 300_000, piece=9000)), body("text", 300_000))

    @each
    def test_empty_bodies(self):
        self.assert_coded(self.ask(path("chunked", 0)), b"")
        self.assert_plain(self.ask(path("length", 0)), b"")

    @each
    def test_a_source_that_ends_early_gives_no_valid_end(self):
        client, server = self.way.split()
        for behaviour in ("cut_length", "cut_chunked"):
            if server == "h2" and behaviour == "cut_chunked" and version() < (3, 0):
                # The HAProxy between says that it is all: HTTP/2 of 2.6 ends a stream that was cut with
                # END_STREAM, also where there is no filter. So this is not a cut to the one in front.
                response = self.ask(path(behaviour, 500_000, at=200_000, hold=0.02))
                self.assert_same(coding.check_whole(self.coding, response.body), body("text", 500_000)[:200_000])
                continue
            begun = time.monotonic()
            response = self.ask(path(behaviour, 500_000, at=200_000, hold=0.02))
            self.assertLess(time.monotonic() - begun, 5 * slowness())
            if self.way == "h1 h1":
                self.assertFalse(response.complete)
            self.assertFalse(coding.is_complete(self.coding, response.body))
            plain = coding.stream(self.coding).feed(response.body)
            self.assertTrue(body("text", 500_000).startswith(plain))

    @each
    def test_headers_leave_first_and_each_flushed_event_can_be_decoded_when_it_arrives(self):
        """The upstream sends an event only when the one before has been decoded here."""
        client, server = self.way.split()
        key = f"{self.coding}{client}{server}"
        uri = nginx_path("lockstep", 0, count=4, size=300, key=key)
        if client == "h2":
            return self.lockstep2(uri, key, self.site.ports[3 if server == "h2" else 1], headers_first=True)
        decoder, plain, events = coding.stream(self.coding), b"", 0
        with http1.Connection(self.site.ports[2 if server == "h2" else 0], 20 * slowness()) as connection:
            connection.send(uri, self.coding)
            response = connection.head()
            self.assertEqual(response.coding, self.coding)
            self.release(key)
            for piece in connection.stream(response):
                plain += decoder.feed(piece)
                if len(plain) >= 300 * (events + 1):
                    events += 1
                    self.release(key)
        self.assertEqual((events, len(plain), decoder.ended), (4, 1200, True))

    lockstep2 = test_codings.Rules.lockstep2

    def release(self, key):
        http1.get(self.site.ports[0], nginx_path("release", 0, key=key))

    @each
    def test_clients_that_go_away_leave_the_others_right(self):
        client, server = self.way.split()
        far = 2 if server == "h2" else 0
        uri = path("length", len(LARGE), kind="json")
        if client == "h1":
            for _ in range(3):
                connection = http1.Connection(self.site.ports[far])
                connection.send(uri, self.coding)
                connection.sock.recv(1000)
                connection.reset()
        else:
            with http2.Connection(self.site.ports[far + 1], timeout=20 * slowness()) as connection:
                streams = [connection.request(uri, self.coding) for _ in range(3)]
                while not streams[0].pieces and not streams[0].ended:
                    self.assertTrue(connection.step())
                for stream in streams:
                    connection.cancel(stream)
        self.assert_coded(self.ask(uri), LARGE)

    @each
    def test_slow_reader_holds_the_source_back_and_gets_it_all(self):
        """Neither is read on for a client that stops, whatever the length, nor is anything lost. HAProxy asked
        weft to take more, was told that there is output to make room with, which had none, and asked again,
        until its watchdog ended it."""
        client, server = self.way.split()
        length, key = 40_000_000, f"{self.coding}{self.way.replace(' ', '')}{self.before != ''}"
        uri = path("length", length, kind="random", key=key)
        port = self.site.ports[(2 if server == "h2" else 0) + (1 if client == "h2" else 0)]
        if client == "h1":
            with http1.Connection(port, 20 * slowness(), receive_buffer=4096) as connection:
                connection.send(uri, self.coding)
                self.assert_held_back(key)
                response = connection.read()
            self.assert_coded(response, body("random", length))
        else:
            with http2.Connection(port, 1000, 20 * slowness()) as connection:
                stream = connection.request(uri, self.coding)
                while not stream.pieces:
                    self.assertTrue(connection.step())
                self.assert_held_back(key)
                connection.greedy = True
                connection.grant(stream, 64 << 20)
                connection.finish([stream])
            self.assert_same(coding.check_whole(self.coding, stream.body), body("random", length))
        self.assertEqual(self.sent(key), length)

    def sent(self, key):
        return int(http1.get(self.site.upstream.port, f"/sent?key={key}", None).body)

    def assert_held_back(self, key):
        """Nothing more is taken from the source, and that is little more than what the kernel takes, on one way
        or on two."""
        before, until = -1, time.monotonic() + 20 * slowness()
        while before != (before := self.sent(key)) or not before:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.5)
        self.assertLess(before, 16_000_000 if self.way.endswith("h1") else 28_000_000)
        self.assertTrue(is_quiet(self.site.process.pid), "HAProxy works on for a client that does not read")

    def test_a_body_that_ends_with_its_connection_goes_as_it_is(self):
        response = self.fetch("h1 h1", path("until_close", 300_000), "zstd")
        self.assert_plain(response, body("text", 300_000))
        self.assert_varies(response)

    def test_http_1_0_clients_get_it_as_it_is(self):
        response = http1.get(self.port, path(), "zstd", version="1.0")
        self.assert_plain(response, PAGE)
        self.assert_varies(response)

    def test_the_log_says_what_became_of_it(self):
        for uri, ae, said in ((path(seed=1), "br", "br"), (path(seed=2, type="image/png"), "br", "off:type"),
                              (path(seed=3), "x", "off:client"), (path(n=5, seed=4), "br", "off:length")):
            self.fetch("h1 h1", uri, ae)
            until = time.monotonic() + 5 * slowness()
            while not (found := re.search(r"log GET " + re.escape(uri) + r" .*weft=\"([^\"]*)\"", self.site.log())):
                self.assertLess(time.monotonic(), until, "no line in the log")
                time.sleep(0.02)
            self.assertEqual(found[1], said)


class BetweenOthers(Rules):
    """Filters that forward as much as they please, in front of ours and behind it: a body whose rest one of
    them held back was once taken for ended."""

    before = "filter trace name before random-forwarding quiet"
    frontend = "filter trace name behind random-forwarding quiet"


class SmallBuffers(HaproxyCase):
    """A buffer of 16 KiB, half of which the response's headers take."""

    more = "tune.bufsize 16384"

    def test_eight_kilobytes_of_headers(self):
        for self.coding, way in itertools.product(CODINGS, WAYS):
            for behaviour in ("length", "chunked"):
                with self.subTest(coding=self.coding, way=way, behaviour=behaviour):
                    uri = path(behaviour, 200_000, wide=8000)
                    self.assert_coded(self.fetch(way, uri, self.coding), body("text", 200_000))


class CutWhileBusy(HaproxyCase):
    """Input that weft had not taken followed what was coded, as it was, when the server failed."""

    filter = "types * codings zstd,br,gzip level zstd=19,br=11,gzip=9 threads 1"

    def test_input_is_not_sent_behind_output(self):
        for self.coding, number in itertools.product(CODINGS, range(8)):
            more = {"at": 450_000 + 3001 * number, "hold": 0.01 * (number % 3), "rst": number % 2}
            behaviour = ("cut_length", "cut_chunked")[number % 3 == 0]
            for way in ("h1 h1", "h2 h1"):
                response = self.fetch(way, path(behaviour, 500_000, **more), self.coding)
                if response is None or response.status != 200:
                    continue
                self.assertFalse(coding.is_complete(self.coding, response.body))
                plain = coding.stream(self.coding).feed(response.body)
                self.assertTrue(body("text", 500_000).startswith(plain))


class ResetAtOnce(HaproxyCase):
    """The headers have not been forwarded yet when the server's reset is seen: they are sent all the same."""

    filter = "types * threads 2"

    def test_headers_are_sent(self):
        for number in range(200):
            length = (5, 300, 5000, 60_000)[number % 4]
            self.coding = CODINGS[number % 3]
            uri = path(("cut_length", "cut_chunked")[number // 4 % 2], length, at=length // 2 + 1, hold=0, rst=1)
            response = http1.get(self.port, uri, self.coding)
            self.assertIn(response.status, (200, 502))
            if response.status == 200:
                self.assertFalse(response.complete)
                if response.coding:
                    plain = coding.stream(self.coding).feed(response.body)
                    self.assertTrue(body("text", length).startswith(plain))


class LeastReserve(HaproxyCase):
    """Input may fill a buffer all but this."""

    more = "tune.bufsize 16384\n    tune.maxrewrite 256"
    filter = "types * codings zstd,br,gzip level zstd=1,br=1,gzip=1"

    def test_bodies_that_do_not_get_smaller(self):
        for self.coding, way in itertools.product(CODINGS, WAYS):
            for behaviour in ("length", "chunked"):
                with self.subTest(coding=self.coding, way=way, behaviour=behaviour):
                    uri = path(behaviour, 8_000_000, kind="random")
                    self.assert_coded(self.fetch(way, uri, self.coding), body("random", 8_000_000))


class Large(HaproxyCase):
    def test_forty_megabytes(self):
        for self.coding, way in zip((*CODINGS, "zstd"), WAYS):
            with self.subTest(coding=self.coding, way=way):
                uri = path("length", 40_000_000, kind="json")
                self.assert_coded(self.fetch(way, uri, self.coding), body("json", 40_000_000))


class AtItsLimit(HaproxyCase):
    filter = "max-memory 1 types *"
    allowed = None

    def test_goes_as_it_is_with_its_headers(self):
        response = self.fetch("h1 h1", path(h='ETag:"a"'), "zstd")
        self.assert_plain(response, PAGE)
        self.assertEqual((response.get("Content-Length"), response.get("ETag")), (str(len(PAGE)), '"a"'))
        self.assert_varies(response)


class LittleRoom(HaproxyCase):
    """Headers that leave no room for those of a coded response: it goes as it is, all of it. ETag and Vary were
    changed before the others found no room."""

    more = "tune.bufsize 16384"
    # Behind the reading of the response, so what is kept free for rewriting is used up too.
    frontend = "http-response set-header X-Fill " + "f" * 960

    def test_all_headers_or_none(self):
        seen = set()
        for wide in range(14_000, 15_400, 8):
            response = self.fetch("h1 h1", path(wide=wide, h='ETag:"a"'), "zstd")
            if response.status != 200:
                break
            seen.add(response.coding)
            if response.coding:
                self.assert_coded(response, PAGE)
            else:
                self.assert_plain(response, PAGE)
                self.assertEqual((response.get("ETag"), response.get("Content-Length")), ('"a"', str(len(PAGE))))
        self.assertEqual(seen, {"zstd", None})


class LoggedEarly(HaproxyCase):
    """Nothing in the format waits for the end: the line was written before any filter had seen the response."""

    log = "said %HU weft=%[weft.status]"
    said = {"zstd": "zstd", "x": "off:client"}

    @classmethod
    def setUpClass(cls):
        cls.frontend = f'log-format "{cls.log}"'
        super().setUpClass()

    def line(self, uri):
        until = time.monotonic() + 5 * slowness()
        while not (found := re.findall(r"said " + re.escape(uri) + r" weft=(\S*)", self.site.log())):
            self.assertLess(time.monotonic(), until, "no line in the log")
            time.sleep(0.02)
        time.sleep(0.1)
        return found

    def test_status_of_the_response(self):
        for number, (ae, said) in enumerate(self.said.items()):
            uri = path(seed=number + 10)
            self.fetch("h1 h1", uri, ae)
            self.assertEqual(self.line(uri), [said])
            uri = path(seed=number + 20, type="image/png")
            self.fetch("h1 h1", uri, ae)
            self.assertEqual(self.line(uri), ["off:type"])


class TwoFilters(LoggedEarly):
    """One in the frontend and one in the backend: the log has what the one that coded says."""

    filter = "codings zstd types text/plain"
    backend = "filter weft codings br types text/plain"
    said = {"zstd": "zstd", "br": "br", "x": "off:client"}


class LoggedAsSoonAsPossible(LoggedEarly):
    defaults = "option logasap"

    def test_status_of_the_response(self):
        """As asked: one line, at once."""
        uri = path(seed=30)
        self.fetch("h1 h1", uri, "zstd")
        self.assertEqual(len(self.line(uri)), 1)


class BesideCompression(HaproxyCase):
    """HAProxy's own filter, behind ours."""

    frontend = "filter compression\n    compression algo gzip\n    compression type text/html text/plain"

    def test_one_of_them_codes(self):
        for ae in ("gzip", "zstd", "gzip, zstd"):
            response = self.fetch("h1 h1", path(), ae)
            self.assertEqual(len(response.all("Content-Encoding")), 1)
            self.coding = response.coding
            self.assertIn(self.coding, ae)
            self.assertEqual(coding.check_whole(self.coding, response.body), PAGE)


class Socket(HaproxyCase):
    def test_show_weft(self):
        for name in CODINGS:
            self.coding = name
            self.assert_coded(self.fetch("h1 h1", path(), name), PAGE)
        said = self.site.ask("show weft")
        figures = dict(re.findall(r"^(\w+): (\d+)$", said, re.M))
        self.assertGreaterEqual(int(figures["streams_done"]), 3)
        self.assertEqual(figures["streams_failed"], "0")
        for name in CODINGS:
            self.assertRegex(said, rf"(?m)^{name}: streams [1-9]\d*, bytes_in \d+, bytes_out \d+")

    def test_open_streams_are_gone_when_their_clients_are(self):
        connections = []
        for n in range(20):
            connection = http1.Connection(self.port, receive_buffer=4096)
            connection.send(path("length", 3_000_000, kind="random", seed=n % 3), CODINGS[n % 3])
            connections.append(connection)
        time.sleep(0.5)
        for connection in connections:
            connection.reset()
        until = time.monotonic() + 20 * slowness()
        while "frontend=near" in (said := self.site.ask("show sess")) or "fe=near" in said:
            self.assertLess(time.monotonic(), until, said[-2000:])
            time.sleep(0.1)
        self.assert_plain(self.fetch("h1 h1", path(), None), PAGE)
