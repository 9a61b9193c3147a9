"""Thread pools, memory limits and retention."""

import threading
import time

from harness import coding
from harness.case import FULL, NginxCase, body
from harness.nginx import memory, memory_bound, slowness
from test_choice import path

MIB = 1 << 20
SIZES = (100, 5000, 65536, 131073, 400000)
FILES = {f"{size}.html": body("text", size) for size in SIZES}


class Burst(NginxCase):
    """Helpers: many requests at once, all of which have to be right."""


    def burst(self, uris, expect="zstd"):
        """Fetches all at once. Returns the codings; a wrong body fails."""
        found, faults = [], []

        def one(uri, plain):
            try:
                response = self.get(uri, timeout=60 * slowness())
                found.append(response.coding)
                data = coding.check_whole("zstd", response.body) if response.coding else response.body
                if data != plain or not response.complete:
                    faults.append(f"{uri}: other bytes")
            except Exception as error:
                faults.append(f"{uri}: {error!r}")

        threads = [threading.Thread(target=one, args=pair) for pair in uris]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])
        if expect:
            self.assertEqual(set(found), {expect})
        return found

    def mixed(self, prefix, count=24):
        return [(f"{prefix}{SIZES[n % 5]}.html", body("text", SIZES[n % 5])) for n in range(count)]


class Pools(Burst):
    needs = ("threads",)
    upstream = True
    files = FILES
    # nginx itself says this of a pool that is full, at level error.
    main = """
        thread_pool tiny threads=1 max_queue=1;
        thread_pool wide threads=8;
        thread_pool one threads=1;
    """
    server = """
        weft zstd;
        weft_level zstd=12;
        location /tiny/ { alias www/; weft_thread_pool tiny; }
        location /wide/ { alias www/; weft_thread_pool wide; }
        location /one/ { alias www/; weft_thread_pool one; weft_level zstd=19; weft_segment_size 64k; }
        location /off/ { alias www/; weft_thread_pool off; }
        location /shared/ { alias www/; weft_thread_pool tiny; aio threads=tiny; }
        location /short-timeout/ { alias www/; weft_thread_pool one; weft_level zstd=19; send_timeout 1s; }
        location /up/ { proxy_pass http://%UP%/; weft_thread_pool tiny; proxy_http_version 1.1; }
    """

    def test_queue_overflows(self):
        """A pool that refuses tasks: nothing is lost, nothing hangs, all is coded."""
        for _ in range(3):
            self.burst(self.mixed("/tiny/"))

    def test_queue_overflows_beside_file_reads(self):
        """The pool is filled by others. A refused file read fails that request, as without us."""
        for _ in range(2):
            for uri in ("/shared/400000.html", "/tiny/400000.html"):
                self.burst([(uri, body("text", 400000))])

    def test_queue_overflows_proxied(self):
        self.burst([(path("chunked", size, type="text/html"), body("text", size)) for size in SIZES * 4])

    def test_two_pools_at_once(self):
        self.burst(self.mixed("/tiny/", 10) + self.mixed("/wide/", 10) + self.mixed("/off/", 5) + self.mixed("/", 5))

    def test_each_pool(self):
        for prefix in ("/", "/tiny/", "/wide/", "/one/", "/off/"):
            for size in SIZES:
                with self.subTest(prefix=prefix, size=size):
                    self.assert_coded(self.get(f"{prefix}{size}.html"), body("text", size))

    def test_time_in_the_queue_is_not_send_timeout(self):
        """Level 19 on one thread: the last response waits longer than send_timeout."""
        one = [("/short-timeout/400000.html", body("text", 400000))]
        begun = time.monotonic()
        self.burst(one * 4)
        each = (time.monotonic() - begun) / 4
        begun = time.monotonic()
        self.burst(one * min(200, int(2.5 / each) + 1))
        self.assertGreater(time.monotonic() - begun, 1.1, "too fast to show anything")

    def test_small_is_not_behind_large(self):
        """The most urgent segment first: a small response does not wait for all large ones."""
        large = [("/one/400000.html", body("text", 400000))] * 8
        done = []

        def finish():
            self.burst(large)
            done.append(time.monotonic())

        thread = threading.Thread(target=finish)
        thread.start()
        time.sleep(0.15)
        self.assert_coded(self.get("/one/65536.html"), body("text", 65536))
        at = time.monotonic()
        thread.join()
        self.assertEqual(len(done), 1)
        self.assertLess(at, done[0] - 0.1)


class Threads(NginxCase):
    files = FILES
    needs = ("threads",)
    server = "weft zstd; weft_thread_pool off; weft_level zstd=19;"

    def test_pool_off_starts_no_thread(self):
        for size in SIZES:
            self.assert_coded(self.get(f"/{size}.html"), body("text", size))
        self.assertEqual(memory(self.nginx.worker)["Threads"], 1)


