"""weft's threads in HAProxy's process: they start before it gives up the right to start any, run on all of its
CPUs, and are no obstacle to its end."""

import itertools
import os
import signal
import threading
import time
import unittest

from harness import coding, http1
from harness.nginx import slowness
from proxy.case import CODINGS, HaproxyCase, HaproxySite, body
from test_rules import path

LEVELS = "codings zstd,br,gzip level zstd=19,br=9,gzip=9 types * threads 2"


def threads_of(pid, name="weft"):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm") as file:
                if file.read().strip() == name:
                    found.append(int(task))
        except OSError:
            continue
    return found


def figures(site):
    lines = [line.split(": ") for line in site.ask("show weft").splitlines()]
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


class Unprivileged(HaproxyCase):
    """HAProxy sets RLIMIT_NPROC to 0 once it runs, which binds all users but root. weft's threads were to start
    at the first response, and never did: HAProxy's own threads coded."""

    filter = LEVELS
    more = "user nobody" if os.geteuid() == 0 else ""

    def test_threads_are_there_from_the_start_and_do_the_work(self):
        pid = self.site.process.pid
        if os.geteuid() == 0:
            with open(f"/proc/{pid}/status") as file:
                self.assertNotIn("\nUid:\t0\t", file.read())
        until = time.monotonic() + 5 * slowness()
        # Each gives itself its name.
        while len(threads_of(pid)) != 2:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        for self.coding in CODINGS:
            self.assert_coded(self.fetch("h1 h1", path(n=2_000_000), self.coding), body("text", 2_000_000))
        found = figures(self.site)
        self.assertGreaterEqual(found["segments_tasks"], 3)
        self.assertEqual((found["segments_refused"], found["posts_refused"]), (0, 0))
        self.assertEqual(found["threads"], 2)


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU")
class Pinned(HaproxyCase):
    """`cpu-map` gives each thread of HAProxy one CPU: weft's threads were all on that of the one that began."""

    threads = 2
    filter = LEVELS
    more = "cpu-map auto:1/1-2 {}-{}".format(*sorted(os.sched_getaffinity(0))[:2])

    def test_threads_run_on_the_cpus_of_all_threads_of_haproxy(self):
        pid = self.site.process.pid
        of_haproxy = set(map(int, os.listdir(f"/proc/{pid}/task"))) - set(threads_of(pid))
        masks = {task: os.sched_getaffinity(task) for task in of_haproxy}
        self.assertEqual(sorted(len(mask) for mask in masks.values()), [1, 1])
        for _ in range(20):
            self.assert_coded(self.fetch("h1 h1", path(n=300_000), "zstd"), body("text", 300_000))
            found = [os.sched_getaffinity(task) for task in threads_of(pid)]
            if all(mask == set().union(*masks.values()) for mask in found):
                break
        self.assertEqual(found, [set().union(*masks.values())] * 2)
        # Starting them moved none of HAProxy's.
        self.assertEqual({task: os.sched_getaffinity(task) for task in of_haproxy}, masks)


class EndsUnderLoad(unittest.TestCase):
    """Signals while streams of every coding are half way, their segments queued and running."""

    def site(self, threads):
        return HaproxySite(LEVELS, threads)

    def begin(self, site, count):
        connections = []
        for number in range(count):
            connection = http1.Connection(site.ports[2 * (number % 2)], 60 * slowness(), receive_buffer=4096)
            uri = path("length", 4_000_000, kind="json", seed=number % 3)
            connection.send(uri, CODINGS[number % 3])
            connections.append(connection)
        return connections

    def test_sigterm_ends_it_at_once_and_no_body_looks_whole(self):
        for threads, pause in itertools.product((1, 4), (0, 0.3)):
            with self.subTest(threads=threads, pause=pause):
                site = self.site(threads)
                site.start()
                connections = self.begin(site, 30)
                time.sleep(pause)
                begun = time.monotonic()
                problems = site.stop()
                self.assertEqual(problems, [])
                self.assertLess(time.monotonic() - begun, 10 * slowness())
                for number, connection in enumerate(connections):
                    try:
                        response = connection.read()
                        self.assertFalse(response.complete)
                        self.assertFalse(coding.is_complete(CODINGS[number % 3], response.body))
                    except (http1.HttpError, ConnectionError):
                        pass  # not even headers
                    connection.close()

    def test_sigusr1_lets_what_has_begun_end(self):
        site = self.site(2)
        site.start()
        connections = self.begin(site, 9)
        found = [connection.head() for connection in connections]
        site.process.send_signal(signal.SIGUSR1)

        def read(number):
            for _ in connections[number].stream(found[number]):
                pass

        readers = [threading.Thread(target=read, args=(number,)) for number in range(9)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        for connection in connections:
            connection.close()
        site.process.wait(20 * slowness())
        self.assertEqual(site.stop(), [])
        for number, response in enumerate(found):
            self.assertTrue(response.complete, response.error)
            name = CODINGS[number % 3]
            self.assertEqual(response.coding, name)
            self.assertEqual(coding.check_whole(name, response.body), body("json", 4_000_000, number % 3))
