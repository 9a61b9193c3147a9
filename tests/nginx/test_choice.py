"""Which responses are coded: client, type, status, length, and what is coded already."""

from urllib.parse import quote

from harness.case import NginxCase, body

PAGE = body("text", 3000)


def path(behaviour="length", n=3000, **more):
    """A path of the upstream; `h` is a list of header fields."""
    fields = [f"n={n}"]
    for name, value in more.items():
        for one in value if isinstance(value, list) else [value]:
            fields.append(f"{name}={quote(str(one), safe='')}")
    return f"/up/{behaviour}?" + "&".join(fields)


class Client(NginxCase):
    files = {"page.html": PAGE}
    server = "weft zstd;"

    CODED = [
        "zstd",
        "ZSTD",
        "Zstd",
        "gzip, deflate, br, zstd",
        "gzip,deflate,br,zstd",
        "zstd;q=1",
        "zstd;q=1.000",
        "zstd;q=0.5",
        "zstd;q=0.001",
        "zstd ; q=0.5",
        "zstd\t;\tQ=0.5",
        "gzip;q=1.0, zstd;q=0.5",
        "identity;q=0, zstd;q=0.1",
        "identity;q=0.5, zstd;q=1",
        "*",
        "*;q=0.3",
        "gzip;q=0, *",
        ", ,zstd,,",
        "gzip, zstd;q=0.7, *;q=0",
    ]
    PLAIN = [
        None,
        "",
        "gzip",
        "br, gzip, deflate",
        "identity",
        "zstd;q=0",
        "zstd;q=0.0",
        "zstd;q=0.000",
        "zstd; q=0",
        "zstd;q=0, *",
        "*;q=0",
        "gzip, *;q=0",
        "zstd;q=2",
        "zstd;q=x",
        "zstd;q=-1",
        "zstd;q=0.5555",
        "xzstd",
        "zstdx",
        "zstd2, x-zstd",
        "dcz",
        "identity;q=1, zstd;q=0.5",
    ]

    def test_client_takes_zstd(self):
        for value in self.CODED:
            with self.subTest(value=value):
                self.assert_coded(self.get("/page.html", value), PAGE)

    def test_client_does_not_take_zstd(self):
        for value in self.PLAIN:
            with self.subTest(value=value):
                response = self.get("/page.html", value)
                self.assert_plain(response, PAGE)
                self.assertEqual(response.get("Content-Length"), "3000")
                self.assert_varies(response)

    def test_several_accept_encoding_lines_are_one_list(self):
        for values in (["gzip", "zstd"], ["zstd", "gzip"], ["gzip", "br", "deflate, zstd;q=0.4"]):
            with self.subTest(values=values):
                self.assert_coded(self.get("/page.html", values), PAGE)
        for values in (["gzip", "br"], ["*", "zstd;q=0"], ["zstd;q=0", "*"]):
            with self.subTest(values=values):
                self.assert_plain(self.get("/page.html", values), PAGE)

    def test_http_1_0_is_coded_and_ended_by_close(self):
        response = self.get("/page.html", version="1.0")
        self.assertNotIn("Transfer-Encoding", response)
        self.assert_coded(response, PAGE)

    def test_http_1_0_keep_alive_is_not_kept(self):
        """Without a length, only the end of the connection can end the body."""
        response = self.get("/page.html", version="1.0", headers=[("Connection", "keep-alive")])
        self.assert_coded(response, PAGE)

    def test_via(self):
        self.assert_coded(self.get("/page.html", headers=[("Via", "1.1 proxy")]), PAGE)

    def test_long_list(self):
        value = ", ".join(f"x{number};q=0.5" for number in range(400)) + ", zstd"
        self.assert_coded(self.get("/page.html", value), PAGE)


class Length(NginxCase):
    sizes = (0, 1, 19, 20, 21, 999, 1000)
    files = {f"{size}.html": body("text", size) for size in sizes}
    upstream = True
    server = """
        weft zstd;
        location /thousand/ { alias www/; weft_min_length 1000; }
        location /zero/ { alias www/; weft_min_length 0; }
        location /up/ { proxy_pass http://%UP%/; proxy_http_version 1.1; }
    """

    def check(self, prefix, least):
        for size in self.sizes:
            with self.subTest(size=size):
                response = self.get(f"{prefix}{size}.html")
                if size >= least and size > 0:
                    self.assert_coded(response, body("text", size))
                elif size > 0:
                    self.assert_plain(response, body("text", size))
                    self.assertEqual(response.get("Content-Length"), str(size))

    def test_shorter_than_twenty(self):
        self.check("/", 20)

    def test_min_length(self):
        self.check("/thousand/", 1000)

    def test_min_length_zero(self):
        self.check("/zero/", 0)

    def test_unknown_length_is_coded(self):
        for size in (1, 5, 19, 30):
            with self.subTest(size=size):
                response = self.get(path("chunked", size, type="text/html"))
                self.assert_coded(response, body("text", size))

    def test_upstream_length(self):
        self.assert_plain(self.get(path("length", 19, type="text/html")), body("text", 19))
        self.assert_coded(self.get(path("length", 20, type="text/html")), body("text", 20))


