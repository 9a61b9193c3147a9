"""HTTP/2: curl for whole responses, and frames by hand for what curl cannot do.

The client by hand sends requests without compression and does not decode response headers, which
nginx writes with Huffman codes: curl checks those. It knows streams, flow control and resets.
"""

import select
import socket
import ssl
import struct
import subprocess
import tempfile
import time

from .http1 import HttpError, Response

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def curl(port, path, ae="zstd", options=(), timeout=30):
    """(exit status of curl, Response) of one request by `curl --http2`, not decoded by it."""
    with tempfile.NamedTemporaryFile() as heads, tempfile.NamedTemporaryFile() as bodies:
        words = ["curl", "-sk", "--http2", "-D", heads.name, "-o", bodies.name, "-m", str(timeout)]
        if ae is not None:
            words += ["-H", f"Accept-Encoding: {ae}"]
        begun = time.monotonic()
        code = subprocess.run([*words, *options, f"https://127.0.0.1:{port}{path}"]).returncode
        ended = time.monotonic()
        lines = heads.read().decode("latin-1").split("\r\n")
        data = bodies.read()
    if not lines[0]:
        return code, None
    version, status = lines[0].split(" ")[:2]
    pairs = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:] if ":" in line]
    response = Response(int(status), version, pairs)
    response.pieces = [(ended, data)]
    response.complete = code == 0
    response.seconds = ended - begun
    return code, response


def _literal(text):
    data = text.encode()
    return (bytes([len(data)]) if len(data) < 127 else b"\x7f" + bytes([len(data) - 127])) + data


class Stream:
    def __init__(self, number):
        self.number = number
        self.pieces = []
        self.headers_at = None
        self.ended = False
        self.reset = None

    @property
    def body(self):
        return b"".join(piece for _, piece in self.pieces)


class Connection:
    """One connection. With `window`, no stream is given more until `grant` does."""

    def __init__(self, port, window=None, timeout=20.0, receive_buffer=None):
        raw = socket.socket()
        if receive_buffer:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.settimeout(timeout)
        raw.connect(("127.0.0.1", port))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        self.sock = context.wrap_socket(raw)
        if self.sock.selected_alpn_protocol() != "h2":
            raise HttpError("no HTTP/2")
        self.greedy = window is None
        self.window = 1 << 20 if window is None else window
        self.streams = {}
        self.next = 1
        self.gone = None
        settings = struct.pack(">HIHI", 4, self.window, 2, 0)  # INITIAL_WINDOW_SIZE; ENABLE_PUSH
        self.sock.sendall(PREFACE + self._frame(SETTINGS, 0, 0, settings))
        self.grant(0, 1 << 30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    @staticmethod
    def _frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def grant(self, stream, size):
        number = stream.number if stream else 0
        self.sock.sendall(self._frame(WINDOW_UPDATE, 0, number, struct.pack(">I", size)))

    def request(self, path, ae="zstd", method="GET"):
        fields = {":method": method, ":scheme": "https", ":authority": "localhost", ":path": path}
        if ae is not None:
            fields["accept-encoding"] = ae
        block = b"".join(b"\x00" + _literal(name) + _literal(value) for name, value in fields.items())
        stream = Stream(self.next)
        self.next += 2
        self.streams[stream.number] = stream
        self.sock.sendall(self._frame(HEADERS, END_STREAM | END_HEADERS, stream.number, block))
        return stream

    def cancel(self, stream):
        self.sock.sendall(self._frame(RST_STREAM, 0, stream.number, struct.pack(">I", 8)))
        stream.reset = "ours"

    def _exactly(self, count):
        data = bytearray()
        while len(data) < count:
            piece = self.sock.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def step(self):
        """Takes one frame. False when the server has closed."""
        try:
            head = self._exactly(9)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            number = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
            payload = self._exactly(length)
        except (EOFError, ConnectionError, ssl.SSLError):
            return False
        stream = self.streams.get(number)
        if kind == SETTINGS and not flags & ACK:
            self.sock.sendall(self._frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self.sock.sendall(self._frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.gone = int.from_bytes(payload[4:8], "big")
        elif kind == RST_STREAM and stream:
            stream.reset = int.from_bytes(payload, "big")
        elif kind == HEADERS and stream:
            stream.headers_at = time.monotonic()
            stream.ended = bool(flags & END_STREAM)
        elif kind == DATA and stream:
            stream.pieces.append((time.monotonic(), payload))
            stream.ended = bool(flags & END_STREAM)
            if self.greedy and length and not stream.ended and stream.reset is None:
                self.grant(stream, length)
        return True

    def finish(self, streams):
        """Reads until each of these has ended or was reset, or the server closes."""
        while any(not stream.ended and stream.reset is None for stream in streams):
            if not self.step():
                return

    def step_for(self, seconds):
        """Takes the frames that come within this time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.sock.pending() or select.select([self.sock], [], [], left)[0]:
                if not self.step():
                    return
