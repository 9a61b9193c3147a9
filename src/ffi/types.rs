//! The types and constants that C sees. The text of their comments is the text of `weft.h`.

#![allow(
    non_camel_case_types,
    reason = "these names are C's, and the header is generated from them"
)]

use crate::codec::Kind;
use crate::error::Status;
use crate::retain::Retention;
use core::ffi::{c_int, c_void};

/// What a call answers: below 0 an error, 0 (`WEFT_OK`) done, above 0 a word about the flow.
pub type weft_status = i32;

/// The call did what it was asked to.
pub const WEFT_OK: i32 = 0;
/// Not now. The stream is armed: once what was refused has become possible, or the stream has
/// failed, `on_ready` is called (with a queue) or `weft_stream_wait` returns (without one). Nothing
/// was lost: what a feed did not consume is still the caller's.
pub const WEFT_AGAIN: i32 = 1;
/// The stream has ended and its last byte has been taken.
pub const WEFT_DONE: i32 = 2;
/// An argument is wrong: NULL where a pointer is needed, a level, size or flag out of its range.
pub const WEFT_E_INVALID: i32 = -1;
/// The call does not fit what happened before: a feed after finish, a child after fork.
pub const WEFT_E_STATE: i32 = -2;
/// Memory for one of weft's own buffers could not be had.
pub const WEFT_E_NOMEM: i32 = -3;
/// The engine is at its memory limit. Only `weft_stream_begin` answers this.
pub const WEFT_E_LIMIT: i32 = -4;
/// This build does not have that codec, or the system lacks what the option needs.
pub const WEFT_E_UNSUPPORTED: i32 = -5;
/// The compression library reported an error; `weft_stream_error` has its words.
pub const WEFT_E_CODEC: i32 = -6;
/// A fault inside weft was caught. The stream is lost, the process is not.
pub const WEFT_E_PANIC: i32 = -7;
/// The engine is shut down, or the host discarded the tasks that would have run this stream.
pub const WEFT_E_SHUTDOWN: i32 = -8;
/// More work waits than `overload_ms` allows. Only `weft_stream_begin` answers this.
pub const WEFT_E_OVERLOAD: i32 = -9;

/// Zstandard, RFC 8878: content coding `zstd`, one frame, window of at most 8 MiB (RFC 9659).
pub const WEFT_ZSTD: u32 = 1;
/// Brotli, RFC 7932: content coding `br`, one stream, window of at most 8 MiB.
pub const WEFT_BROTLI: u32 = 2;
/// gzip, RFC 1952: content coding `gzip`, one member.
pub const WEFT_GZIP: u32 = 3;
/// Raw deflate, RFC 1951: no frame and no checksum. Not a content coding of HTTP.
pub const WEFT_DEFLATE: u32 = 4;
/// zlib, RFC 1950: what HTTP calls the content coding `deflate`. `weft_negotiate` does not choose it,
/// since some clients take that name for raw deflate.
pub const WEFT_ZLIB: u32 = 5;

/// The codec's default level (see `weft_level_bounds`).
pub const WEFT_LEVEL_DEFAULT: i32 = i32::MIN;
/// No level: as `overload_level`, an overloaded engine refuses the stream.
pub const WEFT_LEVEL_NONE: i32 = i32::MAX;
/// The length of the body is not known.
pub const WEFT_LENGTH_UNKNOWN: u64 = u64::MAX;
/// A size that weft chooses, where 0 means none.
pub const WEFT_SIZE_DEFAULT: u64 = u64::MAX;

/// Idle encoders and buffers are kept until `weft_engine_trim` or the end of the engine.
pub const WEFT_RETAIN_ALL: u32 = 0;
/// Idle encoders and buffers are kept up to `retain_bytes`; the least recently used go first.
pub const WEFT_RETAIN_BOUNDED: u32 = 1;
/// Encoders and buffers go back to the system as soon as they are idle.
pub const WEFT_RELEASE_ALL: u32 = 2;

/// `weft_stream_poll`: everything before a flush mark has been taken. Once for each mark.
pub const WEFT_EVENT_FLUSHED: u32 = 1;
/// `weft_stream_poll`: the last byte of the stream has been taken.
pub const WEFT_EVENT_DONE: u32 = 2;
/// `weft_stream_poll`: more output is ready at once.
pub const WEFT_EVENT_MORE: u32 = 4;

