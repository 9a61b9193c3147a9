//! What a codec is: a way to encode one segment, given the bytes before it.

pub mod stored;
#[allow(unsafe_code, reason = "libzstd is a C library")]
pub mod zstd;

use crate::error::Status;
use std::ops::Range;

/// A codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
    /// No compression and no format of the world's: frames that carry what a segment was given, for
    /// tests of everything but codecs. C cannot ask for it.
    Stored,
}

impl Kind {
    /// The codec that C calls by this number.
    pub fn from_c(number: u32) -> Result<Kind, Status> {
        match number {
            1 => Ok(Kind::Zstd),
            2 => Ok(Kind::Brotli),
            3 => Ok(Kind::Gzip),
            _ => Err(Status::Invalid),
        }
    }

    /// The number that C calls it by.
    pub const fn to_c(self) -> u32 {
        match self {
            Kind::Zstd => 1,
            Kind::Brotli => 2,
            Kind::Gzip => 3,
            Kind::Stored => 0,
        }
    }
}

/// The levels of a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest level.
    pub min: i32,
    /// The highest level.
    pub max: i32,
    /// The level used where none is given.
    pub default: i32,
}

/// The levels of `kind`, or `Unsupported` where this build lacks it.
pub fn bounds(kind: Kind) -> Result<Bounds, Status> {
    match kind {
        Kind::Zstd => Ok(zstd::bounds()),
        Kind::Stored => Ok(Bounds { min: 0, max: 22, default: 0 }),
        Kind::Brotli | Kind::Gzip => Err(Status::Unsupported),
    }
}

/// How a stream is cut where the host does not say: chosen per codec and class of level, from the
/// figures in docs/architecture.md.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a full segment.
    pub segment: usize,
    /// Bytes of the first segment, where they grow.
    pub first: usize,
    /// Bytes of history.
    pub history: usize,
}

/// A stream's settings as its codec wants them: made once at begin, the same for every segment, so
/// that bytes depend on nothing that happens later.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// The codec.
    pub kind: Kind,
    /// The level asked for.
    pub level: i32,
    /// The window that the output declares, as a power of two.
    pub window_log: u32,
    detail: Detail,
}

#[derive(Clone, Copy, Debug)]
enum Detail {
    Zstd(zstd::Tuning),
    Stored,
}

/// Smallest window that a stream declares. Below it blocks get so small that their headers count.
pub const WINDOW_LOG_LEAST: u32 = 13;

/// What a codec needs to know to settle its parameters.
pub struct Request {
    /// The codec.
    pub kind: Kind,
    /// Within the codec's bounds.
    pub level: i32,
    /// Largest window allowed, or 0.
    pub window_log: u32,
    /// Length of the body, where known.
    pub content_length: Option<u64>,
    /// Bytes of history that a segment may have.
    pub history: usize,
    /// Bytes of the largest segment.
    pub segment: usize,
}

impl Params {
    /// Settles a stream's parameters.
    pub fn settle(request: &Request) -> Result<Params, Status> {
        let bounds = bounds(request.kind)?;
        if request.level < bounds.min || request.level > bounds.max {
            return Err(Status::Invalid);
        }
        // 23 is 8 MiB, the most that a browser must accept (RFC 9659, section 3).
        if request.window_log != 0 && !(10..=23).contains(&request.window_log) {
            return Err(Status::Invalid);
        }
        let reach = (request.history + request.segment) as u64;
        let reach = request.content_length.map_or(reach, |length| length.min(reach));
        let most = if request.window_log == 0 { 23 } else { request.window_log };
        let window_log = ceil_log2(reach).min(most).max(WINDOW_LOG_LEAST);
        let detail = match request.kind {
            Kind::Zstd => Detail::Zstd(zstd::Tuning::settle(request, window_log)),
            Kind::Stored => Detail::Stored,
            Kind::Brotli | Kind::Gzip => return Err(Status::Unsupported),
        };
        Ok(Params { kind: request.kind, level: request.level, window_log, detail })
    }

    /// The default cut for a codec and level.
    pub fn shape(kind: Kind, level: i32) -> Shape {
        match kind {
            Kind::Zstd => zstd::shape(level),
            _ => Shape { segment: 1 << 20, first: 1 << 17, history: 256 << 10 },
        }
    }

    /// Bytes that a segment of `input` bytes may become, whatever it holds.
    pub fn output_bound(&self, input: usize) -> usize {
        match self.detail {
            Detail::Zstd(_) => zstd::output_bound(input),
            Detail::Stored => stored::output_bound(input),
        }
    }

    /// Bytes that an encoder takes for a segment of `input` bytes with so much history, at most.
    pub fn encoder_memory(&self, history: usize, input: usize) -> usize {
        match self.detail {
            Detail::Zstd(tuning) => tuning.encoder_memory(history, input),
            Detail::Stored => 64,
        }
    }

    /// Nanoseconds of CPU that a segment is thought to cost. Decides where it runs and in which
    /// order, never what it becomes.
    pub fn cost_ns(&self, history: usize, input: usize) -> u64 {
        match self.detail {
            Detail::Zstd(tuning) => tuning.cost_ns(history, input),
            Detail::Stored => 500 + input as u64 / 8,
        }
    }

    /// A fresh encoder that serves this stream, and any other of its codec.
    pub fn new_encoder(&self) -> Result<Box<dyn Encoder>, Status> {
        match self.detail {
            Detail::Zstd(_) => Ok(Box::new(zstd::ZstdEncoder::new()?)),
            Detail::Stored => Ok(Box::new(stored::StoredEncoder)),
        }
    }
}

/// One segment as an encoder sees it. History lies directly in front of the input in one slice:
/// libzstd gives wrong bytes without an error when it does not.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    bytes: &'a [u8],
    history: usize,
    /// The first segment of its stream.
    pub first: bool,
    /// The last segment of its stream.
    pub last: bool,
}

impl<'a> Window<'a> {
    /// A window whose first `history` bytes are history and whose rest is to be encoded.
    pub fn new(bytes: &'a [u8], history: usize, first: bool, last: bool) -> Window<'a> {
        assert!(history <= bytes.len(), "history is part of the window");
        Window { bytes, history, first, last }
    }

    /// What the encoder may refer to.
    pub fn history(&self) -> &'a [u8] {
        &self.bytes[..self.history]
    }

    /// What is to be encoded.
    pub fn input(&self) -> &'a [u8] {
        &self.bytes[self.history..]
    }
}

/// Why a segment could not be encoded.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The status that the stream fails with.
    pub status: Status,
    /// What the compression library said.
    pub text: String,
}

/// A thing that encodes segments, one after another, of any stream of its codec. What it gives
/// depends on its arguments only, however often it was used before.
pub trait Encoder: Send {
    /// Encodes `window` into `out`, which has at least `output_bound` bytes, and says where in it
    /// the result lies.
    fn encode(
        &mut self,
        params: &Params,
        window: &Window<'_>,
        out: &mut [u8],
    ) -> Result<Range<usize>, Fault>;

    /// Bytes that it holds now.
    fn memory(&self) -> usize;
}

/// The smallest power of two that is at least `value`, as its exponent.
pub fn ceil_log2(value: u64) -> u32 {
    u64::BITS - value.saturating_sub(1).leading_zeros()
}
