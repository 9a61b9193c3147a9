"""Directives: merged by directory, and wrong ones refused with words that help."""

from httpd.case import ApacheCase, ApacheSite, body

import unittest

PAGE = body("text", 30000)


class Wrong(unittest.TestCase):
    CASES = {
        "Weft": "takes Off, or codings",
        "Weft zstd deflate": 'no coding "deflate"',
        "Weft zstd zstd": "there twice",
        "Weft Off zstd": 'no coding "Off"',
        "WeftLevel zstd": "coding=level",
        "WeftLevel lzma=3": 'no coding "lzma"',
        "WeftLevel zstd=23": "the level of zstd is a number from",
        "WeftLevel br=12": "from 0 to 11",
        "WeftLevel gzip=-1": "the level of gzip",
        "WeftLevel gzip=6x": "the level of gzip",
        "WeftMinLength -1": "is no size",
        "WeftMinLength 10kb": "is no size",
        "WeftThreads 1025": "from 0 to 1024",
        "WeftThreads many": "from 0 to 1024",
        "WeftNice 20": "from 0 to 19",
        "WeftNice -1": "from 0 to 19",
        "WeftMaxMemory lots": "is no size",
        "WeftRetention bounded": "needs a size",
        "WeftRetention retain_all 5m": "behind bounded only",
        "WeftRetention keep": "WeftRetention is retain_all",
        "WeftOverload 0": "WeftOverload is Off",
        "<VirtualHost *:1>\nWeftThreads 2\n</VirtualHost>": "WeftThreads cannot occur within",
    }
    RIGHT = [
        "Weft zstd br gzip",
        "Weft off",
        "WeftLevel zstd=-5 br=0 gzip=9",
        "WeftMinLength 1k",
        "WeftThreads 0",
        "WeftNice 10",
        "WeftMaxMemory 1g",
        "WeftRetention bounded 16m",
        "WeftRetention release_all",
        "WeftOverload 500",
        "<Location /x>\nWeft gzip\nWeftLevel gzip=1\nWeftMinLength 0\n</Location>",
    ]

    def said(self, line):
        site = ApacheSite(server=line)
        try:
            site.apache.ports = [1]
            site.apache.write_config()
            return site.apache.test_config()
        finally:
            site.discard()

    def test_wrong_values(self):
        for line, words in self.CASES.items():
            with self.subTest(line=line):
                status, text = self.said(line)
                self.assertNotEqual(status, 0)
                self.assertIn(words, text)

    def test_right_values(self):
        for line in self.RIGHT:
            with self.subTest(line=line):
                self.assertEqual(self.said(line)[0], 0, self.said(line)[1])


class Merge(ApacheCase):
    files = {f"{name}/page.html": PAGE for name in ("off", "br", "more", "own")} | {
        "page.html": PAGE,
        "own/.htaccess": b"Weft gzip\nWeftMinLength 40000\n",
    }
    server = (
        "Weft zstd br gzip\nWeftMinLength 100\nSetOutputFilter WEFT\nSetEnvIf Request_URI \\?env no-weft\n"
        "<Directory %DIR%/www>\nAllowOverride FileInfo\n</Directory>\n"
        "<Location /off/>\nWeft Off\n</Location>\n<Location /br/>\nWeft br zstd\n</Location>\n"
        "<Location /more/>\nWeftMinLength 40000\n</Location>\n"
    )

    def coding_of(self, uri):
        return self.get(uri, "zstd, br, gzip").coding

    def test_directories(self):
        self.assertEqual(self.coding_of("/page.html"), "zstd")
        self.assertIsNone(self.coding_of("/off/page.html"))
        self.assertEqual(self.coding_of("/br/page.html"), "br")
        self.assertIsNone(self.coding_of("/more/page.html"))
        self.assertIsNone(self.coding_of("/own/page.html"))
        self.assertEqual(self.logged("/off/page.html")[0], "off:config")
        self.assertEqual(self.logged("/more/page.html")[0], "off:length")
