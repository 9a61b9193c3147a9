"""In place of google's brotli, tokers' zstd, ngx_mbrotli, ngx_mzstd, and beside the stock gzip filter."""

import unittest
import zlib

from harness import http1
from harness.case import NginxCase, Site, body
from harness.gateways import Gateways
from harness.nginx import has
from test_choice import path

PAGE = body("text", 60000)
BROWSER = "gzip, deflate, br, zstd"


class PeerCase(NginxCase):
    def one(self, uri, ae, expected, plain=PAGE, **more):
        with self.subTest(uri=uri, ae=ae):
            response = self.get(uri, ae, **more)
            self.assertEqual(response.coding, expected)
            if expected is None:
                self.assert_plain(response, plain)
            else:
                self.coding = expected
                self.assert_coded(response, plain)
            return response


class Brotli(PeerCase):
    """A configuration as google/ngx_brotli's documentation has it."""

    files = {"page.html": PAGE, "style.css": PAGE, "data.json": PAGE, "tiny.css": b"a{}", "pic.png": PAGE}
    http = """
        types { text/css css; image/png png; text/html html; application/json json; }
        brotli on;
        brotli_comp_level 6;
        brotli_static on;
        brotli_types text/plain text/css application/json application/javascript;
        brotli_buffers 16 8k;
        brotli_window 512k;
        brotli_min_length 20;
    """
    server = """
        location /off/ { brotli off; alias www/; }
        location /html-only/ { brotli_types text/html; alias www/; }
        location /all/ { brotli_types *; alias www/; }
        location /long/ { brotli_min_length 100k; alias www/; }
        location /best/ { brotli_comp_level 11; alias www/; }
        location /fast/ { brotli_comp_level 0; alias www/; }
        location /if/ { alias www/; if ($arg_off) { brotli off; } }
    """

    def test_types(self):
        for name in ("page.html", "style.css", "data.json"):
            self.one(f"/{name}", BROWSER, "br")
        self.one("/pic.png", BROWSER, None)
        self.one("/html-only/style.css", BROWSER, None)
        self.one("/all/pic.png", BROWSER, "br")

    def test_only_brotli_is_on(self):
        self.one("/page.html", "gzip, zstd", None)
        self.one("/page.html", None, None)
        self.one("/page.html", "br;q=0", None)

    def test_length(self):
        self.one("/tiny.css", BROWSER, None, b"a{}")
        self.one("/long/page.html", BROWSER, None)

    def test_level(self):
        best, fast = (self.one(f"/{name}/page.html", "br", "br") for name in ("best", "fast"))
        self.assertLess(len(best.body), len(fast.body))

    def test_off(self):
        self.one("/off/page.html", BROWSER, None)
        self.one("/if/page.html", BROWSER, "br")
        self.one("/if/page.html?off=1", BROWSER, None)


class Zstd(PeerCase):
    """A configuration as tokers/zstd-nginx-module's documentation has it."""

    files = {"page.html": PAGE, "data.json": PAGE}
    http = """
        zstd on;
        zstd_min_length 256; # no less than 256 bytes
        zstd_comp_level 3;
        zstd_types application/json;
        zstd_buffers 32 4k;
        zstd_static on;
    """
    server = """
        location /small-buffers/ { alias www/; zstd_buffers 2 4k; }
        location /negative/ { alias www/; zstd_comp_level -5; }
        location /nineteen/ { alias www/; zstd_comp_level 19; }
        location /off/ { alias www/; zstd off; }
    """

    def test_coded(self):
        for prefix in ("/", "/small-buffers/", "/negative/", "/nineteen/"):
            for name in ("page.html", "data.json"):
                self.one(prefix + name, BROWSER, "zstd")
        self.one("/off/page.html", BROWSER, None)

    def test_levels(self):
        sizes = [len(self.one(f"{p}page.html", "zstd", "zstd").body) for p in ("/nineteen/", "/", "/negative/")]
        self.assertEqual(sizes, sorted(sizes))


class ZstdWithDictionary(PeerCase):
    """`zstd_dict_file` loads, and what is sent needs no dictionary: the bytes are those without it."""

    files = {"page.html": PAGE, "dictionary": body("text", 20000, 1)}
    http = "    zstd on;\n    zstd_dict_file www/dictionary;"

    def test_coded_without_it(self):
        response = self.one("/page.html", BROWSER, "zstd")
        # Dictionary_ID_flag (RFC 8878, 3.1.1.1.1.6)
        self.assertEqual(response.body[4] & 3, 0)
        with Site("zstd on;", files={"page.html": PAGE}) as site:
            self.assert_same(http1.get(site.port, "/page.html", "zstd").body, response.body)


