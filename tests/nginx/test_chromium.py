"""A browser: Chromium, headless, over TLS and HTTP/2, takes what weft sends and says what it saw."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from urllib.parse import unquote

from harness.case import NginxCase, body
from harness.nginx import slowness

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CODINGS = ("zstd", "br", "gzip")

# In comments: where they are cut they are neither script nor style.
SCRIPT = b"/* " + body("script", 300_000) + b" */\nwindow.scripted = (window.scripted || 0) + 1;\n"
STYLE = b"/* " + body("text", 90_000) + b" */\n"
DATA = b"[" + body("json", 700_000).rsplit(b",\n", 1)[0] + b"]"
FILES = {"app.js": SCRIPT, "data.json": DATA}
# One rule for each coding, so that one that is missing is seen.
STYLES = {f"style-{name}.css": STYLE + f"#{name} {{ width: {100 + at}px }}\n".encode() for at, name in enumerate(CODINGS)}

PAGE = f"""<!doctype html><html><head><title>weft</title>
{"".join(f'<link rel="stylesheet" href="/{name}/style-{name}.css">' for name in CODINGS)}
{"".join(f'<script src="/{name}/app.js"></script>' for name in CODINGS)}
</head><body>
{"".join(f'<div id="{name}">x</div>' for name in CODINGS)}
<script>
async function digest(bytes) {{
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}}
async function look() {{
  const found = {{ scripted: window.scripted, widths: {{}}, fetched: {{}}, entries: {{}} }};
  for (const name of {json.dumps(CODINGS)}) {{
    found.widths[name] = getComputedStyle(document.getElementById(name)).width;
    for (const file of {json.dumps(list(FILES))}) {{
      const response = await fetch("/" + name + "/" + file + "?fetched");
      const bytes = await response.arrayBuffer();
      found.fetched[name + "/" + file] = [
        response.status, response.headers.get("content-encoding"), bytes.byteLength, await digest(bytes)];
    }}
    const events = await fetch("/" + name + "/up/chunked?n=50000&kind=json&piece=5000&pause=0.01&type=text/html");
    found.fetched[name + "/piecewise"] = [events.status, events.headers.get("content-encoding"),
      ...await events.arrayBuffer().then(async (bytes) => [bytes.byteLength, await digest(bytes)])];
  }}
  for (const entry of performance.getEntriesByType("resource"))
    found.entries[new URL(entry.name).pathname] = [entry.nextHopProtocol, entry.encodedBodySize, entry.decodedBodySize];
  return found;
}}
window.onload = () => look().catch((error) => ({{ error: String(error) }}))
  .then((found) => fetch("/done?" + encodeURIComponent(JSON.stringify(found))));
</script></body></html>
"""


@unittest.skipUnless(CHROMIUM, "there is no Chromium")
class Chromium(NginxCase):
    upstream = tls = True
    needs = ("http_v2_module",)
    files = {"page.html": PAGE.encode(), **FILES, **STYLES}
    http = """
        types { text/html html; text/css css; text/javascript js; application/json json; }
        large_client_header_buffers 4 64k;
        log_format done '$request_uri';
    """
    server = "location = /page.html { weft zstd; }\nlocation = /done { access_log done.log done; return 204; }\n" + "".join(
        f"""
        location /{name}/ {{ weft {name}; weft_types *; alias www/; }}
        location /{name}/up/ {{ weft {name}; weft_types *; proxy_pass http://%UP%/; proxy_buffering off; }}
        """
        for name in CODINGS
    )

    def visit(self, uri):
        """Lets the browser open it, and returns what the page then told the server."""
        log = os.path.join(self.site.folder, "done.log")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            words = [CHROMIUM, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
            words += ["--ignore-certificate-errors", "--disable-background-networking", "--disable-component-update"]
            words += ["--no-sandbox"] if os.geteuid() == 0 else []
            words += [f"--user-data-dir={profile}", "--remote-debugging-port=0"]
            with open(os.path.join(profile, "said"), "wb") as said:
                browser = subprocess.Popen(
                    [*words, f"https://127.0.0.1:{self.nginx.ports[1]}{uri}"],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    env={**os.environ, "HOME": profile},
                    start_new_session=True,
                )
            try:
                until = time.monotonic() + 60 * slowness()
                while not (os.path.exists(log) and os.path.getsize(log)):
                    with open(os.path.join(profile, "said"), errors="replace") as said:
                        self.assertIsNone(browser.poll(), said.read()[-3000:])
                    self.assertLess(time.monotonic(), until, "the page told nothing")
                    time.sleep(0.05)
            finally:
                os.killpg(browser.pid, signal.SIGKILL)
                browser.wait()
        with open(log) as file:
            return json.loads(unquote(file.readline().strip().removeprefix("/done?")))

    def test_a_page_with_script_style_and_data_in_each_coding(self):
        found = self.visit("/page.html")
        self.assertNotIn("error", found, found)
        self.assertEqual(found["scripted"], 3)
        self.assertEqual(found["widths"], {name: f"{100 + at}px" for at, name in enumerate(CODINGS)})
        expected = {**FILES, "piecewise": body("json", 50_000)}
        for name in CODINGS:
            for file, plain in expected.items():
                what = [200, name, len(plain), hashlib.sha256(plain).hexdigest()]
                self.assertEqual(found["fetched"][f"{name}/{file}"], what, f"{name} {file}")
            for file in (f"style-{name}.css", "app.js", "data.json"):
                protocol, coded, plain = found["entries"][f"/{name}/{file}"]
                self.assertEqual(protocol, "h2")
                self.assertEqual(plain, len(self.files[file]))
                self.assertTrue(0 < coded < plain * 0.8, (name, file, coded, plain))
