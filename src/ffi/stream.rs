//! `weft_stream_*`.

use super::guard::{Handle, Sized_, guard, guard_or, read_sized, write_sized};
use super::queue::Context;
use super::types::*;
use crate::codec::{self, Kind};
use crate::engine::Engine;
use crate::error::Status;
use crate::notify::Queue;
use crate::stream::{Flow, Options, Stream};
use core::ffi::{c_char, c_void};
use core::mem::{offset_of, size_of};
use std::ffi::CString;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

// SAFETY: repr(C), size first, integers and pointers only.
unsafe impl Sized_ for weft_stream_options {
    const LEAST: usize = offset_of!(weft_stream_options, overload_level) + 8;
}

// SAFETY: repr(C), size first, integers only.
unsafe impl Sized_ for weft_stream_info {
    const LEAST: usize = offset_of!(weft_stream_info, window_log);
}

/// What stands behind a `weft_stream`.
struct Body {
    stream: Stream,
    error: OnceLock<CString>,
}

fn defaults() -> weft_stream_options {
    weft_stream_options {
        struct_size: size_of::<weft_stream_options>(),
        codec: WEFT_ZSTD,
        level: WEFT_LEVEL_DEFAULT,
        overload_level: WEFT_LEVEL_NONE,
        window_log: 0,
        content_length: WEFT_LENGTH_UNKNOWN,
        segment_size: 0,
        history_size: WEFT_SIZE_DEFAULT,
        max_input: 0,
        max_output: 0,
        max_tasks: 0,
        inline_us: crate::stream::INLINE_US,
        queue: core::ptr::null_mut(),
        on_ready: None,
        user: core::ptr::null_mut(),
    }
}

/// Fills options with the defaults of this version: `struct_size` is set too, so it must not be
/// larger than the caller's struct. NULL is ignored. Any thread.
///
/// # Safety
/// `options` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_options_init(options: *mut weft_stream_options) {
    // SAFETY: the caller's promise.
    unsafe { super::guard::out(options, defaults()) }
}

/// Begins a body. A host begins before it changes a header of the response, so that it can send
/// the body as it is when this fails: `WEFT_E_LIMIT` or `WEFT_E_OVERLOAD` above those limits,
/// `WEFT_E_SHUTDOWN`, `WEFT_E_UNSUPPORTED`, `WEFT_E_INVALID`, `WEFT_E_NOMEM`. The queue's thread.
///
/// # Safety
/// `engine` is NULL or a live engine; `options` is valid as its size says, with a queue that is
/// NULL or live and of that engine; `stream` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_begin(
    engine: *mut weft_engine,
    options: *const weft_stream_options,
    stream: *mut *mut weft_stream,
) -> weft_status {
    guard(|| {
        if stream.is_null() {
            return Err(Status::Invalid);
        }
        // SAFETY: the caller's promise.
        let engine = unsafe { Handle::<Arc<Engine>>::get(engine) }?;
        // SAFETY: the caller's promise.
        let given = unsafe { read_sized(options, defaults()) }?;
        let queue = if given.queue.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(Arc::clone(unsafe { Handle::<Arc<Queue>>::get(given.queue.cast_const()) }?))
        };
        let user = Context(given.user);
        let on_ready = given.on_ready.map(|on_ready| {
            // SAFETY: the caller's promise lasts until the stream is freed, and a freed stream is
            // not called back.
            Box::new(move || unsafe { on_ready(user.get()) }) as crate::notify::Callback
        });
        let options = Options {
            level: (given.level != WEFT_LEVEL_DEFAULT).then_some(given.level),
            overload_level: match given.overload_level {
                WEFT_LEVEL_NONE => None,
                WEFT_LEVEL_DEFAULT => Some(codec::bounds(Kind::from_c(given.codec)?).default),
                level => Some(level),
            },
            window_log: given.window_log,
            content_length: (given.content_length != WEFT_LENGTH_UNKNOWN)
                .then_some(given.content_length),
            segment_size: given.segment_size,
            history_size: (given.history_size != WEFT_SIZE_DEFAULT).then_some(given.history_size),
            max_input: given.max_input,
            max_output: given.max_output,
            max_tasks: given.max_tasks,
            inline_us: given.inline_us,
            queue,
            on_ready,
            ..Options::new(Kind::from_c(given.codec)?)
        };
        let made = Stream::begin(engine, options)?;
        let body = Body { stream: made, error: OnceLock::new() };
        // SAFETY: checked above.
        unsafe { stream.write(Handle::into_raw(body)) };
        Ok(WEFT_OK)
    })
}