class Idle(NginxCase):
    files = FILES
    needs = ("threads",)
    server = "location / { }"

    def test_loaded_and_unused_starts_no_thread(self):
        self.assert_plain(self.get("/5000.html"), body("text", 5000))
        self.assertEqual(memory(self.nginx.worker)["Threads"], 1)


class Default(NginxCase):
    files = FILES
    needs = ("threads",)
    server = "weft zstd; weft_level zstd=19;"

    def test_default_pool_is_used(self):
        self.assert_coded(self.get("/400000.html"), body("text", 400000))
        self.assertGreater(memory(self.nginx.worker)["Threads"], 1)

    def test_no_thread_in_the_master(self):
        self.assertEqual(memory(self.nginx.process.pid)["Threads"], 1)


class Poll(NginxCase):
    """An event method that cannot be woken by a thread: inline, and the log says so once."""

    files = FILES
    needs = ("poll_module",)
    events = "use poll;"
    server = "weft zstd;"

    def test_inline(self):
        for size in SIZES:
            self.assert_coded(self.get(f"/{size}.html"), body("text", size))
        self.assertEqual(memory(self.nginx.worker)["Threads"], 1)


class MemoryLimit(Burst):
    files = {**FILES, "big.html": body("random", 4 * MIB)}
    http = "    weft_max_memory 4m;"
    server = """
        weft zstd; weft_level zstd=3; weft_segment_size 256k;
        location /high/ { alias www/; weft_level zstd=19; }
    """

    def hold(self, uri, count):
        """Slow readers of that path: (those that are sent coded bytes, those that are not)."""
        found = {"zstd": [], None: []}
        for _ in range(count):
            connection = self.connect(receive_buffer=4096)
            self.addCleanup(connection.close)
            connection.send(uri)
            response = connection.head()
            found[response.coding].append((connection, response))
        return found["zstd"], found[None]

    def test_above_the_limit_plain_is_sent(self):
        """Slow readers hold the memory; who comes later gets identity with its own headers."""
        coded, plain = self.hold("/big.html?refused", 12)
        self.assertTrue(coded, "none was coded")
        self.assertTrue(plain, "none was refused")
        whole = body("random", 4 * MIB)
        for connection, response in plain:
            for _ in connection.stream(response):
                pass
            self.assert_plain(response, whole)
            self.assertEqual(response.get("Content-Length"), str(len(whole)))
            self.assertTrue(response.get("ETag").startswith('"'))
            self.assertEqual(response.get("Accept-Ranges"), "bytes")
            self.assert_varies(response)
        self.assertEqual(self.logged("/big.html?refused")[0], "off:memory")
        for connection, response in coded:
            for _ in connection.stream(response):
                pass
            self.assert_coded(response, whole)

    def test_coded_again_when_memory_is_free(self):
        coded, plain = self.hold("/big.html", 12)
        self.assertTrue(plain, "none was refused")
        for connection, _ in coded + plain:
            connection.reset()
        until = time.monotonic() + 5 * slowness()
        while self.get("/big.html").coding != "zstd":
            self.assertLess(time.monotonic(), until, "still refused")
            time.sleep(0.05)
        self.assert_coded(self.get("/big.html"), body("random", 4 * MIB))

    def test_all_that_began_ends_right(self):
        found = self.burst(self.mixed("/high/", 32), None)
        self.assertLessEqual(set(found), {"zstd", None})
        self.assertIn("zstd", found)


class Retention(Burst):
    files = FILES
    policy = "retain_all"
    server = "weft zstd; weft_level zstd=19;"

    @classmethod
    def setUpClass(cls):
        cls.http = f"    weft_retention {cls.policy};"
        super().setUpClass()

    def work(self):
        for _ in range(4 if FULL else 1):
            self.burst(self.mixed("/", 20))
        time.sleep(0.2)
        return memory(self.nginx.worker)["Anonymous"]

    def test_right_and_flat(self):
        first = self.work()
        later = self.work()
        self.assertLess(later - first, memory_bound(16 * MIB))


class RetentionBounded(Retention):
    policy = "bounded 8m"

    def test_bound(self):
        before = memory(self.nginx.worker)["Anonymous"]
        self.assertLess(self.work() - before, memory_bound((8 + 8) * MIB))


class RetentionReleased(Retention):
    policy = "release_all"

    def test_given_back(self):
        before = memory(self.nginx.worker)["Anonymous"]
        grown = self.work() - before
        self.assertLess(grown, memory_bound(6 * MIB), f"{grown / MIB:.1f} MiB are kept")
