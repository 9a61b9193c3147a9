"""Beside Debian's build of google/ngx_brotli itself: the same configuration, the same requests, the same answers,
but for what DIFFERENT says. The table of docs/nginx.md is this."""

import os
import subprocess
import unittest

from harness import coding, http1
from harness.case import body
from harness.nginx import MODULE, slowness
from test_choice import path
from test_modules import DEBIAN, FOLDER, Ordered

PEER = [f"{FOLDER}/ngx_http_brotli_{kind}_module.so" for kind in ("filter", "static")]

PAGE = body("text", 60000)
# Other bytes than those of the file beside it, so that it shows which was sent.
SIBLING = b"sibling " + PAGE

HTTP = """
    types { text/css css; image/png png; }
    brotli on;
    brotli_comp_level 6;
    brotli_static on;
    brotli_types text/plain text/css application/json application/javascript;
    brotli_min_length 20;
"""
SERVER = """
    proxy_http_version 1.1;
    location /off/ { brotli off; alias www/; }
    location /html-only/ { brotli_types text/html; alias www/; }
    location /all/ { brotli_types *; alias www/; }
    location /long/ { brotli_min_length 100k; alias www/; }
    location /if/ { alias www/; if ($arg_off) { brotli off; } }
    location /static-always/ { brotli_static always; alias www/; }
    location /static-off/ { brotli_static off; alias www/; }
    location /gzip/ { gzip on; gzip_types text/css; alias www/; }
    location /vary/ { gzip_vary on; alias www/; }
    location /up/ { proxy_pass http://%UP%/; }
"""

ACCEPTED = [None, "br", "gzip, deflate, br, zstd", "gzip", "*", "br;q=0", "br;q=0.000", "br;q=0.5", "BR", "identity"]
ACCEPTED += ["x-br", "br;q=1.5", ("gzip", "br"), "gzip, *", "br;q=0, *", "gzip;q=1, br;q=0.5", "", "br, gzip, "]
LENGTH = {"n": len(PAGE), "type": "text/html"}
UPSTREAMS = [
    *(path("length", **LENGTH, status=status) for status in (200, 201, 403, 404, 500)),
    *(path("length", **LENGTH, h=field) for field in ('ETag:"a"', "Vary:Cookie", "Content-Encoding:x")),
    path("length", **LENGTH, h="Cache-Control:no-transform"),
    path("chunked", n=60000, type="text/css; charset=utf-8"),
    *(path(behaviour, n=n, type="text/html") for behaviour in ("length", "chunked") for n in (0, 5)),
    path("ranged", **LENGTH),
]


def requests():
    """(path, Accept-Encoding, more of the request)"""
    for name in ("page.html", "style.css", "pic.png", "tiny.css", "both.css"):
        for ae in ACCEPTED:
            yield f"/{name}", ae, {}
    for location in ("off", "html-only", "all", "long", "if", "static-always", "static-off", "gzip", "vary"):
        for name in ("page.html", "style.css", "pic.png", "both.css"):
            for ae in (None, "br", "gzip", "gzip, br", "*"):
                yield f"/{location}/{name}", ae, {}
    yield "/if/page.html?off=1", "br", {}
    range_, via = ("Range", "bytes=0-9"), ("Via", "1.1 proxy")
    for more in ({"method": "HEAD"}, {"version": "1.0"}, {"headers": [via]}, {"headers": [range_]}):
        for uri in ("/page.html", "/both.css", "/pic.png", path("ranged", **LENGTH)):
            for ae in (None, "br"):
                yield uri, ae, more
    for uri in UPSTREAMS:
        for ae in (None, "br"):
            yield uri, ae, {}


def accepts(ae):
    """Whether RFC 9110, 12.5.3 allows br here; what the peer makes of it is another matter."""
    words = [word.strip() for word in (",".join(ae) if isinstance(ae, tuple) else ae or "").lower().split(",")]
    named = [word for word in words if word.partition(";")[0] == "br"]
    return named[0] in ("br", "br;q=0.5") if named else "*" in words