/// `weft_engine_histogram`: how long segments waited for a task to come by.
pub const WEFT_HISTOGRAM_QUEUE_US: u32 = 1;
/// `weft_engine_histogram`: how long tasks took for a segment, by the clock.
pub const WEFT_HISTOGRAM_RUN_US: u32 = 2;
/// `weft_engine_histogram`: how long owners' calls took for a segment, by the clock: what an event
/// loop was held up.
pub const WEFT_HISTOGRAM_INLINE_US: u32 = 3;
/// Buckets that a histogram has.
pub const WEFT_HISTOGRAM_BUCKETS: usize = 22;

/// Leave to do one unit of work, given to a host's executor. Owned by weft, lent to the host from
/// `post` until the host has called exactly one of `weft_task_run` and `weft_task_discard`.
pub struct weft_task {
    _opaque: [u8; 0],
}

/// A host's threads, as weft uses them. Copied by `weft_engine_new`.
#[repr(C)]
pub struct weft_executor {
    /// `sizeof(weft_executor)`.
    pub struct_size: usize,
    /// Handed to the functions below. May be NULL.
    pub ctx: *mut c_void,
    /// Takes a task and returns 0, or refuses it with any other value. A refused task stays weft's
    /// and the host must not touch it again; weft posts anew when it next has the chance. Called on
    /// a stream's owner thread, inside a call of the host's or a dispatch, with no lock of weft's
    /// held. Must not block. May run the task before it returns.
    pub post: Option<unsafe extern "C" fn(ctx: *mut c_void, task: *mut weft_task) -> c_int>,
    /// Called once, when weft will not call `post` any more: the last handle is freed and the last
    /// task has ended. On any thread. Not called where `weft_engine_new` fails. May be NULL.
    pub release: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
}

/// Options of an engine. Fill with `weft_engine_options_init`, then change what matters.
#[repr(C)]
pub struct weft_engine_options {
    /// `sizeof(weft_engine_options)`.
    pub struct_size: usize,
    /// The host's threads, or NULL for `threads` of weft's own. Read only during the call.
    pub executor: *const weft_executor,
    /// Threads of weft's own, started at the first task. 0, and no executor: every segment is
    /// compressed inside the call that completes it. Default 0. At most 1024.
    pub threads: u32,
    /// How many tasks may be posted or running at once, at most 1024. 0: `threads`, or 1 with an
    /// executor.
    pub max_running: u32,
    /// Bytes of buffers and encoders above which `weft_stream_begin` answers `WEFT_E_LIMIT`. Streams
    /// that run always get their minimum (history, one segment and its output), so the hard bound is
    /// `max_memory` + live streams x minimum + one encoder. 0: no limit. Default 0.
    pub max_memory: u64,
    /// `WEFT_RETAIN_ALL`, `WEFT_RETAIN_BOUNDED` (default) or `WEFT_RELEASE_ALL`.
    pub retention: u32,
    /// Milliseconds of estimated work, queued per running task, above which a new stream gets its
    /// `overload_level`, or `WEFT_E_OVERLOAD`. 0: no limit. Default 2000.
    pub overload_ms: u32,
    /// For `WEFT_RETAIN_BOUNDED`: bytes kept idle. Default 64 MiB.
    pub retain_bytes: u64,
    /// Encoders kept idle at most, by whatever retention; the least recently used go first.
    /// `UINT32_MAX` (default): as many as `retention` allows. 0: none.
    pub idle_encoders: u32,
    /// Milliseconds of estimated work, queued per running task, above which a new stream gets
    /// `WEFT_E_OVERLOAD` even if it has an `overload_level`. 0 (default): it always gets that level.
    pub overload_refuse_ms: u32,
    /// How much lower the priority of weft's own threads is than the process's, in steps of nice(2), 0
    /// to 19: on a busy machine the host's event loop comes first. Default 0. Where the system refuses,
    /// or has one priority for all threads of a process, nothing changes.
    pub thread_nice: u32,
    /// 0.
    pub reserved: u32,
}

