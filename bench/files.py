"""The bodies that are measured: real files from npm, pinned by version, and two that are made."""

import hashlib
import os
import random
import subprocess
import tarfile

from harness.nginx import ROOT

FOLDER = os.path.join(ROOT, "target/bench/files")

# name: (package, file in it, length or None for all of it)
SOURCES = {
    "small.json": ("caniuse-db@1.0.30001813", "data.json", 1945),
    "jquery.min.js": ("jquery@3.7.1", "dist/jquery.min.js", None),
    "font.woff2": ("bootstrap-icons@1.11.3", "font/fonts/bootstrap-icons.woff2", None),
    "react-dom.js": ("react-dom@18.3.1", "umd/react-dom.development.js", None),
    "script.js": ("typescript@5.4.5", "lib/typescript.js", 1 << 20),
    "data.json": ("caniuse-db@1.0.30001813", "data.json", 1 << 20),
    "caniuse.json": ("caniuse-db@1.0.30001813", "data.json", None),
    "typescript.js": ("typescript@5.4.5", "lib/typescript.js", None),
}
RANDOM = "random.bin"


def _unpack(package):
    """The folder with the files of an npm package."""
    name = package.split("@")[0]
    folder = os.path.join(FOLDER, ".npm", name)
    if not os.path.isdir(folder):
        os.makedirs(folder + ".new", exist_ok=True)
        words = ["npm", "pack", "--silent", package]
        done = subprocess.run(words, cwd=folder + ".new", capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"bench: npm has no {package} for us\n{done.stderr.strip()}")
        (archive,) = (file for file in os.listdir(folder + ".new") if file.endswith(".tgz"))
        with tarfile.open(os.path.join(folder + ".new", archive)) as tar:
            tar.extractall(folder + ".new", filter="data")
        os.rename(folder + ".new", folder)
    return os.path.join(folder, "package")


def all_files():
    """Every body by name; fetched at the first time."""
    os.makedirs(FOLDER, exist_ok=True)
    found = {}
    for name, (package, inside, length) in SOURCES.items():
        path = os.path.join(FOLDER, name)
        if not os.path.exists(path):
            with open(os.path.join(_unpack(package), inside), "rb") as file:
                data = file.read()[:length]
            with open(path, "wb") as file:
                file.write(data)
        with open(path, "rb") as file:
            found[name] = file.read()
    path = os.path.join(FOLDER, RANDOM)
    found[RANDOM] = random.Random("weft").randbytes(1 << 20)
    if not os.path.exists(path):
        with open(path, "wb") as file:
            file.write(found[RANDOM])
    return found


def path(name):
    return os.path.join(FOLDER, name)


def described(found):
    """What each body is, for the report."""
    rows = []
    for name, data in found.items():
        package, inside, length = SOURCES.get(name, ("", "", None))
        origin = f"{package} {inside}" if package else "random bytes from a fixed seed"
        if length:
            origin += f", its first {length} bytes"
        rows.append([name, len(data), origin, hashlib.sha256(data).hexdigest()[:16]])
    return rows
