"""Reload, quit, stop and a worker's death, while responses are under way."""

import os
import signal
import time
import unittest

from harness import coding, http1
from harness.case import FULL, NginxCase, Site, body
from harness.clients import Load
from harness.nginx import children, has, memory, slowness
from test_choice import path

MIB = 1 << 20
LARGE = body("text", 700000)


SERVER = """
    weft zstd;
    proxy_http_version 1.1;
    location /up/ { proxy_pass http://%UP%/; }
    location /unbuffered/ { proxy_buffering off; proxy_pass http://%UP%/; }
    location /high/ { alias www/; weft_level zstd=19; }
    location /inline/ { alias www/; weft_thread_pool off; }
"""
FILES = {"large.html": LARGE, "small.html": LARGE[:3000], "big.html": body("random", 8 * MIB)}
URIS = [
    ("/large.html", LARGE),
    ("/high/large.html", LARGE),
    ("/small.html", LARGE[:3000]),
    ("/inline/large.html", LARGE),
    (path("chunked", 300000, type="text/html", piece=20000), body("text", 300000)),
]


class Reload(NginxCase):
    files = FILES
    server = SERVER
    upstream = True

    def test_reload_under_load(self):
        load = Load(self.port, URIS)
        try:
            old = self.nginx.workers()
            for _ in range(20 if FULL else 6):
                time.sleep(0.15)
                old += self.nginx.workers()
                self.nginx.reload()
            load.wait_right(10)
        finally:
            load.end()
        self.assertEqual(load.faults, [])
        self.assertEqual(load.cut, 0, "reload is graceful: nobody is cut off")
        self.assertGreaterEqual(load.right, 10)
        gone = set(old) - set(self.nginx.workers())
        self.assertTrue(self.nginx.wait_gone(gone, 15), "an old worker is still there")

    def test_old_worker_ends_with_its_last_response(self):
        """Not before, and not long after."""
        with self.connect(receive_buffer=4096) as connection:
            connection.send("/big.html")
            old = self.nginx.workers()
            self.nginx.reload()
            time.sleep(0.3)
            self.assertFalse(self.nginx.wait_gone(old, 0.1), "it left a client behind")
            response = connection.read()
            self.assert_same(coding.zstd_tool(response.body), body("random", 8 * MIB))
        self.assertTrue(self.nginx.wait_gone(old, 5))

    def test_event_stream_over_a_reload(self):
        uri = path("events", 0, type="text/html", pause=0.05).replace("/up/", "/unbuffered/")
        with self.connect() as connection:
            connection.send(uri)
            response = connection.head()
            old = self.nginx.workers()
            self.nginx.reload()
            for _ in connection.stream(response):
                pass
            self.assertEqual(len(self.decoded(response)), 6000)
        self.assertTrue(self.nginx.wait_gone(old, 5))

    def test_idle_worker_leaves_at_once(self):
        self.assert_coded(self.get("/high/large.html"), LARGE)
        old = self.nginx.workers()
        self.nginx.reload()
        self.assertTrue(self.nginx.wait_gone(old, 3), "an idle worker stays")

    def test_reopen_logs(self):
        self.nginx.signal(signal.SIGUSR1)
        time.sleep(0.1)
        self.assert_coded(self.get("/large.html"), LARGE)


