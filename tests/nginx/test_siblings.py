"""Files that stand beside others, coded already: weft_static, brotli_static, zstd_static."""

import gzip
import os
import subprocess

from harness.case import NginxCase, body

PAGE = body("text", 60000)
OTHER = body("json", 9000)
BROWSER = "gzip, deflate, br, zstd"


def run(words, data):
    return subprocess.run(words, input=data, capture_output=True, check=True).stdout


def zst(data, *options):
    return run(["zstd", "-q", "-c", *options], data)


def br(data):
    return run(["brotli", "-c", "-q", "5"], data)


def files():
    found = {
        "all.html": PAGE,
        "all.html.zst": zst(PAGE),
        "all.html.br": br(PAGE),
        "all.html.gz": gzip.compress(PAGE, mtime=0),
        "none.html": PAGE,
        "br.html": PAGE,
        "br.html.br": br(PAGE),
        "gz.html": PAGE,
        "gz.html.gz": gzip.compress(PAGE, mtime=0),
        "lonely.html.zst": zst(PAGE),
        "style.css": PAGE,
        "style.css.zst": zst(PAGE),
        "wide.html": PAGE,
        "wide.html.zst": zst(PAGE, "--long=24", "--no-content-size", "-1"),
        "wide.html.br": br(PAGE),
        "wrong.html": PAGE,
        "wrong.html.zst": b"this is not zstd at all",
        "short.html": PAGE,
        "short.html.zst": b"\x28\xb5\x2f",
        "skip.html": PAGE,
        "skip.html.zst": b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zst(PAGE),
        "empty.html": b"",
        "empty.html.zst": zst(b""),
        "single.html": PAGE,
        "single.html.zst": zst(PAGE, "--content-size"),
        "folder/index.html": PAGE,
        "folder/index.html.zst": zst(PAGE),
        "dir.html": PAGE,
        "dir.html.zst/inside": b"x",
        "loop.html": PAGE,
        "linked.html": PAGE,
        "part.html": b"<p>" + b"part" * 20,
        "part.html.zst": zst(b"other"),
        "ssi/page.shtml": b"(" + b'<!--#include virtual="/all.html" -->' + b")",
    }
    # A header that declares 8 MiB and one that declares just more: RFC 9659's border.
    small = zst(PAGE, "--no-content-size")
    found["border.html"] = found["beyond.html"] = PAGE
    found["border.html.zst"] = small[:4] + bytes([small[4] & ~0x20, 13 << 3]) + small[6:]
    found["beyond.html.zst"] = small[:4] + bytes([small[4] & ~0x20, 13 << 3 | 1]) + small[6:]
    return found


