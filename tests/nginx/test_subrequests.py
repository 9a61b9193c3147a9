"""Responses made of parts: SSI, addition, sub_filter, auth_request, mirror, internal redirects."""

import time

from harness import coding
from harness.case import NginxCase, body
from harness.nginx import has
from test_choice import path

PART = body("json", 30000)
LONG = body("text", 20000)


def include(uri):
    return b'<!--#include virtual="' + uri.encode() + b'" -->'


class Parts(NginxCase):
    upstream = True
    files = {
        "part.html": PART,
        "small.html": b"<p>small</p>",
        "empty.html": b"",
        "ssi/one.html": b"begin " + include("/part.html") + b" end",
        "ssi/many.html": LONG + b"".join(include(u) for u in ("/part.html", "/small.html", "/empty.html") * 5),
        "ssi/mixed.html": b"a" + include("/up/chunked?n=50000&piece=999") + b"b" + include("/small.html") + b"c",
        "ssi/slow.html": LONG + include("/up/length?n=3000&wait=0.7") + b"end",
        "ssi/nested.html": b"(" + include("/ssi/one.html") + b")",
        "ssi/broken.html": b"x" * 50 + include("/up/cut_length?n=5000&at=100") + b"y" * 50,
        "ssi/missing.html": b"x" * 50 + include("/not-there") + b"y" * 50,
        "ssi/only.html": include("/part.html"),
        "plain.html": LONG,
        "sub.html": b"one THREAD two THREAD three" * 900,
    }
    server = """
        weft zstd;
        proxy_http_version 1.1;
        location /up/ { proxy_pass http://%UP%/; }
        location /ssi/ { ssi on; }
        location /sub-off/ { weft off; alias www/; }
        location = /redirect { rewrite ^ /plain.html last; }
        location = /try { try_files /none /none2 /plain.html; }
        location /index/ { alias www/; index none.html plain.html; }
        location = /post-action { rewrite ^ /plain.html break; post_action /other; }
        location = /mirrored { mirror /other; rewrite ^ /plain.html break; }
        location = /other { internal; proxy_pass http://%UP%/length?n=40000&type=text/html; }
        location = /named { error_page 418 = @other; return 418; }
        location @other { rewrite ^ /plain.html break; }
        location = /if { set $a 1; if ($a) { weft zstd; rewrite ^ /plain.html break; } }
        location = /off-here { weft off; rewrite ^ /plain.html break; }
        location = /on-then-off { rewrite ^ /off-here last; }
    """
    if has("http_sub_module"):
        server += "location = /sub.html { sub_filter THREAD cloth; sub_filter_once off; }\n"
    if has("http_addition_module"):
        server += "location /add/ { alias www/; add_before_body /small.html; add_after_body /part.html; }\n"
    if has("http_auth_request_module"):
        server += "location /auth/ { alias www/; auth_request /other; }\n"

    def test_ssi_is_coded_once(self):
        self.assert_coded(self.get("/ssi/one.html"), b"begin " + PART + b" end")

    def test_ssi_only_an_include(self):
        self.assert_coded(self.get("/ssi/only.html"), PART)

    def test_ssi_many_parts(self):
        self.assert_coded(self.get("/ssi/many.html"), LONG + (PART + b"<p>small</p>") * 5)

    def test_ssi_proxied_parts(self):
        plain = b"a" + body("text", 50000) + b"b<p>small</p>c"
        for _ in range(5):
            self.assert_coded(self.get("/ssi/mixed.html"), plain)

    def test_ssi_nested(self):
        self.assert_coded(self.get("/ssi/nested.html"), b"(begin " + PART + b" end)")

    def test_ssi_part_that_is_missing(self):
        plain = self.get("/ssi/missing.html", None)
        self.assert_coded(self.get("/ssi/missing.html"), plain.body)

    def test_ssi_part_that_is_cut_short(self):
        """As nginx does it without us: the same bytes, and the same ending."""
        plain = self.get("/ssi/broken.html", None)
        coded = self.get("/ssi/broken.html")
        self.assertEqual(coded.complete, plain.complete)
        if plain.complete:
            self.assert_coded(coded, plain.body)
        else:
            self.assertFalse(coding.zstd_is_complete(coded.body))

    def test_ssi_text_before_a_slow_part_is_not_held(self):
        with self.connect() as connection:
            connection.send("/ssi/slow.html")
            begun = time.monotonic()
            response = connection.head()
            stream, plain, early = coding.ZstdStream(), b"", 0
            for piece in connection.stream(response):
                plain += stream.feed(piece)
                if connection.arrived - begun < 0.4:
                    early = len(plain)
            self.assert_same(plain, LONG + body("text", 3000) + b"end")
            self.assertEqual(early, len(LONG))

    def test_sub_filter(self):
        if not has("http_sub_module"):
            self.skipTest("no sub_filter")
        self.assert_coded(self.get("/sub.html"), b"one cloth two cloth three" * 900)

    def test_addition(self):
        if not has("http_addition_module"):
            self.skipTest("no addition")
        self.assert_coded(self.get("/add/plain.html"), b"<p>small</p>" + LONG + PART)

    def test_auth_request(self):
        if not has("http_auth_request_module"):
            self.skipTest("no auth_request")
        self.assert_coded(self.get("/auth/plain.html"), LONG)

    def test_mirror(self):
        self.assert_coded(self.get("/mirrored"), LONG)

    def test_post_action(self):
        """It clears the request's contexts when the response has gone out."""
        with self.connect() as connection:
            for _ in range(5):
                connection.send("/post-action")
                self.assert_coded(connection.read(), LONG)

    def test_internal_redirects(self):
        for uri in ("/redirect", "/try", "/index/", "/named", "/if"):
            with self.subTest(uri=uri):
                self.assert_coded(self.get(uri), LONG)

    def test_the_last_location_decides(self):
        for uri in ("/off-here", "/on-then-off"):
            with self.subTest(uri=uri):
                self.assert_plain(self.get(uri), LONG)


