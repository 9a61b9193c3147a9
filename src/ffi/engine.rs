//! `weft_engine_*`.

use super::guard::{Handle, Sized_, guard, guard_or, read_sized, write_sized};
use super::host::HostExecutor;
use super::types::*;
use crate::codec::Kind;
use crate::engine::{Engine, Options, THREADS_MOST, Workers};
use crate::error::Status;
use crate::retain::Retention;
use crate::stats::{self, Timing};
use core::mem::{offset_of, size_of};
use std::sync::Arc;
use std::time::Duration;

// SAFETY: repr(C), size first, integers and pointers only.
unsafe impl Sized_ for weft_engine_options {
    const LEAST: usize = offset_of!(weft_engine_options, max_memory);
}

// SAFETY: repr(C), size first, integers only.
unsafe impl Sized_ for weft_codec_info {
    const LEAST: usize = offset_of!(weft_codec_info, streams_done);
}

// SAFETY: repr(C), size first, integers only.
unsafe impl Sized_ for weft_engine_info {
    const LEAST: usize = offset_of!(weft_engine_info, streams_done);
}

fn defaults() -> weft_engine_options {
    let options = Options::default();
    weft_engine_options {
        struct_size: size_of::<weft_engine_options>(),
        executor: core::ptr::null(),
        threads: 0,
        max_running: options.max_running,
        max_memory: options.max_memory,
        retention: WEFT_RETAIN_BOUNDED,
        overload_ms: options.overload_ms,
        retain_bytes: options.retain_bytes,
        idle_encoders: options.idle_encoders,
        overload_refuse_ms: options.overload_refuse_ms,
        thread_nice: options.thread_nice,
        reserved: 0,
    }
}

/// Fills options with the defaults of this version: `struct_size` is set too, so it must not be
/// larger than the caller's struct. NULL is ignored. Any thread.
///
/// # Safety
/// `options` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_engine_options_init(options: *mut weft_engine_options) {
    // SAFETY: the caller's promise.
    unsafe { super::guard::out(options, defaults()) }
}

/// Makes an engine. `options` may be NULL for the defaults. Starts no thread; those that
/// `options.threads` asks for start at the first task or by `weft_engine_start`, and run on the CPUs of
/// the thread that calls here (`sched_setaffinity`), whoever starts them. Any thread.
/// `WEFT_E_INVALID`: an option out of range, an executor without `post`. When it fails, `release` is
/// not called: the executor's `ctx` is still the host's.
///
/// # Safety
/// `options` is NULL or valid as its size says, with an executor that is NULL or valid;
/// `engine` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_engine_new(
    options: *const weft_engine_options,
    engine: *mut *mut weft_engine,
) -> weft_status {
    guard(|| {
        if engine.is_null() {
            return Err(Status::Invalid);
        }
        let given = if options.is_null() {
            defaults()
        } else {
            // SAFETY: the caller's promise.
            unsafe { read_sized(options, defaults()) }?
        };
        // All that may be refused comes before the host's context is taken: with an engine that was
        // not made, it is still the host's, and is not released.
        let retention = Retention::from_c(given.retention)?;
        if given.max_running > THREADS_MOST || given.threads > THREADS_MOST || given.reserved != 0 {
            return Err(Status::Invalid);
        }
        let workers = if given.executor.is_null() {
            match given.threads {
                0 => Workers::Inline,
                count => Workers::Threads(count),
            }
        } else {
            // SAFETY: the caller's promise.
            Workers::Host(Box::new(unsafe { HostExecutor::copy(given.executor) }?))
        };
        let options = Options {
            workers,
            max_running: given.max_running,
            max_memory: given.max_memory,
            retention,
            retain_bytes: given.retain_bytes,
            overload_ms: given.overload_ms,
            idle_encoders: given.idle_encoders,
            overload_refuse_ms: given.overload_refuse_ms,
            thread_nice: given.thread_nice,
        };
        let made = Engine::new(options)?;
        // SAFETY: checked above.
        unsafe { engine.write(Handle::into_raw(made)) };
        Ok(WEFT_OK)
    })
}

