//! zstd (RFC 8878) in segments: one frame, whatever the number of segments.
//!
//! The conditions under which that is sound were found by trial, and each has a test in
//! `tests/zstd_conditions.rs` that fails without it:
//!
//! 1. weft writes the frame header itself and drops libzstd's from every segment. libzstd shrinks
//!    the window to what it is told of the first segment; a header from a 200-byte first segment
//!    makes later ones undecodable.
//! 2. The encoder's window is never above the one that the header declares.
//! 3. History lies directly in front of the input, in one buffer ([`Window`]). From another buffer
//!    the frame decodes to wrong bytes, without an error.
//! 4. All seven compression parameters are set, the same for each segment of a stream. Otherwise
//!    libzstd chooses the strategy by the size of the segment, and small ones cost twenty times as
//!    much.
//! 5. `ZSTD_invalidateRepCodes` before each segment but the first: a decoder's repeat offsets carry
//!    over from block to block, a fresh encoder's start anew.

use super::noise::is_noise;
use super::{Bounds, Encoder, Fault, Params, Request, Shape, Window};
use crate::error::Status;
use core::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use zstd_sys as sys;

unsafe extern "C" {
    /// Not in libzstd's public header. libzstd's own multithreading calls it between its jobs, for
    /// the same reason as weft. It links because zstd-sys compiles libzstd in; the exact version is
    /// pinned in Cargo.toml.
    fn ZSTD_invalidateRepCodes(cctx: *mut sys::ZSTD_CCtx);
}

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Magic, descriptor, window: what libzstd writes too when no size, checksum or dictionary is asked
/// for, so that for a first segment ours simply overwrites it.
const HEADER: usize = 6;

/// A last, raw, empty block: what closes a frame whose last segment brought no bytes.
pub const EMPTY_LAST_BLOCK: [u8; 3] = [0x01, 0x00, 0x00];

/// Below this many bytes the strategies that price every choice spend more on setting up their
/// statistics than on the data.
const TINY: usize = 2048;

/// The levels of libzstd.
pub fn bounds() -> Bounds {
    // SAFETY: no arguments, no state.
    let (min, max) = unsafe { (sys::ZSTD_minCLevel(), sys::ZSTD_maxCLevel()) };
    Bounds { min, max, default: 3 }
}

/// Segments and history by class of level; docs/architecture.md has the figures behind them. Loading
/// history costs a third of encoding as many bytes, so what good levels gain from a longer one is
/// paid for with longer segments. At 13 to 15 loading is dearer than encoding, so there it is short
/// again. A full segment takes 10 to 60 ms up to level 12, up to 400 ms at 15 and above a second from
/// there on, where the first ones are therefore short.
pub fn shape(level: i32) -> Shape {
    let kib = |count: usize| count << 10;
    match level {
        ..=4 => Shape::new(kib(2048), kib(512), kib(512)),
        5..=8 => Shape::new(kib(2560), kib(512), kib(768)),
        9..=12 => Shape::new(kib(2560), kib(512), kib(1280)),
        13..=15 => Shape::new(kib(3072), kib(256), kib(768)),
        _ => Shape::new(kib(3072), kib(128), kib(1536)),
    }
}

/// Worst case of a segment: libzstd's own bound, our header and a closing block.
pub fn output_bound(input: usize) -> usize {
    // SAFETY: a pure function of its argument.
    (unsafe { sys::ZSTD_compressBound(input) }) + HEADER + EMPTY_LAST_BLOCK.len() + 16
}

/// The compression parameters of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    level: i32,
    window_log: u32,
    params: sys::ZSTD_compressionParameters,
}

impl Tuning {
    /// Settles the parameters: from the level and, where known, the length of the whole body, never
    /// from the size of a segment.
    pub fn settle(request: &Request, window_log: u32) -> Tuning {
        let length = request.content_length.unwrap_or(0);
        // SAFETY: pure functions of their arguments.
        let params = unsafe {
            let mut params = sys::ZSTD_getCParams(request.level, length, 0);
            params.windowLog = window_log;
            // Tables never need to be larger than what one segment and its history can fill: level
            // 22 asks for 640 MiB otherwise.
            sys::ZSTD_adjustCParams(params, request.segment as u64, request.history)
        };
        Tuning { level: request.level, window_log, params }
    }

