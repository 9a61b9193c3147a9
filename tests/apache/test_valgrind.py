"""One process of Apache under valgrind: no error, and nothing of ours is lost."""

import os
import re
import shutil
import time
import unittest

from httpd.case import ApacheSite, body
from harness import http1
from httpd import decoders
from test_choice import path


@unittest.skipIf(shutil.which("valgrind") is None, "no valgrind")
class Valgrind(unittest.TestCase):
    def test_no_error_and_no_leak(self):
        words = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=none"]
        words += ["--num-callers=30", "--log-file=valgrind.%p.log", "--child-silent-after-fork=yes"]
        files = {"page.html": body("text", 30000), "large.html": body("text", 400000)}
        server = "Weft zstd br gzip\nSetOutputFilter WEFT\nProxyPass /up/ http://%UP%/\n"
        site = ApacheSite(server=server, main="WeftThreads 2\n", files=files, upstream=True, command=words, more=["-X"])
        old = os.getcwd()
        os.chdir(site.folder)
        try:
            site.start()
            for coding in ("zstd", "br", "gzip"):
                for uri, plain in (("/page.html", files["page.html"]), ("/large.html", files["large.html"]),
                                   (path("chunked", 60000, type="text/html"), body("text", 60000))):
                    response = http1.get(site.port, uri, coding, timeout=120)
                    self.assertEqual(decoders.check_whole(coding, response.body), plain)
                response = http1.get(site.port, path("cut_chunked", 90000, type="text/html", at=50000), coding)
                self.assertFalse(decoders.is_complete(coding, response.body))
                http1.get(site.port, "/page.html", coding, method="HEAD")
                # A client that leaves.
                with http1.Connection(site.port) as connection:
                    connection.send("/large.html", coding)
                    connection.head()
                    connection.reset()
            # Seen when the process ended with a connection just lost: the cleanup of the event MPM's
            # queue walks recycled pools that a worker has freed. Nothing of ours is on that stack.
            time.sleep(1)
        finally:
            os.chdir(old)
            problems = site.apache.stop()
            text = ""
            for name in os.listdir(site.folder):
                if name.startswith("valgrind."):
                    with open(os.path.join(site.folder, name)) as file:
                        text += file.read()
            shutil.rmtree(site.folder, ignore_errors=True)
            site.upstream.stop()
        # So its exit status is not judged, only what names weft.
        self.assertFalse([line for line in problems if "still runs" in line])
        self.assertRegex(text, r"ERROR SUMMARY: \d+ errors")
        # Apache's own are not ours to mend.
        for record in re.split(r"\n==\d+== \n", text):
            if re.search(r"weft|mod_weft", record):
                self.assertNotRegex(record, r"Invalid |uninitialised|definitely lost in loss record", record)
