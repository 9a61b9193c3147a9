//! Counters of an engine.

use std::sync::atomic::{AtomicU64, Ordering};

/// A figure that many threads add to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    /// Takes away.
    pub fn sub(&self, value: u64) {
        self.0.fetch_sub(value, Ordering::Relaxed);
    }

    /// Reads.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What an engine counts as it goes.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) streams_begun: Counter,
    pub(crate) streams_done: Counter,
    pub(crate) streams_failed: Counter,
    pub(crate) streams_cancelled: Counter,
    pub(crate) streams_live: Counter,
    pub(crate) refused_memory: Counter,
    pub(crate) refused_overload: Counter,
    pub(crate) overload_lowered: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) segments_inline: Counter,
    pub(crate) segments_tasks: Counter,
    pub(crate) segments_refused: Counter,
    pub(crate) posts_refused: Counter,
    pub(crate) segments_again: Counter,
    pub(crate) cpu_ns: Counter,
    pub(crate) queue_ns: Counter,
}

/// All figures of an engine at a time. `include/weft.h` says what each means.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the same names stand, documented, in weft_engine_info")]
pub struct EngineStats {
    pub streams_begun: u64,
    pub streams_done: u64,
    pub streams_failed: u64,
    pub streams_cancelled: u64,
    pub streams_live: u64,
    pub refused_memory: u64,
    pub refused_overload: u64,
    pub overload_lowered: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub segments_inline: u64,
    pub segments_tasks: u64,
    pub segments_refused: u64,
    pub posts_refused: u64,
    pub tasks_outstanding: u64,
    pub tasks_peak: u64,
    pub segments_queued: u64,
    pub cpu_ns: u64,
    pub queue_ns: u64,
    pub memory: u64,
    pub memory_peak: u64,
    pub memory_idle_encoders: u64,
    pub memory_idle_buffers: u64,
    pub encoders_idle: u64,
    pub encoders_running: u64,
    pub encoders_made: u64,
    pub threads: u64,
    pub segments_again: u64,
}