    /// Bytes that a context takes for such a segment: libzstd makes its tables no larger than what
    /// they can be filled with.
    pub fn encoder_memory(&self, history: usize, input: usize) -> usize {
        let strategy = self.strategy_for(input);
        // SAFETY: pure functions of their arguments.
        unsafe {
            let params = sys::ZSTD_compressionParameters { strategy, ..self.params };
            let params = sys::ZSTD_adjustCParams(params, input.max(1) as u64, history);
            sys::ZSTD_estimateCCtxSize_usingCParams(params)
        }
    }

    /// Nanoseconds, from the strategy's speed on text (`cargo bench --bench cost`).
    pub fn cost_ns(&self, history: usize, input: usize) -> u64 {
        let strategy = self.strategy_for(input) as u64;
        // Picoseconds for each byte of input, and of history to be loaded.
        let (input_ps, history_ps): (u64, u64) = match strategy {
            0..=1 => (2_300, 300),
            2 => (3_000, 600),
            3 => (6_500, 1_000),
            4 => (10_000, 1_500),
            5 => (22_000, 2_000),
            6 if input < 16 << 10 => (35_000, 20_000),
            6 => (90_000, 20_000),
            7 => (170_000, 40_000),
            8 => (300_000, 50_000),
            _ => (420_000, 50_000),
        };
        let setup_ns = 3_000;
        setup_ns + (input as u64 * input_ps + history as u64 * history_ps) / 1_000
    }

    fn strategy_for(&self, input: usize) -> sys::ZSTD_strategy {
        let strategy = self.params.strategy;
        if input < TINY && strategy as u32 > sys::ZSTD_strategy::ZSTD_lazy2 as u32 {
            return sys::ZSTD_strategy::ZSTD_lazy2;
        }
        strategy
    }
}

/// A libzstd context and the account of its memory.
pub struct ZstdEncoder {
    context: NonNull<sys::ZSTD_CCtx>,
    // Boxed: the context keeps a pointer to it. Written by the allocator below, on whichever thread
    // uses the encoder at the moment.
    held: Box<AtomicUsize>,
}

// SAFETY: a context may be used by one thread at a time, whichever; `&mut` sees to that, and its
// memory comes from an allocator that does not care about threads.
unsafe impl Send for ZstdEncoder {}

impl ZstdEncoder {
    /// A fresh context.
    pub fn new() -> Result<ZstdEncoder, Status> {
        let held = Box::new(AtomicUsize::new(0));
        let memory = sys::ZSTD_customMem {
            customAlloc: Some(allocate),
            customFree: Some(release),
            opaque: (&raw const *held).cast_mut().cast(),
        };
        // SAFETY: the functions keep the allocator contract, and `held` lives as long as the context.
        let context = unsafe { sys::ZSTD_createCCtx_advanced(memory) };
        Ok(ZstdEncoder { context: NonNull::new(context).ok_or(Status::NoMemory)?, held })
    }

    fn set(&mut self, parameter: sys::ZSTD_cParameter, value: c_int) -> Result<(), Fault> {
        // SAFETY: a live context of ours.
        check(unsafe { sys::ZSTD_CCtx_setParameter(self.context.as_ptr(), parameter, value) })?;
        Ok(())
    }

    /// Brings the context into the state in which a fresh one would be, with the stream's parameters.
    fn prepare(&mut self, tuning: &Tuning, input: &[u8]) -> Result<(), Fault> {
        use sys::ZSTD_cParameter as P;
        let both = sys::ZSTD_ResetDirective::ZSTD_reset_session_and_parameters;
        // SAFETY: a live context of ours.
        check(unsafe { sys::ZSTD_CCtx_reset(self.context.as_ptr(), both) })?;
        let params = &tuning.params;
        self.set(P::ZSTD_c_compressionLevel, tuning.level)?;
        self.set(P::ZSTD_c_windowLog, params.windowLog as c_int)?;
        self.set(P::ZSTD_c_hashLog, params.hashLog as c_int)?;
        self.set(P::ZSTD_c_chainLog, params.chainLog as c_int)?;
        self.set(P::ZSTD_c_searchLog, params.searchLog as c_int)?;
        self.set(P::ZSTD_c_minMatch, params.minMatch as c_int)?;
        let mut strategy = tuning.strategy_for(input.len());
        let mut target = params.targetLength;
        if strategy as u32 > sys::ZSTD_strategy::ZSTD_dfast as u32 && is_noise(input) {
            // Sees at once that nothing can be saved, and still finds repetitions: for this strategy
            // a target length is how much it skips.
            (strategy, target) = (sys::ZSTD_strategy::ZSTD_fast, 0);
        }
        self.set(P::ZSTD_c_targetLength, target as c_int)?;
        self.set(P::ZSTD_c_strategy, strategy as c_int)?;
        self.set(P::ZSTD_c_contentSizeFlag, 0)?;
        self.set(P::ZSTD_c_checksumFlag, 0)?;
        self.set(P::ZSTD_c_dictIDFlag, 0)?;
        // ZSTD_c_forceMaxWindow: offsets into the history stay within the declared window too.
        self.set(P::ZSTD_c_experimentalParam3, 1)?;
        // ZSTD_c_stableInBuffer, ZSTD_c_stableOutBuffer: no copies inside libzstd.
        self.set(P::ZSTD_c_experimentalParam9, 1)?;
        self.set(P::ZSTD_c_experimentalParam10, 1)
    }
}

