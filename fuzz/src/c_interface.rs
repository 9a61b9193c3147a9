//! The C interface as a Rust program sees it: the types are the library's own file, by path; the
//! functions are declared as in include/weft.h.

#[path = "../../src/ffi/types.rs"]
mod types;

use core::ffi::{c_char, c_void};
pub use types::*;

// The shapes of Rust's own behind these pointers are not looked at.
#[allow(improper_ctypes, reason = "opaque types without a repr")]
unsafe extern "C" {
    pub fn weft_engine_options_init(options: *mut weft_engine_options);
    pub fn weft_engine_new(
        options: *const weft_engine_options,
        engine: *mut *mut weft_engine,
    ) -> weft_status;
    pub fn weft_engine_stats(
        engine: *const weft_engine,
        info: *mut weft_engine_info,
    ) -> weft_status;
    pub fn weft_engine_start(engine: *mut weft_engine) -> weft_status;
    pub fn weft_engine_trim(engine: *mut weft_engine) -> weft_status;
    pub fn weft_engine_shutdown(engine: *mut weft_engine, timeout_ms: u32) -> weft_status;
    pub fn weft_engine_free(engine: *mut weft_engine);
    pub fn weft_queue_new(
        engine: *mut weft_engine,
        notify: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
        ctx: *mut c_void,
        queue: *mut *mut weft_queue,
    ) -> weft_status;
    pub fn weft_queue_dispatch(queue: *mut weft_queue) -> usize;
    pub fn weft_queue_free(queue: *mut weft_queue);
    pub fn weft_stream_options_init(options: *mut weft_stream_options);
    pub fn weft_stream_begin(
        engine: *mut weft_engine,
        options: *const weft_stream_options,
        stream: *mut *mut weft_stream,
    ) -> weft_status;
    pub fn weft_stream_feed(
        stream: *mut weft_stream,
        data: *const c_void,
        len: usize,
        consumed: *mut usize,
    ) -> weft_status;
    pub fn weft_stream_flush(stream: *mut weft_stream) -> weft_status;
    pub fn weft_stream_finish(stream: *mut weft_stream) -> weft_status;
    pub fn weft_stream_poll(
        stream: *mut weft_stream,
        dst: *mut c_void,
        cap: usize,
        produced: *mut usize,
        events: *mut u32,
    ) -> weft_status;
    pub fn weft_stream_wait(stream: *mut weft_stream, timeout_ms: u32) -> weft_status;
    pub fn weft_stream_stats(
        stream: *const weft_stream,
        info: *mut weft_stream_info,
    ) -> weft_status;
    pub fn weft_stream_error(stream: *const weft_stream) -> *const c_char;
    pub fn weft_stream_free(stream: *mut weft_stream);
    pub fn weft_task_run(task: *mut weft_task);
    pub fn weft_task_discard(task: *mut weft_task);
    pub fn weft_negotiate(
        accept_encoding: *const c_char,
        len: usize,
        preference: *const u32,
        n: usize,
        codec: *mut u32,
    ) -> weft_status;
}
