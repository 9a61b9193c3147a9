"""HTTP/3 by aioquic, where that is installed: whole responses, several at once, and resets."""

import asyncio
import ssl
import time

from .http1 import Response

try:
    from aioquic.asyncio.client import connect
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3_ALPN, H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import StreamReset
except ImportError:
    QuicConnectionProtocol = H3Connection = object
    connect = None


class Heads(H3Connection):
    """aioquic (1.7) takes the Content-Length of an answer to HEAD for that of bytes which then lack."""

    heads = frozenset()

    def _check_content_length(self, stream):
        if stream.stream_id not in self.heads:
            super()._check_content_length(stream)


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.http = Heads(self._quic)
        self.responses = {}
        self.waiting = {}

    def begin(self, path, ae="zstd", method="GET", headers=()):
        """The number of a new request's stream."""
        number = self._quic.get_next_available_stream_id()
        fields = [(b":method", method.encode()), (b":scheme", b"https"), (b":authority", b"localhost")]
        fields.append((b":path", path.encode()))
        if ae is not None:
            fields.append((b"accept-encoding", ae.encode()))
        fields += [(name.lower().encode(), value.encode()) for name, value in headers]
        self.responses[number] = Response(0, "HTTP/3", [])
        self.waiting[number] = asyncio.get_running_loop().create_future()
        if method == "HEAD":
            self.http.heads |= {number}
        self.http.send_headers(number, fields, end_stream=True)
        self.transmit()
        return number

    def cancel(self, number):
        self._quic.stop_stream(number, 0x10C)
        self.transmit()

    def quic_event_received(self, event):
        if isinstance(event, StreamReset) and event.stream_id in self.responses:
            self.responses[event.stream_id].error = "reset"
            self._end(event.stream_id)
        for found in self.http.handle_event(event):
            response = self.responses.get(found.stream_id)
            if response is None:
                continue
            if isinstance(found, HeadersReceived):
                pairs = [(name.decode(), value.decode()) for name, value in found.headers]
                if pairs[0][0] == ":status":
                    response.status, response.pairs = int(pairs[0][1]), pairs[1:]
            elif isinstance(found, DataReceived):
                response.pieces.append((time.monotonic(), found.data))
            if found.stream_ended:
                response.complete = True
                self._end(found.stream_id)

    def connection_lost(self, reason):
        for number in self.waiting:
            self._end(number)

    def _end(self, number):
        if not self.waiting[number].done():
            self.waiting[number].set_result(None)


def run(port, play, timeout=30):
    """What `play(client)`, a coroutine function, answers on a connection of its own."""

    async def whole():
        configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE)
        configuration.server_name = "localhost"
        async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Client) as client:
            return await asyncio.wait_for(play(client), timeout)

    return asyncio.run(whole())


def get_all(port, requests, timeout=30):
    """The responses of [(path, accept encoding, method, headers)], all asked for at once."""

    async def play(client):
        numbers = [client.begin(*request) for request in requests]
        await asyncio.gather(*(client.waiting[number] for number in numbers))
        return [client.responses[number] for number in numbers]

    return run(port, play, timeout)
