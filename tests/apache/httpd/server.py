"""One Apache in a folder of its own: started, watched and ended by process id."""

import ctypes
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

from harness.nginx import children, free_ports, slowness

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SEARCH = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
BINARY = shutil.which(os.environ.get("APACHE_BIN", "apache2"), path=SEARCH)
APXS = shutil.which(os.environ.get("APXS", "apxs"), path=SEARCH)
MODULE = os.environ.get("APACHE_MODULE", os.path.join(ROOT, "target/apache/mod_weft.so"))

FAULT = re.compile(
    r":(?:emerg|alert|crit)\]|\[weft:(?:error|warn)\]|exit signal (?!Terminated)|Sanitizer:|panicked at|"
    r"Assertion|glibc detected|^==\d+== (?!Warning: set address range perms)"
)


def modules_folder():
    return subprocess.run([APXS, "-q", "LIBEXECDIR"], capture_output=True, text=True, check=True).stdout.strip()


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Apache:
    """`configure(ports)` gives the text of the configuration."""

    def __init__(self, folder, configure, ports=1, command=(), more=("-DFOREGROUND",), stay=False):
        self.folder, self.configure, self.port_count = folder, configure, ports
        # With `stay` it outlives the process that started it.
        self.wrapper, self.more, self.stay = list(command), list(more), stay
        self.ports, self.process, self._read = [], None, {"error.log": 0, "stderr.log": 0}
        self.config = os.path.join(folder, "httpd.conf")
        self.error_log = os.path.join(folder, "error.log")

    def command(self, *more):
        return [*self.wrapper, BINARY, "-d", self.folder, "-f", self.config, *more]

    def write_config(self):
        with open(self.config, "w") as file:
            file.write(self.configure(self.ports))

    def test_config(self):
        """(exit status, what it printed) of `apache2 -t`."""
        done = subprocess.run(self.command("-t"), capture_output=True, text=True, timeout=30 * slowness())
        return done.returncode, done.stdout + done.stderr

    def start(self):
        for attempt in range(3):
            self.ports = free_ports(self.port_count)
            self.write_config()
            with open(os.path.join(self.folder, "stderr.log"), "ab") as errors:
                self.process = subprocess.Popen(
                    self.command(*self.more),
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    start_new_session=True,
                    preexec_fn=None if self.stay else _die_with_parent,
                )
            if self._listens():
                return
            said = self._text("error.log") + self._text("stderr.log")
            if attempt == 2 or "could not bind" not in said:
                self.kill()
                raise AssertionError(f"Apache does not start:\n{said[-3000:]}")

    def _listens(self):
        until = time.monotonic() + (60 if self.wrapper else 20) * slowness()
        while time.monotonic() < until:
            if self.process.poll() is not None:
                return False
            try:
                for port in self.ports:
                    with socket.create_connection(("127.0.0.1", port), 5) as sock:
                        # A child has to be there to answer.
                        if port == self.ports[0]:
                            sock.settimeout(60)
                            sock.sendall(b"OPTIONS * HTTP/1.0\r\n\r\n")
                            if not sock.recv(1):
                                raise OSError
                return True
            except OSError:
                pass
            time.sleep(0.02)
        return False

    def _text(self, name):
        try:
            with open(os.path.join(self.folder, name), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def log(self):
        return self._text("error.log")

    def workers(self):
        """Children that serve. mod_cgid's daemon has no engine and no threads but is one, too."""
        return children(self.process.pid)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def faults(self, allowed=None):
        """New lines of the logs that must not be there."""
        bad = []
        for name in self._read:
            text = self._text(name)
            lines, self._read[name] = text[self._read[name] :].splitlines(), len(text)
            bad += [line for line in lines if FAULT.search(line) and not (allowed and re.search(allowed, line))]
        return bad

    def kill(self):
        if self.process and self.process.poll() is None:
            pids = children(self.process.pid)
            self.process.kill()
            self.process.wait()
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def stop(self, wait=15.0):
        """WINCH, which lets children end what they do, then TERM, then KILL. Returns what was wrong.

        Not TERM at first: under it the event MPM itself crashes at times, with sockets that are polled
        in one thread and closed by another (seen without a request to weft: apr_os_sock_get)."""
        problems = []
        if self.process is None:
            return problems
        # A single process (-X) knows TERM alone.
        for number in (signal.SIGTERM,) if self.wrapper else (signal.SIGWINCH, signal.SIGTERM):
            if self.process.poll() is None:
                self.signal(number)
            try:
                self.process.wait((60 if self.wrapper else wait) * slowness())
                break
            except subprocess.TimeoutExpired:
                problems.append(f"Apache still runs {wait} s after {signal.Signals(number).name}")
        self.kill()
        if self.process.returncode != 0:
            problems.append(f"Apache ended with {self.process.returncode}")
        return problems


# A login's soft limit is often 1024.
_hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
_most = 20000 if _hard == resource.RLIM_INFINITY else min(_hard, 20000)
resource.setrlimit(resource.RLIMIT_NOFILE, (_most, _hard))
