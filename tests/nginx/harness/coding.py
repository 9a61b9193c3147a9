"""Decoding by programs that are not weft: zstd, brotli and gzip, and as streams the libraries."""

import ctypes
import ctypes.util
import re
import subprocess
import tempfile
import zlib

WINDOW_MAX = 8 << 20


class CodingError(Exception):
    pass


def zstd_tool(data):
    """The plain bytes by `zstd -dc`. The tool takes several frames, so see `zstd_frames` too."""
    done = subprocess.run(["zstd", "-dc", "-q"], input=data, capture_output=True)
    if done.returncode != 0:
        raise CodingError("zstd -dc: " + done.stderr.decode(errors="replace").strip())
    return done.stdout


def zstd_is_complete(data):
    """What `zstd -t` says: every frame begun is ended. No data at all is no frame."""
    return bool(data) and subprocess.run(["zstd", "-t", "-q"], input=data, capture_output=True).returncode == 0


def zstd_frames(data):
    """(number of frames, window in bytes) by `zstd -lv`, which reads only files."""
    with tempfile.NamedTemporaryFile(suffix=".zst") as file:
        file.write(data)
        file.flush()
        done = subprocess.run(["zstd", "-lv", file.name], capture_output=True, text=True)
    if done.returncode != 0:
        raise CodingError("zstd -lv: " + done.stderr.strip())
    frames = re.search(r"# Zstandard Frames: (\d+)", done.stdout)
    skips = re.search(r"# Skippable Frames: (\d+)", done.stdout)
    window = re.search(r"Window Size: .*\((\d+) B\)", done.stdout)
    if frames is None or window is None:
        raise CodingError("zstd -lv printed: " + done.stdout)
    return int(frames[1]) + int(skips[1] if skips else 0), int(window[1])


def zstd_blocks(data):
    """The number of blocks of a frame whose header is the 6 bytes that weft writes."""
    at, count, last = 6, 0, False
    while not last and at + 3 <= len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        at += 3 + (1 if kind == 1 else size)
        count += 1
    return count


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t)]


def _load():
    lib = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    lib.ZSTD_createDStream.restype = ctypes.c_void_p
    lib.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
    lib.ZSTD_DCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    lib.ZSTD_DCtx_setParameter.restype = ctypes.c_size_t
    buffer = ctypes.POINTER(_Buffer)
    lib.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, buffer, buffer]
    lib.ZSTD_decompressStream.restype = ctypes.c_size_t
    lib.ZSTD_getErrorName.argtypes = [ctypes.c_size_t]
    lib.ZSTD_getErrorName.restype = ctypes.c_char_p
    return lib


class ZstdStream:
    """Decodes what has arrived so far, strictly: small output buffer, window of at most 8 MiB."""

    _lib = None

    def __init__(self, room=4096):
        if ZstdStream._lib is None:
            ZstdStream._lib = _load()
        self._ctx = self._lib.ZSTD_createDStream()
        self._lib.ZSTD_DCtx_setParameter(self._ctx, 100, 23)  # ZSTD_d_windowLogMax
        self._room = ctypes.create_string_buffer(room)
        self.ended = False

    def __del__(self):
        if getattr(self, "_ctx", None):
            self._lib.ZSTD_freeDStream(self._ctx)

    def feed(self, data):
        """All plain bytes that `data` and what came before it decode to."""
        source = _Buffer(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data), 0)
        plain = bytearray()
        while True:
            if self.ended:
                if source.pos < source.size:
                    raise CodingError("bytes after the end of the frame")
                return bytes(plain)
            room = _Buffer(ctypes.addressof(self._room), len(self._room), 0)
            left = self._lib.ZSTD_decompressStream(self._ctx, ctypes.byref(room), ctypes.byref(source))
            if left > 1 << 60:
                raise CodingError(self._lib.ZSTD_getErrorName(left).decode())
            plain += self._room.raw[: room.pos]
            self.ended = left == 0
            if source.pos == source.size and room.pos < room.size:
                return bytes(plain)


