"""What weft's own directives do beyond choosing a coding: statuses, a condition, Vary, levels, figures."""

import re

from harness import coding
from harness.case import NginxCase, body
from test_choice import path

PAGE = body("text", 60000)


class Statuses(NginxCase):
    upstream = True
    server = """
        weft zstd;
        proxy_http_version 1.1;
        location /up/ { proxy_pass http://%UP%/; }
        location /some/ { weft_statuses 200 500; proxy_pass http://%UP%/; }
        location /all/ { weft_statuses *; proxy_pass http://%UP%/;
            location /all/inherits/ { proxy_pass http://%UP%/; } }
    """

    def one(self, prefix, status, coded):
        with self.subTest(prefix=prefix, status=status):
            response = self.get(path(n=len(PAGE), status=status, type="text/html").replace("/up/", prefix))
            (self.assert_coded if coded else self.assert_plain)(response, PAGE, status)

    def test_default(self):
        for status, coded in ((200, True), (403, True), (404, True), (201, False), (500, False)):
            self.one("/up/", status, coded)

    def test_listed(self):
        for status, coded in ((200, True), (403, False), (500, True)):
            self.one("/some/", status, coded)

    def test_every_final_status_that_has_a_body(self):
        for status in (200, 201, 202, 203, 300, 302, 400, 401, 404, 410, 418, 429, 500, 503, 599):
            self.one("/all/", status, True)
            self.one("/all/inherits/", status, True)

    def test_never_a_status_without_a_body(self):
        for status in (204, 304):
            response = self.get(path("no_body", 0, status=status, type="text/html").replace("/up/", "/all/"))
            self.assert_plain(response, b"", status)
        uri = path(n=len(PAGE), status=206, type="text/html", h="Content-Range:bytes 0-59999/90000")
        self.assert_plain(self.get(uri.replace("/up/", "/all/")), PAGE, 206)


class Condition(NginxCase):
    files = {"page.html": PAGE}
    http = "    map $http_user_agent $modern { default 1; ~Old 0; ~None ''; }"
    server = """
        weft zstd;
        location / { weft_when $modern;
            location /inherits/ { alias www/; }
            location /always/ { alias www/; weft_when 1; } }
        location /via/ { alias www/; weft_when $not_by_proxy; }
    """
    http += "\n    map $http_via $not_by_proxy { default 0; '' 1; }"

    def one(self, uri, agent, coded):
        response = self.get(uri, headers=[("User-Agent", agent)])
        (self.assert_coded if coded else self.assert_plain)(response, PAGE)
        self.assert_varies(response)

    def test_empty_and_0_are_no(self):
        self.one("/page.html", "New", True)
        self.one("/page.html", "Old", False)
        self.one("/page.html", "None", False)

    def test_inherited_and_replaced(self):
        self.one("/inherits/page.html", "Old", False)
        self.one("/always/page.html", "Old", True)

    def test_via(self):
        self.assert_coded(self.get("/via/page.html"), PAGE)
        self.assert_plain(self.get("/via/page.html", headers=[("Via", "1.1 proxy")]), PAGE)

    def test_reason(self):
        self.get("/page.html?when", headers=[("User-Agent", "Old")])
        self.assertEqual(self.logged("/page.html?when")[0], "off:when")


class Headers(NginxCase):
    upstream = True
    files = {"page.html": PAGE}
    server = """
        weft zstd;
        proxy_http_version 1.1;
        location /up/ { proxy_pass http://%UP%/; }
        location /no-vary/ { weft_vary off; alias www/; }
        location /no-vary-gzip/ { weft_vary off; gzip on; gzip_vary on; alias www/; }
        location /transform/ { weft_no_transform off; proxy_pass http://%UP%/; }
        location /own-header/ { alias www/; add_header Cache-Control no-transform; }
    """

    def test_vary_off(self):
        for ae in ("zstd", None):
            self.assertNotIn("Vary", self.get("/no-vary/page.html", ae))

    def test_vary_off_leaves_gzip_vary_alone(self):
        self.assert_varies(self.get("/no-vary-gzip/page.html", "gzip"))

    def test_no_transform_can_be_ignored(self):
        uri = path(n=len(PAGE), type="text/html", h="Cache-Control:no-transform")
        self.assert_plain(self.get(uri), PAGE)
        self.assert_coded(self.get(uri.replace("/up/", "/transform/")), PAGE)

    def test_no_transform_is_an_upstreams_word(self):
        self.assert_coded(self.get("/own-header/page.html"), PAGE)


