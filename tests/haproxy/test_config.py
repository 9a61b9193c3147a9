"""The options of `filter weft`: right ones, and what is said of wrong ones."""

import unittest

from proxy.case import HaproxySite


class Options(unittest.TestCase):
    WRONG = {
        "codings lzma": "no coding 'lzma'",
        "codings zstd,zstd": "coding 'zstd' twice",
        "codings": "'codings' needs a value",
        "level zstd": "is not CODING=LEVEL",
        "level lzma=3": "is not CODING=LEVEL",
        "level zstd=23": "the level of zstd is a number from",
        "level br=12": "from 0 to 11",
        "level gzip=-1": "the level of gzip",
        "level gzip=6x": "the level of gzip",
        "types html": "'html' is no media type",
        "statuses 206": "is no status",
        "statuses 99": "is no status",
        "statuses many": "is no status",
        "min-length -1": "is no size",
        "min-length 10kb": "is no size",
        "threads 1025": "from 0 to 1024",
        "nice 20": "from 0 to 19",
        "max-memory lots": "is no size",
        "retain some": "is no size",
        "overload soon": "number of milliseconds",
        "speed 9": "no option 'speed'",
    }
    RIGHT = [
        "",
        "codings br,gzip",
        "level zstd=-5,br=0,gzip=9",
        "types text/plain,application/json",
        "types *",
        "statuses 200,201,500",
        "min-length 1k",
        "threads 0",
        "threads 2 nice 10 max-memory 1g retain 16m overload 500",
        "no-vary ignore-no-transform",
    ]

    def said(self, line):
        site = HaproxySite(line)
        try:
            return site.test_config()
        finally:
            site.stop()

    def test_wrong_values(self):
        for line, words in self.WRONG.items():
            with self.subTest(line=line):
                status, text = self.said(line)
                self.assertNotEqual(status, 0, text)
                self.assertIn(words, text)
                self.assertRegex(text, r"haproxy\.cfg:\d+\]")

    def test_right_values(self):
        for line in self.RIGHT:
            with self.subTest(line=line):
                status, text = self.said(line)
                self.assertEqual(status, 0, text)

    def test_buffers_without_room_for_output_are_refused(self):
        """HAProxy's watchdog ended it, once a buffer was full of input."""
        for reserve, right in ((0, False), (255, False), (256, True)):
            site = HaproxySite(more=f"tune.maxrewrite {reserve}")
            try:
                status, text = site.test_config()
            finally:
                site.stop()
            self.assertEqual(status == 0, right, text)
            if not right:
                self.assertIn("'tune.maxrewrite' is at least 256", text)