class Type(NginxCase):
    upstream = True
    files = {"style.css": PAGE, "unknown": PAGE}
    server = """
        weft zstd;
        location /up/ { proxy_pass http://%UP%/; proxy_http_version 1.1; }
        location /list/ { weft_types application/json text/css; proxy_pass http://%UP%/; }
        location /all/ { weft_types *; proxy_pass http://%UP%/; }
        location /files/ { alias www/; types { text/css css; } weft_types text/css; charset utf-8;
                           charset_types text/css; }
    """

    def one(self, prefix, kind, coded):
        with self.subTest(prefix=prefix, type=kind):
            response = self.get(path(type=kind).replace("/up/", prefix))
            (self.assert_coded if coded else self.assert_plain)(response, PAGE)

    def test_html_always(self):
        for prefix in ("/up/", "/list/", "/all/"):
            for kind in ("text/html", "TEXT/HTML", "text/html; charset=utf-8", "text/html;charset=ISO-8859-1"):
                self.one(prefix, kind, True)

    def test_listed(self):
        for kind in ("application/json", "Application/JSON", "application/json; charset=utf-8", "text/css"):
            self.one("/list/", kind, True)
            self.one("/up/", kind, False)
            self.one("/all/", kind, True)

    def test_not_listed(self):
        for kind in ("text/plain", "application/jsonp", "application/jso", "image/png"):
            self.one("/list/", kind, False)
            self.one("/all/", kind, True)

    def test_grpc_never(self):
        for kind in ("application/grpc", "application/grpc+proto", "application/grpc; x=1"):
            self.one("/all/", kind, False)

    def test_no_type(self):
        self.one("/up/", "", False)

    def test_type_and_charset_stay(self):
        response = self.get("/files/style.css")
        self.assert_coded(response, PAGE)
        self.assertEqual(response.get("Content-Type"), "text/css; charset=utf-8")

    def test_other_types_do_not_vary(self):
        self.assertNotIn("Vary", self.get(path(type="image/png")))


class Status(NginxCase):
    upstream = True
    files = {"gone.html": PAGE}
    server = """
        weft zstd;
        location /up/ { proxy_pass http://%UP%/; proxy_http_version 1.1; }
        location /missing/ { root empty; error_page 404 /gone.html; }
        location /forbidden/ { deny all; error_page 403 /gone.html; }
        location /teapot/ { return 418 "0123456789012345678901234567890123456789"; default_type text/html; }
        location /inline/ { return 200 "0123456789012345678901234567890123456789"; default_type text/html; }
    """

    def test_coded(self):
        for status in (200, 403, 404):
            with self.subTest(status=status):
                response = self.get(path(status=status, type="text/html"))
                self.assert_coded(response, PAGE, status)

    def test_not_coded(self):
        for status in (201, 202, 203, 300, 301, 302, 400, 401, 410, 429, 500, 502, 503):
            with self.subTest(status=status):
                self.assert_plain(self.get(path(status=status, type="text/html")), PAGE, status)

    def test_bodyless(self):
        for status in (204, 304):
            for behaviour in ("no_body",):
                with self.subTest(status=status):
                    response = self.get(path(behaviour, 0, status=status, type="text/html", h='ETag:"a"'))
                    self.assert_plain(response, b"", status)

    def test_partial(self):
        """A range that the upstream made is a range of the plain bytes."""
        for status in (200, 206):
            with self.subTest(status=status):
                response = self.get(path(status=status, type="text/html", h="Content-Range:bytes 0-2999/9000"))
                self.assert_plain(response, PAGE, status)
                self.assertEqual(response.get("Content-Range"), "bytes 0-2999/9000")

    def test_error_page(self):
        self.assert_coded(self.get("/missing/x"), PAGE, 404)
        self.assert_coded(self.get("/forbidden/x"), PAGE, 403)

    def test_built_in_error_page(self):
        response = self.get("/nothing-here.html")
        plain = self.get("/nothing-here.html", None)
        self.assert_coded(response, plain.body, 404)

    def test_return(self):
        self.assert_coded(self.get("/inline/"), b"0123456789" * 4)
        self.assert_plain(self.get("/teapot/"), b"0123456789" * 4, 418)


class Already(NginxCase):
    """What an upstream forbids or has coded itself."""

    upstream = True
    server = """
        weft zstd;
        location /up/ { proxy_pass http://%UP%/; proxy_http_version 1.1; }
    """

    def test_content_encoding_already_there(self):
        for value in ("gzip", "br", "zstd", "deflate", "x-own"):
            with self.subTest(value=value):
                response = self.get(path(type="text/html", h=f"Content-Encoding:{value}"))
                self.assertEqual(response.all("Content-Encoding"), [value])
                self.assertEqual(response.get("Content-Length"), "3000")
                self.assert_same(response.body, PAGE)

    def test_identity_is_no_coding(self):
        self.assert_coded(self.get(path(type="text/html", h="Content-Encoding:identity")), PAGE)

    def test_no_transform(self):
        for value in ("no-transform", "public, no-transform", "No-Transform", "max-age=9,no-transform, public"):
            with self.subTest(value=value):
                response = self.get(path(type="text/html", h=f"Cache-Control:{value}"))
                self.assert_plain(response, PAGE)
                self.assertEqual(response.get("Content-Length"), "3000")

    def test_no_transform_in_a_second_line(self):
        fields = ["Cache-Control:max-age=60", "Cache-Control:no-transform"]
        self.assert_plain(self.get(path(type="text/html", h=fields)), PAGE)

    def test_other_cache_control(self):
        for value in ("public, max-age=60", "x-no-transform", "no-transformer", "no-store"):
            with self.subTest(value=value):
                response = self.get(path(type="text/html", h=f"Cache-Control:{value}"))
                self.assert_coded(response, PAGE)
                self.assertEqual(response.get("Cache-Control"), value)
