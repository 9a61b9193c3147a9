"""Beside modules of others: whichever order they are loaded in, the answer is the same."""

import itertools
import os
import struct
import tempfile
import unittest
import zlib

from harness import coding, http1
from harness.case import Site, body
from harness.nginx import BINARY, MODULE, Nginx, slowness
from test_choice import path

FOLDER = "/usr/lib/nginx/modules"
OTHERS = [
    f"{FOLDER}/ngx_http_{name}_module.so"
    for name in ("headers_more_filter", "subs_filter", "echo", "xslt_filter", "fancyindex", "image_filter")
]
BROTLI = [f"{FOLDER}/ngx_http_brotli_{kind}_module.so" for kind in ("filter", "static")]
DEBIAN = BINARY == "/usr/sbin/nginx" and MODULE

PAGE = b"<html>" + body("text", 40_000) + b"</html>"
DATA = b"<?xml version='1.0'?><rows>" + b"".join(b"<row>%d</row>" % n for n in range(3000)) + b"</rows>"
SHEET = b"""<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="html"/>
<xsl:template match="/"><html><xsl:for-each select="rows/row"><p>row <xsl:value-of select="."/></p></xsl:for-each></html>
</xsl:template></xsl:stylesheet>"""



def image():
    """A PNG of 9 by 7 grey points."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 9, 7, 8, 0, 0, 0, 0)
    lines = zlib.compress(b"".join(b"\0" + b"\x80" * 9 for _ in range(7)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


SERVER = """
    weft zstd br gzip;
    gzip on; gzip_min_length 20; gzip_proxied any; gzip_vary on;
    more_set_headers "X-More: yes";
    location /subs/ { alias www/; subs_filter window WINDOW; }
    location /sub/ { alias www/; sub_filter window WINDOW; sub_filter_once off; }
    location /echo { default_type text/html; echo_duplicate 2000 "and again, "; }
    location /xslt/ { alias www/; types { text/xml xml; } xslt_stylesheet www/sheet.xslt; }
    location /image/ { alias www/; weft_types application/json; image_filter size; }
    location /index/ { alias www/; fancyindex on; }
    location /stock/ { alias www/; weft off; }
    location /ours/ { alias www/; gzip off; }
    location /up/ { proxy_pass http://%UP%/; proxy_http_version 1.1; }
"""
URIS = ["/page.html", "/subs/page.html", "/sub/page.html", "/echo", "/xslt/data.xml", "/image/dot.png"]
URIS += ["/index/", "/stock/page.html"]
URIS += ["/ours/page.html", path("gzipped", n=5000, type="text/html"), path("chunked", n=9000, type="text/html")]
ACCEPTED = [None, "gzip", "br", "zstd", "gzip, br, zstd", "gzip;q=1, zstd;q=0.5", "identity;q=1, gzip;q=0.5", "*"]


class Ordered(Site):
    """`modules` are loaded in that order, ours among them."""

    def __init__(self, modules, **more):
        self.modules = modules
        super().__init__(**more)

    def config(self, ports):
        ours = f"load_module {MODULE};\n"
        text = super().config(ports)
        assert ours in text
        return text.replace(ours, "".join(f"load_module {name};\n" for name in self.modules))


@unittest.skipUnless(DEBIAN, "modules of Debian's nginx")
class Order(unittest.TestCase):
    def answers(self, modules):
        found = {}
        files = {"page.html": PAGE, "data.xml": DATA, "sheet.xslt": SHEET, "dot.png": image()}
        with Ordered(modules, server=SERVER, files=files, upstream=True) as site:
            for uri in URIS:
                for accepted in ACCEPTED:
                    response = http1.get(site.port, uri, accepted, timeout=20 * slowness())
                    self.assertTrue(response.complete, f"{uri}: {response.error}")
                    named = response.all("Content-Encoding")
                    self.assertLessEqual(len(named), 1, f"{uri} {accepted}: coded twice")
                    plain = coding.check_whole(named[0], response.body) if named else response.body
                    fields = sorted((name.lower(), value) for name, value in response.pairs)
                    # Files are written anew for each nginx.
                    fields = [pair for pair in fields if pair[0] not in ("date", "last-modified", "etag")]
                    if uri != "/index/":
                        fields.append(("body", plain))
                    found[uri, accepted] = (response.status, fields)
        return found

    def test_the_answer_does_not_depend_on_the_order_of_load_module(self):
        others = [name for name in OTHERS if os.path.exists(name)]
        self.assertEqual(others, OTHERS)
        first = self.answers([MODULE, *others])
        for modules in ([*others, MODULE], [*others[:3], MODULE, *others[3:]], [*reversed(others), MODULE]):
            other = self.answers(modules)
            for key, answer in first.items():
                self.assertEqual(answer[0], 200, key)
                self.assertTrue(other[key] == answer, f"{key}: {answer[1][:-1]}, and in another order {other[key][1][:-1]}")
        # What is compared is what it should be.
        for uri in URIS[:7]:
            self.assertIn(("content-encoding", "zstd"), first[uri, "gzip, br, zstd"][1], uri)
        self.assertIn(("content-encoding", "gzip"), first["/stock/page.html", "gzip, br, zstd"][1])
        self.assertIn(b"WINDOW", dict(first["/subs/page.html", "zstd"][1])["body"])
        self.assertIn(b"<p>row 2999</p>", dict(first["/xslt/data.xml", "zstd"][1])["body"])


@unittest.skipUnless(DEBIAN and all(map(os.path.exists, BROTLI)), "Debian's brotli modules")
class Peer(unittest.TestCase):
    def test_beside_a_module_that_it_replaces_nginx_does_not_start_and_says_what_to_do(self):
        for modules in itertools.chain.from_iterable(([name, MODULE], [MODULE, name]) for name in BROTLI):
            with tempfile.TemporaryDirectory() as folder:
                loads = "".join(f"load_module {name};\n" for name in modules)
                nginx = Nginx(folder, lambda ports, loads=loads: loads + "events {}\nhttp {\n}\n")
                nginx.write_config()
                status, said = nginx.test_config()
                self.assertEqual(status, 1)
                self.assertRegex(said, r'place of the module "ngx_http_brotli_(filter|static)_module".*"load_module" in \S*nginx.conf:\d')
