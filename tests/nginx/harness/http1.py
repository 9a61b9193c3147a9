"""HTTP/1 over a raw socket: what arrives, when, and how it ends, with nothing repaired."""

import socket
import struct
import time


class HttpError(Exception):
    pass


class Headers:
    def __init__(self, pairs):
        self.pairs = pairs

    def all(self, name):
        return [value for key, value in self.pairs if key.lower() == name.lower()]

    def get(self, name, default=None):
        """The value of a field that may be there once."""
        values = self.all(name)
        if len(values) > 1:
            raise HttpError(f"{name} is there {len(values)} times: {values}")
        return values[0] if values else default

    def __contains__(self, name):
        return bool(self.all(name))


class Response(Headers):
    """`pieces` is [(time of arrival, bytes)]; `complete` whether the framing said it is all."""

    def __init__(self, status, version, pairs):
        super().__init__(pairs)
        self.status = status
        self.version = version
        self.pieces = []
        self.complete = False
        self.error = None
        self.trailers = []

    @property
    def body(self):
        return b"".join(piece for _, piece in self.pieces)

    @property
    def coding(self):
        return self.get("Content-Encoding")


class Connection:
    def __init__(self, port, timeout=20.0, receive_buffer=None):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(timeout)
        self.sock.connect(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._held = b""
        self.arrived = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Goes away without a word: RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def send(self, path, ae="zstd", method="GET", headers=(), version="1.1", body=None):
        """Sends a request. `ae` is the Accept-Encoding value, a list of them, or None."""
        lines = [f"{method} {path} HTTP/{version}", "Host: localhost"]
        for value in [ae] if isinstance(ae, str) else ae or ():
            lines.append(f"Accept-Encoding: {value}")
        lines += [f"{name}: {value}" for name, value in headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))

    def _more(self, most=65536):
        data = self.sock.recv(most)
        self.arrived = time.monotonic()
        if not data:
            raise EOFError
        return data

    def _line(self):
        while b"\n" not in self._held:
            self._held += self._more()
        line, self._held = self._held.split(b"\n", 1)
        return line.rstrip(b"\r").decode("latin-1")

    def head(self):
        """The status line and the headers; 1xx answers are skipped."""
        while True:
            try:
                status = self._line()
            except EOFError:
                raise HttpError("closed before a response") from None
            pairs = []
            while line := self._line():
                name, _, value = line.partition(":")
                pairs.append((name, value.strip()))
            version, code = status.split(" ")[:2]
            if not version.startswith("HTTP/"):
                raise HttpError(f"not a status line: {status!r}")
            if not code.startswith("1"):
                return Response(int(code), version, pairs)

    def _exactly(self, count, most):
        """Yields exactly `count` bytes in the pieces they come in."""
        while count:
            if not self._held:
                self._held = self._more(most)
            piece, self._held = self._held[:count], self._held[count:]
            count -= len(piece)
            yield piece

    def _chunked(self, most, trailers):
        while True:
            size = int(self._line().split(";")[0], 16)
            if size == 0:
                while line := self._line():
                    trailers.append(line)
                return
            yield from self._exactly(size, most)
            if self._line():
                raise HttpError("a chunk is longer than it says")

    def stream(self, response, method="GET", most=65536):
        """Yields the pieces of the body as they arrive, and notes them in the response."""
        length = response.get("Content-Length")
        if method == "HEAD" or response.status in (204, 304):
            parts = iter(())
        elif response.get("Transfer-Encoding") == "chunked":
            if length is not None:
                raise HttpError("both Content-Length and chunked")
            parts = self._chunked(most, response.trailers)
        elif length is not None:
            parts = self._exactly(int(length), most)
        else:
            parts = None
        try:
            if parts is None:
                while True:
                    piece, self._held = self._held or self._more(most), b""
                    response.pieces.append((self.arrived, piece))
                    yield piece
            for piece in parts:
                response.pieces.append((self.arrived, piece))
                yield piece
            response.complete = True
        except EOFError:
            response.complete = parts is None
            response.error = "closed"
        except ConnectionError as error:
            response.error = str(error)

    def read(self, method="GET", most=65536):
        response = self.head()
        for _ in self.stream(response, method, most):
            pass
        return response

    def at_end(self, wait=2.0):
        """Whether the server closes now and sends nothing more."""
        self.sock.settimeout(wait)
        try:
            return not self._held and self.sock.recv(1) == b""
        except (TimeoutError, ConnectionError) as error:
            return isinstance(error, ConnectionError)


def get(port, path, ae="zstd", method="GET", headers=(), version="1.1", body=None, timeout=20.0):
    """One request on a connection of its own, which the server is asked to close."""
    headers = list(headers)
    if version != "1.0":
        headers.append(("Connection", "close"))
    with Connection(port, timeout) as connection:
        connection.send(path, ae, method, headers, version, body)
        response = connection.read(method)
        if response.complete and not connection.at_end():
            raise HttpError("bytes after the response")
        return response