# Where weft's answer is meant to be another, and why.
DIFFERENT = {
    "a star stands for each coding (RFC 9110, 12.5.3)": lambda uri, ae, more: isinstance(ae, str) and "*" in ae,
    "a q above 1 is not valid (RFC 9110, 12.4.2)": lambda uri, ae, more: ae == "br;q=1.5",
    "all lines count (RFC 9110, 5.3)": lambda uri, ae, more: isinstance(ae, tuple),
    "a file that stands coded has ranges of its own (RFC 9110, 14.2)": lambda uri, ae, more: uri == "/both.css"
    and ae == "br" and ("Range", "bytes=0-9") in more.get("headers", ()),
    "no-transform forbids it (RFC 9110, 7.7)": lambda uri, ae, more: "no-transform" in uri and ae == "br",
}


class Named(Ordered):
    """Without weft there are no variables of it for the log."""

    def config(self, ports):
        text = super().config(ports)
        return text if MODULE in self.modules else text.replace("$weft_status", "-").replace("$weft_ratio", "-")


@unittest.skipUnless(DEBIAN and all(map(os.path.exists, PEER)), "Debian's brotli modules")
class BesideBrotli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        packed = subprocess.run(["brotli", "-c"], input=SIBLING, capture_output=True, check=True).stdout
        files = {"page.html": PAGE, "style.css": PAGE, "tiny.css": b"a{}", "pic.png": PAGE, "both.css": PAGE}
        files["both.css.br"] = packed
        cls.found = []
        for modules in (PEER, [MODULE]):
            with Named(modules, server=SERVER, http=HTTP, files=files, upstream=True) as site:
                cls.found.append({repr(one): cls.ask(site.port, *one) for one in requests()})

    @staticmethod
    def ask(port, uri, ae, more):
        response = http1.get(port, uri, list(ae) if isinstance(ae, tuple) else ae, timeout=20 * slowness(), **more)
        plain = response.body
        if response.coding == "br" and response.status != 206 and more.get("method") != "HEAD":
            plain = coding.tool("br", plain)
        return response, (response.status, response.coding, response.complete, plain)


    def test_the_same_coding_status_and_body_but_for_the_differences(self):
        seen = set()
        for one in requests():
            (_, peer), (_, ours) = (found[repr(one)] for found in self.found)
            reasons = [why for why, applies in DIFFERENT.items() if applies(*one)]
            if peer == ours:
                continue
            self.assertEqual(len(reasons), 1, f"{one}: {peer[:3]}, and weft {ours[:3]}")
            seen.update(reasons)
        self.assertEqual(seen, set(DIFFERENT))

    def test_each_difference_is_what_it_says(self):
        answers = {repr(one)[1:-1]: tuple(found[repr(one)][1][:2] for found in self.found) for one in requests()}
        for uri, ae, more, peer, ours in (
            ("/page.html", "*", {}, (200, None), (200, "br")),
            ("/page.html", "br;q=0, *", {}, (200, None), (200, None)),
            ("/page.html", "br;q=1.5", {}, (200, "br"), (200, None)),
            ("/page.html", ("gzip", "br"), {}, (200, None), (200, "br")),
            ("/both.css", "br", {"headers": [("Range", "bytes=0-9")]}, (200, "br"), (206, "br")),
            (UPSTREAMS[8], "br", {}, (200, "br"), (200, None)),
        ):
            self.assertEqual(answers[repr((uri, ae, more))[1:-1]], (peer, ours), (uri, ae))

    def test_what_is_coded_is_what_the_client_accepts(self):
        for one in requests():
            response = self.found[1][repr(one)][0]
            if response.coding == "br" and "static-always" not in one[0]:
                self.assertTrue(accepts(one[1]), one)

    def test_headers_are_the_same_but_for_vary_and_the_ranges_of_siblings(self):
        for one in requests():
            (peer, peer_answer), (ours, answer) = (found[repr(one)] for found in self.found)
            if peer_answer != answer:
                continue
            for name in ("Content-Length", "Content-Type", "Content-Range", "Transfer-Encoding"):
                self.assertEqual(ours.all(name), peer.all(name), (one, name))
            weak = [response.get("ETag", "")[:2] == "W/" for response in (peer, ours)]
            self.assertEqual(*weak, one)
            vary = [{part.strip().lower() for value in r.all("Vary") for part in value.split(",")} for r in (peer, ours)]
            self.assertEqual(vary[0] - vary[1], set(), one)
            self.assertLessEqual(vary[1] - vary[0], {"accept-encoding"}, one)
            if ours.get("Accept-Ranges") != peer.get("Accept-Ranges"):
                self.assertIn("/both.css", one[0])
