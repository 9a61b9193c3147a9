"""The base of all cases: an Apache (and an upstream) for each class, checked when it ends.

`ApacheCase` is nginx's case with another server, so a class of tests/nginx becomes one of Apache by
inheriting from both: its tests are the shared list. What Apache does otherwise is said by overriding
the test, with the reason.
"""

import os
import pwd
import shutil
import sys
import tempfile
import unittest

from harness import http1
from harness.case import KEEP, NginxCase, Upstream, body, certificate
from harness.nginx import slowness

from . import decoders
from .server import MODULE, Apache, modules_folder

__all__ = ["ApacheCase", "ApacheSite", "body", "not_here", "of_each_coding"]

MODULES = (
    "authz_core mime filter dir alias headers proxy proxy_http env setenvif deflate brotli include cache cache_disk"
).split()

# Small numbers of children and threads: start is fast, and the engine is shared by all.
EVENT = """
StartServers 1
ServerLimit 2
ThreadsPerChild 32
ThreadLimit 32
MaxRequestWorkers 32
MinSpareThreads 1
MaxSpareThreads 32
"""
PREFORK = """
StartServers 4
MinSpareServers 1
MaxSpareServers 8
MaxRequestWorkers 16
ServerLimit 16
"""


def not_here(reason):
    """In place of a shared test that says something of nginx."""
    return unittest.skip(reason)(lambda self: None)


