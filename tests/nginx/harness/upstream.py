"""The upstream: a server whose behaviour is chosen by path, run as a process of its own.

Prints its port, serves until its stdin is closed. Every path takes
    n, kind, seed      the body, as in bodies.py
    status, type       of the response (200, text/plain)
    h=Name:Value       further header fields, as often as wanted
    wide               one more header field of so many bytes
    wait               seconds before anything is sent
Paths:
    /length            Content-Length and the body
    /chunked           chunked: piece bytes at a time, pause seconds between; wait_body before the first
    /trailers          as /chunked, with the trailer X-Sum: 17
    /until_close       neither length nor chunks; the end of the connection ends the body
    /events            an event stream: count events of size bytes, pause between, stay seconds open
    /lockstep          an event stream whose next event (count, size) leaves when /release is asked for
                       with the same key; the first needs it too
    /release           see above
    /sent              how many bytes of the /length with that key have been taken from here
    /ranged            the body or a range of it, as RFC 9110 has it
    /cut_length        announces n bytes and closes after at bytes (rst=1: by a reset)
    /cut_chunked       chunked, and closes after at bytes without the last chunk
    /nothing           closes without a response
    /no_body           the status and the headers alone (204, 304)
    /echo              the body of the request
    /upgrade           switches to a protocol that sends back what it gets
    /gzipped           the body, coded with gzip
"""

import asyncio
import gzip
import os
import re
import socket
import struct
import sys
import time
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from harness import bodies  # noqa: E402


class Query:
    def __init__(self, text):
        self.values = parse_qs(text, keep_blank_values=True)

    def number(self, name, default=0):
        value = float(self.values.get(name, [default])[0])
        return value if value % 1 else int(value)

    def text(self, name, default=""):
        return self.values.get(name, [default])[0]


def event(number, size):
    """One event of exactly `size` bytes that says when it was sent."""
    head = f"data: {number} {time.monotonic():.6f} ".encode()
    return head + bodies.make("text", size, number % 7).replace(b"\n", b" ")[len(head) : size - 2] + b"\n\n"


RELEASED = {}
SENT = {}


