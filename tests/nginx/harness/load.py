"""An open-loop client, run as a process of its own so that nothing of the test delays it.

    python3 load.py PORT PATH RATE SECONDS

Each request has a time at which it is due; its latency is counted from then, whether or not a
connection was free, so a server that stalls cannot hide the requests it kept from being sent.
Prints one JSON object: latencies in milliseconds, in the order of completion.
"""

import json
import select
import socket
import sys
import time


class Client:
    def __init__(self, port, path, length=None):
        self.port = port
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        self.poll = select.epoll()
        self.idle, self.busy = [], {}
        self.length = length
        self.latencies, self.failed = [], 0

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.poll.register(sock, select.EPOLLIN)
        return sock

    def send(self, due):
        sock = self.idle.pop() if self.idle else self.connect()
        sock.send(self.request)
        self.busy[sock.fileno()] = [sock, due, b""]

    def take(self, number):
        entry = self.busy.get(number)
        if entry is None:
            return
        sock, due, got = entry
        try:
            data = sock.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.failed += 1
            self.poll.unregister(sock)
            sock.close()
            del self.busy[number]
            return
        got += data
        entry[2] = got
        head = got.find(b"\r\n\r\n")
        if head < 0:
            return
        if self.length is None:
            self.length = int(got[:head].lower().split(b"content-length:")[1].split(b"\r")[0])
        if len(got) >= head + 4 + self.length:
            self.latencies.append((time.monotonic() - due) * 1000)
            if not got.startswith(b"HTTP/1.1 200"):
                self.failed += 1
            del self.busy[number]
            if b"\r\nconnection: close\r\n" in got[: head + 2].lower():
                # nginx's keepalive_requests: one that is sent here now would be lost.
                self.poll.unregister(sock)
                sock.close()
            else:
                self.idle.append(sock)

    def run(self, rate, seconds, patience=60):
        # Connections are made before: opening them is not what is measured.
        self.idle = [self.connect() for _ in range(min(200, int(rate)))]
        begin = time.monotonic() + 0.05
        total, sent = int(rate * seconds), 0
        while sent < total or self.busy:
            now = time.monotonic()
            while sent < total and begin + sent / rate <= now:
                self.send(begin + sent / rate)
                sent += 1
            wait = begin + sent / rate - now if sent < total else 1
            for number, _ in self.poll.poll(max(0, wait)):
                self.take(number)
            if now > begin + seconds + patience:
                self.failed += len(self.busy)
                break


def main():
    port, path, rate, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    client = Client(port, path)
    client.run(rate, seconds)
    print(json.dumps({"ms": client.latencies, "failed": client.failed}))


if __name__ == "__main__":
    main()