class Ending(unittest.TestCase):
    """Each on an nginx of its own, which ends in the test."""

    def site(self, **more):
        more.setdefault("server", SERVER)
        return Site(files=FILES, upstream=True, **more).start()

    def finish(self, site):
        problems = site.stop()
        self.assertEqual(problems, [])

    def under_load(self, number, graceful, **more):
        site = self.site(**more)
        load = Load(site.port, URIS, 6)
        try:
            time.sleep(0.6)
            right = load.right
            # A connection that is not accepted yet is reset when nginx stops listening.
            load.ending = True
            time.sleep(0.05)
            site.nginx.signal(number)
            begun = time.monotonic()
            site.nginx.process.wait(15 * slowness())
            spent = time.monotonic() - begun
        finally:
            load.end()
            self.finish(site)
        self.assertEqual(load.faults, [])
        self.assertGreater(right, 0)
        if graceful and has("threads"):
            # Where the loop compresses, connections that it had no time to accept are reset by nginx.
            self.assertEqual(load.cut, 0, load.last)
        elif graceful:
            self.assertLess(load.cut, 10, load.last)
        else:
            # A running task may be finished; nothing that is queued may be.
            self.assertLess(spent, 3 * slowness())

    def test_quit_under_load(self):
        self.under_load(signal.SIGQUIT, True)

    def test_term_under_load(self):
        self.under_load(signal.SIGTERM, False)

    @unittest.skipUnless(has("threads"), "nginx without thread pools")
    def test_quit_under_load_with_a_full_pool(self):
        self.under_load(
            signal.SIGQUIT,
            True,
            main="thread_pool tiny threads=1 max_queue=1;",
            server="weft_thread_pool tiny;" + SERVER,
        )

    @unittest.skipUnless(has("threads"), "nginx without thread pools")
    def test_term_with_much_queued(self):
        """Seconds of work are queued, and are dropped. nginx's pool is gone before the module is."""
        self.much_queued(main="thread_pool one threads=1;", server="weft_thread_pool one;" + SERVER)

    def test_term_with_much_queued_behind_idle_threads(self):
        """No task waits in the pool, all segments wait in weft: nothing may be posted any more."""
        self.much_queued()

    def much_queued(self, **more):
        site = self.site(**more)
        held = []
        try:
            for _ in range(24):
                connection = http1.Connection(site.port)
                connection.send("/high/large.html")
                held.append(connection)
            time.sleep(0.3)
            site.nginx.signal(signal.SIGTERM)
            begun = time.monotonic()
            site.nginx.process.wait(20 * slowness())
            self.assertLess(time.monotonic() - begun, 3 * slowness())
        finally:
            for connection in held:
                connection.close()
            self.finish(site)

    @unittest.skipUnless(has("threads"), "nginx without thread pools")
    def test_quit_while_clients_have_gone(self):
        """Tasks whose clients have left do not hold the worker."""
        site = self.site(main="thread_pool one threads=1;", server="weft_thread_pool one;" + SERVER)
        try:
            for _ in range(24):
                connection = http1.Connection(site.port)
                connection.send("/high/large.html")
                time.sleep(0.005)
                connection.reset()
            site.nginx.signal(signal.SIGQUIT)
            begun = time.monotonic()
            site.nginx.process.wait(20 * slowness())
            self.assertLess(time.monotonic() - begun, 3 * slowness())
        finally:
            self.finish(site)

    def test_two_workers(self):
        site = self.site(workers=2)
        load = Load(site.port, URIS, 6)
        time.sleep(1)
        load.end()
        self.finish(site)
        self.assertEqual((load.faults, load.cut), ([], 0))

    def test_without_master(self):
        """One process is everything: what is for workers has to be made there too."""
        site = Site(files=FILES, upstream=True, server=SERVER, main="master_process off;")
        site.nginx.workers = lambda leaving=False: [site.nginx.process.pid]
        site.start()
        try:
            for uri, plain in URIS:
                response = http1.get(site.port, uri)
                self.assertEqual(coding.check_whole("zstd", response.body), plain)
        finally:
            self.finish(site)

    def test_shutdown_timeout(self):
        """worker_shutdown_timeout ends responses that a leaving worker still has under way."""
        site = self.site(main="worker_shutdown_timeout 1s;")
        held = []
        try:
            for uri in ("/big.html", "/high/large.html") * 3:
                connection = http1.Connection(site.port, receive_buffer=4096)
                connection.send(uri)
                held.append(connection)
            time.sleep(0.2)
            old = site.nginx.workers()
            site.nginx.reload()
            self.assertTrue(site.nginx.wait_gone(old, 4), "the old worker is still there")
            response = http1.get(site.port, "/large.html")
            self.assertEqual(coding.check_whole("zstd", response.body), LARGE)
        finally:
            for connection in held:
                connection.close()
            self.finish(site)

    def test_killed_worker_is_replaced(self):
        """The master starts another, whose engine works."""
        site = self.site()
        try:
            http1.get(site.port, "/high/large.html")
            old = site.nginx.worker
            os.kill(old, signal.SIGKILL)
            until = time.monotonic() + 5 * slowness()
            while site.nginx.workers() in ([], [old]):
                self.assertLess(time.monotonic(), until)
                time.sleep(0.02)
            response = http1.get(site.port, "/high/large.html")
            self.assertEqual(coding.check_whole("zstd", response.body), LARGE)
        finally:
            problems = site.stop(rf"worker process {old} exited on signal 9")
        self.assertEqual(problems, [])

    def test_cache_processes_have_no_engine(self):
        """The cache manager and loader run the same init: they need no thread and no engine."""
        site = self.site(http="proxy_cache_path tmp/cache keys_zone=c:1m;")
        try:
            http1.get(site.port, "/high/large.html")
            others = set(children(site.nginx.process.pid)) - set(site.nginx.workers())
            self.assertTrue(others)
            for pid in others:
                self.assertEqual(memory(pid)["Threads"], 1)
        finally:
            self.finish(site)
