"""Clients for cases that need many: some fetch in a loop, some go away in the middle."""

import random
import threading
import time

from . import coding, http1
from .nginx import slowness


class Load:
    """Clients that fetch in a loop. Every body that arrives whole has to be right."""

    def __init__(self, port, uris, clients=4):
        self.port, self.uris = port, uris
        self.right = self.cut = 0
        self.last = "a body was cut"
        self.faults = []
        self.ending = False
        self.threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(clients)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        while not self.ending:
            uri, plain = self.uris[number % len(self.uris)]
            number += 1
            try:
                response = http1.get(self.port, uri, timeout=30 * slowness())
            except (OSError, http1.HttpError) as error:
                # While nginx is stopped hard, a connection may be refused or end anywhere.
                self.cut += 1
                self.last = repr(error)
                time.sleep(0.01)
                continue
            if not response.complete:
                self.cut += 1
                continue
            try:
                stream = coding.ZstdStream(65536)
                if response.coding != "zstd" or stream.feed(response.body) != plain or not stream.ended:
                    self.faults.append(f"{uri}: {response.status} {response.coding}, other bytes")
            except coding.CodingError as error:
                self.faults.append(f"{uri}: {error}")
            self.right += 1

    def wait_right(self, count, seconds=10):
        until = time.monotonic() + seconds * slowness()
        while self.right < count and time.monotonic() < until:
            time.sleep(0.05)

    def end(self):
        self.ending = True
        for thread in self.threads:
            thread.join()


def leave(port, uris, seed):
    """One client that goes away at a random moment, or gets everything. Returns a fault or None."""
    rng = random.Random(seed)
    uri = rng.choice(uris)
    try:
        buffer = rng.choice((None, 4096, 32768))
        connection = http1.Connection(port, 30 * slowness(), buffer)
        connection.send(uri)
        until = time.monotonic() + rng.choice((0, 0.001, 0.01, 0.05, 0.2, 0.5)) * rng.random()
        if rng.random() < 0.5:
            time.sleep(max(0, until - time.monotonic()))
        else:
            response = connection.head()
            for _ in connection.stream(response, most=rng.choice((100, 5000, 65536))):
                if time.monotonic() > until:
                    break
        connection.reset() if rng.random() < 0.6 else connection.close()
    except (OSError, http1.HttpError) as error:
        return f"{uri}: {error!r}"
    return None


def leave_all(port, uris, seeds, at_once=8):
    """Clients that go away, some at once. Returns the faults."""
    faults, left = [], list(seeds)

    def one():
        while left:
            try:
                seed = left.pop()
            except IndexError:
                return
            fault = leave(port, uris, seed)
            if fault:
                faults.append(fault)

    threads = [threading.Thread(target=one) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return faults
