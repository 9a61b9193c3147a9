//! What an engine counts.
//!
//! Counters are kept by codec, in shards: a thread adds to the shard that is its own for good, so
//! that threads on many cores do not pull one cache line to and fro. Reading adds the shards up.

use crate::codec::Kind;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A figure that many threads add to. What one shard takes away another may have added, so a shard
/// by itself means nothing, and sums wrap.
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

/// The counters of a codec and their sums, which have the same names.
macro_rules! by_codec {
    ($($name:ident),* $(,)?) => {
        /// What is counted by codec.
        #[derive(Debug, Default)]
        pub(crate) struct CodecCounters {
            $(pub(crate) $name: Counter,)*
        }

        /// Figures of a codec, or of all. `include/weft.h` says what each means.
        #[derive(Clone, Copy, Debug, Default)]
        #[allow(missing_docs, reason = "the same names stand, documented, in weft_codec_info")]
        pub struct CodecStats {
            $(pub $name: u64,)*
        }

        impl CodecCounters {
            fn add_to(&self, sum: &mut CodecStats) {
                $(sum.$name = sum.$name.wrapping_add(self.$name.get());)*
            }
        }
    };
}

by_codec! {
    streams_begun,
    streams_done,
    streams_failed,
    streams_cancelled,
    streams_live,
    refused_memory,
    refused_overload,
    refused_shutdown,
    overload_lowered,
    segments_inline,
    segments_tasks,
    segments_refused,
    segments_again,
    bytes_in,
    bytes_out,
    cpu_ns,
    queue_ns,
}

/// What of a segment's time a histogram shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// The wait for a task to come by.
    Queue,
    /// The run on a task.
    Run,
    /// The run inside an owner's call.
    Inline,
}

/// Buckets of a histogram. The last one has no upper bound.
pub const BUCKETS: usize = 22;

/// The first bucket goes up to 2^4 microseconds, each further one twice as far.
const FIRST_LOG: u32 = 4;

#[derive(Debug, Default)]
struct Histogram {
    counts: [Counter; BUCKETS],
    sum_ns: Counter,
}

/// The bucket that a time falls into.
fn bucket(time: Duration) -> usize {
    let micros = u64::try_from(time.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
    let log = crate::codec::ceil_log2(micros);
    (log.saturating_sub(FIRST_LOG) as usize).min(BUCKETS - 1)
}

/// The longest time of a bucket, in microseconds.
pub fn bound(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS { u64::MAX } else { 1 << (bucket as u32 + FIRST_LOG) }
}

/// A histogram as it stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Segments by bucket.
    pub counts: [u64; BUCKETS],
    /// Nanoseconds of all of them.
    pub sum_ns: u64,
}

const KINDS: usize = 6;
const TIMINGS: usize = 3;
const SHARDS: usize = 8;

// Two cache lines: the next one is fetched along.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    codecs: [CodecCounters; KINDS],
    histograms: [Histogram; TIMINGS],
    posts_refused: Counter,
}

/// What an engine counts as it goes.
#[derive(Debug, Default)]
pub struct Counters {
    shards: [Shard; SHARDS],
}

impl Counters {
    fn here(&self) -> &Shard {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
        }
        // A thread on its way out has none; any will do.
        &self.shards[MINE.try_with(|mine| *mine).unwrap_or(0)]
    }

    /// The counters of a codec, to add to.
    pub(crate) fn of(&self, kind: Kind) -> &CodecCounters {
        &self.here().codecs[kind.to_c() as usize]
    }

    pub(crate) fn post_refused(&self) {
        self.here().posts_refused.add(1);
    }

    pub(crate) fn posts_refused(&self) -> u64 {
        self.shards.iter().map(|shard| shard.posts_refused.get()).sum()
    }

    /// A segment took so long.
    pub(crate) fn record(&self, timing: Timing, time: Duration) {
        let histogram = &self.here().histograms[timing as usize];
        histogram.counts[bucket(time)].add(1);
        histogram.sum_ns.add(time.as_nanos() as u64);
    }

    /// Figures of a codec, or of all.
    pub(crate) fn sum(&self, kind: Option<Kind>) -> CodecStats {
        let mut sum = CodecStats::default();
        for shard in &self.shards {
            match kind {
                Some(kind) => shard.codecs[kind.to_c() as usize].add_to(&mut sum),
                None => shard.codecs.iter().for_each(|codec| codec.add_to(&mut sum)),
            }
        }
        sum
    }

    pub(crate) fn times(&self, timing: Timing) -> Times {
        let mut times = Times::default();
        for shard in &self.shards {
            let histogram = &shard.histograms[timing as usize];
            for (sum, count) in times.counts.iter_mut().zip(&histogram.counts) {
                *sum += count.get();
            }
            times.sum_ns = times.sum_ns.wrapping_add(histogram.sum_ns.get());
        }
        times
    }
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
    pub refused_shutdown: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_falls_into_the_first_bucket_whose_bound_it_does_not_pass() {
        let micros = Duration::from_micros;
        assert_eq!(bucket(Duration::ZERO), 0);
        for index in 0..BUCKETS - 1 {
            assert_eq!(bucket(micros(bound(index))), index);
            assert_eq!(bucket(micros(bound(index)) + Duration::from_nanos(1)), index + 1);
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
        assert_eq!((bound(0), bound(BUCKETS - 2), bound(BUCKETS - 1)), (16, 1 << 24, u64::MAX));
    }
}
