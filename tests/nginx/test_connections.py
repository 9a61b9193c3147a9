"""Clients: keep-alive, pipelining, slow readers, those that go away."""

import json
import os
import random
import time

from harness import clients, coding, http2
from harness.case import FULL, NginxCase, body
from harness.nginx import is_quiet, memory, memory_bound, slowness
from test_choice import path

MIB = 1 << 20
# What one response may hold for a client that does not read, at the default segment size.
BOUND = 12 * MIB
SIZES = (20, 1000, 5000, 65536, 131073, 700000)


class Clients(NginxCase):
    upstream = True
    files = {
        **{f"{size}.html": body("text", size) for size in SIZES},
        "tiny.html": b"tiny",
        "random.html": body("random", 300000),
        "big.html": body("random", 48 * MIB),
        "middle.html": body("random", 12 * MIB),
    }
    server = """
        weft zstd;
        keepalive_requests 10000;
        proxy_http_version 1.1;
        location /up/ { proxy_pass http://%UP%/; }
        location /unbuffered/ { proxy_buffering off; proxy_pass http://%UP%/; }
        location /high/ { alias www/; weft_level zstd=19; }
        location /inline/ { alias www/; weft_thread_pool off; }
        location /small-segments/ { alias www/; weft_segment_size 128k; }
        location /small-unbuffered/ { proxy_buffering off; weft_segment_size 128k; proxy_pass http://%UP%/; }
        location /small-buffered/ { weft_segment_size 128k; proxy_pass http://%UP%/; }
        location /limit/ { alias www/; limit_rate 150k; }
        location /limit-after/ { alias www/; limit_rate 150k; limit_rate_after 100k; }
        location /limit-up/ { limit_rate 150k; proxy_pass http://%UP%/; }
        location /no-keep/ { alias www/; keepalive_timeout 0; }
    """

    def test_keep_alive(self):
        with self.connect() as connection:
            for number in range(60):
                size = SIZES[number % len(SIZES)]
                connection.send(f"/{size}.html", "zstd" if number % 3 else None)
                response = connection.read()
                check = self.assert_coded if number % 3 else self.assert_plain
                check(response, body("text", size))

    def test_keep_alive_off(self):
        self.assert_coded(self.get("/no-keep/5000.html"), body("text", 5000))

    def pipeline(self, uris):
        """Sends all requests before the first answer is read."""
        with self.connect() as connection:
            for uri, _ in uris:
                connection.send(uri)
            for uri, plain in uris:
                with self.subTest(uri=uri):
                    response = connection.read()
                    if len(plain) < 20:
                        self.assert_plain(response, plain)
                    else:
                        self.assert_coded(response, plain)

    def test_pipelining(self):
        uris = [(f"/{size}.html", body("text", size)) for size in SIZES * 3]
        random.Random(7).shuffle(uris)
        self.pipeline(uris)

    def test_pipelining_of_every_kind(self):
        """Pool, inline, proxied and plain answers in one row: a freed request starts the next."""
        uris = []
        for size in (5000, 131073, 700000):
            plain = body("text", size)
            uris += [(f"/high/{size}.html", plain), (f"/inline/{size}.html", plain), ("/tiny.html", b"tiny")]
            uris += [(path("chunked", size, type="text/html"), plain)]
            uris += [(path("length", size, type="text/html").replace("/up/", "/unbuffered/"), plain)]
        self.pipeline(uris + uris[::-1])

    def test_pipelined_and_gone(self):
        for seed in range(10):
            connection = self.connect()
            for size in SIZES * 4:
                connection.send(f"/high/{size}.html")
            time.sleep(random.Random(seed).random() * 0.2)
            connection.reset()
        self.assert_coded(self.get("/5000.html"), body("text", 5000))

    def test_half_closed_client(self):
        """A client that has shut its sending side still gets its answer.

        Where it has to wait, for the pool as for an upstream, nginx takes the shut side for a client
        that has left, and ends the request: so this page is one that is there at once."""
        with self.connect() as connection:
            connection.send("/inline/131073.html", headers=[("Connection", "close")])
            connection.sock.shutdown(1)
            self.assert_coded(connection.read(), body("text", 131073))

    def test_limit_rate(self):
        plain = body("random", 300000)
        for prefix, least in (("/limit/", 0.8), ("/limit-after/", 0.5)):
            with self.subTest(prefix=prefix):
                begun = time.monotonic()
                self.assert_coded(self.get(prefix + "random.html"), plain)
                self.assertGreater(time.monotonic() - begun, least)

    def test_limit_rate_proxied(self):
        uri = path("chunked", 300000, kind="random", type="text/html").replace("/up/", "/limit-up/")
        self.assert_coded(self.get(uri), body("random", 300000))

    def grown(self, uri, readers):
        """Bytes by which the worker grows when so many read nothing; one then reads all."""
        worker = self.nginx.worker
        before = memory(worker)["Anonymous"]
        connections = []
        for _ in range(readers):
            connection = self.connect(receive_buffer=16384)
            self.addCleanup(connection.close)
            connection.send(uri)
            connections.append(connection)
        time.sleep(1.0)
        grown = memory(worker)["Anonymous"] - before
        for connection in connections[1:]:
            connection.reset()
        self.slow_body = connections[0].read().body
        return grown

    def test_slow_reader(self):
        """Reads nothing for a while: neither is read on for it. Then all arrives right."""
        plain = body("random", 12 * MIB)
        uri = path("length", len(plain), kind="random", type="text/html")
        for name in (
            "/small-segments/middle.html",
            uri.replace("/up/", "/small-unbuffered/"),
            uri.replace("/up/", "/small-buffered/"),
        ):
            with self.subTest(uri=name):
                grown = self.grown(name, 1)
                self.assert_same(coding.zstd_tool(self.slow_body), plain)
                self.assertLess(grown, memory_bound(4 * MIB), f"{grown / MIB:.1f} MiB")

    def test_ten_slow_readers(self):
        grown = self.grown("/big.html", 10)
        self.assert_same(coding.zstd_tool(self.slow_body), body("random", 48 * MIB))
        self.assertLess(grown, memory_bound(10 * BOUND), f"{grown / MIB:.1f} MiB for ten responses")

    def test_waiting_costs_no_time(self):
        """Nobody reads, or the rate is limited: the loop must not turn for it."""
        for uri in ("/small-segments/middle.html", "/limit/middle.html"):
            with self.subTest(uri=uri):
                held = [self.connect(receive_buffer=4096) for _ in range(5)]
                for connection in held:
                    connection.send(uri)
                quiet = is_quiet(self.nginx.worker)
                for connection in held:
                    connection.reset()
                self.assertTrue(quiet, "the worker works on")

    def test_reader_in_small_sips(self):
        plain = body("random", 300000)
        with self.connect(receive_buffer=4096) as connection:
            connection.send("/random.html")
            response = connection.head()
            for number, _ in enumerate(connection.stream(response, most=2000)):
                if number % 20 == 0:
                    time.sleep(0.005)
            self.assert_coded(response, plain)

    URIS = ["/700000.html", "/high/700000.html", "/inline/131073.html", "/big.html", "/limit/random.html"]
    URIS += [path("chunked", 700000, type="text/html", piece=9000), path("length", 131073, type="text/html")]
    URIS += [path("events", 0, type="text/html", pause=0.01).replace("/up/", "/unbuffered/")]

    def test_clients_that_go_away(self):
        worker, faults, sizes = self.nginx.worker, [], []
        for turn in range(3):
            seeds = range(1000 * turn, 1000 * turn + (200 if FULL else 40))
            faults += clients.leave_all(self.port, self.URIS, seeds)
            time.sleep(0.3)
            sizes.append(memory(worker)["Anonymous"])
        self.assertEqual(faults, [])
        self.assertEqual(self.nginx.worker, worker, "the worker died")
        # The first turn fills what is kept; later ones must not add to it.
        self.assertLess(sizes[2] - sizes[0], memory_bound(12 * MIB), [f"{size / MIB:.1f}" for size in sizes])
        for uri in ("/700000.html", "/high/700000.html"):
            self.assert_coded(self.get(uri), body("text", 700000))

    def test_no_connection_is_left(self):
        """nginx lets go of the client's socket when the client has gone, task under way or not."""
        for _ in range(5):
            connection = self.connect()
            connection.send("/high/700000.html")
            time.sleep(0.02)
            connection.reset()
        until = time.monotonic() + 5 * slowness()
        while self.sockets() > 0:
            self.assertLess(time.monotonic(), until, f"{self.sockets()} sockets are still open")
            time.sleep(0.05)

    def sockets(self):
        """Established or half-closed connections to the server's port, of the worker."""
        count = 0
        with open("/proc/net/tcp") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if int(fields[1].split(":")[1], 16) == self.port and fields[3] in ("01", "08"):
                    count += 1
        return count


