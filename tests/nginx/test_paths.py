"""Each way by which nginx makes a response, over all codings: gateways, caches, parts, redirects."""

import functools
import itertools
import time

from harness import coding, http2
from harness.case import NginxCase, body
from harness.gateways import Gateways
from harness.nginx import has
from test_choice import path

CODINGS = ("zstd", "br", "gzip")
PAGE = body("text", 40000)
SMALL = b"<p>small</p>" * 4


def each_coding(test):
    """Runs a test for each coding, which it finds in self.coding."""

    @functools.wraps(test)
    def run(self):
        for name in CODINGS:
            with self.subTest(coding=name):
                self.coding = name
                test(self)

    return run


class CodingsCase(NginxCase):
    upstream = True

    def right(self, uri, plain, status=200, **more):
        """Coded right, and the plain response has the same body."""
        self.assert_coded(self.get(uri, self.coding, **more), plain, status)
        self.assert_plain(self.get(uri, None, **more), plain, status)


class OtherProtocols(CodingsCase):
    """FastCGI, uwsgi, SCGI and gRPC."""

    names = ("fastcgi", "uwsgi", "scgi")
    needs = ("http_v2_module", "http_ssl_module")
    tls = True

    @classmethod
    def setUpClass(cls):
        cls.gateways = Gateways()
        cls.addClassCleanup(cls.gateways.stop)
        server = "weft zstd br gzip; weft_types *;"
        for name in cls.names:
            start = "uwsgi://" if name == "uwsgi" else ""
            to = f"{name}_pass {start}127.0.0.1:{cls.gateways.ports[name]}; {name}_param QUERY_STRING $query_string;"
            for way, more in (("buffered", ""), ("direct", f"{name}_buffering off;"), ("inline", "weft_thread_pool off;")):
                server += f"\nlocation /{name}/{way} {{ {to} {more} }}"
        server += f"\nlocation /grpc/ {{ grpc_pass grpc://127.0.0.1:{cls.gateways.ports['grpc']}; }}"
        cls.server = server
        super().setUpClass()

    def ways(self):
        return itertools.product(self.names, ("buffered", "direct", "inline"))

    @each_coding
    def test_whole_bodies(self):
        for name, way in self.ways():
            for size, piece in ((30, 7), (5000, 999), (400000, 16384)):
                self.right(f"/{name}/{way}?n={size}&piece={piece}", body("text", size))

    @each_coding
    def test_cut_bodies_stay_cut(self):
        for name, way in self.ways():
            with self.subTest(protocol=name, way=way):
                response = self.get(f"/{name}/{way}?n=400000&cut=200000", self.coding)
                self.assertEqual(response.coding, self.coding)
                self.assertFalse(coding.is_complete(self.coding, response.body))
                self.assertFalse(response.complete)
                # What came before is passed on, as without us.
                self.assert_same(coding.stream(self.coding).feed(response.body), body("text", 400000)[:200000])

    @each_coding
    def test_cut_bodies_stay_cut_over_http_2(self):
        for name, way in self.ways():
            with self.subTest(protocol=name, way=way):
                uri = f"/{name}/{way}?n=400000&cut=200000"
                code, response = http2.curl(self.nginx.ports[1], uri, self.coding)
                self.assertNotEqual(code, 0)
                self.assertEqual(response.coding, self.coding)
                self.assertFalse(coding.is_complete(self.coding, response.body))

    @each_coding
    def test_grpc_is_never_coded(self):
        response = self.get("/grpc/x", self.coding)
        self.assertEqual((response.status, response.get("Content-Type")), (200, "application/grpc"))
        self.assertNotIn("Content-Encoding", response)
        self.assertEqual(response.body[5:], b"m" * 5000)