class Both(PeerCase):
    """Both on, and gzip: one decision, whichever line stands first."""

    files = {"page.html": PAGE, "data.json": PAGE, "style.css": PAGE}
    http = "    types { text/html html; application/json json; text/css css; }"
    server = """
        gzip on; gzip_types text/css application/json; gzip_vary on;
        location /one/ { alias www/; brotli on; zstd on; }
        location /two/ { alias www/; zstd on; brotli on; }
        location /types/ { alias www/; zstd on; brotli on; brotli_types application/json; zstd_types text/css; }
        location /outer/ { alias www/; zstd on;
            location /outer/inner/ { alias www/; brotli on; } }
        location /reverse/ { alias www/; brotli on;
            location /reverse/inner/ { alias www/; zstd on; } }
    """

    def test_zstd_wins_a_tie(self):
        for prefix in ("/one/", "/two/", "/outer/inner/", "/reverse/inner/"):
            for ae in (BROWSER, "br, zstd", "zstd, br", "*", "br;q=0.5, zstd;q=0.5"):
                self.one(f"{prefix}page.html", ae, "zstd")

    def test_the_client_may_rank_them(self):
        for prefix in ("/one/", "/two/"):
            self.one(f"{prefix}page.html", "br, zstd;q=0.9", "br")
            self.one(f"{prefix}page.html", "br;q=0.1, zstd;q=0.2", "zstd")
            self.one(f"{prefix}page.html", "br", "br")
            self.one(f"{prefix}page.html", "zstd", "zstd")

    def test_each_has_its_types(self):
        self.one("/types/data.json", BROWSER, "br")
        self.one("/types/style.css", BROWSER, "zstd")
        self.one("/types/page.html", BROWSER, "zstd")
        self.one("/types/data.json", "zstd", None)

    def test_stock_gzip_codes_where_we_do_not(self):
        for prefix in ("/one/", "/types/"):
            self.one(f"{prefix}page.html", "gzip", "gzip")
        self.one("/one/style.css", BROWSER, "gzip")
        self.one("/types/style.css", "gzip, br", "gzip")

    def test_stock_gzip_has_its_turn_where_the_client_ranks_it_first(self):
        self.one("/one/page.html", "gzip, br;q=0.5, zstd;q=0.5", "gzip")
        self.one("/one/page.html", "gzip;q=0.5, br;q=0.4", "gzip")
        self.one("/one/page.html", "gzip;q=0.5, br;q=0.5", "br")

    def test_a_gzip_that_would_not_code_is_no_reason_to_decline(self):
        """gzip_http_version is 1.1 and gzip_proxied is off where nothing else is said."""
        ae = "gzip, br;q=0.5"
        self.one("/one/page.html", ae, "br", headers=[("Via", "1.1 proxy")])
        self.one("/one/page.html", ae, "br", version="1.0")


class Mixed(PeerCase):
    """weft beside brotli and zstd: what a block says changes what it inherits."""

    files = {"page.html": PAGE, "style.css": PAGE}
    http = "    types { text/html html; text/css css; }\n    weft gzip br; weft_types text/css;"
    server = """
        location /plain/ { alias www/; }
        location /less/ { alias www/; brotli off; }
        location /more/ { alias www/; zstd on; }
        location /own-types/ { alias www/; brotli on; }
        location /only/ { alias www/; weft off; brotli on; zstd on;
            location /only/back/ { alias www/; weft br gzip; }
            location /only/less/ { alias www/; zstd off; }
            location /only/none/ { alias www/; weft off; } }
        location /none/ { alias www/; weft off;
            location /none/br/ { alias www/; brotli on; } }
        location /if/ { alias www/; if ($arg_z) { zstd on; } if ($arg_o) { weft off; } }
    """

    def test_list_of_weft(self):
        self.one("/plain/page.html", BROWSER, "gzip")
        self.one("/plain/page.html", "br", "br")

    def test_off_takes_its_coding_away(self):
        self.one("/less/page.html", BROWSER, "gzip")
        self.one("/less/page.html", "br", None)

    def test_on_puts_its_coding_first(self):
        self.one("/more/page.html", BROWSER, "zstd")
        self.one("/more/page.html", "gzip, br", "gzip")
        self.one("/own-types/page.html", BROWSER, "br")

    def test_a_coding_has_the_types_of_its_family(self):
        self.one("/plain/style.css", BROWSER, "gzip")
        self.one("/own-types/style.css", BROWSER, "gzip")
        self.one("/own-types/style.css", "br", None)
        self.one("/more/style.css", "zstd", None)

    def test_weft_replaces_all(self):
        self.one("/only/page.html", BROWSER, "zstd")
        self.one("/only/page.html", "gzip", None)
        self.one("/only/back/page.html", BROWSER, "br")
        self.one("/only/less/page.html", BROWSER, "br")
        self.one("/only/none/page.html", BROWSER, None)
        self.one("/none/page.html", BROWSER, None)
        self.one("/none/br/page.html", BROWSER, "br")

    def test_if(self):
        self.one("/if/page.html", BROWSER, "gzip")
        self.one("/if/page.html?z=1", BROWSER, "zstd")
        self.one("/if/page.html?o=1", BROWSER, None)


