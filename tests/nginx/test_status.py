"""The page of weft_status: JSON and Prometheus text, over workers and reloads, and what it counts."""

import json
import re
import threading
import time

from harness.case import NginxCase, body
from harness.nginx import has, slowness
from test_choice import path

PAGE = body("text", 60000)
LARGE = body("text", 700000)
CODINGS = ("zstd", "br", "gzip")


class StatusCase(NginxCase):
    def page(self):
        response = self.get("/status", None)
        self.assertEqual((response.status, response.get("Content-Type")), (200, "application/json"))
        self.assertEqual(int(response.get("Content-Length")), len(response.body))
        return json.loads(response.body)

    def prometheus(self):
        """{sample: value}; the form of the text is checked on the way."""
        response = self.get("/status?format=prometheus", None)
        self.assertEqual(response.get("Content-Type"), "text/plain; version=0.0.4")
        kinds, helped, found = {}, set(), {}
        for line in response.body.decode().splitlines():
            if line.startswith("# HELP "):
                name, text = line[7:].split(" ", 1)
                self.assertNotIn(name, helped)
                self.assertTrue(text.endswith("."), line)
                helped.add(name)
            elif line.startswith("# TYPE "):
                name, kind = line[7:].split(" ")
                self.assertIn(name, helped)
                self.assertIn(kind, ("counter", "gauge", "histogram"))
                kinds[name] = kind
            else:
                match = re.fullmatch(r'(weft_[a-z_]+)(\{[a-z]+="[^"]+"\})? ([0-9.]+)', line)
                self.assertTrue(match, line)
                name = match[1]
                if name not in kinds:
                    name = re.sub(r"_(bucket|sum|count)$", "", name)
                    self.assertEqual(kinds.get(name), "histogram", line)
                if kinds[name] == "counter":
                    self.assertTrue(name.endswith("_total"), line)
                self.assertNotIn(match[1] + (match[2] or ""), found)
                found[match[1] + (match[2] or "")] = float(match[3])
        self.assertEqual(helped, set(kinds))
        return found

    def until(self, read, expected, wait=5.0):
        """What one worker has done is seen by another within a tenth of a second."""
        end = time.monotonic() + wait * slowness()
        while (found := read()) != expected and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(found, expected)


SERVER = """
    weft zstd br gzip;
    location = /status { weft_status; }
    location /up/ { proxy_pass http://%UP%/; }
    location /when/ { alias www/; weft_when 0; }
    location /off/ { alias www/; weft off; }
"""