/// Starts the engine's own threads now, which would start at the first task: for a host that may
/// start none later, since it gives up the right to (`RLIMIT_NPROC`, seccomp) or changes its user.
/// After the last `fork`. Nothing to do, and `WEFT_OK`, where they run already, with an executor of
/// the host's, and with `threads` 0. `WEFT_E_NOMEM`: the system gives no thread; the next call or the
/// next task tries again. `WEFT_E_SHUTDOWN` after `weft_engine_shutdown`. Any thread.
///
/// # Safety
/// `engine` is NULL or a live engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_engine_start(engine: *mut weft_engine) -> weft_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { Handle::<Arc<Engine>>::get(engine) }?.start()?;
        Ok(WEFT_OK)
    })
}

/// What the engine has done and holds. Any thread; the figures are each right, not of one instant.
///
/// # Safety
/// `engine` is NULL or a live engine; `info` is NULL or valid as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_engine_stats(
    engine: *const weft_engine,
    info: *mut weft_engine_info,
) -> weft_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { Handle::<Arc<Engine>>::get(engine) }?;
        let s = engine.stats();
        // SAFETY: the caller's promise.
        unsafe {
            write_sized(info, |struct_size| weft_engine_info {
                struct_size,
                streams_begun: s.streams_begun,
                streams_done: s.streams_done,
                streams_failed: s.streams_failed,
                streams_cancelled: s.streams_cancelled,
                streams_live: s.streams_live,
                refused_memory: s.refused_memory,
                refused_overload: s.refused_overload,
                overload_lowered: s.overload_lowered,
                bytes_in: s.bytes_in,
                bytes_out: s.bytes_out,
                segments_inline: s.segments_inline,
                segments_tasks: s.segments_tasks,
                segments_refused: s.segments_refused,
                posts_refused: s.posts_refused,
                tasks_outstanding: s.tasks_outstanding,
                tasks_peak: s.tasks_peak,
                segments_queued: s.segments_queued,
                cpu_ns: s.cpu_ns,
                queue_ns: s.queue_ns,
                memory: s.memory,
                memory_peak: s.memory_peak,
                memory_idle_encoders: s.memory_idle_encoders,
                memory_idle_buffers: s.memory_idle_buffers,
                encoders_idle: s.encoders_idle,
                encoders_running: s.encoders_running,
                encoders_made: s.encoders_made,
                threads: s.threads,
                segments_again: s.segments_again,
                refused_shutdown: s.refused_shutdown,
            })
        }?;
        Ok(WEFT_OK)
    })
}

/// What the engine has done for one codec. Any thread, as `weft_engine_stats`.
///
/// # Safety
/// `engine` is NULL or a live engine; `info` is NULL or valid as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_engine_codec_stats(
    engine: *const weft_engine,
    codec: u32,
    info: *mut weft_codec_info,
) -> weft_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { Handle::<Arc<Engine>>::get(engine) }?;
        let s = engine.codec_stats(Kind::from_c(codec)?);
        // SAFETY: the caller's promise.
        unsafe {
            write_sized(info, |struct_size| weft_codec_info {
                struct_size,
                streams_begun: s.streams_begun,
                streams_done: s.streams_done,
                streams_failed: s.streams_failed,
                streams_cancelled: s.streams_cancelled,
                streams_live: s.streams_live,
                refused_memory: s.refused_memory,
                refused_overload: s.refused_overload,
                refused_shutdown: s.refused_shutdown,
                overload_lowered: s.overload_lowered,
                segments_inline: s.segments_inline,
                segments_tasks: s.segments_tasks,
                segments_refused: s.segments_refused,
                segments_again: s.segments_again,
                bytes_in: s.bytes_in,
                bytes_out: s.bytes_out,
                cpu_ns: s.cpu_ns,
                queue_ns: s.queue_ns,
            })
        }?;
        Ok(WEFT_OK)
    })
}

