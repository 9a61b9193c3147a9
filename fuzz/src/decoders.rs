//! The decoders that judge: the C libraries of the system, written by others than the encoders,
//! streaming and with small buffers, as browsers use them.
//!
//! weft carries a libzstd of its own under the same names, so the system's is opened at run time and
//! asked for each function; [`versions`] shows that it is another one.

use libc::{c_char, c_int, c_uint, c_void, size_t};
use std::ffi::CStr;
use std::mem::transmute;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use weft::codec::Kind;

/// A library that was opened, and stays so.
struct Library {
    name: &'static CStr,
    handle: *mut c_void,
}

impl Library {
    fn open(name: &'static CStr) -> Library {
        // Without RTLD_DEEPBIND, which AddressSanitizer does not bear; `function` looks.
        // SAFETY: a name with its end; what the library runs on being loaded is its own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{name:?} is missing: tools/install-packages fuzz");
        Library { name, handle }
    }

    /// A function of this library, and of no other, however it is called: neither by us, nor by the
    /// library itself, which would reach a function of the same name in the program first.
    fn function(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a live handle and names with their ends.
        let (found, first) = unsafe {
            (
                libc::dlsym(self.handle, name.as_ptr()),
                libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()),
            )
        };
        assert!(!found.is_null(), "{:?} has no {name:?}", self.name);
        assert!(first.is_null() || first == found, "{name:?} is not only that of {:?}", self.name);
        let mut info = libc::Dl_info {
            dli_fname: null(),
            dli_fbase: null_mut(),
            dli_sname: null(),
            dli_saddr: null_mut(),
        };
        // SAFETY: `info` is written; the name it gives lives as long as the library.
        let file = unsafe {
            assert!(libc::dladdr(found, &mut info) != 0, "{name:?} is nowhere");
            CStr::from_ptr(info.dli_fname).to_string_lossy()
        };
        let library = self.name.to_string_lossy();
        assert!(file.ends_with(&*library), "{name:?} is in {file}, not in {library}");
        found
    }
}

/// Declares a table of functions, and how it is filled from a library.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident from $file:literal: $($field:ident = $name:literal:
        fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(#[$doc])*
        struct $table { $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl $table {
            fn open() -> $table {
                let library = Library::open($file);
                $table {
                    // SAFETY: these are the declarations of the library's header.
                    $($field: unsafe {
                        transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            library.function($name),
                        )
                    },)*
                }
            }

            fn get() -> &'static $table {
                static TABLE: OnceLock<$table> = OnceLock::new();
                TABLE.get_or_init($table::open)
            }
        }
    };
}

#[repr(C)]
struct ZstdBuffer {
    bytes: *const c_void,
    size: size_t,
    pos: size_t,
}

functions! {
    /// zstd.h
    Zstd from c"libzstd.so.1":
    version = c"ZSTD_versionNumber": fn() -> c_uint;
    create = c"ZSTD_createDCtx": fn() -> *mut c_void;
    free = c"ZSTD_freeDCtx": fn(*mut c_void) -> size_t;
    set = c"ZSTD_DCtx_setParameter": fn(*mut c_void, c_int, c_int) -> size_t;
    decode = c"ZSTD_decompressStream":
        fn(*mut c_void, *mut ZstdBuffer, *mut ZstdBuffer) -> size_t;
    is_error = c"ZSTD_isError": fn(size_t) -> c_uint;
    error_name = c"ZSTD_getErrorName": fn(size_t) -> *const c_char;
}

functions! {
    /// brotli/decode.h
    Brotli from c"libbrotlidec.so.1":
    version = c"BrotliDecoderVersion": fn() -> u32;
    create = c"BrotliDecoderCreateInstance":
        fn(*mut c_void, *mut c_void, *mut c_void) -> *mut c_void;
    free = c"BrotliDecoderDestroyInstance": fn(*mut c_void);
    decode = c"BrotliDecoderDecompressStream": fn(
        *mut c_void, *mut size_t, *mut *const u8, *mut size_t, *mut *mut u8, *mut size_t
    ) -> c_int;
    error = c"BrotliDecoderGetErrorCode": fn(*const c_void) -> c_int;
    error_name = c"BrotliDecoderErrorString": fn(c_int) -> *const c_char;
}