class Page(StatusCase):
    upstream = True
    files = {"page.html": PAGE, "large.html": LARGE, "tiny.html": b"x", "page.bin": PAGE}
    server = SERVER

    def test_counts_of_each_coding(self):
        for name in CODINGS:
            before = self.page()["codings"][name]
            response = self.get("/large.html", name)
            after = self.page()["codings"][name]
            grown = {key: after[key] - before[key] for key in after}
            self.assertEqual(grown["responses"], 1)
            self.assertEqual((grown["streams_begun"], grown["streams_done"]), (1, 1))
            self.assertEqual(grown["bytes_in"], len(LARGE))
            # Heads and tails are not any segment's.
            self.assertAlmostEqual(grown["bytes_out"], len(response.body), delta=40)
            self.assertGreater(grown["segments_inline"] + grown["segments_tasks"] + grown["segments_refused"], 0)
            self.assertGreater(grown["cpu_ns"], 0)

    def test_engine_is_the_sum(self):
        for name in CODINGS:
            self.get("/page.html", name)
        page = self.page()
        for key in ("streams_begun", "streams_done", "bytes_in", "bytes_out", "cpu_ns"):
            self.assertEqual(page["engine"][key], sum(page["codings"][name][key] for name in CODINGS), key)

    def test_every_response_is_counted_by_its_reason(self):
        up = {"type": "text/html"}
        for reason, uri, ae in (
            ("coded", "/page.html", "zstd"),
            ("off:client", "/page.html", None),
            ("off:length", "/tiny.html", "zstd"),
            ("off:type", "/page.bin", "zstd"),
            ("off:when", "/when/page.html", "zstd"),
            ("off:status", path(status=500, **up), "zstd"),
            ("off:coded", path(h="Content-Encoding:br", **up), "zstd"),
            ("off:transform", path(h="Cache-Control:no-transform", **up), "zstd"),
            ("off:range", path(h="Content-Range:bytes 0-2999/9000", **up), "zstd"),
        ):
            with self.subTest(reason=reason):
                before = self.page()["responses"]
                self.get(uri, ae)
                after = self.page()["responses"]
                changed = {key: after[key] - before[key] for key in after if after[key] != before[key]}
                # The page itself is a response, too, of a type that is not coded.
                self.assertEqual(changed.pop("off:type"), 2 if reason == "off:type" else 1)
                self.assertEqual(changed, {} if reason == "off:type" else {reason: 1})

    def test_where_weft_is_off_nothing_is_counted(self):
        before = self.page()["responses"]["off"]
        self.get("/off/page.html")
        self.assertEqual(self.page()["responses"]["off"], before)

    def test_cancelled(self):
        before = self.page()["engine"]["streams_cancelled"]
        uri = path("cut_chunked", 400000, type="text/html", at=300000, hold=0.05)
        self.get(uri)
        self.until(lambda: self.page()["engine"]["streams_cancelled"], before + 1)

    def test_nothing_is_left_when_nothing_runs(self):
        self.get("/large.html")
        keys = ("streams_live", "tasks_outstanding", "segments_queued", "encoders_running")
        self.until(lambda: [self.page()["engine"][key] for key in keys], [0] * 4)

    def test_histograms_count_each_segment_once(self):
        self.get("/large.html", "br")
        self.until(lambda: self.page()["engine"]["tasks_outstanding"], 0)
        page = self.page()
        engine, found = page["engine"], page["histograms"]
        for histogram in found.values():
            self.assertEqual(len(histogram["counts"]), len(histogram["bounds"]) + 1)
            self.assertEqual(histogram["bounds"], sorted(histogram["bounds"]))
        self.assertEqual(sum(found["run_us"]["counts"]), engine["segments_tasks"])
        self.assertEqual(
            sum(found["inline_us"]["counts"]), engine["segments_inline"] + engine["segments_refused"]
        )

    def test_prometheus_says_the_same(self):
        self.get("/large.html")
        self.until(lambda: self.page()["engine"]["tasks_outstanding"], 0)
        page, found = self.page(), self.prometheus()
        for name in CODINGS:
            of = page["codings"][name]
            label = f'{{coding="{name}"}}'
            self.assertEqual(found["weft_streams_begun_total" + label], of["streams_begun"])
            self.assertEqual(found["weft_bytes_in_total" + label], of["bytes_in"])
            self.assertAlmostEqual(found["weft_cpu_seconds_total" + label] * 1e9, of["cpu_ns"], delta=1000)
            self.assertEqual(found["weft_coded_responses_total" + label], of["responses"])
        self.assertEqual(found['weft_responses_total{status="coded"}'], page["responses"]["coded"])
        self.assertEqual(found["weft_memory_bytes"], page["engine"]["memory"])

    def test_prometheus_histograms(self):
        for name in CODINGS:
            self.get("/large.html", name)
        self.until(lambda: self.page()["engine"]["tasks_outstanding"], 0)
        found = self.prometheus()
        for name in ("queue", "run", "inline"):
            start = f"weft_segment_{name}_seconds"
            buckets = [value for key, value in found.items() if key.startswith(start + "_bucket")]
            self.assertEqual(len(buckets), 22)
            self.assertEqual(buckets, sorted(buckets), "they are cumulative")
            self.assertEqual(buckets[-1], found[start + "_count"])
            self.assertIn(start + '_bucket{le="+Inf"}', found)

    def test_head_and_other_methods(self):
        response = self.get("/status", None, method="HEAD")
        self.assertEqual((response.status, response.body), (200, b""))
        self.assertEqual(self.get("/status", None, method="POST", body=b"x").status, 405)