class Levels(NginxCase):
    files = {"page.html": PAGE, "data.html": body("json", 400000)}
    server = """
        weft $WEFT;
        location / { alias www/; weft_level zstd=$arg_l br=$arg_l gzip=$arg_l; }
        location /low/ { alias www/; weft_level zstd=1 br=1 gzip=1; }
        location /high/ { alias www/; weft_level zstd=12 br=9 gzip=9; }
        location /history/ { alias www/; weft_segment_size 64k; weft_thread_pool off; }
        location /no-history/ { alias www/; weft_segment_size 64k; weft_history_size 0; }
    """.replace("$WEFT", "zstd br gzip")

    def size(self, uri, name):
        response = self.get(uri, name)
        self.assertEqual(response.coding, name)
        self.assertEqual(coding.check_whole(name, response.body), body("json", 400000))
        return len(response.body)

    def test_level_by_variable(self):
        for name, high in (("zstd", 12), ("br", 9), ("gzip", 9)):
            with self.subTest(coding=name):
                self.assertEqual(self.size("/data.html?l=1", name), self.size("/low/data.html", name))
                self.assertEqual(self.size(f"/data.html?l={high}", name), self.size("/high/data.html", name))

    def test_variable_without_a_level_is_the_default(self):
        for name, default in (("zstd", 3), ("br", 5), ("gzip", 6)):
            wanted = self.size(f"/data.html?l={default}", name)
            for value in ("", "l=", "l=x", "l=99", "l=-200000"):
                with self.subTest(coding=name, value=value):
                    self.assertEqual(self.size(f"/data.html?{value}", name), wanted)
        self.assertIn('invalid "weft_level" "zstd=99"', self.nginx.log())

    def test_history(self):
        for name in ("zstd", "br", "gzip"):
            with self.subTest(coding=name):
                self.assertLess(self.size("/history/data.html", name), self.size("/no-history/data.html", name))


class Figures(NginxCase):
    files = {"page.html": PAGE, "large.html": body("text", 900000), "tiny.html": b"x"}
    http = """
        log_format figures '$request_uri $weft_status $weft_bytes_in $weft_bytes_out $weft_cpu_ms'
                           ' $weft_queue_ms $weft_segments $weft_ratio $zstd_ratio $brotli_ratio';
        access_log figures.log figures;
    """
    server = "weft zstd br gzip; location /cut/ { alias www/; weft_segment_size 100k; }"

    def figures(self, uri, ae):
        response = self.get(uri, ae)
        self.logged(uri)
        with open(f"{self.site.folder}/figures.log") as file:
            line = [line for line in file if line.startswith(uri + " ")][-1]
        return response, line.split()[1:]

    def test_of_a_coded_response(self):
        for ae in ("zstd", "br", "gzip"):
            for uri, plain in (("/page.html", PAGE), ("/cut/large.html", body("text", 900000))):
                with self.subTest(coding=ae, uri=uri):
                    response, found = self.figures(f"{uri}?{ae}", ae)
                    self.assertEqual(found[:3], [ae, str(len(plain)), str(len(response.body))])
                    self.assertRegex(found[3], r"^\d+\.\d{3}$")
                    self.assertGreater(float(found[3]), 0)
                    self.assertRegex(found[4], r"^\d+\.\d{3}$")
                    least = 9 if uri.startswith("/cut/") else 1
                    self.assertGreaterEqual(int(found[5]), least)
                    ratio = len(plain) / len(response.body)
                    self.assertAlmostEqual(float(found[6]), ratio, delta=0.0051)
                    self.ratios(ae, ratio, found[7:])

    def ratios(self, ae, ratio, found):
        """Of the peers' modules: three decimals, two decimals, and only of their coding."""
        for value, name, digits in ((found[0], "zstd", 3), (found[1], "br", 2)):
            if name == ae:
                self.assertRegex(value, rf"^\d+\.\d{{{digits}}}$")
                self.assertAlmostEqual(float(value), ratio, delta=0.51 / 10**digits)
            else:
                self.assertEqual(value, "-")

    def test_of_a_plain_response(self):
        for uri, ae in (("/page.html?none", None), ("/tiny.html", "zstd")):
            self.assertEqual(set(self.figures(uri, ae)[1][1:]), {"-"})

    def test_of_head(self):
        self.get("/page.html?head", "zstd", method="HEAD")
        self.logged("/page.html?head")
        with open(f"{self.site.folder}/figures.log") as file:
            line = [line for line in file if line.startswith("/page.html?head ")][-1]
        self.assertEqual(line.split()[1:], ["zstd"] + ["-"] * 8)


class IdleEncoders(NginxCase):
    """The figure itself is the library's; here, that the directive reaches it."""

    files = {"page.html": body("text", 300000)}
    http = "    weft_idle_encoders 0;"
    server = "weft zstd br gzip; location = /status { weft_status; }"

    def test_none_is_kept(self):
        for ae in ("zstd", "br", "gzip"):
            self.get("/page.html", ae)
        figures = re.search(r'"encoders_made":(\d+).*"encoders_idle":(\d+)', self.get("/status", None).body.decode())
        self.assertGreaterEqual(int(figures[1]), 3)
        self.assertEqual(figures[2], "0")