#[repr(C)]
struct ZlibStream {
    next_in: *const u8,
    avail_in: c_uint,
    total_in: libc::c_ulong,
    next_out: *mut u8,
    avail_out: c_uint,
    total_out: libc::c_ulong,
    msg: *const c_char,
    state: *mut c_void,
    zalloc: *mut c_void,
    zfree: *mut c_void,
    opaque: *mut c_void,
    data_type: c_int,
    adler: libc::c_ulong,
    reserved: libc::c_ulong,
}

functions! {
    /// zlib.h
    Zlib from c"libz.so.1":
    version = c"zlibVersion": fn() -> *const c_char;
    init = c"inflateInit2_": fn(*mut ZlibStream, c_int, *const c_char, c_int) -> c_int;
    decode = c"inflate": fn(*mut ZlibStream, c_int) -> c_int;
    end = c"inflateEnd": fn(*mut ZlibStream) -> c_int;
}

fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: the libraries' own texts, which are constant.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

/// The versions of the three libraries, as they say themselves.
pub fn versions() -> (u32, u32, String) {
    // SAFETY: functions without arguments and state.
    unsafe { ((Zstd::get().version)(), (Brotli::get().version)(), text((Zlib::get().version)())) }
}

enum Codec {
    Zstd(*mut c_void),
    Brotli(*mut c_void),
    Zlib(Box<ZlibStream>),
}

/// A decoder of one stream.
pub struct Decoder {
    codec: Codec,
    ended: bool,
    /// What came out so far.
    pub body: Vec<u8>,
}

impl Decoder {
    /// For a stream that declares this window.
    pub fn new(kind: Kind, window_log: u32) -> Decoder {
        const WINDOW_LOG_MAX: c_int = 100;
        let codec = match kind {
            Kind::Zstd => {
                let zstd = Zstd::get();
                // SAFETY: a context is made, and used here only.
                let context = unsafe {
                    let context = (zstd.create)();
                    (zstd.set)(context, WINDOW_LOG_MAX, window_log as c_int);
                    context
                };
                Codec::Zstd(context)
            }
            Kind::Brotli => {
                // SAFETY: no allocator is given.
                Codec::Brotli(unsafe { (Brotli::get().create)(null_mut(), null_mut(), null_mut()) })
            }
            _ => Codec::Zlib(zlib(match kind {
                Kind::Gzip => 16 + 15,
                Kind::Zlib => 15,
                _ => -15,
            })),
        };
        Decoder { codec, ended: false, body: Vec::new() }
    }

    /// Decodes what comes next, with so much room at a time. All that these bytes tell is in `body`
    /// afterwards.
    pub fn push(&mut self, mut bytes: &[u8], room: usize) -> Result<(), String> {
        if bytes.is_empty() {
            // libzstd takes many calls without input for a loop that does not end.
            return Ok(());
        }
        let mut out = [0; 4096];
        let out = &mut out[..room.clamp(1, 4096)];
        loop {
            if self.ended {
                return if bytes.is_empty() { Ok(()) } else { Err("bytes after the end".into()) };
            }
            let before = bytes.len();
            let (count, ended) = self.step(&mut bytes, out)?;
            self.body.extend_from_slice(&out[..count]);
            self.ended = ended;
            if !ended && count < out.len() {
                if bytes.is_empty() {
                    return Ok(());
                }
                if count == 0 && bytes.len() == before {
                    return Err("the decoder stands still".into());
                }
            }
        }
    }

    /// Whether the format says that this was all.
    pub fn ended(&self) -> bool {
        self.ended
    }

