"""Many event streams at once from one process: opened, decoded as they arrive, kept open.

    python3 fanout.py PORT PATH STREAMS OPEN_SECONDS COUNT SIZE CODING

Opens STREAMS requests spread over OPEN_SECONDS. Prints one JSON object when each stream has had
COUNT events of SIZE bytes, then holds them all open until stdin is closed.
"""

import json
import os
import select
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness.coding import ZstdStream  # noqa: E402


class Plain:
    def feed(self, data):
        return data


class Stream:
    def __init__(self, port, path, coding):
        self.sock = socket.create_connection(("127.0.0.1", port), 30)
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\n\r\n".encode())
        self.sock.setblocking(False)
        self.raw, self.plain, self.headed = b"", b"", False
        self.coded = coding == "zstd"
        self.decoder = ZstdStream() if self.coded else Plain()
        self.events = 0

    def take(self, size, delays):
        data = self.sock.recv(65536)
        now = time.monotonic()
        if not data:
            raise EOFError("a stream was closed")
        self.raw += data
        if not self.headed:
            head, found, rest = self.raw.partition(b"\r\n\r\n")
            if not found:
                return
            if (b"content-encoding: zstd" in head.lower()) != self.coded:
                raise ValueError(f"another coding: {head!r}")
            self.raw, self.headed = rest, True
        while b"\r\n" in self.raw:
            line, rest = self.raw.split(b"\r\n", 1)
            length = int(line, 16)
            if len(rest) < length + 2:
                break
            self.plain += self.decoder.feed(rest[:length])
            self.raw = rest[length + 2 :]
        while len(self.plain) >= size:
            one, self.plain = self.plain[:size], self.plain[size:]
            if int(one.split(b" ")[1]) != self.events:
                raise ValueError("events in another order")
            self.events += 1
            delays.append((now - float(one.split(b" ")[2])) * 1000)


def main():
    port, path = int(sys.argv[1]), sys.argv[2]
    count, spread, events, size = int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])
    coding = sys.argv[7]
    poll, streams, delays, late = select.epoll(), {}, [], set()
    begin, done = time.monotonic(), 0
    while done < count:
        now = time.monotonic()
        while len(streams) < count and begin + spread * len(streams) / count <= now:
            stream = Stream(port, path, coding)
            streams[stream.sock.fileno()] = stream
            poll.register(stream.sock, select.EPOLLIN)
            break
        for number, _ in poll.poll(0.002 if len(streams) < count else 1):
            stream = streams[number]
            stream.take(size, delays)
            done += stream.events == events and number not in late
            if stream.events == events and number not in late:
                late.add(number)
                poll.unregister(stream.sock)
        if now > begin + spread + 120:
            break
    print(json.dumps({"ms": delays, "streams": len(streams), "done": done}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
