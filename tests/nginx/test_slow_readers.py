"""Clients that stop reading: the source is held back, and memory is bounded whatever the body's length."""

import itertools
import time
import uuid

from harness import http1, http2
from harness.case import NginxCase, body
from harness.nginx import has, is_quiet, memory, memory_bound, slowness
from test_choice import path

MIB = 1 << 20
CODINGS = ("zstd", "br", "gzip")
POOLS = ("pool", "inline") if has("threads") else ("inline",)
# It does not get smaller, so as much is to be sent as is read.
LENGTH = 40 * MIB
PLAIN = body("random", LENGTH)
# Of one response, beyond what nginx itself holds for it.
EACH = 6 * MIB
# What the kernel takes on loopback for nginx, and its client, before anyone has to read.
KERNEL = 20 * MIB


def locations():
    for name, pool in itertools.product(CODINGS, POOLS):
        off = "weft_thread_pool off;" if pool == "inline" else ""
        set_up = f"weft {name}; weft_level zstd=1 br=1 gzip=1; {off}"
        yield f"""
        location /{name}/{pool}/ {{ {set_up} alias www/; }}
        location /{name}/{pool}/buffered/ {{ {set_up} proxy_max_temp_file_size 0; proxy_pass http://%UP%/; }}
        location /{name}/{pool}/unbuffered/ {{ {set_up} proxy_buffering off; proxy_pass http://%UP%/; }}
        """


class SlowReaders(NginxCase):
    needs = ("http_v2_module", "http_ssl_module")
    tls = True
    upstream = True
    files = {"large.html": PLAIN}
    # What is kept for later is not what a reader costs.
    http = "    weft_retention release_all;"
    server = "proxy_http_version 1.1; send_timeout 600s; proxy_read_timeout 600s;\n" + "".join(locations())

    def each(self, ways, test):
        """Runs a part of a test for each coding, pool, way and protocol."""
        for self.coding, pool, way, protocol in itertools.product(CODINGS, POOLS, ways, ("h1", "h2")):
            with self.subTest(coding=self.coding, pool=pool, way=way, protocol=protocol):
                key = uuid.uuid4().hex
                uri = f"/{self.coding}/{pool}/large.html"
                if way != "file":
                    uri = path("length", LENGTH, kind="random", type="text/html", key=key)
                    uri = uri.replace("/up/", f"/{self.coding}/{pool}/{way}/")
                test(uri, protocol, key)

    def sent(self, key):
        return int(http1.get(self.site.upstream.port, f"/sent?key={key}", None).body)

    def settled(self):
        """No task runs and nothing is sent any more."""
        self.assertTrue(is_quiet(self.nginx.worker, tries=20), "the worker works on")

    def start(self, protocol, uri, count):
        """So many readers that have read little: [(read all, the coded body)], and one that ends them all."""
        if protocol == "h1":
            readers = []
            for _ in range(count):
                reader = self.connect(receive_buffer=4096)
                self.addCleanup(reader.close)
                reader.send(uri, self.coding)
                readers.append(reader)
            return lambda: readers[0].read(), lambda: [reader.reset() for reader in readers]
        connection = http2.Connection(self.nginx.ports[1], 1000, 20 * slowness())
        self.addCleanup(connection.close)
        streams = [connection.request(uri, self.coding) for _ in range(count)]
        while not all(stream.pieces for stream in streams):
            self.assertTrue(connection.step())

        def read():
            for other in streams[1:]:
                connection.cancel(other)
            connection.greedy = True
            connection.grant(streams[0], 64 * MIB)
            connection.finish(streams[:1])
            response = http1.Response(200, "HTTP/2", [])
            response.pieces, response.complete = streams[0].pieces, streams[0].ended
            return response

        return read, connection.close

    def test_source_is_held_back_and_all_arrives_right(self):
        def one(uri, protocol, key):
            read, end = self.start(protocol, uri, 1)
            self.settled()
            held = self.sent(key)
            self.assertLess(held, KERNEL, f"{held / MIB:.1f} of {LENGTH / MIB:.0f} MiB were taken")
            response = read()
            self.assertTrue(response.complete)
            self.assert_same(self.decoded(response), PLAIN)
            self.assertEqual(self.sent(key), LENGTH)
            end()

        self.each(("buffered", "unbuffered"), one)

    def test_memory_of_ten_readers_is_bounded(self):
        def one(uri, protocol, _):
            self.at_rest()
            before = memory(self.nginx.worker)["Anonymous"]
            _, end = self.start(protocol, uri, 10)
            self.settled()
            grown = memory(self.nginx.worker)["Anonymous"] - before
            end()
            self.assertLess(grown, memory_bound(10 * EACH), f"{grown / MIB:.1f} MiB for ten")

        self.each(("file", "buffered", "unbuffered"), one)

    def at_rest(self):
        """What the case before held is gone."""
        until = time.monotonic() + 10 * slowness()
        size = None
        while time.monotonic() < until and size != (size := memory(self.nginx.worker)["Anonymous"]):
            time.sleep(0.2)
