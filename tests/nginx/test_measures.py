"""The figures that have to be shown, at a smaller size unless WEFT_FULL=1. measure_*.py print them."""

import unittest

from harness import measure
from harness.case import FULL, Site
from harness.nginx import has, memory_bound, slowness

MIB = measure.MIB


class Measures(unittest.TestCase):
    def test_small_body_at_level_22_takes_little_memory(self):
        for pool in (True, False):
            with self.subTest(pool=pool):
                found = measure.small_body(requests=200 if FULL else 60, pool=pool)
                self.assertLess(found["Anonymous"], memory_bound(4 * MIB))
                self.assertLess(found["peak"], memory_bound(4 * MIB))

    @unittest.skipUnless(has("threads"), "no threads")
    def test_small_requests_beside_large_ones(self):
        """At most a twentieth of what it is without the pool."""
        more = {"runs": 3} if FULL else {"runs": 1, "large": 6, "size": 500000}
        # Other work on the machine delays anyone at times: of three tries, one has to do.
        for _ in range(3):
            pool, inline = measure.compare_beside_large(**more)
            if pool["slowest"] * 20 <= inline["slowest"]:
                return
        self.fail(f"slowest {pool['slowest']:.0f} ms with the pool, {inline['slowest']:.0f} ms without")

    def test_load_client_leaves_a_connection_that_the_server_closes(self):
        """nginx closes one after keepalive_requests (1000): the next request on it counted as failed."""
        with Site("keepalive_requests 7;", files={"small.html": b"small"}) as site:
            found = measure.load(site.port, "/small.html", 200, 0.5)
        self.assertEqual((found["failed"], len(found["ms"])), (0, 100))

    def test_clients_leave_and_workers_reload(self):
        found = measure.comings_and_goings(*((200, 20) if FULL else (40, 4)), "release_all")
        self.assertEqual(found["faults"] + found["problems"], [])
        sizes = [round(size / MIB, 1) for size in found["sizes"]]
        self.assertLess(max(sizes) - sizes[0], memory_bound(6), sizes)

    def test_idle_event_streams(self):
        """No encoder is held, and each event can be read within 50 ms."""
        for _ in range(3):
            found = measure.idle_streams(1000 if FULL else 200, spread=8 if FULL else 2)
            self.assertLess(found["per_stream"], memory_bound(100 * 1024))
            if found["slowest"] <= 50 * slowness():
                return
        self.fail(f"an event came after {found['slowest']:.0f} ms, 99 in 100 within {found['p99']:.0f} ms")