    fn step(&mut self, bytes: &mut &[u8], out: &mut [u8]) -> Result<(usize, bool), String> {
        match &mut self.codec {
            Codec::Zstd(context) => {
                let zstd = Zstd::get();
                let mut source =
                    ZstdBuffer { bytes: bytes.as_ptr().cast(), size: bytes.len(), pos: 0 };
                let mut target =
                    ZstdBuffer { bytes: out.as_mut_ptr().cast(), size: out.len(), pos: 0 };
                // SAFETY: a live context; both buffers are as long as they say.
                let left = unsafe { (zstd.decode)(*context, &mut target, &mut source) };
                // SAFETY: functions of a number.
                if unsafe { (zstd.is_error)(left) } != 0 {
                    // SAFETY: as above.
                    return Err(text(unsafe { (zstd.error_name)(left) }));
                }
                *bytes = &bytes[source.pos..];
                Ok((target.pos, left == 0))
            }
            Codec::Brotli(state) => {
                const SUCCESS: c_int = 1;
                const ERROR: c_int = 0;
                let brotli = Brotli::get();
                let (mut left, mut next) = (bytes.len(), bytes.as_ptr());
                let (mut room, mut to) = (out.len(), out.as_mut_ptr());
                // SAFETY: a live state; pointers and lengths belong together.
                let answer = unsafe {
                    (brotli.decode)(*state, &mut left, &mut next, &mut room, &mut to, null_mut())
                };
                if answer == ERROR {
                    // SAFETY: a live state.
                    let code = unsafe { (brotli.error)(*state) };
                    // SAFETY: a function of a number.
                    return Err(text(unsafe { (brotli.error_name)(code) }));
                }
                *bytes = &bytes[bytes.len() - left..];
                Ok((out.len() - room, answer == SUCCESS))
            }
            Codec::Zlib(stream) => {
                const NO_FLUSH: c_int = 0;
                const STREAM_END: c_int = 1;
                const BUF_ERROR: c_int = -5;
                stream.next_in = bytes.as_ptr();
                stream.avail_in = bytes.len() as c_uint;
                stream.next_out = out.as_mut_ptr();
                stream.avail_out = out.len() as c_uint;
                // SAFETY: a live stream that does not move; pointers and lengths belong together.
                let answer = unsafe { (Zlib::get().decode)(&mut **stream, NO_FLUSH) };
                *bytes = &bytes[bytes.len() - stream.avail_in as usize..];
                let count = out.len() - stream.avail_out as usize;
                match answer {
                    0 | BUF_ERROR => Ok((count, false)),
                    STREAM_END => Ok((count, true)),
                    _ => Err(format!("zlib {answer}: {}", text(stream.msg))),
                }
            }
        }
    }
}

fn zlib(bits: c_int) -> Box<ZlibStream> {
    let mut stream = Box::new(ZlibStream {
        next_in: null(),
        avail_in: 0,
        total_in: 0,
        next_out: null_mut(),
        avail_out: 0,
        total_out: 0,
        msg: null(),
        state: null_mut(),
        zalloc: null_mut(),
        zfree: null_mut(),
        opaque: null_mut(),
        data_type: 0,
        adler: 0,
        reserved: 0,
    });
    let table = Zlib::get();
    let size = size_of::<ZlibStream>() as c_int;
    // SAFETY: zlib remembers where the stream lies, and a box stays there.
    let answer = unsafe { (table.init)(&mut *stream, bits, (table.version)(), size) };
    assert!(answer == 0, "inflateInit2: {answer}");
    stream
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: each was made by its library, and ends here.
        unsafe {
            match &mut self.codec {
                Codec::Zstd(context) => {
                    (Zstd::get().free)(*context);
                }
                Codec::Brotli(state) => (Brotli::get().free)(*state),
                Codec::Zlib(stream) => {
                    (Zlib::get().end)(&mut **stream);
                }
            }
        }
    }
}
