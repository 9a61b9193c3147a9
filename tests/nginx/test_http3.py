"""HTTP/3, on an nginx that has it and with the client aioquic: bodies, headers, cuts, resets."""

import asyncio
import itertools
import unittest

from harness import coding, http3
from harness.case import NginxCase, body
from harness.nginx import has, slowness
from test_choice import path

CODINGS = ("zstd", "br", "gzip")
SIZES = (20, 4096, 65537, 400000)
POOLS = ("pool", "inline") if has("threads") else ("inline",)


@unittest.skipUnless(http3.connect, "aioquic is not installed")
class Http3(NginxCase):
    needs = ("http_v3_module", "http_ssl_module")
    tls = quic = True
    upstream = True
    files = {f"{size}.html": body("text", size) for size in SIZES}
    server = """
        weft zstd br gzip;
        proxy_http_version 1.1;
        location /pool/ { alias www/; }
        location /inline/ { alias www/; weft_thread_pool off; }
        location /high/ { alias www/; weft_level zstd=19 br=9; }
        location /up/ { proxy_pass http://%UP%/; }
        location /direct/ { proxy_buffering off; proxy_pass http://%UP%/; }
    """

    def ask(self, requests):
        return http3.get_all(self.nginx.ports[1], requests, 30 * slowness())

    def one(self, uri, ae, method="GET", headers=()):
        return self.ask([(uri, ae, method, headers)])[0]

    def test_every_size_over_each_coding_and_pool(self):
        for name, pool in itertools.product(CODINGS, POOLS):
            with self.subTest(coding=name, pool=pool):
                self.coding = name
                found = self.ask([(f"/{pool}/{size}.html", name) for size in SIZES])
                for size, response in zip(SIZES, found):
                    self.assert_coded(response, body("text", size))

    def test_many_at_once(self):
        wanted = [(SIZES[n % 4], CODINGS[n % 3]) for n in range(60)]
        found = self.ask([(f"/pool/{size}.html", name) for size, name in wanted])
        for (size, name), response in zip(wanted, found):
            self.coding = name
            self.assert_coded(response, body("text", size))

    def test_identity_and_its_range(self):
        response = self.one("/pool/4096.html", None)
        self.assert_plain(response, body("text", 4096))
        self.assert_varies(response)
        response = self.one("/pool/4096.html", None, headers=[("Range", "bytes=5-9")])
        self.assert_plain(response, body("text", 4096)[5:10], 206)

    def test_head_and_304(self):
        for name in CODINGS:
            with self.subTest(coding=name):
                response = self.one("/pool/65537.html", name, "HEAD")
                self.assertEqual((response.status, response.coding, response.body), (200, name, b""))
                etag = response.get("ETag")
                response = self.one("/pool/65537.html", name, headers=[("If-None-Match", etag)])
                self.assertEqual((response.status, response.get("ETag"), response.body), (304, etag, b""))
                self.assert_varies(response)

    def test_upstreams(self):
        for name in CODINGS:
            with self.subTest(coding=name):
                self.coding = name
                for way in ("up", "direct"):
                    for behaviour in ("length", "chunked", "until_close"):
                        uri = path(behaviour, 300000, type="text/html").replace("/up/", f"/{way}/")
                        self.assert_coded(self.one(uri, name), body("text", 300000))

    def test_a_source_that_ends_early_gives_no_valid_end(self):
        for name in CODINGS:
            with self.subTest(coding=name):
                for behaviour in ("cut_length", "cut_chunked"):
                    response = self.one(path(behaviour, 500000, type="text/html", at=200000, hold=0.02), name)
                    self.assertFalse(response.complete)
                    self.assertFalse(coding.is_complete(name, response.body))

    def test_streams_that_are_given_up_leave_the_others_right(self):
        async def play(client):
            kept, doomed = [], []
            for number in range(12):
                doomed.append(client.begin("/high/400000.html", CODINGS[number % 3]))
                kept.append(client.begin("/high/65537.html", "zstd"))
                client.cancel(doomed[-1])
            await asyncio.gather(*(client.waiting[number] for number in kept))
            return [client.responses[number] for number in kept]

        for response in http3.run(self.nginx.ports[1], play, 30 * slowness()):
            self.assert_coded(response, body("text", 65537))