def released(key):
    return RELEASED.setdefault(key, asyncio.Semaphore(0))


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Exchange:
    def __init__(self, method, query, fields, request_body, reader, writer):
        self.fields = fields
        self.method, self.query, self.request_body = method, query, request_body
        self.reader, self.writer = reader, writer
        self.length = query.number("n")

    def payload(self):
        return bodies.make(self.query.text("kind", "text"), self.length, self.query.number("seed"))

    async def head(self, *fields):
        status = self.query.number("status", 200)
        lines = [f"HTTP/1.1 {status} Status"]
        if kind := self.query.text("type", "text/plain"):
            lines.append(f"Content-Type: {kind}")
        lines += [field.replace(":", ": ", 1) for field in self.query.values.get("h", [])]
        if wide := self.query.number("wide"):
            lines.append("X-Wide: " + "x" * wide)
        await self.send("\r\n".join([*lines, *fields]).encode() + b"\r\n\r\n")

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def end(self, reset=False):
        """Closes; what was sent arrives first, but for a reset."""
        if reset:
            sock = self.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        self.writer.close()
        return False

    async def length_(self):
        await self.head(f"Content-Length: {self.length}")
        key = self.query.text("key")
        if self.method == "HEAD":
            return True
        if not key:
            await self.send(self.payload())
            return True
        data = self.payload()
        for start in range(0, len(data), 65536):
            await self.send(data[start : start + 65536])
            SENT[key] = min(start + 65536, len(data))
        return True

    async def sent(self):
        said = b"%d" % SENT.get(self.query.text("key"), 0)
        await self.head(f"Content-Length: {len(said)}")
        await self.send(said)
        return True

    async def chunked(self):
        await self.head("Transfer-Encoding: chunked")
        if self.method == "HEAD":
            return True
        await self.pieces(self.payload(), "wait_body")
        await self.send(b"0\r\n\r\n")
        return True

    async def trailers(self):
        await self.head("Transfer-Encoding: chunked", "Trailer: X-Sum")
        if self.method != "HEAD":
            await self.pieces(self.payload())
            await self.send(b"0\r\nX-Sum: 17\r\n\r\n")
        return True

    async def pieces(self, data, first_wait=None):
        if first_wait:
            await asyncio.sleep(self.query.number(first_wait))
        piece, pause = self.query.number("piece", 16384), self.query.number("pause")
        for start in range(0, len(data), piece):
            if pause and start:
                await asyncio.sleep(pause)
            await self.send(chunk(data[start : start + piece]))

    async def until_close(self):
        await self.head("Connection: close")
        await self.send(self.payload())
        return await self.end()

    async def events(self):
        self.query.values.setdefault("type", ["text/event-stream"])
        await self.head("Transfer-Encoding: chunked", "Cache-Control: no-cache")
        size, pause = self.query.number("size", 300), self.query.number("pause", 0.02)
        for number in range(self.query.number("count", 20)):
            await asyncio.sleep(pause)
            await self.send(chunk(event(number, size)))
        await asyncio.sleep(self.query.number("stay"))
        await self.send(b"0\r\n\r\n")
        return True

    async def lockstep(self):
        self.query.values.setdefault("type", ["text/event-stream"])
        await self.head("Transfer-Encoding: chunked", "Cache-Control: no-cache")
        for number in range(self.query.number("count", 5)):
            await released(self.query.text("key")).acquire()
            await self.send(chunk(event(number, self.query.number("size", 300))))
        await released(self.query.text("key")).acquire()
        await self.send(b"0\r\n\r\n")
        return True

    async def release(self):
        released(self.query.text("key")).release()
        await self.head("Content-Length: 0")
        return True

    async def ranged(self):
        data = self.payload()
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.fields.get("range", ""))
        if match is None:
            return await self.length_()
        first, last = int(match[1]), min(int(match[2] or len(data) - 1), len(data) - 1)
        self.query.values["status"] = ["206"]
        part = data[first : last + 1]
        await self.head(f"Content-Range: bytes {first}-{last}/{len(data)}", f"Content-Length: {len(part)}")
        await self.send(part)
        return True

    async def gzipped(self):
        data = gzip.compress(self.payload())
        await self.head("Content-Encoding: gzip", f"Content-Length: {len(data)}")
        await self.send(data)
        return True

    async def cut_length(self):
        await self.head(f"Content-Length: {self.length}")
        await self.send(self.payload()[: self.query.number("at")])
        # Time for a reset not to overtake the bytes.
        await asyncio.sleep(self.query.number("hold", 0.2))
        return await self.end(self.query.number("rst"))

    async def cut_chunked(self):
        await self.head("Transfer-Encoding: chunked")
        await self.pieces(self.payload()[: self.query.number("at")])
        await asyncio.sleep(self.query.number("hold", 0.2))
        return await self.end(self.query.number("rst"))

    async def nothing(self):
        return await self.end()

    async def no_body(self):
        await self.head()
        return True

    async def upgrade(self):
        self.writer.write(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n")
        while data := await self.reader.read(65536):
            await self.send(data)
        return False

    async def unknown(self):
        self.query.values = {"status": ["404"]}
        await self.head("Content-Length: 0")
        return True

    async def echo(self):
        await self.head(f"Content-Length: {len(self.request_body)}")
        await self.send(self.request_body)
        return True


async def serve(reader, writer):
    try:
        while True:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = lines[0].split(" ")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            request_body = await reader.readexactly(int(fields.get("content-length", 0)))
            url = urlsplit(target)
            exchange = Exchange(method, Query(url.query), fields, request_body, reader, writer)
            await asyncio.sleep(exchange.query.number("wait"))
            name = url.path.rsplit("/", 1)[-1]
            behave = getattr(exchange, "length_" if name == "length" else name, exchange.unknown)
            if not await behave() or fields.get("connection", "").lower() == "close":
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
