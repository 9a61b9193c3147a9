"""Event streams: each event can be read when it was sent, and nothing waits for more."""

import threading
import time

from harness import coding
from harness.case import NginxCase, body
from harness.nginx import cpu_seconds, slowness
from test_choice import path

LIMIT = 0.05


class Events(NginxCase):
    upstream = True
    server = """
        weft zstd;
        weft_types text/event-stream text/plain;
        proxy_http_version 1.1;
        location /up/ { proxy_buffering off; proxy_pass http://%UP%/; }
        location /inline/ { proxy_buffering off; weft_thread_pool off; proxy_pass http://%UP%/; }
        location /buffered/ { proxy_pass http://%UP%/; }
        location /high/ { proxy_buffering off; weft_level zstd=19; proxy_pass http://%UP%/; }
    """

    def take(self, uri, size=300):
        """(delay of each event, whether the frame was ended) as an incremental decoder sees it."""
        delays, plain, stream = [], b"", coding.ZstdStream()
        with self.connect() as connection:
            connection.send(uri)
            response = connection.head()
            self.assertEqual(response.coding, "zstd")
            for piece in connection.stream(response):
                plain += stream.feed(piece)
                while len(plain) >= size:
                    one, plain = plain[:size], plain[size:]
                    word, number, sent = one.split(b" ")[:3]
                    self.assertEqual((word, int(number)), (b"data:", len(delays)))
                    self.assertTrue(one.endswith(b"\n\n"))
                    delays.append(connection.arrived - float(sent))
        self.assertEqual(plain, b"")
        self.assertTrue(response.complete, response.error)
        return delays, stream.ended

    def in_time(self, uri, count=20, size=300):
        # A busy machine delays anyone at times: of three tries, one has to be clean.
        for _ in range(3):
            delays, ended = self.take(uri, size)
            self.assertEqual(len(delays), count)
            self.assertTrue(ended)
            if max(delays) < LIMIT * slowness():
                return
        self.fail(f"an event took {max(delays) * 1000:.0f} ms")

    def test_each_event_at_once(self):
        for prefix in ("/up/", "/inline/", "/high/"):
            with self.subTest(prefix=prefix):
                self.in_time(path("events", 0, size=300, pause=0.03).replace("/up/", prefix))

    def test_events_of_many_sizes(self):
        for size in (30, 1000, 20000, 150000):
            with self.subTest(size=size):
                self.in_time(path("events", 0, size=size, count=8, pause=0.05), 8, size)

    def test_unbuffered_by_x_accel_buffering(self):
        uri = path("events", 0, pause=0.03, h="X-Accel-Buffering:no").replace("/up/", "/buffered/")
        self.in_time(uri)

    def test_twenty_streams_at_once(self):
        found, faults = [], []

        def one():
            try:
                found.append(max(self.take(path("events", 0, pause=0.1))[0]))
            except Exception as error:
                faults.append(repr(error))

        threads = [threading.Thread(target=one) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])
        self.assertEqual(len(found), 20)
        # Twenty Python threads share one lock: a bound against waiting for more, not for speed.
        self.assertLess(sorted(found)[10], 0.1 * slowness())

    def test_nothing_is_sent_while_idle(self):
        """A flush with nothing new must not make bytes, nor the loop spin."""
        with self.connect() as connection:
            connection.send(path("events", 0, count=1, stay=1.2))
            response = connection.head()
            begun, cpu = time.monotonic(), cpu_seconds(self.nginx.worker)
            late = []
            for piece in connection.stream(response):
                late.append((connection.arrived - begun, len(piece)))
            self.assertLess(cpu_seconds(self.nginx.worker) - cpu, 0.3)
            quiet = [size for at, size in late if 0.3 < at < 1.0]
            self.assertEqual(quiet, [], late)

    def test_decodes_after_every_flush_with_the_tool(self):
        """`zstd -dc` of the prefix gives just what was flushed, then says that more is missing."""
        import subprocess

        with self.connect() as connection:
            connection.send(path("events", 0, count=5, pause=0.2))
            response = connection.head()
            for piece in connection.stream(response):
                done = subprocess.run(["zstd", "-dcq"], input=response.body, capture_output=True)
                if len(done.stdout) < 1500:
                    self.assertNotEqual(done.returncode, 0)
                self.assertEqual(len(done.stdout) % 300, 0)
            self.assertEqual(len(done.stdout), 1500)

    def test_client_leaves_in_the_middle(self):
        for seen in (0, 1, 5):
            with self.connect() as connection:
                connection.send(path("events", 0, pause=0.02))
                response = connection.head()
                stream = connection.stream(response)
                for _ in range(seen):
                    next(stream)
                connection.reset()
        self.in_time(path("events", 0, count=3), 3)

    def test_small_buffers_that_come_together_are_gathered(self):
        """nginx reads 4 KB and parses 40 chunks of 100 bytes in them: that is one piece, not 40."""
        plain = body("text", 100000)
        blocks = []
        # How much comes together is the machine's doing too: on a busy one nginx may get to read
        # each chunk by itself. Once in five times it does not.
        while not blocks or (min(blocks) >= 250 and len(blocks) < 5):
            response = self.get(path("chunked", len(plain), piece=100, wait_body=0.1))
            self.assert_coded(response, plain)
            blocks.append(coding.zstd_blocks(response.body))
        self.assertLess(min(blocks), 250)