/// Gives the stream `len` bytes of the body, which are copied. `*consumed` is how many were
/// accepted: all of them with `WEFT_OK`, fewer with `WEFT_AGAIN`. `data` may be NULL when `len` is
/// 0. After finish: `WEFT_E_STATE`. May compress small or urgent segments before it returns. The
/// owner's thread.
///
/// # Safety
/// `stream` is NULL or live and not in use; `data` is valid for `len` bytes; `consumed` for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_feed(
    stream: *mut weft_stream,
    data: *const c_void,
    len: usize,
    consumed: *mut usize,
) -> weft_status {
    guard(|| {
        if consumed.is_null() || (data.is_null() && len != 0) || len > isize::MAX as usize {
            return Err(Status::Invalid);
        }
        // SAFETY: the caller's promise.
        let body = unsafe { Handle::<Body>::get_mut(stream) }?;
        let bytes = if len == 0 {
            &[]
        } else {
            // SAFETY: not NULL, and valid for `len` bytes.
            unsafe { core::slice::from_raw_parts(data.cast::<u8>(), len) }
        };
        let (count, flow) = body.stream.feed(bytes)?;
        // SAFETY: checked above.
        unsafe { consumed.write(count) };
        Ok(flow_code(flow))
    })
}

/// Sets a flush mark: all that was fed so far will be decodable at the client once the output up to
/// the mark has been taken, which poll reports with `WEFT_EVENT_FLUSHED`. A mark with nothing new
/// before it adds no bytes and is reported all the same. The owner's thread.
///
/// # Safety
/// `stream` is NULL or live and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_flush(stream: *mut weft_stream) -> weft_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { Handle::<Body>::get_mut(stream) }?.stream.flush()?;
        Ok(WEFT_OK)
    })
}

/// Ends the body: what was fed is all. A second finish answers `WEFT_E_STATE`. The owner's thread.
///
/// # Safety
/// `stream` is NULL or live and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_finish(stream: *mut weft_stream) -> weft_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { Handle::<Body>::get_mut(stream) }?.stream.finish()?;
        Ok(WEFT_OK)
    })
}

/// Takes output: writes up to `cap` bytes to `dst`, their number to `*produced`, and what has
/// happened to `*events` (`WEFT_EVENT_*` bits). It stops behind a flush mark. `WEFT_OK`: something
/// was produced or an event reported. `WEFT_AGAIN`: nothing is ready. `WEFT_DONE`: the stream has
/// ended with these bytes, and again whenever it is called later. With `cap` 0 and `dst` NULL it is
/// a query: `*produced` is how many bytes could be taken before the next mark, nothing is taken and
/// no mark is reported, `*events` says `WEFT_EVENT_MORE` when bytes or a mark are ready; with neither
/// the answer is `WEFT_OK` too, not `WEFT_AGAIN`, and nothing is armed. Bytes made before a failure
/// can still be taken; then the error is answered. The owner's thread.
///
/// # Safety
/// `stream` is NULL or live and not in use; `dst` is valid for writing `cap` bytes; `produced` and
/// `events` for writing one value each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_poll(
    stream: *mut weft_stream,
    dst: *mut c_void,
    cap: usize,
    produced: *mut usize,
    events: *mut u32,
) -> weft_status {
    guard(|| {
        if produced.is_null() || events.is_null() || (dst.is_null() && cap != 0) {
            return Err(Status::Invalid);
        }
        // SAFETY: the caller's promise.
        let body = unsafe { Handle::<Body>::get_mut(stream) }?;
        let taken = if cap == 0 {
            body.stream.query()?
        } else {
            // The bytes behind `dst` may never have been written by C, and a slice of `u8` must be
            // initialised: the copy therefore goes through a raw pointer.
            let mut offset = 0;
            body.stream.poll(cap.min(isize::MAX as usize), &mut |bytes| {
                // SAFETY: `poll` hands out at most `cap` bytes in all, and `dst` has that many.
                unsafe {
                    core::ptr::copy_nonoverlapping(
                        bytes.as_ptr(),
                        dst.cast::<u8>().add(offset),
                        bytes.len(),
                    );
                }
                offset += bytes.len();
            })?
        };
        let mut bits = 0;
        bits |= if taken.flushed { WEFT_EVENT_FLUSHED } else { 0 };
        bits |= if taken.flow == Flow::Done { WEFT_EVENT_DONE } else { 0 };
        bits |= if taken.more { WEFT_EVENT_MORE } else { 0 };
        // SAFETY: checked above.
        unsafe {
            produced.write(taken.produced);
            events.write(bits);
        }
        Ok(flow_code(taken.flow))
    })
}

