"""Inheritance and variables; test_directives.py has the values of each directive."""

import re
import tempfile
import unittest

from harness.case import NginxCase, Site, body
from harness.nginx import Nginx, has
from test_choice import path

PAGE = body("text", 30000)


class Inheritance(NginxCase):
    files = {"page.html": PAGE, "page.txt": PAGE}
    http = "    weft zstd; weft_min_length 100; weft_level zstd=19;"
    server = """
        location /same/ { alias www/; }
        location /off/ { weft off; alias www/;
            location /off/on/ { weft zstd; alias www/; } }
        location /types/ { weft_types text/plain; alias www/; }
        location /long/ { weft_min_length 100k; alias www/; }
        location /fast/ { weft_level zstd=-5; alias www/; }
        location /if/ { alias www/; if ($arg_off) { weft off; } }
        location /if-on/ { weft off; alias www/; if ($arg_on) { weft zstd; } }
    """

    def test_inherited_and_changed(self):
        for uri, coded in (
            ("/same/page.html", True),
            ("/same/page.txt", False),
            ("/off/page.html", False),
            ("/off/on/page.html", True),
            ("/types/page.txt", True),
            ("/long/page.html", False),
        ):
            with self.subTest(uri=uri):
                (self.assert_coded if coded else self.assert_plain)(self.get(uri), PAGE)

    def test_level_is_inherited(self):
        fast, same = self.get("/fast/page.html").body, self.get("/same/page.html").body
        self.assertLess(len(same), len(fast))

    def test_if(self):
        self.assert_coded(self.get("/if/page.html"), PAGE)
        self.assert_plain(self.get("/if/page.html?off=1"), PAGE)
        self.assert_plain(self.get("/if-on/page.html"), PAGE)
        self.assert_coded(self.get("/if-on/page.html?on=1"), PAGE)


class Variables(NginxCase):
    upstream = True
    files = {"page.html": PAGE, "tiny.html": b"x", "page.bin": PAGE}
    server = """
        weft zstd;
        location /up/ { proxy_pass http://%UP%/; }
        location /off/ { weft off; alias www/; }
        location /header/ { alias www/; add_header X-Weft $weft_status; add_header X-Ratio "[$weft_ratio]"; }
    """

    def one(self, uri, ae="zstd", **more):
        self.get(uri, ae, **more)
        return self.logged(uri)

    def test_status_says_why(self):
        for uri, ae, status in (
            ("/page.html?a", "zstd", "zstd"),
            ("/page.html?b", "gzip", "off:client"),
            ("/page.html?c", None, "off:client"),
            ("/page.html?d", "zstd;q=0", "off:client"),
            ("/tiny.html?e", "zstd", "off:length"),
            ("/page.bin?f", "zstd", "off:type"),
            (path(type="text/html", h="Content-Encoding:br"), "zstd", "off:coded"),
            (path(type="text/html", status=500), "zstd", "off:status"),
        ):
            with self.subTest(uri=uri):
                self.assertEqual(self.one(uri, ae)[0], status)

    def test_status_where_weft_is_off(self):
        self.assertIn(self.one("/off/page.html")[0], ("off", "", "-"))

    def test_status_of_no_transform(self):
        self.assertRegex(self.one(path(type="text/html", h="Cache-Control:no-transform"))[0], "^off:")

    def test_ratio(self):
        """Plain bytes to coded ones, and nothing where nothing was coded."""
        response = self.get("/page.html?ratio")
        ratio = self.logged("/page.html?ratio")[1]
        self.assertRegex(ratio, r"^\d+\.\d+$")
        self.assertAlmostEqual(float(ratio), len(PAGE) / len(response.body), delta=0.011)
        self.assertIn(self.one("/page.html?none", None)[1], ("", "-"))

    def test_ratio_of_an_unfinished_response(self):
        self.assertRegex(self.one(path("length", 0, type="text/html"))[1], r"^-?$")

    def test_in_a_header(self):
        """Asked for before the decision: an answer, whichever, and no crash."""
        response = self.get("/header/page.html")
        self.assert_coded(response, PAGE)
        self.assertEqual(response.get("X-Ratio"), "[]")


class Module(unittest.TestCase):
    def test_syntax_check_starts_nothing(self):
        """`nginx -t` with everything on, and a second time."""
        pool = "" if has("threads") else " weft_thread_pool off;"
        site = Site(server=f"weft zstd;{pool}", http="    weft_max_memory 64m;")
        try:
            site.nginx.ports = [8080]
            site.nginx.write_config()
            for _ in range(2):
                status, said = site.nginx.test_config()
                self.assertEqual(status, 0, said)
                self.assertIn("test is successful", said)
                self.assertFalse(re.search(r"\[(warn|alert|crit|emerg)\]", said), said)
        finally:
            site.discard()

    def test_twice_loaded_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            from harness.nginx import MODULE

            if not MODULE:
                self.skipTest("built in")
            text = f"load_module {MODULE};\n" * 2 + "events {}\nhttp {}\n"
            nginx = Nginx(folder, lambda ports: text)
            nginx.write_config()
            status, said = nginx.test_config()
            self.assertEqual(status, 1)
            self.assertIn("already loaded", said)
