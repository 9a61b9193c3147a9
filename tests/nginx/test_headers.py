"""What coding does to the headers: Vary, ETag, ranges, 304, HEAD."""

from harness import http1
from harness.case import NginxCase, body
from test_choice import path

PAGE = body("text", 50000)


class Static(NginxCase):
    files = {"page.html": PAGE, "data.bin": PAGE, "tiny.html": b"<p>"}
    server = """
        weft zstd;
        add_header X-Own kept;
        location /vary/ { alias www/; add_header Vary Cookie; }
        location /vary-twice/ { alias www/; add_header Vary Cookie; add_header Vary Accept-Language; }
        location /vary-has/ { alias www/; add_header Vary "cookie, accept-encoding"; }
        location /vary-star/ { alias www/; add_header Vary *; }
        location /gzip-vary/ { alias www/; gzip_vary on; gzip on; }
        location /no-etag/ { alias www/; etag off; }
        location /trailer/ { alias www/; add_trailer X-Trailer kept; }
    """

    def tokens(self, response):
        return [part.strip().lower() for value in response.all("Vary") for part in value.split(",")]

    def test_vary_coded_or_not(self):
        self.assert_varies(self.get("/page.html"))
        self.assert_varies(self.get("/page.html", None))
        self.assert_varies(self.get("/page.html", "gzip"))

    def test_vary_only_where_coding_was_possible(self):
        self.assertNotIn("Vary", self.get("/data.bin"))
        self.assertNotIn("Vary", self.get("/tiny.html"))

    def test_vary_merged_once(self):
        for ae in ("zstd", None):
            with self.subTest(ae=ae):
                self.assertEqual(sorted(self.tokens(self.get("/vary/page.html", ae))), ["accept-encoding", "cookie"])
                found = sorted(self.tokens(self.get("/vary-twice/page.html", ae)))
                self.assertEqual(found, ["accept-encoding", "accept-language", "cookie"])
                found = sorted(self.tokens(self.get("/vary-has/page.html", ae)))
                self.assertEqual(found, ["accept-encoding", "cookie"])

    def test_vary_star_stays(self):
        for ae in ("zstd", None):
            self.assertEqual(self.tokens(self.get("/vary-star/page.html", ae)), ["*"])

    def test_vary_once_beside_gzip_vary(self):
        for ae in ("zstd", "gzip", "zstd, gzip", None):
            with self.subTest(ae=ae):
                self.assert_varies(self.get("/gzip-vary/page.html", ae))

    def test_etag_is_weak_only_when_coded(self):
        plain = self.get("/page.html", None).get("ETag")
        self.assertRegex(plain, r'^"[0-9a-f-]+"$')
        self.assertEqual(self.get("/page.html").get("ETag"), "W/" + plain)

    def test_etag_off(self):
        self.assertNotIn("ETag", self.get("/no-etag/page.html"))

    def test_trailer(self):
        response = self.get("/trailer/page.html")
        self.assertEqual(response.trailers, ["X-Trailer: kept"])
        self.assert_coded(response, PAGE)

    def test_last_modified_stays(self):
        plain, coded = self.get("/page.html", None), self.get("/page.html")
        self.assertEqual(coded.get("Last-Modified"), plain.get("Last-Modified"))

    def test_other_headers_stay(self):
        self.assertEqual(self.get("/page.html").get("X-Own"), "kept")

    def test_length_and_ranges_gone(self):
        plain = self.get("/page.html", None)
        self.assertEqual(plain.get("Content-Length"), str(len(PAGE)))
        self.assertEqual(plain.get("Accept-Ranges"), "bytes")
        self.assert_coded(self.get("/page.html"), PAGE)

    def test_range_on_coded_is_ignored(self):
        for value in ("bytes=0-9", "bytes=-5", "bytes=100-", "bytes=0-1,5-9", "bytes=999999-"):
            with self.subTest(value=value):
                self.assert_coded(self.get("/page.html", headers=[("Range", value)]), PAGE)

    def test_range_on_plain_is_served(self):
        response = self.get("/page.html", None, headers=[("Range", "bytes=10-29")])
        self.assert_plain(response, PAGE[10:30], 206)
        self.assertEqual(response.get("Content-Range"), f"bytes 10-29/{len(PAGE)}")

    def test_if_range_with_the_weak_etag(self):
        etag = self.get("/page.html").get("ETag")
        response = self.get("/page.html", headers=[("Range", "bytes=0-9"), ("If-Range", etag)])
        self.assert_coded(response, PAGE)

    def test_not_modified_by_etag(self):
        coded, plain = self.get("/page.html").get("ETag"), self.get("/page.html", None).get("ETag")
        for etag in (coded, plain, f'"x", {coded}', "*"):
            for ae in ("zstd", None):
                with self.subTest(etag=etag, ae=ae):
                    response = self.get("/page.html", ae, headers=[("If-None-Match", etag)])
                    self.assert_plain(response, b"", 304)
        self.assert_coded(self.get("/page.html", headers=[("If-None-Match", '"other"')]), PAGE)

    def test_304_has_the_vary_and_etag_of_the_200(self):
        """RFC 9110, section 15.4.5."""
        for ae in ("zstd", None):
            with self.subTest(ae=ae):
                etag = self.get("/page.html", ae).get("ETag")
                response = self.get("/page.html", ae, headers=[("If-None-Match", etag)])
                self.assertEqual((response.status, response.get("ETag")), (304, etag))
                self.assert_varies(response)

    def test_not_modified_by_date(self):
        date = self.get("/page.html").get("Last-Modified")
        response = self.get("/page.html", headers=[("If-Modified-Since", date)])
        self.assert_plain(response, b"", 304)

    def heads(self, uri, ae):
        """The headers of GET and of HEAD that have to be equal."""
        found = []
        for method in ("GET", "HEAD"):
            response = self.get(uri, ae, method=method)
            self.assertEqual(response.status, 200)
            drop = ("date", "transfer-encoding") if ae else ("date",)
            found.append(sorted(pair for pair in response.pairs if pair[0].lower() not in drop))
        return found

    def test_head_has_the_headers_of_get(self):
        for uri in ("/page.html", "/vary/page.html", "/data.bin", "/tiny.html", "/no-etag/page.html"):
            for ae in ("zstd", None):
                with self.subTest(uri=uri, ae=ae):
                    get, head = self.heads(uri, ae)
                    self.assertEqual(get, head)

    def test_head_has_no_body_and_keeps_the_connection(self):
        with self.connect() as connection:
            for _ in range(3):
                connection.send("/page.html", method="HEAD")
                response = connection.read("HEAD")
                self.assertEqual(response.get("Content-Encoding"), "zstd")
                self.assertNotIn("Content-Length", response)
            # A body of the HEAD would now be read as the head of this.
            connection.send("/page.html")
            self.assert_coded(connection.read(), PAGE)