/// Options of a stream. Fill with `weft_stream_options_init`, then change what matters.
#[repr(C)]
pub struct weft_stream_options {
    /// `sizeof(weft_stream_options)`.
    pub struct_size: usize,
    /// `WEFT_ZSTD`, `WEFT_BROTLI`, `WEFT_GZIP`, `WEFT_DEFLATE` or `WEFT_ZLIB`.
    pub codec: u32,
    /// Within `weft_level_bounds`, or `WEFT_LEVEL_DEFAULT`.
    pub level: i32,
    /// The level used where the engine is overloaded at begin, or `WEFT_LEVEL_NONE` (default): then
    /// begin answers `WEFT_E_OVERLOAD`.
    pub overload_level: i32,
    /// Largest window, as a power of two: 10 to 23 for zstd, 10 to 24 for the others. 0 (default):
    /// chosen from the history, the segments and the length. Small windows are raised to 8 KiB (for
    /// brotli at levels 0 and 1 to 256 KiB), large ones lowered to 8 MiB; deflate's is 32 KiB.
    pub window_log: u32,
    /// Bytes of the body, or `WEFT_LENGTH_UNKNOWN` (default). A hint for cutting and for the window:
    /// a body that turns out longer or shorter is still coded right.
    pub content_length: u64,
    /// Bytes of a full segment, 4 KiB to 64 MiB; 0 (default): chosen for the codec and level.
    pub segment_size: u64,
    /// Bytes of the body before a segment that it may refer to, at most 8 MiB. `WEFT_SIZE_DEFAULT`
    /// (default): chosen for the codec and level. 0: none.
    pub history_size: u64,
    /// Bytes accepted and not yet compressed above which a feed answers `WEFT_AGAIN`. 0 (default):
    /// enough for `max_tasks`. A full segment is always accepted.
    pub max_input: u64,
    /// Bytes of output not yet taken above which no further segment is started, and a feed answers
    /// `WEFT_AGAIN`. 0 (default): a quarter of a segment, at least 64 KiB. Output of segments under
    /// way comes on top.
    pub max_output: u64,
    /// Segments of this stream that may be under way at once. 0 (default): 4. At most 256.
    pub max_tasks: u32,
    /// Microseconds of estimated work up to which a segment is compressed inside the call that
    /// completes it, rather than on the executor, as long as those of one queue stay within 1 ms in
    /// 2 ms; a longer one is made up for by a longer pause. `UINT32_MAX`: always inside the call. 0:
    /// never. Default 200.
    pub inline_us: u32,
    /// Where `on_ready` is called from, or NULL: then use `weft_stream_wait`. Must outlive the stream.
    pub queue: *mut weft_queue,
    /// Called by `weft_queue_dispatch`, at least once after the last `WEFT_AGAIN`. It may do
    /// anything: poll, feed, begin, free this stream or another, dispatch again. May be NULL.
    pub on_ready: Option<unsafe extern "C" fn(user: *mut c_void)>,
    /// Handed to `on_ready`.
    pub user: *mut c_void,
}

/// What an engine has done and holds. Fill `struct_size`, then call `weft_engine_stats`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_engine_info {
    /// `sizeof(weft_engine_info)`.
    pub struct_size: usize,
    /// Streams begun.
    pub streams_begun: u64,
    /// Streams whose end was taken.
    pub streams_done: u64,
    /// Streams that failed.
    pub streams_failed: u64,
    /// Streams freed before their end.
    pub streams_cancelled: u64,
    /// Streams now alive.
    pub streams_live: u64,
    /// Begins refused for memory.
    pub refused_memory: u64,
    /// Begins refused because of overload.
    pub refused_overload: u64,
    /// Begins that got their `overload_level`.
    pub overload_lowered: u64,
    /// Bytes of bodies compressed.
    pub bytes_in: u64,
    /// Bytes of output made.
    pub bytes_out: u64,
    /// Segments compressed inside the owner's call.
    pub segments_inline: u64,
    /// Segments compressed by tasks.
    pub segments_tasks: u64,
    /// Segments that the owner compressed because every post was refused.
    pub segments_refused: u64,
    /// Posts that the host's executor refused.
    pub posts_refused: u64,
    /// Tasks now posted or running.
    pub tasks_outstanding: u64,
    /// The most tasks that were posted or running at once.
    pub tasks_peak: u64,
    /// Segments now queued.
    pub segments_queued: u64,
    /// Nanoseconds of CPU spent compressing.
    pub cpu_ns: u64,
    /// Nanoseconds that segments waited in the queue, added up.
    pub queue_ns: u64,
    /// Bytes now held, all kinds.
    pub memory: u64,
    /// The most bytes ever held.
    pub memory_peak: u64,
    /// Bytes of the encoders now kept idle.
    pub memory_idle_encoders: u64,
    /// Bytes of the buffers now kept idle.
    pub memory_idle_buffers: u64,
    /// Encoders now kept idle.
    pub encoders_idle: u64,
    /// Encoders now compressing.
    pub encoders_running: u64,
    /// Encoders made so far.
    pub encoders_made: u64,
    /// Threads of weft's own now alive.
    pub threads: u64,
    /// Segments encoded a second time, without history, because the compression library failed on
    /// them with it. They are right, only less small.
    pub segments_again: u64,
    /// Begins refused because the engine was shut down.
    pub refused_shutdown: u64,
}