class Caches(CodingsCase):
    """What is stored is plain, and each client gets the coding it takes."""

    http = """
        proxy_cache_path tmp/cache keys_zone=c:1m;
        proxy_cache_path tmp/slices keys_zone=s:1m;
    """
    server = """
        weft zstd br gzip;
        proxy_http_version 1.1;
        add_header X-Cache $upstream_cache_status;
        location /cache/ { proxy_cache c; proxy_cache_valid any 1m; proxy_pass http://%UP%/; }
        location /stale/ { proxy_cache c; proxy_cache_valid any 1s; proxy_cache_use_stale error http_500 updating;
                           proxy_cache_key $arg_key; proxy_pass http://%UP%/$arg_behaviour?$args; }
        location /revalidate/ { proxy_cache c; proxy_cache_valid any 1s; proxy_cache_revalidate on;
                                proxy_pass http://%UP%/; }
        location /store/ { proxy_store on; proxy_store_access all:r; root stored; proxy_pass http://%UP%/; }
    """
    if has("http_slice_module"):
        server += """
        location /slice/ { slice 16k; proxy_cache s; proxy_cache_key $uri$args$slice_range;
                           proxy_set_header Range $slice_range; proxy_cache_valid 200 206 1h;
                           proxy_pass http://%UP%/; }
        """

    def cached(self, uri, ae, state, plain, status=200):
        response = self.get(uri, ae)
        self.assertEqual(response.get("X-Cache"), state, uri)
        if ae is None:
            self.assert_plain(response, plain, status)
        else:
            self.coding = ae
            self.assert_coded(response, plain, status)
        return response

    def test_miss_then_hits_for_all(self):
        for name in CODINGS:
            for behaviour in ("length", "chunked"):
                with self.subTest(first=name, behaviour=behaviour):
                    uri = path(behaviour, len(PAGE), type="text/html", first=name).replace("/up/", "/cache/")
                    self.cached(uri, name, "MISS", PAGE)
                    for other in (*CODINGS, None):
                        self.cached(uri, other, "HIT", PAGE)

    def test_miss_for_a_plain_client_then_hits(self):
        uri = path("length", len(PAGE), type="text/html", first="plain").replace("/up/", "/cache/")
        self.cached(uri, None, "MISS", PAGE)
        for name in CODINGS:
            self.cached(uri, name, "HIT", PAGE)

    def test_stale(self):
        """The upstream fails when the page has expired: the old one is coded all the same."""
        uri = f"/stale/?n={len(PAGE)}&type=text/html&behaviour=length"
        for name in CODINGS:
            self.cached(f"{uri}&key={name}", name, "MISS", PAGE)
        # nginx counts whole seconds.
        time.sleep(2.1)
        for name in CODINGS:
            with self.subTest(coding=name):
                self.cached(f"{uri}&key={name}&status=500", name, "STALE", PAGE)
                self.cached(f"{uri}&key={name}&status=500", None, "STALE", PAGE)

    @each_coding
    def test_stored_file_is_plain(self):
        uri = path("length", len(PAGE), type="text/html", store=self.coding).replace("/up/", "/store/")
        self.right(uri, PAGE)
        with open(f"{self.site.folder}/stored/store/length", "rb") as file:
            self.assert_same(file.read(), PAGE)

    @each_coding
    def test_slices(self):
        if not has("http_slice_module"):
            self.skipTest("no slice")
        uri = path("ranged", 100000, type="text/html", h='ETag:"s"', c=self.coding).replace("/up/", "/slice/")
        for _ in range(2):
            response = self.get(uri, self.coding)
            self.assertEqual(response.status, 200)
            plain = self.decoded(response) if response.coding else response.body
            self.assert_same(plain, body("text", 100000))
            self.assertTrue(response.complete)
        headers = [("Range", "bytes=20000-59999")]
        self.assert_plain(self.get(uri, None, headers=headers), body("text", 100000)[20000:60000], 206)
        # The slice module has begun at the range already: the whole could not be sent.
        response = self.get(uri, self.coding, headers=headers)
        self.assert_plain(response, body("text", 100000)[20000:60000], 206)
        self.assert_varies(response)