class GzipStream:
    """Decodes what has arrived so far; one member."""

    def __init__(self):
        self._decoder = zlib.decompressobj(31)

    @property
    def ended(self):
        return self._decoder.eof

    def feed(self, data):
        try:
            plain = self._decoder.decompress(data)
        except zlib.error as error:
            raise CodingError(str(error)) from None
        if self._decoder.unused_data:
            raise CodingError("bytes after the end of the member")
        return plain


class BrotliStream:
    """Decodes what has arrived so far, by the system's libbrotlidec, into a small buffer."""

    _lib = None

    def __init__(self, room=4096):
        if BrotliStream._lib is None:
            lib = ctypes.CDLL(ctypes.util.find_library("brotlidec") or "libbrotlidec.so.1")
            lib.BrotliDecoderCreateInstance.restype = ctypes.c_void_p
            lib.BrotliDecoderCreateInstance.argtypes = [ctypes.c_void_p] * 3
            lib.BrotliDecoderDestroyInstance.argtypes = [ctypes.c_void_p]
            lib.BrotliDecoderDecompressStream.argtypes = [ctypes.c_void_p] * 6
            BrotliStream._lib = lib
        self._state = self._lib.BrotliDecoderCreateInstance(None, None, None)
        self._room = ctypes.create_string_buffer(room)
        self.ended = False

    def __del__(self):
        if getattr(self, "_state", None):
            self._lib.BrotliDecoderDestroyInstance(self._state)

    def feed(self, data):
        source = ctypes.create_string_buffer(data, len(data))
        left, next_in = ctypes.c_size_t(len(data)), ctypes.c_void_p(ctypes.addressof(source))
        plain = bytearray()
        while True:
            if self.ended:
                if left.value:
                    raise CodingError("bytes after the end of the stream")
                return bytes(plain)
            size = len(self._room)
            room, next_out = ctypes.c_size_t(size), ctypes.c_void_p(ctypes.addressof(self._room))
            pointers = [ctypes.byref(value) for value in (left, next_in, room, next_out)]
            result = self._lib.BrotliDecoderDecompressStream(self._state, *pointers, None)
            plain += self._room.raw[: size - room.value]
            if result == 0:
                raise CodingError("not brotli")
            self.ended = result == 1
            # It asks for more input even while output is left that had no room.
            if result == 2 and room.value:
                return bytes(plain)


STREAMS = {"zstd": ZstdStream, "br": BrotliStream, "gzip": GzipStream}
TOOLS = {"br": ["brotli", "-dc"], "gzip": ["gzip", "-dc"]}


def stream(coding):
    """A decoder of what has arrived so far: `feed` gives plain bytes, `ended` says if it was all."""
    return STREAMS[coding]()


def tool(coding, data):
    """The plain bytes by the coding's own program."""
    if coding == "zstd":
        return zstd_tool(data)
    done = subprocess.run(TOOLS[coding], input=data, capture_output=True)
    if done.returncode != 0:
        raise CodingError(f"{coding}: " + done.stderr.decode(errors="replace").strip())
    return done.stdout


def is_complete(coding, data):
    """Whether the body was ended by its coding's own end."""
    decoder = stream(coding)
    try:
        decoder.feed(data)
    except CodingError:
        return False
    return decoder.ended


def check_whole(coding, data):
    """The plain bytes of a complete body: one frame, window within bounds, two decoders agree."""
    plain = tool(coding, data)
    if coding == "zstd":
        frames, window = zstd_frames(data)
        if frames != 1:
            raise CodingError(f"{frames} frames")
        if window > WINDOW_MAX:
            raise CodingError(f"window of {window} bytes")
    decoder = stream(coding)
    if decoder.feed(data) != plain or not decoder.ended:
        raise CodingError("the streaming decoder and the tool disagree")
    return plain