class Gzip(NginxCase):
    """The stock filters beside ours: never coded twice."""

    upstream = True
    files = {"page.html": LONG, "page.txt": LONG, "static.html": LONG, "static.html.gz": b"not really gzip" * 9}
    server = """
        weft zstd;
        gzip on;
        gzip_vary on;
        gzip_types text/plain;
        gzip_min_length 1;
        location /up/ { proxy_pass http://%UP%/; }
        location /gunzip/ { gunzip on; proxy_pass http://%UP%/; }
        location = /static.html { gzip_static on; }
    """

    def one_coding(self, response, coded):
        import zlib

        self.assertEqual(response.all("Content-Encoding"), [coded])
        self.assert_varies(response)
        if coded == "gzip":
            self.assert_same(zlib.decompress(response.body, 31), LONG)
        else:
            self.assert_same(self.decoded(response), LONG)

    def test_client_takes_both(self):
        for ae in ("gzip, zstd", "zstd, gzip", "gzip, deflate, br, zstd"):
            with self.subTest(ae=ae):
                self.one_coding(self.get("/page.html", ae), "zstd")

    def test_client_takes_only_gzip(self):
        self.one_coding(self.get("/page.html", "gzip"), "gzip")
        self.one_coding(self.get("/page.html", "gzip, zstd;q=0"), "gzip")

    def test_types_of_gzip_alone(self):
        self.one_coding(self.get("/page.txt", "gzip, zstd"), "gzip")

    def test_client_takes_only_zstd(self):
        self.one_coding(self.get("/page.html", "zstd"), "zstd")

    def test_proxied(self):
        uri = path("chunked", len(LONG), type="text/html")
        self.one_coding(self.get(uri, "gzip, zstd"), "zstd")
        self.one_coding(self.get(uri, "gzip"), "gzip")

    def test_gzip_static_is_left_alone(self):
        response = self.get("/static.html", "gzip, zstd")
        self.assertEqual(response.all("Content-Encoding"), ["gzip"])
        self.assertEqual(response.body, b"not really gzip" * 9)
        self.one_coding(self.get("/static.html", "zstd"), "zstd")

    def test_gunzip_then_zstd(self):
        if not has("http_gunzip_module"):
            self.skipTest("no gunzip")
        uri = path("gzipped", len(LONG), type="text/html").replace("/up/", "/gunzip/")
        self.one_coding(self.get(uri, "zstd"), "zstd")
        self.one_coding(self.get(uri, "zstd, gzip"), "gzip")
