"""Files: every size around a boundary, every way nginx reads and writes them."""

import threading
import unittest

from harness import coding
from harness.case import FULL, NginxCase, body
from harness.nginx import has

SEGMENT = 65536
# Around: min_length, nginx's buffers, block and segment sizes, and each power of two between.
SIZES = [20, 21, 100, 127, 128, 255, 256, 257, 1000, 4095, 4096, 4097, 8192, 16383, 16384, 16385]
SIZES += [32767, 32768, 32769, SEGMENT - 1, SEGMENT, SEGMENT + 1, 98304, 131071, 131072, 131073]
SIZES += [2 * SEGMENT + 1, 3 * SEGMENT - 1, 262144, 524287, 1048575, 1048576, 1048577, 1300000]


def files():
    found = {f"text-{size}.txt": body("text", size) for size in SIZES}
    for kind in ("json", "random", "script", "zero"):
        for size in (100, 5000, 200001, 1500000):
            found[f"{kind}-{size}.txt"] = body(kind, size)
    found["large.txt"] = body("json", 20000000 if FULL else 6000000)
    return found


class Sizes(NginxCase):
    files = staticmethod(files)
    server = f"""
        weft zstd;
        weft_types text/plain;
        location /segments/ {{ alias www/; weft_segment_size {SEGMENT}; }}
        location /inline/ {{ alias www/; weft_thread_pool off; weft_segment_size {SEGMENT}; }}
        location /inline-default/ {{ alias www/; weft_thread_pool off; }}
        location /one-task/ {{ alias www/; weft_parallel_tasks 1; weft_segment_size {SEGMENT}; }}
        location /level-fast/ {{ alias www/; weft_level zstd=-5; }}
        location /level-1/ {{ alias www/; weft_level zstd=1; }}
        location /level-9/ {{ alias www/; weft_level zstd=9; }}
        location /level-12/ {{ alias www/; weft_level zstd=12; }}
        location /level-19/ {{ alias www/; weft_level zstd=19; }}
        location /level-22/ {{ alias www/; weft_level zstd=22; }}
    """

    def each(self, prefix, sizes):
        for size in sizes:
            with self.subTest(size=size):
                self.assert_coded(self.get(f"{prefix}text-{size}.txt"), body("text", size))

    def test_every_size_is_one_frame(self):
        self.each("/", SIZES)

    def test_every_size_in_small_segments(self):
        self.each("/segments/", SIZES)

    def test_every_size_inline(self):
        self.each("/inline/", SIZES)

    def test_kinds_of_bytes(self):
        for prefix in ("/", "/segments/"):
            for kind in ("json", "random", "script", "zero"):
                for size in (100, 5000, 200001, 1500000):
                    with self.subTest(prefix=prefix, kind=kind, size=size):
                        self.assert_coded(self.get(f"{prefix}{kind}-{size}.txt"), body(kind, size))

    def test_random_bytes_hardly_grow(self):
        response = self.get("/random-1500000.txt")
        self.assertLess(len(response.body), 1500000 * 1.001 + 64 * 16)

    def test_levels(self):
        for level in ("fast", "1", "9", "12", "19", "22"):
            for size in (100, 4096, 131073, 1048577):
                with self.subTest(level=level, size=size):
                    self.assert_coded(self.get(f"/level-{level}/text-{size}.txt"), body("text", size))

    def test_higher_levels_are_smaller(self):
        sizes = [len(self.get(f"/level-{level}/json-1500000.txt").body) for level in ("fast", "1", "9", "19")]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertLess(sizes[-1], sizes[0])

    def test_same_bytes_with_and_without_pool(self):
        """What a thread does must not show in the output."""
        for size in (5000, 200001, 1500000):
            inline = self.get(f"/inline/script-{size}.txt").body
            for prefix in ("/segments/", "/one-task/", "/segments/"):
                self.assert_same(self.get(f"{prefix}script-{size}.txt").body, inline, prefix)

    def test_large_file(self):
        plain = body("json", 20000000 if FULL else 6000000)
        self.assert_coded(self.get("/large.txt"), plain)

    def test_small_file_decodes_before_a_large_one_is_done(self):
        """The first bytes of a long body leave early, and decode."""
        with self.connect() as connection:
            connection.send("/level-9/large.txt")
            response = connection.head()
            stream, early = coding.ZstdStream(), b""
            for piece in connection.stream(response):
                early += stream.feed(piece)
                if early:
                    break
            plain = body("json", 20000000 if FULL else 6000000)
            self.assertLess(len(early), len(plain) // 2)
            self.assertTrue(plain.startswith(early))

    def test_many_at_once(self):
        """Sixteen responses of all sizes under way on one worker do not mix."""
        faults = []

        def fetch(number):
            size = SIZES[-1 - number % 12]
            try:
                response = self.get(f"/segments/text-{size}.txt")
                if coding.zstd_tool(response.body) != body("text", size):
                    faults.append(f"{size}: other bytes")
            except Exception as error:
                faults.append(f"{size}: {error!r}")

        for _ in range(3):
            threads = [threading.Thread(target=fetch, args=(number,)) for number in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(faults, [])


class Reading(NginxCase):
    """Each way in which file bytes come to the filter."""

    sizes = (1, 19, 20, 4095, 32768, 32769, 131073, 1500000)
    files = {f"{size}.txt": body("text", size) for size in sizes}
    main = "thread_pool files threads=2;" if has("threads") else ""
    server = """
        weft zstd;
        weft_types text/plain;
        location /sendfile/ { alias www/; sendfile on; }
        location /no-sendfile/ { alias www/; sendfile off; }
        location /push/ { alias www/; sendfile on; tcp_nopush on; tcp_nodelay off; }
        location /directio/ { alias www/; directio 4k; directio_alignment 512; output_buffers 2 32k; }
        location /tiny-buffers/ { alias www/; output_buffers 1 1k; postpone_output 0; }
        location /odd-buffers/ { alias www/; output_buffers 3 777; }
        location /cached/ { alias www/; open_file_cache max=10; }
        location /read-ahead/ { alias www/; read_ahead 128k; sendfile_max_chunk 10k; sendfile on; }
    """
    if has("threads"):
        server += """
        location /threads/ { alias www/; aio threads=files; }
        location /threads-sendfile/ { alias www/; aio threads=files; sendfile on; }
        location /threads-same-pool/ { alias www/; aio threads=files; weft_thread_pool files; }
        location /threads-default/ { alias www/; aio threads; directio 8k; }
        """

    def check(self, way):
        for size in self.sizes:
            with self.subTest(size=size):
                response = self.get(f"/{way}/{size}.txt")
                if size < 20:
                    self.assert_plain(response, body("text", size))
                else:
                    self.assert_coded(response, body("text", size))
                self.assert_plain(self.get(f"/{way}/{size}.txt", None), body("text", size))


def _add(way, threads=False):
    def test(self):
        self.check(way)

    name = "test_" + way.replace("-", "_")
    setattr(Reading, name, unittest.skipIf(threads and not has("threads"), "no threads")(test))


for _way in ("sendfile", "no-sendfile", "push", "directio", "tiny-buffers", "odd-buffers", "cached", "read-ahead"):
    _add(_way)
for _way in ("threads", "threads-sendfile", "threads-same-pool", "threads-default"):
    _add(_way, True)