class ThreadPools(PeerCase):
    """A configuration as those of ngx_mbrotli and ngx_mzstd."""

    needs = ("threads",)
    main = "thread_pool coding threads=2;"
    files = {"page.html": PAGE, "large.html": body("text", 3000000)}
    server = """
        brotli on; brotli_comp_level 4; brotli_thread_pool coding; brotli_parallel_segment_size 256k;
        brotli_parallel_tasks 4; brotli_parallel_compressors 4; brotli_retention_policy bounded 64m;
        zstd on; zstd_comp_level 3; zstd_thread_pool coding; zstd_parallel_segment_size 1m;
        zstd_parallel_tasks 2; zstd_parallel_compressors 2; zstd_retention_policy release_all;
        location /inline/ { alias www/; zstd_thread_pool off; brotli_thread_pool off; }
    """

    def test_coded(self):
        for prefix in ("/", "/inline/"):
            for ae in ("br", "zstd"):
                self.one(f"{prefix}page.html", ae, ae)
                self.one(f"{prefix}large.html", ae, ae, body("text", 3000000))

    def test_same_bytes_with_and_without_pool(self):
        for ae in ("br", "zstd"):
            found = [self.get(f"{prefix}large.html", ae).body for prefix in ("/", "/inline/")]
            self.assert_same(*found, ae)


class Gzip(PeerCase):
    """Our gzip and nginx's in one location never both code."""

    upstream = True
    files = {"page.html": PAGE, "style.css": PAGE}
    http = "    types { text/html html; text/css css; }"
    server = """
        gzip on; gzip_types text/css; gzip_vary on;
        weft gzip;
        location /up/ { proxy_pass http://%UP%/; }
        location /ours-off/ { alias www/; weft off; }
        location /gunzip/ { gunzip on; proxy_pass http://%UP%/; }
    """

    def test_ours(self):
        response = self.one("/page.html", "gzip", "gzip")
        self.assertEqual(zlib.decompress(response.body, 31), PAGE)
        self.assertEqual(self.logged("/page.html")[0], "gzip")

    def test_theirs_where_ours_has_not_the_type(self):
        self.one("/style.css", "gzip", "gzip")
        self.assertEqual(self.logged("/style.css")[0], "off:type")

    def test_theirs_where_ours_is_off(self):
        self.one("/ours-off/page.html", "gzip", "gzip")

    def test_neither_where_the_upstream_has_coded(self):
        response = self.get(path("gzipped", 60000, type="text/html"), "gzip")
        self.assertEqual(response.all("Content-Encoding"), ["gzip"])
        self.assert_same(zlib.decompress(response.body, 31), PAGE)

    def test_what_gunzip_decoded_may_be_coded(self):
        uri = path("gzipped", 60000, type="text/html").replace("/up/", "/gunzip/")
        self.one(uri, None, None)

    def test_x_gzip(self):
        self.one("/page.html", "x-gzip", "gzip")


