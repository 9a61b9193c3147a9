"""Decoding zstd, br and gzip by programs that are not weft, whole and as far as it has come."""

import ctypes
import ctypes.util
import gzip
import subprocess
import zlib

from harness import coding as zstd
from harness.coding import CodingError

__all__ = ["CodingError", "check_whole", "is_complete", "stream"]


class GzipStream:
    def __init__(self):
        self._z = zlib.decompressobj(31)
        self.ended = False

    def feed(self, data):
        try:
            plain = self._z.decompress(data)
        except zlib.error as error:
            raise CodingError(str(error)) from None
        self.ended = self._z.eof
        if self._z.unused_data:
            raise CodingError("bytes after the end of the member")
        return plain


def _load():
    lib = ctypes.CDLL(ctypes.util.find_library("brotlidec") or "libbrotlidec.so.1")
    lib.BrotliDecoderCreateInstance.restype = ctypes.c_void_p
    lib.BrotliDecoderCreateInstance.argtypes = [ctypes.c_void_p] * 3
    lib.BrotliDecoderDestroyInstance.argtypes = [ctypes.c_void_p]
    size, byte = ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p)
    lib.BrotliDecoderDecompressStream.argtypes = [ctypes.c_void_p, size, byte, size, byte, ctypes.c_void_p]
    return lib


class BrotliStream:
    _lib = None
    ERROR, SUCCESS, MORE_INPUT, MORE_OUTPUT = range(4)

    def __init__(self):
        if BrotliStream._lib is None:
            BrotliStream._lib = _load()
        self._state = self._lib.BrotliDecoderCreateInstance(None, None, None)
        self._room = ctypes.create_string_buffer(16384)
        self.ended = False

    def __del__(self):
        if getattr(self, "_state", None):
            self._lib.BrotliDecoderDestroyInstance(self._state)

    def feed(self, data):
        left = ctypes.c_size_t(len(data))
        at = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p)
        plain = bytearray()
        while True:
            if self.ended:
                if left.value:
                    raise CodingError("bytes after the end of the stream")
                return bytes(plain)
            room = ctypes.c_size_t(len(self._room))
            to = ctypes.c_void_p(ctypes.addressof(self._room))
            answer = self._lib.BrotliDecoderDecompressStream(
                self._state, ctypes.byref(left), ctypes.byref(at), ctypes.byref(room), ctypes.byref(to), None
            )
            plain += self._room.raw[: len(self._room) - room.value]
            if answer == self.ERROR:
                raise CodingError("not a brotli stream")
            self.ended = answer == self.SUCCESS
            # It may want more input with output left that had no room.
            if answer == self.MORE_INPUT and room.value:
                return bytes(plain)


STREAMS = {"zstd": zstd.ZstdStream, "br": BrotliStream, "gzip": GzipStream}
TOOLS = {"br": ["brotli", "-dc"], "gzip": ["gzip", "-dc"]}


def stream(coding):
    """A decoder that gives what has arrived so far: feed(data), ended."""
    return STREAMS[coding]()


def _tool(coding, data):
    return subprocess.run(TOOLS[coding], input=data, capture_output=True)


def check_whole(coding, data):
    """The plain bytes of a complete body; two decoders agree."""
    if coding == "zstd":
        return zstd.check_whole(coding, data)
    done = _tool(coding, data)
    if done.returncode:
        raise CodingError(f"{coding}: {done.stderr.decode(errors='replace').strip()}")
    one = stream(coding)
    if one.feed(data) != done.stdout or not one.ended:
        raise CodingError("the streaming decoder and the tool disagree")
    if coding == "gzip" and gzip.decompress(data) != done.stdout:
        raise CodingError("Python's gzip and the tool disagree")
    return done.stdout


def is_complete(coding, data):
    """What the tool says: all that was begun is ended. No data at all is nothing."""
    if coding == "zstd":
        return zstd.zstd_is_complete(data)
    return bool(data) and _tool(coding, data).returncode == 0