class Parts(CodingsCase):
    files = {
        "page.html": PAGE,
        "small.html": SMALL,
        "ssi/page.html": SMALL + b'<!--#include virtual="/page.html" --><!--#include virtual="/up/length?n=9000" -->',
        "sub.html": b"one THREAD two THREAD three" * 900,
        "list/" + "a-name-that-is-listed-" * 3 + ".txt": b"x",
        "random/only.html": PAGE,
        "gone.html": PAGE,
        "data.xml": b"<?xml version='1.0'?><a>" + b"<b>text</b>" * 2000 + b"</a>",
    }
    server = """
        weft zstd br gzip;
        proxy_http_version 1.1;
        location /up/ { proxy_pass http://%UP%/; }
        location /ssi/ { ssi on; }
        location /list/ { autoindex on; }
        location /list-json/ { alias www/list/; autoindex on; autoindex_format json; weft_types application/json; }
        location /index/ { alias www/; index none.html page.html; }
        location = /redirect { rewrite ^ /page.html last; }
        location = /try { try_files /none /page.html; }
        location /try-named/ { try_files /none @named; }
        location @named { rewrite ^ /page.html break; }
        location = /mirrored { mirror /other; rewrite ^ /page.html break; }
        location = /other { internal; proxy_pass http://%UP%/length?n=4000&type=text/html; }
        location /missing/ { root empty; error_page 404 /gone.html; }
        location /failing/ { error_page 502 504 =200 /gone.html; proxy_pass http://127.0.0.1:1; }
        location /intercepted/ { proxy_intercept_errors on; error_page 500 =503 /gone.html;
                                 weft_statuses *; proxy_pass http://%UP%/; }
        location = /gone.html { weft_statuses *; }
        location = /returned { default_type text/html; return 200 "0123456789012345678901234567890123456789"; }
        location = /limited { limit_rate 400k; rewrite ^ /page.html break; }
        location = /delayed { weft_when $is_late; rewrite ^ /page.html break; }
    """
    http = "    map $status $is_late { default 0; 200 1; }"
    if has("http_sub_module"):
        server += "location = /sub.html { sub_filter THREAD cloth; sub_filter_once off; }\n"
    if has("http_addition_module"):
        server += "location /add/ { alias www/; add_before_body /small.html; add_after_body /page.html; }\n"
    if has("http_auth_request_module"):
        server += "location /auth/ { alias www/; auth_request /other; }\n"
        server += "location /denied/ { alias www/; auth_request /deny; error_page 403 /gone.html; }\n"
        server += "location = /deny { internal; return 403; }\n"
    if has("http_random_index_module"):
        server += "location /random/ { random_index on; }\n"

    def need(self, module):
        if not has(f"http_{module}_module"):
            self.skipTest(f"no {module}")

    @each_coding
    def test_ssi(self):
        self.right("/ssi/page.html", SMALL + PAGE + body("text", 9000))

    @each_coding
    def test_sub_filter(self):
        self.need("sub")
        self.right("/sub.html", b"one cloth two cloth three" * 900)

    @each_coding
    def test_addition(self):
        self.need("addition")
        self.right("/add/page.html", SMALL + PAGE + PAGE)

    @each_coding
    def test_autoindex(self):
        for uri in ("/list/", "/list-json/"):
            response = self.get(uri, self.coding)
            self.assert_coded(response, self.get(uri, None).body)
            self.assertIn(b"a-name-that-is-listed-", self.decoded(response))

    @each_coding
    def test_random_index(self):
        self.need("random_index")
        self.right("/random/", PAGE)

    @each_coding
    def test_auth_request(self):
        self.need("auth_request")
        self.right("/auth/page.html", PAGE)
        self.right("/denied/page.html", PAGE, 403)

    @each_coding
    def test_mirror(self):
        self.right("/mirrored", PAGE)

    @each_coding
    def test_internal_redirects_and_try_files(self):
        for uri in ("/redirect", "/try", "/try-named/x", "/index/"):
            self.right(uri, PAGE)

    @each_coding
    def test_error_pages(self):
        self.right("/missing/x", PAGE, 404)
        self.right("/failing/x", PAGE)
        uri = path("length", 90, type="text/html", status=500).replace("/up/", "/intercepted/")
        self.right(uri, PAGE, 503)

    @each_coding
    def test_built_in_error_page_and_return(self):
        self.assert_coded(self.get("/not-there.html", self.coding), self.get("/not-there.html", None).body, 404)
        self.right("/returned", b"0123456789" * 4)

    @each_coding
    def test_limit_rate(self):
        self.right("/limited", PAGE)

    @each_coding
    def test_http_1_0(self):
        self.assert_coded(self.get("/page.html", self.coding, version="1.0"), PAGE)
        uri = path("chunked", 40000, type="text/html")
        self.assert_coded(self.get(uri, self.coding, version="1.0"), PAGE)

    @each_coding
    def test_condition_on_what_is_known_at_the_header(self):
        self.assert_coded(self.get("/delayed", self.coding), PAGE)