class BesideGzip(PeerCase):
    """The table of docs/nginx.md: what ours and the stock gzip filter answer to the same requests."""

    upstream = True
    files = {"page.html": PAGE}
    server = """
        proxy_http_version 1.1;
        location /stock/ { alias www/; gzip on; }
        location /stock-vary/ { alias www/; gzip on; gzip_vary on; }
        location /stock-other/ { alias www/; gzip on; gzip_vary on; add_header Vary Cookie; }
        location /ours/ { alias www/; weft gzip; }
        location /ours-other/ { alias www/; weft gzip; add_header Vary Cookie; }
        location /stock-up/ { gzip on; gzip_proxied any; proxy_pass http://%UP%/; }
        location /ours-up/ { weft gzip; proxy_pass http://%UP%/; }
        location /stock-cgi { gzip on; fastcgi_pass 127.0.0.1:%CGI%; fastcgi_param QUERY_STRING $query_string; }
        location /ours-cgi { weft gzip; fastcgi_pass 127.0.0.1:%CGI%; fastcgi_param QUERY_STRING $query_string; }
    """
    slices = """
        location /stock-slice/ { slice 16k; proxy_set_header Range $slice_range;
            gzip on; gzip_proxied any; proxy_pass http://%UP%/; }
        location /ours-slice/ { slice 16k; proxy_set_header Range $slice_range;
            weft gzip; proxy_pass http://%UP%/; }
    """

    @classmethod
    def setUpClass(cls):
        cls.gateways = Gateways()
        cls.addClassCleanup(cls.gateways.stop)
        cls.server = cls.server.replace("%CGI%", str(cls.gateways.ports["fastcgi"]))
        cls.server += cls.slices if has("http_slice_module") else ""
        super().setUpClass()

    def row(self, place, ae="gzip", **more):
        response = self.get(f"/{place}/page.html", ae, **more)
        etag = response.get("ETag") or ""
        return response.status, response.coding, response.all("Vary"), etag[:2] == "W/", "Content-Length" in response

    def test_get(self):
        for place, vary in (("stock", []), ("stock-vary", ["Accept-Encoding"]), ("ours", ["Accept-Encoding"])):
            self.assertEqual(self.row(place), (200, "gzip", vary, True, False))
            self.assertEqual(self.row(place, None), (200, None, vary, False, True))
        self.assertEqual(self.row("stock-other")[2], ["Accept-Encoding", "Cookie"])
        self.assertEqual(self.row("ours-other")[2], ["Cookie, Accept-Encoding"])

    def test_304(self):
        for place in ("stock-vary", "ours"):
            etag = self.get(f"/{place}/page.html", "gzip").get("ETag")
            found = self.row(place, headers=[("If-None-Match", etag)])
            if place == "ours":
                self.assertEqual(found, (304, None, ["Accept-Encoding"], True, False))
            else:
                self.assertEqual(found, (304, None, [], False, False))

    def test_head(self):
        for place in ("stock-vary", "ours"):
            self.assertEqual(self.row(place, method="HEAD"), (200, "gzip", ["Accept-Encoding"], True, False))

    def test_range(self):
        for place in ("stock-vary", "ours"):
            headers = [("Range", "bytes=0-9")]
            self.assertEqual(self.row(place, headers=headers), (200, "gzip", ["Accept-Encoding"], True, False))
            found = self.row(place, None, headers=headers)
            self.assertEqual(found, (206, None, ["Accept-Encoding"], False, True))

    def test_several_accept_encoding_lines(self):
        self.assertEqual(self.get("/stock/page.html", ["br", "gzip"]).coding, None)
        self.assertEqual(self.get("/ours/page.html", ["br", "gzip"]).coding, "gzip")

    def test_http_1_0_and_via(self):
        for more in ({"version": "1.0"}, {"headers": [("Via", "1.1 proxy")]}):
            self.assertEqual(self.get("/stock/page.html", "gzip", **more).coding, None)
            self.assertEqual(self.get("/ours/page.html", "gzip", **more).coding, "gzip")

    @unittest.skipUnless(has("http_slice_module"), "no slice module")
    def test_range_with_slice(self):
        """The stock filter codes the slices that hold the range, as a 200."""
        for first, last, sent in ((20000, 39999, PAGE[16384:40000]), (0, 9, PAGE[:16384])):
            uri = path("ranged", len(PAGE), type="text/html").replace("/up/", "/stock-slice/")
            found = self.get(uri, "gzip", headers=[("Range", f"bytes={first}-{last}")])
            self.assertEqual((found.status, found.coding, found.get("Content-Range")), (200, "gzip", None))
            self.assert_same(zlib.decompress(found.body, 31), sent)
            uri = uri.replace("/stock-slice/", "/ours-slice/")
            found = self.get(uri, "gzip", headers=[("Range", f"bytes={first}-{last}")])
            self.assert_plain(found, PAGE[first : last + 1], 206)
            self.assertEqual(found.get("Content-Range"), f"bytes {first}-{last}/{len(PAGE)}")

    def ended(self, response):
        """Whether the coded body says that it is whole, and whether its framing does."""
        decoder = zlib.decompressobj(31)
        decoder.decompress(response.body)
        return decoder.eof, response.complete

    def test_upstream_that_is_cut_short(self):
        """A FastCGI response without its last record looks whole where the stock filter coded it."""
        for behaviour in ("cut_length", "cut_chunked"):
            uri = path(behaviour, 500000, type="text/html", at=200000, hold=0.02)
            for place in ("stock", "ours"):
                response = self.get(uri.replace("/up/", f"/{place}-up/"), "gzip")
                self.assertEqual(self.ended(response), (False, False), (place, behaviour))
        for place, whole in (("stock", (True, True)), ("ours", (False, False))):
            response = self.get(f"/{place}-cgi?n=400000&cut=200000", "gzip")
            self.assertEqual(self.ended(response), whole, place)