/// Waits until there is news since the last `WEFT_AGAIN` (`WEFT_OK`), or until `timeout_ms` has
/// passed (`WEFT_AGAIN`; `UINT32_MAX` waits for ever). With nothing under way it returns `WEFT_OK` at
/// once: the way is free for a feed. For owners without a loop; a stream with a queue answers
/// `WEFT_E_STATE`. May compress a segment meanwhile, where the host refused every post. The owner's
/// thread.
///
/// # Safety
/// `stream` is NULL or live and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_wait(
    stream: *mut weft_stream,
    timeout_ms: u32,
) -> weft_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let body = unsafe { Handle::<Body>::get_mut(stream) }?;
        let limit = (timeout_ms != u32::MAX).then(|| Duration::from_millis(timeout_ms.into()));
        Ok(flow_code(body.stream.wait(limit)?))
    })
}

/// What the stream has done. The owner's thread.
///
/// # Safety
/// `stream` is NULL or live and not in use; `info` is NULL or valid as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_stats(
    stream: *const weft_stream,
    info: *mut weft_stream_info,
) -> weft_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let s = unsafe { Handle::<Body>::get(stream) }?.stream.stats();
        // SAFETY: the caller's promise.
        unsafe {
            write_sized(info, |struct_size| weft_stream_info {
                struct_size,
                codec: s.codec.to_c(),
                level: s.level,
                window_log: s.window_log,
                segments_under_way: s.segments_under_way,
                bytes_in: s.bytes_in,
                bytes_out: s.bytes_out,
                segments: s.segments,
                cpu_ns: s.cpu_ns,
                queue_ns: s.queue_ns,
                memory_minimum: s.memory_minimum,
                output_ready: s.output_ready,
            })
        }?;
        Ok(WEFT_OK)
    })
}

/// What went wrong, in English, for a log; "" while nothing has. Valid until the stream is freed.
/// The owner's thread.
///
/// # Safety
/// `stream` is NULL or live and not in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_error(stream: *const weft_stream) -> *const c_char {
    guard_or(c"".as_ptr(), || {
        // SAFETY: the caller's promise.
        let Ok(body) = (unsafe { Handle::<Body>::get(stream) }) else {
            return c"".as_ptr();
        };
        let Some(text) = body.stream.error() else {
            return c"".as_ptr();
        };
        body.error.get_or_init(|| CString::new(text).unwrap_or_default()).as_ptr()
    })
}

/// Frees a stream and cancels what is left of it: queued segments are dropped at once, running
/// ones end into nothing. Never waits. No callback comes afterwards. NULL is ignored. The owner's
/// thread.
///
/// # Safety
/// `stream` is NULL or live and not in use, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_stream_free(stream: *mut weft_stream) {
    // SAFETY: the caller's promise.
    unsafe { Handle::<Body>::free(stream) }
}

fn flow_code(flow: Flow) -> i32 {
    match flow {
        Flow::Ok => WEFT_OK,
        Flow::Again => WEFT_AGAIN,
        Flow::Done => WEFT_DONE,
    }
}
