"""HTTP/2 over TLS: by curl, and by frames where many streams, resets and windows matter."""

import random
import subprocess
import tempfile

from harness import coding, http2
from harness.case import FULL, NginxCase, body
from harness.nginx import is_quiet, memory, memory_bound, slowness
from test_choice import path

MIB = 1 << 20
SIZES = (20, 1000, 16384, 65537, 131073, 700000)


class Http2(NginxCase):
    needs = ("http_v2_module", "http_ssl_module")
    tls = True
    upstream = True
    files = {
        **{f"{size}.html": body("text", size) for size in SIZES},
        "tiny.html": b"tiny",
        "big.html": body("random", 40 * MIB),
        "ssi.html": b"x" * 30 + b'<!--#include virtual="/65537.html" -->',
    }
    server = """
        weft zstd;
        weft_types text/event-stream;
        http2_max_concurrent_streams 300;
        proxy_http_version 1.1;
        location /up/ { proxy_pass http://%UP%/; }
        location /unbuffered/ { proxy_buffering off; proxy_pass http://%UP%/; }
        location /high/ { alias www/; weft_level zstd=19; }
        location /inline/ { alias www/; weft_thread_pool off; }
        location /limit/ { alias www/; limit_rate 200k; }
        location = /ssi.html { ssi on; }
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.port = cls.nginx.ports[1]

    def curl(self, uri, ae="zstd", *options):
        code, response = http2.curl(self.port, uri, ae, options, timeout=int(30 * slowness()))
        self.assertEqual(response.version, "HTTP/2")
        return code, response

    def open(self, **more):
        return http2.Connection(self.port, timeout=20 * slowness(), **more)

    def right(self, stream, plain):
        self.assertTrue(stream.ended, f"stream {stream.number}: reset {stream.reset}")
        self.assert_same(coding.zstd_tool(stream.body), plain)
        self.assertEqual(coding.zstd_frames(stream.body)[0], 1)

    def test_files(self):
        for prefix in ("/", "/high/", "/inline/"):
            for size in SIZES:
                with self.subTest(prefix=prefix, size=size):
                    code, response = self.curl(f"{prefix}{size}.html")
                    self.assertEqual(code, 0)
                    self.assert_coded(response, body("text", size))
        self.assert_plain(self.curl("/tiny.html")[1], b"tiny")
        self.assert_plain(self.curl("/1000.html", None)[1], body("text", 1000))

    def test_curl_decodes(self):
        done = subprocess.run(
            ["curl", "-sk", "--http2", "--compressed", f"https://127.0.0.1:{self.port}/high/700000.html"],
            capture_output=True,
        )
        self.assert_same(done.stdout, body("text", 700000))

    def test_head(self):
        code, response = self.curl("/131073.html", "zstd", "-I")
        self.assertEqual((code, response.coding, response.status), (0, "zstd", 200))
        self.assertNotIn("content-length", response)
        self.assert_varies(response)

    def test_proxied(self):
        for behaviour in ("length", "chunked", "until_close"):
            for prefix in ("/up/", "/unbuffered/"):
                with self.subTest(behaviour=behaviour, prefix=prefix):
                    uri = path(behaviour, 400000, type="text/html").replace("/up/", prefix)
                    self.assert_coded(self.curl(uri)[1], body("text", 400000))

    def test_empty(self):
        for behaviour in ("length", "chunked"):
            code, response = self.curl(path(behaviour, 0, type="text/html"))
            self.assertEqual((code, response.status), (0, 200))
            if response.coding:
                self.assert_coded(response, b"")

    def test_ssi(self):
        self.assert_coded(self.curl("/ssi.html")[1], b"x" * 30 + body("text", 65537))

    def test_limit_rate(self):
        self.assert_coded(self.curl("/limit/700000.html")[1], body("text", 700000))

    def test_truncated(self):
        for behaviour in ("cut_length", "cut_chunked"):
            for prefix in ("/up/", "/unbuffered/"):
                for at in (100, 300000):
                    with self.subTest(behaviour=behaviour, prefix=prefix, at=at):
                        uri = path(behaviour, 500000, type="text/html", at=at, hold=0.05).replace("/up/", prefix)
                        code, response = self.curl(uri)
                        self.assertNotEqual(code, 0)
                        self.assertLess(response.seconds, 1.1)
                        self.assertFalse(coding.zstd_is_complete(response.body))

    def test_other_streams_go_on_when_one_is_cut(self):
        with self.open() as connection:
            cut = connection.request(path("cut_chunked", 500000, type="text/html", at=200000, hold=0.05))
            others = [connection.request(f"/high/{size}.html") for size in SIZES]
            connection.finish([cut, *others])
            self.assertIsNotNone(cut.reset)
            self.assertFalse(coding.zstd_is_complete(cut.body))
            for size, stream in zip(SIZES, others):
                self.right(stream, body("text", size))

    def test_many_parallel_streams(self):
        for prefix in ("/", "/high/" if FULL else "/inline/"):
            with self.open() as connection:
                wanted = [SIZES[number % len(SIZES)] for number in range(240 if prefix != "/high/" else 60)]
                streams = [connection.request(f"{prefix}{size}.html") for size in wanted]
                connection.finish(streams)
                for size, stream in zip(wanted, streams):
                    self.right(stream, body("text", size))

    def test_many_connections_by_curl(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["curl", "-sk", "--http2", "-Z", "--no-progress-meter", "--parallel-max", "60", "-H", "Accept-Encoding: zstd"]
            for number in range(60):
                size = SIZES[number % len(SIZES)]
                words += ["-o", f"{folder}/{number}", f"https://127.0.0.1:{self.port}/{size}.html"]
            self.assertEqual(subprocess.run(words, timeout=60 * slowness()).returncode, 0)
            for number in range(60):
                with open(f"{folder}/{number}", "rb") as file:
                    self.assert_same(coding.zstd_tool(file.read()), body("text", SIZES[number % len(SIZES)]))

    def test_streams_that_are_reset(self):
        """Resets at every moment, and the streams that stay come right."""
        uris = [f"/high/{size}.html" for size in SIZES] + ["/700000.html", "/limit/700000.html"]
        uris += [path("chunked", 300000, type="text/html", piece=5000), "/ssi.html"]
        for seed in range(20 if FULL else 6):
            rng = random.Random(seed)
            with self.open() as connection:
                doomed, kept = [], []
                for _ in range(40):
                    doomed.append(connection.request(rng.choice(uris)))
                    if rng.random() < 0.3:
                        kept.append(connection.request("/high/131073.html"))
                    if rng.random() < 0.3:
                        connection.step_for(rng.random() * 0.02)
                    if rng.random() < 0.8:
                        connection.cancel(doomed.pop(rng.randrange(len(doomed))))
                for stream in doomed:
                    connection.cancel(stream)
                    connection.step_for(rng.random() * 0.003)
                connection.finish(kept)
                for stream in kept:
                    self.right(stream, body("text", 131073))

    def test_connection_that_goes_away(self):
        for seed in range(10):
            rng = random.Random(seed)
            with self.open() as connection:
                for _ in range(30):
                    connection.request(rng.choice(("/high/700000.html", "/big.html", "/65537.html")))
                connection.step_for(rng.random() * 0.1)
        self.assertEqual(self.curl("/1000.html")[0], 0)

    def test_closed_window_bounds_memory(self):
        """No window, no reading on: then it is opened, and all arrives right."""
        self.curl("/big.html")
        worker = self.nginx.worker
        before = memory(worker)["Anonymous"]
        with self.open(window=1000) as connection:
            streams = [connection.request("/big.html") for _ in range(4)]
            connection.step_for(1.0)
            self.assertTrue(is_quiet(worker), "the worker works on")
            grown = memory(worker)["Anonymous"] - before
            self.assertLess(grown, memory_bound(4 * 12 * MIB), f"{grown / MIB:.1f} MiB for four streams")
            for stream in streams[1:]:
                connection.cancel(stream)
            connection.greedy = True
            connection.grant(streams[0], 64 * MIB)
            connection.finish(streams[:1])
            self.right(streams[0], body("random", 40 * MIB))

    def test_events(self):
        """Flushed pieces leave at once here too."""
        uri = path("events", 0, pause=0.04, count=12).replace("/up/", "/unbuffered/")
        for attempt in range(3):
            with self.open() as connection:
                stream = connection.request(uri)
                connection.finish([stream])
            decoder, plain, late = coding.ZstdStream(), b"", []
            for at, piece in stream.pieces:
                plain += decoder.feed(piece)
                while len(plain) >= 300:
                    late.append(at - float(plain[:300].split(b" ")[2]))
                    plain = plain[300:]
            self.assertEqual((len(late), decoder.ended), (12, True))
            if max(late) < 0.05 * slowness():
                return
        self.fail(f"an event took {max(late) * 1000:.0f} ms")

    def test_quit_with_streams_under_way(self):
        """A leaving worker finishes what it has begun."""
        with self.open() as connection:
            streams = [connection.request("/high/700000.html") for _ in range(6)]
            connection.step_for(0.05)
            old = self.nginx.workers()
            self.nginx.reload()
            connection.finish(streams)
            for stream in streams:
                self.right(stream, body("text", 700000))
        self.assertTrue(self.nginx.wait_gone(old, 10), "the old worker is still there")
