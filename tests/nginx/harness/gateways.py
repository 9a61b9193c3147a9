"""Tiny servers of the protocols that are not HTTP/1: FastCGI, uwsgi, SCGI, and gRPC's HTTP/2.

Each takes its behaviour from the query: n, kind, type, piece (bytes at a time), cut (bytes after which
the connection ends).
"""

import socketserver
import struct
import threading
from urllib.parse import parse_qs

from . import bodies


class Answer:
    def __init__(self, query):
        values = parse_qs(query)
        number = lambda name, default=0: int(values.get(name, [default])[0])  # noqa: E731
        self.plain = bodies.make(values.get("kind", ["text"])[0], number("n", 3000))
        self.type = values.get("type", ["text/html"])[0]
        self.piece = number("piece", 16384)
        self.cut = number("cut", len(self.plain) + 1)

    def head(self):
        return f"Content-Type: {self.type}\r\n\r\n".encode()

    def pieces(self):
        """The parts of the body, and whether it was cut short behind them."""
        plain = self.plain[: self.cut]
        return [plain[at : at + self.piece] for at in range(0, len(plain), self.piece)]

    def is_cut(self):
        return self.cut <= len(self.plain)


class Handler(socketserver.StreamRequestHandler):
    def exactly(self, count):
        data = self.rfile.read(count)
        if len(data) < count:
            raise EOFError
        return data

    def handle(self):
        try:
            self.serve()
        except (EOFError, ConnectionError):
            pass


class FastCgi(Handler):
    def record(self, kind, data):
        self.wfile.write(struct.pack(">BBHHBB", 1, kind, 1, len(data), 0, 0) + data)

    @staticmethod
    def params(data):
        found, at = {}, 0
        while at < len(data):
            sizes = []
            for _ in range(2):
                size, at = data[at], at + 1
                if size & 0x80:
                    size, at = int.from_bytes(data[at - 1 : at + 3], "big") & 0x7FFFFFFF, at + 3
                sizes.append(size)
            name, at = data[at : at + sizes[0]], at + sizes[0]
            value, at = data[at : at + sizes[1]], at + sizes[1]
            found[name.decode()] = value.decode()
        return found

    def serve(self):
        params = b""
        while True:
            _, kind, _, length, padding, _ = struct.unpack(">BBHHBB", self.exactly(8))
            data = self.exactly(length)
            self.exactly(padding)
            if kind == 4:
                params += data
            if kind == 5 and not data:
                break
        answer = Answer(self.params(params)["QUERY_STRING"])
        if answer.is_cut():
            # Else nginx takes the end of the connection for that of the body.
            self.record(6, b"Content-Length: %d\r\n" % len(answer.plain))
        self.record(6, answer.head())
        for piece in answer.pieces():
            self.record(6, piece)
        if not answer.is_cut():
            self.record(6, b"")
            self.record(3, bytes(8))


class Plain(Handler):
    """What uwsgi and SCGI answer is HTTP; its end is that of the connection, or its length's."""

    def answer(self, variables):
        answer = Answer(variables["QUERY_STRING"])
        length = f"Content-Length: {len(answer.plain)}\r\n".encode()
        self.wfile.write(self.status + length + answer.head())
        for piece in answer.pieces():
            self.wfile.write(piece)


class Uwsgi(Plain):
    status = b"HTTP/1.1 200 OK\r\n"

    def serve(self):
        data = self.exactly(struct.unpack("<BHB", self.exactly(4))[1])
        words, at = [], 0
        while at < len(data):
            (size,) = struct.unpack("<H", data[at : at + 2])
            words.append(data[at + 2 : at + 2 + size].decode())
            at += 2 + size
        self.answer(dict(zip(words[::2], words[1::2])))


class Scgi(Plain):
    status = b"Status: 200 OK\r\n"

    def serve(self):
        size = b""
        while (byte := self.exactly(1)) != b":":
            size += byte
        words = self.exactly(int(size) + 1)[:-1].decode().split("\0")
        self.answer(dict(zip(words[::2], words[1::2])))


class Grpc(Handler):
    """One message of 5000 equal bytes, whatever is asked for."""

    message = b"m" * 5000

    def frame(self, kind, flags, stream, data):
        head = struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream)
        self.wfile.write(head + data)

    @staticmethod
    def field(name, value):
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    def serve(self):
        self.exactly(24)
        self.frame(4, 0, 0, b"")
        while True:
            head = self.exactly(9)
            self.exactly(int.from_bytes(head[:3], "big"))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            if kind == 4 and not flags & 1:
                self.frame(4, 1, 0, b"")
            if kind in (0, 1) and flags & 1:
                self.frame(1, 4, stream, b"\x88" + self.field(b"content-type", b"application/grpc"))
                self.frame(0, 0, stream, struct.pack(">BI", 0, len(self.message)) + self.message)
                self.frame(1, 5, stream, self.field(b"grpc-status", b"0"))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class Gateways:
    """One server of each kind; `ports` by name."""

    KINDS = {"fastcgi": FastCgi, "uwsgi": Uwsgi, "scgi": Scgi, "grpc": Grpc}

    def __init__(self):
        self.servers = {name: Server(("127.0.0.1", 0), kind) for name, kind in self.KINDS.items()}
        self.ports = {name: server.server_address[1] for name, server in self.servers.items()}
        for server in self.servers.values():
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        for server in self.servers.values():
            server.shutdown()
            server.server_close()