class GoneWhileProxied(NginxCase):
    """nginx does not look whether the client is there; the write that fails is the one of on_ready."""

    upstream = tls = True
    server = """
        weft zstd;
        weft_level zstd=19;
        proxy_http_version 1.1;
        proxy_ignore_client_abort on;
        location = /status { weft off; weft_status; }
        location = /after { return 204; }
        location /up/ { proxy_pass http://%UP%/; }
        location /unbuffered/ { proxy_buffering off; proxy_pass http://%UP%/; }
        location /posts/ { post_action /after; proxy_pass http://%UP%/; }
    """

    def test_a_request_whose_write_fails_in_on_ready_is_ended_once(self):
        query = path("chunked", n=600000, kind="script", type="text/html")
        sockets = None
        for turn in range(10):
            for where in ("/up", "/unbuffered", "/posts"):
                with self.connect() as connection:
                    connection.send(where + query)
                    time.sleep(0.02 * (turn % 3))
                    connection.reset()
            if turn == 0:
                self.assertTrue(self.settles(), "streams are left")
                sockets = self.sockets()
        self.assertTrue(self.settles(), "streams are left")
        # Those to the upstream are closed; none of the clients' is left. A proxy that ignores that the client
        # has gone reads on to the end of the body.
        until = time.monotonic() + 20 * slowness()
        while self.sockets() > sockets + 3:
            self.assertLess(time.monotonic(), until, f"{self.sockets()} sockets, not {sockets}")
            time.sleep(0.1)

    def test_the_same_of_http2(self):
        query = path("chunked", n=600000, kind="script", type="text/html")
        for turn in range(6):
            with http2.Connection(self.nginx.ports[1]) as connection:
                for where in ("/up", "/unbuffered", "/posts", "/up"):
                    stream = connection.request(where + query)
                connection.step_for(0.02 * turn)
                connection.cancel(stream)
        self.assertTrue(self.settles(), "streams are left")

    def sockets(self):
        return len(os.listdir(f"/proc/{self.nginx.worker}/fd"))

    def settles(self, seconds=20):
        until = time.monotonic() + seconds * slowness()
        while time.monotonic() < until:
            figures = json.loads(self.get("/status", None).body)
            if figures["engine"]["streams_live"] == 0:
                time.sleep(0.2)
                return True
            time.sleep(0.1)
        return False