class Siblings(NginxCase):
    files = staticmethod(files)
    http = "    types { text/html html shtml; text/css css; }"
    server = """
        weft_static on;
        location /order/ { alias www/; weft br zstd; }
        location /zstd/ { alias www/; weft_static off; zstd_static on; }
        location /brotli/ { alias www/; weft_static off; brotli_static on; }
        location /both/ { alias www/; weft_static off; brotli_static on; zstd_static on; }
        location /always/ { alias www/; weft_static off; zstd_static always; }
        location /off/ { alias www/; weft_static off; }
        location /dynamic/ { alias www/; weft zstd br gzip; }
        location /gzip-static/ { alias www/; weft_static off; zstd_static on; gzip_static on; gzip_vary on; }
        location /stock/ { alias www/; gzip on; gzip_vary on; }
        location /cache/ { alias www/; open_file_cache max=50; open_file_cache_errors on; }
        location /links/ { alias www/; disable_symlinks on; }
        location /try/ { root www; try_files $uri.none /all.html; }
        location /ssi/ { ssi on; }
        location /directio/ { alias www/; directio 512; }
        location /index/ { alias www/folder/; }
        location = /missing { error_page 404 /all.html; return 404; }
    """
    allowed = r"loop\.html|is no zstd frame|has a window"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.symlink("loop.html.zst", f"{cls.site.www}/loop.html.zst")
        os.symlink("all.html.zst", f"{cls.site.www}/linked.html.zst")

    def sibling(self, uri, coding, ae=BROWSER, plain=PAGE, **more):
        response = self.get(uri, ae, **more)
        self.assertEqual((response.status, response.coding), (200, coding), uri)
        self.coding = coding
        self.assertEqual(response.get("Content-Length"), str(len(response.body)))
        self.assertEqual(response.get("Accept-Ranges"), "bytes")
        self.assertRegex(response.get("ETag"), r'^"[0-9a-f]+-[0-9a-f]+"$')
        self.assert_same(self.decoded(response), plain, uri)
        return response

    def stored(self, name):
        with open(f"{self.site.www}/{name}", "rb") as file:
            return file.read()

    def test_the_file_itself_is_sent(self):
        for ae, coding, suffix in (("zstd", "zstd", "zst"), ("br", "br", "br"), ("gzip", "gzip", "gz")):
            response = self.sibling("/all.html", coding, ae)
            self.assert_same(response.body, self.stored(f"all.html.{suffix}"))
            self.assertEqual(response.get("Content-Type"), "text/html")
            self.assert_varies(response)

    def test_order(self):
        self.sibling("/all.html", "zstd")
        self.sibling("/order/all.html", "br")
        self.sibling("/order/all.html", "gzip", "gzip")
        self.sibling("/all.html", "br", "br, zstd;q=0.5")
        self.sibling("/br.html", "br")
        self.sibling("/gz.html", "gzip")

    def test_families(self):
        self.sibling("/zstd/all.html", "zstd")
        self.assert_plain(self.get("/zstd/all.html", "br, gzip"), PAGE)
        self.sibling("/brotli/all.html", "br")
        self.assert_plain(self.get("/brotli/all.html", "zstd"), PAGE)
        self.sibling("/both/all.html", "zstd")
        self.sibling("/both/all.html", "br", "br, gzip")

    def test_type_is_that_of_the_uri(self):
        response = self.get("/style.css", "zstd")
        self.assertEqual((response.coding, response.get("Content-Type")), ("zstd", "text/css"))

    def test_plain_for_who_does_not_take_it_and_it_varies(self):
        for ae in (None, "identity", "deflate", "zstd;q=0, br;q=0, gzip;q=0"):
            response = self.get("/all.html", ae)
            self.assert_plain(response, PAGE)
            self.assert_varies(response)

    def test_nothing_is_decided_without_such_a_file(self):
        response = self.get("/none.html", BROWSER)
        self.assert_plain(response, PAGE)
        self.assertNotIn("Vary", response)
        self.assertEqual(self.get("/nothing.html", BROWSER).status, 404)

    def test_off(self):
        response = self.get("/off/all.html", BROWSER)
        self.assert_plain(response, PAGE)
        self.assertNotIn("Vary", response)

    def test_the_plain_file_need_not_be_there(self):
        self.sibling("/lonely.html", "zstd")
        self.assertEqual(self.get("/lonely.html", None).status, 404)

    def test_always(self):
        for ae in (BROWSER, None, "gzip"):
            response = self.sibling("/always/all.html", "zstd", ae)
            self.assertNotIn("Vary", response)
        self.sibling("/always/lonely.html", "zstd", None)

    def test_etag_and_date_are_the_files_own(self):
        plain, coded = self.get("/all.html", None), self.get("/all.html", "zstd")
        self.assertNotEqual(plain.get("ETag"), coded.get("ETag"))
        os.utime(f"{self.site.www}/style.css.zst", (1000000000, 1000000000))
        self.assertEqual(self.get("/style.css", "zstd").get("Last-Modified"), "Sun, 09 Sep 2001 01:46:40 GMT")

    def test_not_modified(self):
        etag = self.get("/all.html", "zstd").get("ETag")
        response = self.get("/all.html", "zstd", headers=[("If-None-Match", etag)])
        self.assert_plain(response, b"", 304)
        self.assertEqual(response.get("ETag"), etag)
        self.assert_varies(response)
        # Another representation has another tag.
        self.sibling("/all.html", "br", "br", headers=[("If-None-Match", etag)])

    def test_ranges(self):
        whole = self.stored("all.html.zst")
        response = self.get("/all.html", "zstd", headers=[("Range", "bytes=10-29")])
        self.assertEqual((response.status, response.coding), (206, "zstd"))
        self.assertEqual(response.body, whole[10:30])
        self.assertEqual(response.get("Content-Range"), f"bytes 10-29/{len(whole)}")
        self.assert_varies(response)
        etag = self.get("/all.html", "zstd").get("ETag")
        headers = [("Range", "bytes=0-4"), ("If-Range", etag)]
        self.assertEqual(self.get("/all.html", "zstd", headers=headers).status, 206)
        headers = [("Range", "bytes=0-4"), ("If-Range", '"other"')]
        self.sibling("/all.html", "zstd", headers=headers)

    def test_head(self):
        get, head = (self.get("/all.html", "zstd", method=method) for method in ("GET", "HEAD"))
        drop = ("date",)
        pairs = [sorted(p for p in r.pairs if p[0].lower() not in drop) for r in (get, head)]
        self.assertEqual(*pairs)
        self.assertEqual(head.body, b"")

    def test_other_methods(self):
        self.assertEqual(self.get("/all.html", "zstd", method="POST", body=b"x").status, 405)

    def test_folder(self):
        self.assertEqual(self.get("/index/", "zstd").coding, "zstd")
        self.assertEqual(self.get("/folder", "zstd").status, 301)

    def test_window_above_8_mib_falls_back(self):
        self.sibling("/border.html", "zstd")
        self.assert_plain(self.get("/beyond.html", "zstd"), PAGE)
        response = self.sibling("/wide.html", "br")
        self.assert_varies(response)
        self.assert_plain(self.get("/wide.html", "zstd"), PAGE)
        lines = [line for line in self.nginx.log().splitlines() if "beyond.html" in line]
        self.assertEqual(len(lines), 1)
        self.assertIn("has a window of", lines[0])

    def test_what_is_no_zstd_is_not_sent(self):
        for name in ("wrong", "short"):
            self.assert_plain(self.get(f"/{name}.html", "zstd"), PAGE)
        self.assertIn("wrong.html.zst\" is no zstd frame", self.nginx.log())

    def test_frames_of_every_form(self):
        self.sibling("/single.html", "zstd")
        self.assertEqual(self.get("/skip.html", "zstd").coding, "zstd")
        self.sibling("/empty.html", "zstd", plain=b"")

    def test_directio(self):
        self.sibling("/directio/all.html", "zstd")
        self.sibling("/directio/all.html", "zstd")

    def test_unreadable_is_the_plain_one_and_a_line(self):
        self.assert_plain(self.get("/loop.html", "zstd"), PAGE)
        self.assertRegex(self.nginx.log(), r'\[error\].*failed.*loop\.html|\[error\].*loop\.html\.zst" failed')
        self.assert_plain(self.get("/dir.html", "zstd"), PAGE)

    def test_symlinks(self):
        self.sibling("/linked.html", "zstd")
        response = self.get("/links/linked.html", "zstd")
        self.assertNotEqual(response.coding, "zstd")

    def test_open_file_cache(self):
        for _ in range(3):
            self.sibling("/cache/all.html", "zstd")
            self.sibling("/cache/all.html", "br", "br")
            self.assert_plain(self.get("/cache/none.html", BROWSER), PAGE)
            self.assert_plain(self.get("/cache/all.html", None), PAGE)

    def test_what_has_no_file_is_coded_on_the_way(self):
        self.sibling("/dynamic/all.html", "zstd")
        self.coding = "zstd"
        self.assert_coded(self.get("/dynamic/none.html", BROWSER), PAGE)
        # A file for another coding does not keep this one from being coded.
        self.assert_coded(self.get("/dynamic/br.html", "zstd"), PAGE)

    def test_beside_gzip_static_and_gzip(self):
        self.sibling("/gzip-static/all.html", "zstd")
        response = self.get("/gzip-static/all.html", "gzip")
        self.assertEqual((response.coding, response.body), ("gzip", self.stored("all.html.gz")))
        response = self.get("/stock/none.html", "gzip")
        self.assertEqual(response.coding, "gzip")
        response = self.get("/stock/all.html", "gzip")
        self.assertEqual(response.body, self.stored("all.html.gz"))
        self.assert_varies(response)

    def test_internal_redirects(self):
        self.sibling("/try/x", "zstd")
        response = self.get("/missing", "zstd")
        self.assertEqual((response.status, response.coding), (404, "zstd"))

    def test_a_part_of_a_page_is_plain(self):
        self.assert_plain(self.get("/ssi/page.shtml", BROWSER), b"(" + PAGE + b")")

    def test_status(self):
        self.get("/all.html?static", "br")
        self.assertEqual(self.logged("/all.html?static")[0], "br:static")