/// What an engine has done for one codec; the same figures of all codecs are in `weft_engine_info`.
/// Fill `struct_size`, then call `weft_engine_codec_stats`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_codec_info {
    /// `sizeof(weft_codec_info)`.
    pub struct_size: usize,
    /// Streams begun.
    pub streams_begun: u64,
    /// Streams whose end was taken.
    pub streams_done: u64,
    /// Streams that failed.
    pub streams_failed: u64,
    /// Streams freed before their end.
    pub streams_cancelled: u64,
    /// Streams now alive.
    pub streams_live: u64,
    /// Begins refused for memory.
    pub refused_memory: u64,
    /// Begins refused because of overload.
    pub refused_overload: u64,
    /// Begins refused because the engine was shut down.
    pub refused_shutdown: u64,
    /// Begins that got their `overload_level`.
    pub overload_lowered: u64,
    /// Segments compressed inside the owner's call.
    pub segments_inline: u64,
    /// Segments compressed by tasks.
    pub segments_tasks: u64,
    /// Segments that the owner compressed because every post was refused.
    pub segments_refused: u64,
    /// Segments encoded a second time, without history.
    pub segments_again: u64,
    /// Bytes of bodies compressed.
    pub bytes_in: u64,
    /// Bytes of output made.
    pub bytes_out: u64,
    /// Nanoseconds of CPU spent compressing.
    pub cpu_ns: u64,
    /// Nanoseconds that segments waited in the queue, added up.
    pub queue_ns: u64,
}

/// What a stream has done. Fill `struct_size`, then call `weft_stream_stats`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct weft_stream_info {
    /// `sizeof(weft_stream_info)`.
    pub struct_size: usize,
    /// `WEFT_ZSTD`, `WEFT_BROTLI`, `WEFT_GZIP`, `WEFT_DEFLATE` or `WEFT_ZLIB`.
    pub codec: u32,
    /// The level in use: the one asked for, the default, or the overload level.
    pub level: i32,
    /// The window that the output declares, as a power of two.
    pub window_log: u32,
    /// Segments now queued or running.
    pub segments_under_way: u32,
    /// Bytes accepted.
    pub bytes_in: u64,
    /// Bytes taken by `weft_stream_poll`.
    pub bytes_out: u64,
    /// Segments cut so far.
    pub segments: u64,
    /// Nanoseconds of CPU spent compressing.
    pub cpu_ns: u64,
    /// Nanoseconds that its segments waited in the queue, added up.
    pub queue_ns: u64,
    /// Bytes it may always hold: history, one full segment and its output. Larger only once the body
    /// has become longer than its `content_length`.
    pub memory_minimum: u64,
    /// Bytes of output ready and not yet taken.
    pub output_ready: u64,
}

/// The shared object: threads or the host's executor, idle encoders, the memory account.
pub struct weft_engine {
    _opaque: [u8; 0],
}

/// Where the news for one event-loop thread is gathered.
pub struct weft_queue {
    _opaque: [u8; 0],
}

/// One body on its way through.
pub struct weft_stream {
    _opaque: [u8; 0],
}

/// The numbers above and the crate's own are the same.
const _: () = {
    assert!(WEFT_E_INVALID == Status::Invalid.code());
    assert!(WEFT_E_STATE == Status::State.code());
    assert!(WEFT_E_NOMEM == Status::NoMemory.code());
    assert!(WEFT_E_LIMIT == Status::Limit.code());
    assert!(WEFT_E_UNSUPPORTED == Status::Unsupported.code());
    assert!(WEFT_E_CODEC == Status::Codec.code());
    assert!(WEFT_E_PANIC == Status::Panic.code());
    assert!(WEFT_E_SHUTDOWN == Status::Shutdown.code());
    assert!(WEFT_E_OVERLOAD == Status::Overload.code());
    assert!(WEFT_ZSTD == Kind::Zstd.to_c());
    assert!(WEFT_BROTLI == Kind::Brotli.to_c());
    assert!(WEFT_GZIP == Kind::Gzip.to_c());
    assert!(WEFT_DEFLATE == Kind::Deflate.to_c());
    assert!(WEFT_ZLIB == Kind::Zlib.to_c());
    assert!(WEFT_HISTOGRAM_BUCKETS == crate::stats::BUCKETS);
    assert!(WEFT_RETAIN_ALL == Retention::All.to_c());
    assert!(WEFT_RETAIN_BOUNDED == Retention::Bounded.to_c());
    assert!(WEFT_RELEASE_ALL == Retention::None.to_c());
};
