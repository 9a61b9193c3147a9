//! The calls of Google's brotli encoder (RFC 7932): the one C library besides libzstd that weft
//! calls. What it is called for is in `src/codec/whole.rs`.

use crate::codec::brotli::Setting;
use crate::codec::whole::Memory;
use compu_brotli_sys as sys;
use core::ffi::c_void;

/// Encodes a whole body into `out`, whatever was encoded with this memory before; the bytes written.
/// `None`: there was no memory, or not enough room.
pub(crate) fn encode(
    memory: &mut Memory,
    setting: Setting,
    input: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let opaque: *mut c_void = (&raw mut *memory).cast();
    // SAFETY: the two functions keep the allocator contract on `memory`, which is used by nothing
    // else until the state is destroyed.
    let state = unsafe { sys::BrotliEncoderCreateInstance(Some(lend), Some(take_back), opaque) };
    if state.is_null() {
        return None;
    }
    let parameters = [
        (sys::BrotliEncoderParameter_BROTLI_PARAM_QUALITY, setting.quality as usize),
        (sys::BrotliEncoderParameter_BROTLI_PARAM_LGWIN, setting.window_log as usize),
        (sys::BrotliEncoderParameter_BROTLI_PARAM_SIZE_HINT, setting.size_hint),
    ];
    let (mut left, mut next) = (input.len(), input.as_ptr());
    let (mut room, mut end) = (out.len(), out.as_mut_ptr());
    // SAFETY: a live state; both slices outlive the call, which is told their lengths.
    let went = unsafe {
        for (parameter, value) in parameters {
            let value = u32::try_from(value).unwrap_or(u32::MAX);
            sys::BrotliEncoderSetParameter(state, parameter, value);
        }
        let finish = sys::BrotliEncoderOperation_BROTLI_OPERATION_FINISH;
        let went = sys::BrotliEncoderCompressStream(
            state,
            finish,
            &raw mut left,
            &raw mut next,
            &raw mut room,
            &raw mut end,
            core::ptr::null_mut(),
        );
        went != 0 && sys::BrotliEncoderIsFinished(state) != 0
    };
    // SAFETY: a live state of ours, not used again.
    unsafe { sys::BrotliEncoderDestroyInstance(state) };
    went.then(|| out.len() - room)
}

unsafe extern "C" fn lend(memory: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: what `encode` gave, on its thread, and nothing else uses it meanwhile.
    unsafe { &mut *memory.cast::<Memory>() }.lend(bytes).cast()
}

unsafe extern "C" fn take_back(memory: *mut c_void, block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: as in `lend`.
    unsafe { &mut *memory.cast::<Memory>() }.take_back(block.cast());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Kind;
    use crate::engine::{Engine, Options as EngineOptions};
    use crate::stream::{Flow, Options, Stream};

    /// Google's encoder in one call, with memory from malloc.
    fn plain(quality: i32, window_log: i32, body: &[u8]) -> Vec<u8> {
        // SAFETY: no arguments that could be wrong; used by this thread alone.
        let state = unsafe { sys::BrotliEncoderCreateInstance(None, None, core::ptr::null_mut()) };
        let mut out = vec![0; body.len() + 1024];
        let (mut left, mut next) = (body.len(), body.as_ptr());
        let (mut room, mut end) = (out.len(), out.as_mut_ptr());
        // SAFETY: a live state; both slices outlive the call, which is told their lengths.
        unsafe {
            let values = [(1, quality as u32), (2, window_log as u32), (5, body.len() as u32)];
            for (parameter, value) in values {
                assert_ne!(sys::BrotliEncoderSetParameter(state, parameter, value), 0);
            }
            let total = core::ptr::null_mut();
            sys::BrotliEncoderCompressStream(
                state,
                2,
                &raw mut left,
                &raw mut next,
                &raw mut room,
                &raw mut end,
                total,
            );
            assert_ne!(sys::BrotliEncoderIsFinished(state), 0);
            sys::BrotliEncoderDestroyInstance(state);
        }
        out.truncate(out.len() - room);
        out
    }

    #[test]
    fn a_body_of_one_segment_is_the_plain_encoders() {
        let engine = Engine::new(EngineOptions::default()).expect("engine");
        let source: Vec<u8> = (0..60_000_u32)
            .flat_map(|n| (n.wrapping_mul(n) % 9973).to_string().into_bytes())
            .collect();
        for level in 0..=11 {
            for (len, window_log) in [(1, 0), (500, 0), (3_000, 0), (100_000, 0), (200_000, 16)] {
                let body = &source[..len];
                let options = Options {
                    level: Some(level),
                    content_length: Some(len as u64),
                    segment_size: 1 << 20,
                    window_log,
                    ..Options::new(Kind::Brotli)
                };
                let mut stream = Stream::begin(&engine, options).expect("begin");
                for piece in body.chunks(7_000) {
                    assert_eq!(stream.feed(piece).expect("feed").0, piece.len());
                }
                stream.finish().expect("finish");
                let mut bytes = Vec::new();
                while stream.poll(usize::MAX, &mut |more| bytes.extend(more)).expect("poll").flow
                    != Flow::Done
                {}
                let mut lgwin = crate::codec::ceil_log2(len as u64 + 16) as i32;
                lgwin = lgwin.max(if (5..=8).contains(&level) { 17 } else { 13 });
                if window_log != 0 {
                    lgwin = lgwin.min(window_log as i32);
                }
                assert!(plain(level, lgwin, body) == bytes, "{len} bytes at {level}");
            }
        }
    }

    #[test]
    fn too_little_room_is_not_a_short_body() {
        let body: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
        let setting = Setting { quality: 5, window_log: 18, size_hint: body.len() };
        let mut memory = Memory::default();
        assert_eq!(encode(&mut memory, setting, &body, &mut [0; 100]), None);
        assert!(encode(&mut memory, setting, &body, &mut vec![0; 101_000]).is_some());
    }
}