/// How long segments took, of all codecs: `which` is `WEFT_HISTOGRAM_QUEUE_US`,
/// `WEFT_HISTOGRAM_RUN_US` or `WEFT_HISTOGRAM_INLINE_US`. `counts[i]` becomes the number of segments
/// that took at most `bounds[i]` microseconds and more than `bounds[i - 1]`, `*sum_us` the
/// microseconds of all. The last bound is `UINT64_MAX`. Bounds never change while the process
/// lives; nor do counts fall. `n` is the length of both arrays, 1 to 512, best
/// `WEFT_HISTOGRAM_BUCKETS`: in shorter ones the last count takes in the rest, in longer ones the
/// rest is 0 up to `UINT64_MAX`. `bounds` and `sum_us` may be NULL. Any thread.
///
/// # Safety
/// `engine` is NULL or a live engine; `counts` is NULL or valid for writing `n` values, `bounds`
/// too, `sum_us` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_engine_histogram(
    engine: *const weft_engine,
    which: u32,
    counts: *mut u64,
    bounds: *mut u64,
    n: usize,
    sum_us: *mut u64,
) -> weft_status {
    guard(|| {
        let timing = match which {
            WEFT_HISTOGRAM_QUEUE_US => Timing::Queue,
            WEFT_HISTOGRAM_RUN_US => Timing::Run,
            WEFT_HISTOGRAM_INLINE_US => Timing::Inline,
            _ => return Err(Status::Invalid),
        };
        if counts.is_null() || !(1..=512).contains(&n) {
            return Err(Status::Invalid);
        }
        // SAFETY: the caller's promise.
        let times = unsafe { Handle::<Arc<Engine>>::get(engine) }?.times(timing);
        for index in 0..n {
            let last = index + 1 == n;
            let count = match times.counts.get(index) {
                Some(_) if last => times.counts[index..].iter().sum(),
                Some(count) => *count,
                None => 0,
            };
            let bound = if last { u64::MAX } else { stats::bound(index) };
            // SAFETY: the caller vouches for `n` values in each array.
            unsafe {
                counts.add(index).write(count);
                if !bounds.is_null() {
                    bounds.add(index).write(bound);
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { super::guard::out(sum_us, times.sum_ns / 1000) };
        Ok(WEFT_OK)
    })
}

/// Gives all idle encoders and buffers back to the system. Any thread.
///
/// # Safety
/// `engine` is NULL or a live engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_engine_trim(engine: *mut weft_engine) -> weft_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { Handle::<Arc<Engine>>::get(engine) }?.trim();
        Ok(WEFT_OK)
    })
}

/// Stops the engine: begin answers `WEFT_E_SHUTDOWN` from now on, what is queued is dropped and its
/// streams fail with `WEFT_E_SHUTDOWN`, segments that run are let finish. Waits up to `timeout_ms`
/// for the last task and for weft's own threads; `WEFT_AGAIN` when some are left, and it may be
/// called again. With 0 it does not wait. A stream that has nothing queued or running gets no
/// `on_ready` for it: its owner, who has to feed it, learns of it from the next call. Any thread, but
/// not from inside a task or a callback.
///
/// # Safety
/// `engine` is NULL or a live engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_engine_shutdown(
    engine: *mut weft_engine,
    timeout_ms: u32,
) -> weft_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { Handle::<Arc<Engine>>::get(engine) }?;
        let ended = engine.shutdown(Duration::from_millis(timeout_ms.into()));
        Ok(if ended { WEFT_OK } else { WEFT_AGAIN })
    })
}

/// Shuts the engine down without waiting and frees the handle. Streams, queues and tasks may
/// outlive it. NULL is ignored. Any thread.
///
/// # Safety
/// `engine` is NULL or a live engine, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_engine_free(engine: *mut weft_engine) {
    // SAFETY: the caller's promise.
    if let Ok(live) = unsafe { Handle::<Arc<Engine>>::get(engine.cast_const()) } {
        guard_or((), || {
            live.shutdown(Duration::ZERO);
        });
    }
    // SAFETY: the caller's promise.
    unsafe { Handle::<Arc<Engine>>::free(engine) }
}
