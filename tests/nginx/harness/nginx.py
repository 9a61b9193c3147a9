"""One nginx in a folder of its own: started, watched and ended by process id."""

import ctypes
import functools
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SEARCH = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
BINARY = shutil.which(os.environ.get("NGINX_BIN", "nginx"), path=SEARCH)
# Empty for an nginx that has the module built in.
MODULE = os.environ.get("NGINX_MODULE", os.path.join(ROOT, "target/nginx/ngx_http_weft_filter_module.so"))

LEVELS = re.compile(r"\[(alert|crit|emerg)\]|open socket #|worker process \d+ exited on signal")
# UBSan's reports about nginx itself, which are many, name its files as src/..; ours do not.
STDERR = re.compile(r"Sanitizer:|^(?!src/).*runtime error:|panicked at|Assertion|^==\d+== ")


# Idle streams take two sockets each; a login's soft limit is often 1024.
_hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
_most = 20000 if _hard == resource.RLIM_INFINITY else min(_hard, 20000)
resource.setrlimit(resource.RLIMIT_NOFILE, (_most, _hard))


@functools.cache
def build():
    """(version as a tuple, the text of `nginx -V`)."""
    text = subprocess.run([BINARY, "-V"], capture_output=True, text=True).stderr
    version = re.search(r"nginx/(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in version.groups()), text


def has(part):
    return f"--with-{part}" in build()[1]


@functools.cache
def slowness():
    """Factor for every deadline: WEFT_SLOW, or 5 for a sanitized build."""
    return float(os.environ.get("WEFT_SLOW", 5 if sanitized() else 1))


def sanitized():
    return "sanitize" in build()[1]


def free_ports(count):
    socks = [socket.socket() for _ in range(count)]
    try:
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in socks]
    finally:
        for sock in socks:
            sock.close()


def children(pid):
    """Not from task/PID/children, which many kernels lack."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == pid:
                found.append(int(entry))
    return sorted(found)


def title(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def memory(pid):
    """Bytes by kind: Rss, Pss, Anonymous and Private_Dirty, the peak as VmHWM; and Threads."""
    found = {}
    for name in ("smaps_rollup", "status"):
        with open(f"/proc/{pid}/{name}") as file:
            for line in file:
                match = re.match(r"(\w+):\s+(\d+)( kB)?$", line)
                if match:
                    found.setdefault(match[1], int(match[2]) * (1024 if match[3] else 1))
    return found


def memory_bound(size):
    """A sanitizer keeps what was freed, so there only growth without end is looked for."""
    return size * (6 if sanitized() else 1)


def reset_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def cpu_seconds(pid):
    """Processor time used by all threads of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_quiet(pid, tries=4):
    """Whether a process comes to rest: less than a tenth of a second of work in half a second."""
    for _ in range(tries):
        before = cpu_seconds(pid)
        time.sleep(0.5)
        if cpu_seconds(pid) - before < 0.1:
            return True
    return False


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def environment():
    env = dict(os.environ)
    # A module opened by dlopen defines symbols twice in its eyes.
    asan = env.get("ASAN_OPTIONS", "")
    env["ASAN_OPTIONS"] = asan + (":" if asan else "") + "detect_odr_violation=0"
    return env


class Nginx:
    """`configure(ports)` gives the text of nginx.conf; it is asked again when a port was taken."""

    def __init__(self, folder, configure, ports=2):
        self.folder = folder
        self.configure = configure
        self.port_count = ports
        self.ports = []
        self.process = None
        self._read = {"error.log": 0, "stderr.log": 0}
        self.config = os.path.join(folder, "nginx.conf")
        self.error_log = os.path.join(folder, "error.log")

    def command(self, *more):
        early = ["-e", "error.log"] if build()[0] >= (1, 19, 5) else []
        return [BINARY, "-p", self.folder + "/", "-c", "nginx.conf", *early, *more]

    def test_config(self):
        """(exit status, what it printed) of `nginx -t`."""
        env = environment()
        # nginx ends without freeing what it has read.
        env["ASAN_OPTIONS"] += ":detect_leaks=0"
        done = subprocess.run(
            self.command("-t"), capture_output=True, text=True, env=env, timeout=30 * slowness()
        )
        return done.returncode, done.stderr

    def write_config(self):
        with open(self.config, "w") as file:
            file.write(self.configure(self.ports))

    def start(self):
        for attempt in range(3):
            self.ports = free_ports(self.port_count)
            self.write_config()
            with open(os.path.join(self.folder, "stderr.log"), "ab") as errors:
                self.process = subprocess.Popen(
                    self.command(),
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    env=environment(),
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
            if self._listens():
                return
            said = self._text("error.log") + self._text("stderr.log")
            if attempt == 2 or "Address already in use" not in said:
                self.kill()
                raise AssertionError(f"nginx does not start:\n{said[-3000:]}")
            os.truncate(self.error_log, 0)

    def _listens(self):
        until = time.monotonic() + 10 * slowness()
        while time.monotonic() < until:
            if self.process.poll() is not None:
                return False
            try:
                for port in self.ports:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                if self.workers():
                    return True
            except OSError:
                pass
            time.sleep(0.01)
        return False

    def _text(self, name):
        try:
            with open(os.path.join(self.folder, name), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def workers(self, leaving=False):
        """Process ids of the workers; with `leaving`, also of those that shut down."""
        found = []
        for pid in children(self.process.pid):
            name = title(pid)
            if "worker process" in name and (leaving or "shutting down" not in name):
                found.append(pid)
        return found

    @property
    def worker(self):
        (pid,) = self.workers()
        return pid

    def signal(self, number):
        os.kill(self.process.pid, number)

    def reload(self, wait=10.0):
        """HUP, and waits until other workers have taken over; the old ones may still be leaving."""
        before = set(self.workers())
        self.signal(signal.SIGHUP)
        until = time.monotonic() + wait * slowness()
        while time.monotonic() < until:
            now = set(self.workers())
            if now and not now & before:
                return
            time.sleep(0.01)
        raise AssertionError(f"no new worker {wait} s after HUP")

    def wait_gone(self, pids, wait):
        """Waits until none of these processes is left; True if so."""
        until = time.monotonic() + wait * slowness()
        while any(pid in children(self.process.pid) for pid in pids):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def faults(self, allowed=None):
        """New lines of the logs that must not be there."""
        bad = []
        # nginx lets stderr go to the error log, once it has read the configuration.
        for name in self._read:
            text = self._text(name)
            lines, self._read[name] = text[self._read[name] :].splitlines(), len(text)
            for line in lines:
                if LEVELS.search(line) and not (allowed and re.search(allowed, line)) or STDERR.search(line):
                    bad.append(line)
        return bad

    def log(self):
        return self._text("error.log")

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

    def stop(self, wait=10.0):
        """QUIT, then TERM, then KILL. Returns what was wrong with the ending."""
        problems = []
        if self.process is None:
            return problems
        for number in (signal.SIGQUIT, signal.SIGTERM):
            if self.process.poll() is None:
                self.signal(number)
            try:
                self.process.wait(wait * slowness())
                break
            except subprocess.TimeoutExpired:
                problems.append(f"nginx still runs {wait} s after {signal.Signals(number).name}")
        self.kill()
        if self.process.returncode != 0:
            problems.append(f"nginx ended with {self.process.returncode}")
        return problems