class Fresh(StatusCase):
    server = SERVER.replace("location /up/ { proxy_pass http://%UP%/; }", "")

    def test_before_anything_was_coded(self):
        page = self.page()
        self.assertEqual(set(page["engine"].values()), {0})
        self.prometheus()


class Workers(StatusCase):
    """All workers' figures, and they go on over reloads and a worker's end."""

    workers = 3
    files = {"page.html": PAGE}
    server = SERVER.replace("location /up/ { proxy_pass http://%UP%/; }", "")

    def done(self):
        return self.page()["engine"]["streams_done"]

    def test_over_workers_and_reloads(self):
        start = self.done()
        for turn in range(3):
            threads = [threading.Thread(target=self.get, args=("/page.html",)) for _ in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.until(self.done, start + 12 * (turn + 1))
            old = self.nginx.workers()
            self.nginx.reload()
            self.nginx.wait_gone(old, 10)
            self.assertEqual(self.done(), start + 12 * (turn + 1))
        self.until(lambda: self.page()["engine"]["streams_live"], 0)


class Unused(NginxCase):
    files = {"page.html": PAGE}
    server = "weft zstd;"

    def test_no_page_no_zone(self):
        self.assert_coded(self.get("/page.html"), PAGE)


class Overload(StatusCase):
    """A queue that is too long: a lower level first, identity last; both are counted and told."""

    needs = ("threads",)
    main = "thread_pool one threads=1;"
    files = {f"{number}.html": body("text", 400000, number) for number in range(40)}
    http = "    weft_overload 150ms 600ms;"
    server = """
        weft zstd; weft_level zstd=19; weft_thread_pool one;
        location = /status { weft_status; }
    """

    def test_lower_then_identity(self):
        found = {}

        def one(number):
            with self.connect(timeout=60 * slowness()) as connection:
                connection.send(f"/{number}.html?overload")
                response = connection.read()
                found[number] = response

        threads = [threading.Thread(target=one, args=(number,)) for number in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, response in found.items():
            plain = body("text", 400000, number)
            if response.coding:
                self.assert_coded(response, plain)
            else:
                self.assert_plain(response, plain)
                self.assertEqual(response.get("Content-Length"), "400000")
        self.assertEqual(len(found), 40)
        page = self.page()
        told = page["responses"]
        self.assertEqual(told["coded"] + told["lower"] + told["off:overload"], 40)
        self.assertGreater(told["coded"], 0)
        self.assertGreater(told["lower"], 0)
        self.assertEqual(page["engine"]["overload_lowered"], told["lower"])
        self.assertEqual(page["engine"]["refused_overload"], told["off:overload"])
        with open(f"{self.site.folder}/access.log") as file:
            statuses = re.findall(r'overload .*weft="([^"]*)"', file.read())
        self.assertEqual(statuses.count("zstd:lower"), told["lower"])
        self.assertEqual(statuses.count("off:overload"), told["off:overload"])


class MemoryLower(StatusCase):
    """No room for an encoder of that level: one of a low level is tried before identity."""

    files = {"page.html": body("text", 400000)}
    http = "    weft_max_memory 5m;"
    server = """
        weft zstd; weft_level zstd=22; weft_segment_size 1m;
        location = /status { weft_status; }
    """

    def test_lower(self):
        self.assert_coded(self.get("/page.html?memory"), body("text", 400000))
        self.assertEqual(self.logged("/page.html?memory")[0], "zstd:lower")
        self.assertEqual(self.page()["responses"]["lower"], 1)


if not has("threads"):
    del Overload