impl Encoder for ZstdEncoder {
    fn encode(
        &mut self,
        params: &Params,
        window: &Window<'_>,
        out: &mut [u8],
    ) -> Result<Range<usize>, Fault> {
        let super::Detail::Zstd(tuning) = &params.detail else {
            return Err(Fault { status: Status::Invalid, text: "not a zstd stream".into() });
        };
        let (history, input) = (window.history(), window.input());
        if input.is_empty() {
            let mut end = 0;
            if window.first {
                out[..HEADER].copy_from_slice(&header(tuning.window_log));
                end = HEADER;
            }
            if window.last {
                out[end..end + 3].copy_from_slice(&EMPTY_LAST_BLOCK);
                end += 3;
            }
            return Ok(0..end);
        }
        self.prepare(tuning, input)?;
        let context = self.context.as_ptr();
        let flush = sys::ZSTD_EndDirective::ZSTD_e_flush;
        let last = if window.last { sys::ZSTD_EndDirective::ZSTD_e_end } else { flush };
        let mut source = sys::ZSTD_inBuffer { src: input.as_ptr().cast(), size: 0, pos: 0 };
        let mut target =
            sys::ZSTD_outBuffer { dst: out.as_mut_ptr().cast(), size: out.len(), pos: 0 };
        // SAFETY: a live context of ours; both buffers outlive the calls and do not move, as the
        // stable-buffer parameters ask; history lies directly in front of the input.
        unsafe {
            if !history.is_empty() {
                check(sys::ZSTD_CCtx_refPrefix_advanced(
                    context,
                    history.as_ptr().cast(),
                    history.len(),
                    sys::ZSTD_dictContentType_e::ZSTD_dct_rawContent,
                ))?;
            }
            check(sys::ZSTD_CCtx_setPledgedSrcSize(context, input.len() as u64))?;
            // Starts the frame, so that repeat offsets can be dropped before the first block.
            check(sys::ZSTD_compressStream2(context, &mut target, &mut source, flush))?;
            if !window.first {
                ZSTD_invalidateRepCodes(context);
            }
            source.size = input.len();
            if check(sys::ZSTD_compressStream2(context, &mut target, &mut source, last))? != 0 {
                return Err(Fault {
                    status: Status::Codec,
                    text: "zstd: output bound too small".into(),
                });
            }
        }
        debug_assert!(out.starts_with(&MAGIC) && out[4] == 0, "libzstd's header is not 6 bytes");
        let start = if window.first {
            out[..HEADER].copy_from_slice(&header(tuning.window_log));
            0
        } else {
            HEADER
        };
        Ok(start..target.pos)
    }

    fn memory(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl Drop for ZstdEncoder {
    fn drop(&mut self) {
        // SAFETY: a live context of ours, not used again.
        unsafe { sys::ZSTD_freeCCtx(self.context.as_ptr()) };
    }
}

/// RFC 8878, section 3.1.1.1: no single segment, no checksum, no dictionary, no content size (a
/// filter behind us may still change the length), then the window as exponent and mantissa 0.
fn header(window_log: u32) -> [u8; HEADER] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, 0x00, ((window_log - 10) << 3) as u8]
}

fn check(result: usize) -> Result<usize, Fault> {
    // SAFETY: pure functions of their argument; the name is a static string.
    unsafe {
        if sys::ZSTD_isError(result) == 0 {
            return Ok(result);
        }
        let text = CStr::from_ptr(sys::ZSTD_getErrorName(result)).to_string_lossy().into_owned();
        let memory =
            sys::ZSTD_getErrorCode(result) == sys::ZSTD_ErrorCode::ZSTD_error_memory_allocation;
        let status = if memory { Status::NoMemory } else { Status::Codec };
        Err(Fault { status, text: format!("zstd: {text}") })
    }
}

/// From here on a block is mapped on its own, so that freeing it on any thread gives it back to the
/// system at once; malloc would keep it in an arena.
const MAPPED: usize = 128 << 10;