class Proxied(NginxCase):
    upstream = True
    server = """
        weft zstd;
        location /up/ { proxy_pass http://%UP%/; proxy_http_version 1.1; }
        location /cache/ { proxy_cache c; proxy_cache_valid any 1m; proxy_pass http://%UP%/;
                           add_header X-Cache $upstream_cache_status; }
        location /etag/ { proxy_pass http://%UP%/; etag off; }
    """
    http = "    proxy_cache_path tmp/cache keys_zone=c:1m;"

    def one(self, fields, ae="zstd", behaviour="length", **more):
        return self.get(path(behaviour, len(PAGE), type="text/html", h=fields), ae, **more)

    def test_etags(self):
        for sent, coded in (
            ('"abc"', 'W/"abc"'),
            ('W/"abc"', 'W/"abc"'),
            ('""', 'W/""'),
            ("abc", None),
            ('"abc', None),
            ("'abc'", None),
        ):
            with self.subTest(sent=sent):
                response = self.one([f"ETag:{sent}"])
                self.assertEqual(response.get("ETag"), coded)
                self.assertEqual(self.decoded(response), PAGE)
                self.assertEqual(self.one([f"ETag:{sent}"], None).get("ETag"), sent)

    def test_vary_merged_with_the_upstreams(self):
        for sent in (["Vary:Cookie"], ["Vary:Accept-Encoding"], ["Vary:Cookie, ACCEPT-ENCODING"], []):
            for ae in ("zstd", None):
                with self.subTest(sent=sent, ae=ae):
                    self.assert_varies(self.one(sent, ae))

    def test_set_cookie_lines_stay_apart(self):
        response = self.one(["Set-Cookie:a=1", "Set-Cookie:b=2", "Set-Cookie:c=3"])
        self.assertEqual(response.all("Set-Cookie"), ["a=1", "b=2", "c=3"])
        self.assert_coded(response, PAGE)

    def test_head(self):
        response = self.one(['ETag:"x"'], method="HEAD")
        self.assertEqual(response.get("Content-Encoding"), "zstd")
        self.assertEqual(response.get("ETag"), 'W/"x"')
        self.assertNotIn("Content-Length", response)
        self.assert_varies(response)

    def test_accept_ranges_of_upstream_gone(self):
        self.assert_coded(self.one(["Accept-Ranges:bytes"]), PAGE)

    def test_upstream_range_ignored_when_coded(self):
        response = self.one(["Accept-Ranges:bytes"], headers=[("Range", "bytes=0-5")])
        self.assert_coded(response, PAGE)

    def test_digest_and_md5_are_the_upstreams(self):
        """Not a rule yet: but whatever is done, the body has to be right."""
        self.assert_coded(self.one(["Content-MD5:Q2hlY2sgSW50ZWdyaXR5IQ=="]), PAGE)

    def test_one_cached_body_serves_all_clients(self):
        uri = path("length", len(PAGE), type="text/html", h='ETag:"e"').replace("/up/", "/cache/")
        for count, (ae, cache) in enumerate(((None, "MISS"), ("zstd", "HIT"), ("gzip", "HIT"), ("zstd", "HIT"))):
            with self.subTest(count=count):
                response = self.get(uri, ae)
                self.assertEqual(response.get("X-Cache"), cache)
                (self.assert_coded if ae == "zstd" else self.assert_plain)(response, PAGE)

    def test_304_from_cache(self):
        uri = path("length", len(PAGE), type="text/html", h='ETag:"e2"').replace("/up/", "/cache/")
        etag = self.get(uri).get("ETag")
        self.assertEqual(self.get(uri, headers=[("If-None-Match", etag)]).status, 304)

    def test_headers_without_body_leave_first(self):
        """Headers of a stream leave at once, before the first byte of the body."""
        uri = path("chunked", 3000, type="text/html", wait_body=1.2, h="X-Accel-Buffering:no")
        with self.connect() as connection:
            connection.send(uri)
            response = connection.head()
            at = connection.arrived
            for _ in connection.stream(response):
                pass
            self.assertGreater(response.pieces[0][0] - at, 0.4)
            self.assert_coded(response, body("text", 3000))


class Off(NginxCase):
    """The module is there and says nothing."""

    upstream = True
    files = {"page.html": PAGE}
    server = """
        location /up/ { proxy_pass http://%UP%/; }
        location /off/ { weft off; alias www/; }
    """

    def test_nothing_changes(self):
        for uri in ("/page.html", "/off/page.html", path("length", len(PAGE), type="text/html")):
            with self.subTest(uri=uri):
                response = self.get(uri)
                self.assert_plain(response, PAGE)
                self.assertNotIn("Vary", response)
                self.assertEqual(response.get("Content-Length"), str(len(PAGE)))

    def test_range(self):
        response = self.get("/page.html", headers=[("Range", "bytes=0-9")])
        self.assert_plain(response, PAGE[:10], 206)
        self.assertIsInstance(response, http1.Response)
