//! Options of a stream, and what begin makes of them for the whole stream.

use crate::buffer::Block;
use crate::codec::{Extent, Kind, Params, Request};
use crate::error::Status;
use crate::inlet::SMALL;
use crate::notify::{Callback, Queue};
use crate::segment::Cutter;
use std::sync::Arc;

/// Default of `inline_us`.
pub const INLINE_US: u32 = 200;

/// Options of a stream; `weft_stream_options` in `include/weft.h` says what each means.
#[allow(missing_docs, reason = "the same names stand, documented, in weft_stream_options")]
pub struct Options {
    pub kind: Kind,
    pub level: Option<i32>,
    pub overload_level: Option<i32>,
    pub window_log: u32,
    pub content_length: Option<u64>,
    pub segment_size: u64,
    pub history_size: Option<u64>,
    pub max_input: u64,
    pub max_output: u64,
    pub max_tasks: u32,
    pub inline_us: u32,
    pub queue: Option<Arc<Queue>>,
    pub on_ready: Option<Callback>,
}

impl Options {
    /// The defaults for a codec.
    pub fn new(kind: Kind) -> Options {
        Options {
            kind,
            level: None,
            overload_level: None,
            window_log: 0,
            content_length: None,
            segment_size: 0,
            history_size: None,
            max_input: 0,
            max_output: 0,
            max_tasks: 0,
            inline_us: INLINE_US,
            queue: None,
            on_ready: None,
        }
    }
}

/// What a stream above the memory limit holds at most: it has one segment, and fills none while
/// another is under way or output waits (`Stream::may_open`). docs/architecture.md, "Memory".
fn least(params: &Params, before: usize, input: usize, sure: bool) -> usize {
    let round = Block::round;
    let whole = round(before + input);
    let smaller = round(if sure { before } else { before + input / 2 });
    let out = |input: usize| {
        let bound = params.output_bound(input);
        round(bound) + round(bound / 2)
    };
    // Small pieces are copied for their task.
    let copied = round((before + input).min(SMALL)) + out(input.min(SMALL));
    whole + smaller.max(copied).max(out(input))
}

/// What begin settles for the whole stream.
pub(crate) struct Plan {
    pub(crate) params: Params,
    pub(crate) cutter: Cutter,
    pub(crate) history: usize,
    /// Bytes it may always hold, also where it has become longer than was said, and those that begin
    /// sets aside.
    pub(crate) minimum: usize,
    pub(crate) minimum_beyond: usize,
    pub(crate) promise: usize,
}

impl Plan {
    pub(crate) fn settle(options: &Options, level: i32) -> Result<Plan, Status> {
        let shape = Params::shape(options.kind, level);
        let segment = match (options.segment_size, options.content_length) {
            (0, Some(length)) if length <= shape.whole as u64 => shape.segment.max(length as usize),
            (0, _) => shape.segment,
            (given, _) => given as usize,
        };
        // As early as in the default shape, in proportion.
        let first = (segment as u64 * shape.first as u64 / shape.segment as u64) as usize;
        let cutter = Cutter::new(segment, first, options.content_length);
        let longest = cutter.longest();
        // A body of one segment has no history.
        let alone = options.content_length.is_some_and(|length| length <= segment as u64);
        let wanted = options.history_size.map_or(shape.history, |given| given as usize);
        let params = Params::settle(&Request {
            kind: options.kind,
            level,
            window_log: options.window_log,
            content_length: options.content_length,
            history: wanted,
            segment: longest,
        })?;
        let history = wanted.min(1 << params.window_log);
        let before = if alone { 0 } else { history };
        let minimum = least(&params, before, longest, cutter.knows_length());
        let minimum_beyond = minimum.max(least(&params, history, segment, false));
        // A stream of unknown length may end with its first segment: more is not promised to it.
        let first = cutter.target(0);
        let promise = 2 * Block::round(first) + Block::round(params.output_bound(first));
        Ok(Plan { params, cutter, history, minimum, minimum_beyond, promise })
    }

    /// The first segment, if no mark ends it before.
    pub(crate) fn first(&self) -> Extent {
        let input = self.cutter.target(0);
        Extent { history: 0, input, whole: self.cutter.ends_at(input as u64) }
    }
}