/// In front of each block: its whole size. As wide as the alignment that libzstd likes.
const PREFIX: usize = 64;

unsafe extern "C" fn allocate(opaque: *mut c_void, size: usize) -> *mut c_void {
    let Some(total) = size.checked_add(PREFIX) else {
        return core::ptr::null_mut();
    };
    // SAFETY: plain requests for memory; the size is written inside the block just got.
    unsafe {
        let base = if total >= MAPPED {
            let base = libc::mmap(
                core::ptr::null_mut(),
                total,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if base == libc::MAP_FAILED { core::ptr::null_mut() } else { base }
        } else {
            libc::malloc(total)
        };
        if base.is_null() {
            return base;
        }
        base.cast::<usize>().write(total);
        (*opaque.cast::<AtomicUsize>()).fetch_add(total, Ordering::Relaxed);
        base.cast::<u8>().add(PREFIX).cast()
    }
}

unsafe extern "C" fn release(opaque: *mut c_void, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: the block came from `allocate`, so its size stands in front of it.
    unsafe {
        let base = block.cast::<u8>().sub(PREFIX);
        let total = base.cast::<usize>().read();
        (*opaque.cast::<AtomicUsize>()).fetch_sub(total, Ordering::Relaxed);
        if total >= MAPPED {
            libc::munmap(base.cast(), total);
        } else {
            libc::free(base.cast());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Kind;

    #[test]
    fn parameters_are_pinned_whatever_the_segment() {
        for level in [-5, 1, 3, 9, 12, 19] {
            let params = Params::settle(&Request {
                kind: Kind::Zstd,
                level,
                window_log: 0,
                content_length: None,
                history: 256 << 10,
                segment: 1 << 20,
            })
            .expect("in bounds");
            let crate::codec::Detail::Zstd(tuning) = params.detail else { panic!("zstd") };
            let mut encoder = ZstdEncoder::new().expect("memory");
            let body = vec![b'x'; 300_000];
            let mut out = vec![0; output_bound(body.len())];
            for (history, end) in [(0, 200), (200, 400), (10_000, 15_000), (50_000, 300_000)] {
                let window = Window::new(&body[..end], history, history == 0, false);
                encoder.encode(&params, &window, &mut out).expect("encodes");
                let get = |parameter| {
                    let mut value = 0;
                    // SAFETY: a live context, and a place for the value.
                    let result = unsafe {
                        sys::ZSTD_CCtx_getParameter(
                            encoder.context.as_ptr(),
                            parameter,
                            &raw mut value,
                        )
                    };
                    check(result).expect("a parameter");
                    value
                };
                use sys::ZSTD_cParameter as P;
                let strategy = tuning.strategy_for(end - history) as c_int;
                assert_eq!(get(P::ZSTD_c_strategy), strategy, "level {level}");
                assert_eq!(get(P::ZSTD_c_hashLog), tuning.params.hashLog as c_int);
                assert_eq!(get(P::ZSTD_c_chainLog), tuning.params.chainLog as c_int);
                assert_eq!(get(P::ZSTD_c_searchLog), tuning.params.searchLog as c_int);
                assert_eq!(get(P::ZSTD_c_minMatch), tuning.params.minMatch as c_int);
                assert_eq!(get(P::ZSTD_c_targetLength), tuning.params.targetLength as c_int);
                assert!(get(P::ZSTD_c_windowLog) as u32 <= params.window_log);
            }
        }
    }

    #[test]
    fn the_estimate_of_memory_holds() {
        for level in [-5, 1, 3, 6, 9, 12, 15, 19, 22] {
            for (history, segment, length) in
                [(256 << 10, 1 << 20, None), (1 << 20, 2 << 20, None), (0, 1900, Some(1900))]
            {
                let params = Params::settle(&Request {
                    kind: Kind::Zstd,
                    level,
                    window_log: 0,
                    content_length: length,
                    history,
                    segment,
                })
                .expect("in bounds");
                let mut encoder = ZstdEncoder::new().expect("memory");
                let body = vec![b'x'; history + segment];
                let mut out = vec![0; output_bound(segment)];
                let window = Window::new(&body, history, false, true);
                encoder.encode(&params, &window, &mut out).expect("encodes");
                let (real, estimate) = (encoder.memory(), params.encoder_memory(window.extent()));
                assert!(real <= estimate + 8192, "level {level}: {real} bytes, not {estimate}");
                assert!(real * 2 > estimate || real < 1 << 20, "level {level}: {real}, {estimate}");
            }
        }
    }
}
