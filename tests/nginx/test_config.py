"""The directives: right and wrong values, contexts, inheritance, variables."""

import re
import tempfile
import unittest

from harness.case import NginxCase, Site, body
from harness.nginx import Nginx, has
from test_choice import path

PAGE = body("text", 30000)

# (directive, context, a part of the message). "http", "server", "location", "if" and "main".
WRONG = [
    ("weft;", "http", "invalid number of arguments"),
    ("weft deflate;", "http", "deflate"),
    ("weft on;", "http", "on"),
    ("weft zstd zstd;", "http", "zstd"),
    ("weft zstd off;", "http", "off"),
    ("weft zstd; weft off;", "http", "is duplicate"),
    ("weft_level;", "http", "invalid number of arguments"),
    ("weft_level 3;", "http", "3"),
    ("weft_level zstd=23;", "http", "zstd=23"),
    ("weft_level zstd=-131073;", "http", "zstd=-131073"),
    ("weft_level zstd=x;", "http", "zstd=x"),
    ("weft_level zstd=;", "http", "zstd="),
    ("weft_level zstd=3x;", "http", "zstd=3x"),
    ("weft_level snappy=3;", "http", "snappy"),
    ("weft_types;", "http", "invalid number of arguments"),
    ("weft_min_length x;", "http", "invalid value"),
    ("weft_min_length -1;", "http", "invalid value"),
    ("weft_min_length;", "http", "invalid number of arguments"),
    ("weft_min_length 1 2;", "http", "invalid number of arguments"),
    ("weft_parallel_tasks x;", "http", "invalid"),
    ("weft_parallel_tasks 0;", "http", "between 1 and 256"),
    ("weft_parallel_tasks 257;", "http", "between 1 and 256"),
    ("weft_segment_size x;", "http", "invalid value"),
    ("weft_segment_size 1;", "http", "weft_segment_size"),
    ("weft_segment_size 65m;", "http", "weft_segment_size"),
    ("weft_max_memory x;", "http", "invalid value"),
    ("weft_max_memory 1m;", "server", "not allowed here"),
    ("weft_retention x;", "http", "x"),
    ("weft_retention bounded;", "http", "weft_retention"),
    ("weft_retention bounded x;", "http", "x"),
    ("weft_retention release_all 1m;", "http", "weft_retention"),
    ("weft_retention retain_all;", "location", "not allowed here"),
    ("weft_thread_pool a b;", "http", "invalid number of arguments"),
    ("weft zstd;", "main", "not allowed here"),
    ("weft_level zstd=3;", "if", "not allowed here"),
]
if has("threads"):
    WRONG.append(("weft zstd; weft_thread_pool nowhere;", "http", "nowhere"))

RIGHT = [
    ("weft zstd;", "http"),
    ("weft zstd;", "if"),
    ("weft off;", "if"),
    ("weft_level zstd=22;", "location"),
    ("weft_level zstd=1;", "server"),
    ("weft_level zstd=-131072;", "http"),
    ("weft_level zstd=-1;", "http"),
    ("weft_types *;", "location"),
    ("weft_types text/html text/css;", "server"),
    ("weft_min_length 0;", "location"),
    ("weft_min_length 1k;", "server"),
    ("weft_parallel_tasks 1;", "location"),
    ("weft_parallel_tasks 256;", "http"),
    ("weft_segment_size 4k;", "location"),
    ("weft_segment_size 64m;", "http"),
    ("weft_max_memory 64m;", "http"),
    ("weft_retention retain_all;", "http"),
    ("weft_retention release_all;", "http"),
    ("weft_retention bounded 10m;", "http"),
    ("weft_thread_pool off;", "location"),
    ("weft_thread_pool default;", "server"),
]


def place(directive, context):
    """The pieces of configuration with the directive in that context."""
    if context in ("main", "http", "server"):
        return {context: directive}
    inner = directive if context == "location" else f"if ($arg_a) {{ {directive} }}"
    return {"server": f"location /x/ {{ {inner} }}"}


class Values(unittest.TestCase):
    def check(self, directive, context):
        site = Site(**place(directive + " # here\n", context))
        try:
            site.nginx.ports = [8080]
            site.nginx.write_config()
            with open(site.nginx.config) as file:
                lines = [number for number, line in enumerate(file, 1) if "# here" in line]
            return (*site.nginx.test_config(), lines[0])
        finally:
            site.discard()

    def test_wrong_values_name_file_and_line(self):
        for directive, context, part in WRONG:
            with self.subTest(directive=directive, context=context):
                status, said, line = self.check(directive, context)
                self.assertEqual(status, 1, said)
                emerg = [text for text in said.splitlines() if "[emerg]" in text]
                self.assertEqual(len(emerg), 1, said)
                self.assertIn(part, emerg[0])
                # A pool that does not exist is nginx's own message, at the end of the file.
                if "nowhere" not in directive:
                    self.assertRegex(emerg[0], rf"nginx\.conf:{line}$")

    def test_right_values(self):
        for directive, context in RIGHT:
            if not has("threads") and "thread_pool" in directive:
                continue
            with self.subTest(directive=directive, context=context):
                status, said, _ = self.check(directive, context)
                self.assertEqual(status, 0, said)

    def test_twice_in_one_place(self):
        for directive in ("weft_level zstd=3;", "weft_min_length 30;", "weft_parallel_tasks 2;", "weft_segment_size 64k;"):
            with self.subTest(directive=directive):
                status, said, line = self.check(f"{directive} {directive}", "http")
                self.assertEqual(status, 1, said)
                self.assertRegex(said, rf"duplicate.*nginx\.conf:{line}")


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
        site = Site(server="weft zstd;", http="    weft_max_memory 64m;")
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