class ApacheSite:
    """A folder, an upstream and an Apache with `weft` in its log.

    server is what stands in the configuration; "%UP%" in it is the upstream's address, "%DIR%" the
    folder. With `tls` it stands in two virtual hosts, the second with TLS and HTTP/2.
    """

    def __init__(self, server="", main="", files=None, upstream=False, tls=False, mpm="event", cgi=None, **apache):
        self.server, self.main, self.tls, self.mpm = server, main, tls, mpm
        self.folder = tempfile.mkdtemp(prefix="weft-apache-")
        os.chmod(self.folder, 0o755)
        self.www = os.path.join(self.folder, "www")
        # Of the user that Apache becomes: what it makes itself.
        for name in ("www", "cgi", "cache"):
            os.makedirs(os.path.join(self.folder, name))
        os.chmod(os.path.join(self.folder, "cache"), 0o777)
        for name, data in (files or {}).items():
            self.put(name, data)
        for name, text in (cgi or {}).items():
            path = os.path.join(self.folder, "cgi", name)
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o755)
        self.cgi = bool(cgi)
        self.upstream = Upstream(self.folder) if upstream else None
        if tls:
            certificate(self.folder)
        self.apache = Apache(self.folder, self.config, 2 if tls else 1, **apache)

    def put(self, name, data):
        path = os.path.join(self.www, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        # Apache's ETag of a file younger than a second is weak.
        os.utime(path, (1_700_000_000, 1_700_000_000))

    def config(self, ports):
        folder = modules_folder()
        modules = ["mpm_" + self.mpm, *MODULES]
        if self.cgi:
            modules.append("cgi" if self.mpm == "prefork" else "cgid")
        if self.tls:
            modules += ["ssl", "http2"]
        server, main = self.server, self.main
        if self.upstream:
            server = server.replace("%UP%", f"127.0.0.1:{self.upstream.port}")
        server, main = server.replace("%DIR%", self.folder), main.replace("%DIR%", self.folder)
        user = next((name for name in ("www-data", "daemon", "nobody") if _user(name)), None)
        lines = [
            *(f"LoadModule {name}_module {folder}/mod_{name}.so" for name in modules),
            f"LoadModule weft_module {MODULE}",
            # Root's server becomes another user.
            f"User {user}\nGroup #{_user(user).pw_gid}" if os.geteuid() == 0 else "",
            "ServerName localhost",
            f"Listen 127.0.0.1:{ports[0]}",
            f"DefaultRuntimeDir {self.folder}",
            "PidFile apache.pid",
            "ErrorLog error.log",
            "LogLevel info",
            'LogFormat "%m %U%q %>s %B weft=\\"%{weft-status}n\\" ratio=\\"%{weft-ratio}n\\"" weft',
            "CustomLog access.log weft",
            "TypesConfig /dev/null",
            "AddType text/html .html .shtml",
            "AddType text/plain .txt",
            "AddType application/json .json",
            "AddType text/javascript .js",
            "AddType text/css .css",
            "Timeout 60",
            "KeepAliveTimeout 60",
            "MaxKeepAliveRequests 0",
            f"DocumentRoot {self.www}",
            f"<Directory {self.folder}>\n    Require all granted\n    Options +FollowSymLinks +Includes\n</Directory>",
            f"ScriptAlias /cgi/ {self.folder}/cgi/" if self.cgi else "",
            f"ScriptSock {self.folder}/cgid.sock" if self.cgi and self.mpm != "prefork" else "",
            PREFORK if self.mpm == "prefork" else EVENT,
            main,
        ]
        if self.tls:
            lines += [
                f"Listen 127.0.0.1:{ports[1]}",
                f"<VirtualHost 127.0.0.1:{ports[0]}>\n{server}\n</VirtualHost>",
                f"<VirtualHost 127.0.0.1:{ports[1]}>\nSSLEngine on\nSSLCertificateFile cert.pem",
                f"SSLCertificateKeyFile key.pem\nProtocols h2 http/1.1\n{server}\n</VirtualHost>",
            ]
        else:
            lines.append(server)
        return "\n".join(lines) + "\n"

    def start(self):
        self.apache.start()
        return self

    @property
    def port(self):
        return self.apache.ports[0]

    def stop(self, allowed=None):
        """Ends everything; returns all that was wrong."""
        problems = self.apache.stop()
        if self.upstream:
            self.upstream.stop()
        problems += self.apache.faults(allowed)
        if KEEP or problems:
            print(f"\nkept: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        return problems

    discard = stop

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        problems = self.stop()
        if problems and kind is None:
            raise AssertionError("\n".join(problems))


def _user(name):
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


class ApacheCase(NginxCase):
    mpm = "event"
    cgi = None
    # Of nginx's cases that are inherited: their configuration is not Apache's.
    server = http = main = events = ""

    @classmethod
    def setUpClass(cls):
        files = cls.files() if callable(cls.files) else cls.files
        cls.site = ApacheSite(
            cls.server, cls.main, files, cls.upstream, cls.tls, cls.mpm, cls.cgi, **getattr(cls, "apache", {})
        )
        try:
            cls.site.start()
        except BaseException:
            cls.site.stop()
            raise
        # nginx's cases call the server so.
        cls.nginx = cls.server_process = cls.site.apache
        cls.port = cls.site.port

    def get(self, path, ae="zstd", **more):
        """Cases of one coding say zstd for theirs, and gzip for one that it is not."""
        if self.coding != "zstd":
            ae = {"zstd": self.coding, "gzip": "zstd"}.get(ae, ae) if isinstance(ae, str) else ae
        more.setdefault("timeout", 20.0 * slowness())
        return http1.get(self.port, path, ae, **more)

    def connect(self, **more):
        connection = super().connect(**more)
        send = connection.send
        connection.send = lambda path, ae=self.coding, *rest, **more: send(path, ae, *rest, **more)
        return connection

    def decoded(self, response):
        try:
            return decoders.check_whole(self.coding, response.body)
        except decoders.CodingError as error:
            self.fail(f"{len(response.body)} coded bytes: {error}")

    def assert_coded(self, response, plain, status=200):
        """As nginx's, but that Apache counts a body which was all there before its headers left."""
        length = response.get("Content-Length")
        if length is not None:
            self.assertEqual(int(length), len(response.body))
            response.pairs = [pair for pair in response.pairs if pair[0].lower() != "content-length"]
        super().assert_coded(response, plain, status)


def of_each_coding(case):
    """Makes three classes of one in its module: Zstd, Br and Gzip before its name."""
    space = sys.modules[case.__module__].__dict__
    for coding in ("zstd", "br", "gzip"):
        name = coding.capitalize() + case.__name__
        made = type(name, (case,), {"coding": coding, "__module__": case.__module__, "__qualname__": name})
        made.server = case.server.replace("%CODING%", coding)
        made.main = case.main.replace("%CODING%", coding)
        space[name] = made
    # The one it was made of is not run, but can be inherited from.
    case.__test__ = False
    return None
