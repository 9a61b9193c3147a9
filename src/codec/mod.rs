//! What a codec is: a way to encode one segment, given the bytes before it.

mod blocks;
pub mod brotli;
pub mod deflate;
pub mod noise;
pub mod stored;
#[cfg(feature = "c-brotli")]
pub(crate) mod whole;
#[cfg(feature = "c-deflate")]
pub(crate) mod whole_deflate;
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
    /// RFC 1951: no frame, no check, and no content coding of HTTP.
    Deflate,
    /// RFC 1950: what HTTP calls `deflate`.
    Zlib,
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
            4 => Ok(Kind::Deflate),
            5 => Ok(Kind::Zlib),
            _ => Err(Status::Invalid),
        }
    }

    /// The number that C calls it by.
    pub const fn to_c(self) -> u32 {
        match self {
            Kind::Zstd => 1,
            Kind::Brotli => 2,
            Kind::Gzip => 3,
            Kind::Deflate => 4,
            Kind::Zlib => 5,
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

/// The levels of `kind`.
pub fn bounds(kind: Kind) -> Bounds {
    match kind {
        Kind::Zstd => zstd::bounds(),
        Kind::Brotli => brotli::bounds(),
        Kind::Gzip | Kind::Deflate | Kind::Zlib => deflate::bounds(),
        Kind::Stored => Bounds { min: 0, max: 22, default: 0 },
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
    /// A body of known length of at most so many bytes is one segment, whatever the above says.
    pub whole: usize,
}

impl Shape {
    /// Cut in full segments of so many bytes, the first of which may be shorter.
    pub const fn new(segment: usize, first: usize, history: usize) -> Shape {
        Shape { segment, first, history, whole: segment }
    }
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
    Brotli(brotli::Tuning),
    Deflate(deflate::Tuning),
    Stored,
}

/// Largest window that a stream declares: 8 MiB, the most that a browser must accept (RFC 9659,
/// section 3).
pub const WINDOW_LOG_MOST: u32 = 23;

/// Smallest window that a stream declares. Below it blocks get so small that their headers count.
pub const WINDOW_LOG_LEAST: u32 = 13;

/// What is known of a segment before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of history.
    pub history: usize,
    /// Bytes to encode.
    pub input: usize,
    /// It is the whole body.
    pub whole: bool,
}

/// Encoders that can stand in for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breed {
    kind: Kind,
    whole: bool,
}

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
        let bounds = bounds(request.kind);
        if request.level < bounds.min || request.level > bounds.max {
            return Err(Status::Invalid);
        }
        let largest = if request.kind == Kind::Zstd { WINDOW_LOG_MOST } else { 24 };
        if request.window_log != 0 && !(10..=largest).contains(&request.window_log) {
            return Err(Status::Invalid);
        }
        let gap = if request.kind == Kind::Brotli { brotli::WINDOW_GAP } else { 0 };
        let reach = (request.history + request.segment) as u64;
        let reach = request.content_length.map_or(reach, |length| length.min(reach)) + gap;
        let most = match request.window_log {
            0 => WINDOW_LOG_MOST,
            asked => asked.min(WINDOW_LOG_MOST),
        };
        let mut window_log = ceil_log2(reach).min(most).max(WINDOW_LOG_LEAST);
        let framed = |framing| Detail::Deflate(deflate::Tuning::settle(request.level, framing));
        let detail = match request.kind {
            Kind::Zstd => Detail::Zstd(zstd::Tuning::settle(request, window_log)),
            Kind::Brotli => {
                let tuning =
                    brotli::Tuning::settle(request.level, request.content_length, most, window_log);
                window_log = tuning.declared();
                Detail::Brotli(tuning)
            }
            Kind::Gzip => framed(deflate::Framing::Gzip),
            Kind::Deflate => framed(deflate::Framing::Raw),
            Kind::Zlib => framed(deflate::Framing::Zlib),
            Kind::Stored => Detail::Stored,
        };
        if let Detail::Deflate(_) = detail {
            window_log = deflate::WINDOW_LOG;
        }
        Ok(Params { kind: request.kind, level: request.level, window_log, detail })
    }

    /// The default cut for a codec and level.
    pub fn shape(kind: Kind, level: i32) -> Shape {
        match kind {
            Kind::Zstd => zstd::shape(level),
            Kind::Brotli => brotli::shape(level),
            Kind::Gzip | Kind::Deflate | Kind::Zlib => deflate::shape(level),
            Kind::Stored => Shape::new(1 << 20, 1 << 17, 256 << 10),
        }
    }

    /// Bytes that a segment of `input` bytes may become, whatever it holds.
    pub fn output_bound(&self, input: usize) -> usize {
        match self.detail {
            Detail::Zstd(_) => zstd::output_bound(input),
            Detail::Brotli(_) => brotli::output_bound(input),
            Detail::Deflate(_) => deflate::output_bound(input),
            Detail::Stored => stored::output_bound(input),
        }
    }

    /// Bytes that an encoder takes for such a segment, at most.
    pub fn encoder_memory(&self, extent: Extent) -> usize {
        match self.detail {
            Detail::Zstd(tuning) => tuning.encoder_memory(extent.history, extent.input),
            Detail::Brotli(tuning) => tuning.encoder_memory(extent),
            Detail::Deflate(tuning) => tuning.encoder_memory(extent.whole),
            Detail::Stored => 64,
        }
    }

    /// Nanoseconds of CPU that a segment is thought to cost. Decides where it runs and in which
    /// order, never what it becomes.
    pub fn cost_ns(&self, extent: Extent) -> u64 {
        match self.detail {
            Detail::Zstd(tuning) => tuning.cost_ns(extent.history, extent.input),
            Detail::Brotli(tuning) => tuning.cost_ns(extent),
            Detail::Deflate(tuning) => tuning.cost_ns(extent),
            Detail::Stored => 500 + extent.input as u64 / 8,
        }
    }

    /// Which encoders serve a segment of this stream, that is the whole body or is not.
    pub fn breed(&self, whole: bool) -> Breed {
        let apart = match &self.detail {
            Detail::Brotli(_) => cfg!(feature = "c-brotli"),
            Detail::Deflate(tuning) => tuning.whole_apart(),
            Detail::Zstd(_) | Detail::Stored => false,
        };
        let whole = whole && apart;
        Breed { kind: self.kind, whole }
    }

    /// A fresh encoder of that breed.
    pub fn new_encoder(&self, whole: bool) -> Result<Box<dyn Encoder>, Status> {
        #[allow(unused_variables, reason = "where weft is built without C encoders")]
        let Breed { whole, .. } = self.breed(whole);
        match self.detail {
            Detail::Zstd(_) => Ok(Box::new(zstd::ZstdEncoder::new()?)),
            #[cfg(feature = "c-brotli")]
            Detail::Brotli(_) if whole => Ok(Box::new(whole::WholeEncoder::default())),
            Detail::Brotli(_) => Ok(Box::new(brotli::BrotliEncoder::default())),
            #[cfg(feature = "c-deflate")]
            Detail::Deflate(_) if whole => {
                Ok(Box::new(whole_deflate::WholeDeflateEncoder::default()))
            }
            Detail::Deflate(_) => Ok(Box::new(deflate::DeflateEncoder::new())),
            Detail::Stored => Ok(Box::new(stored::StoredEncoder)),
        }
    }

    /// What an encoder would write for a last segment without bytes that is not the first, where
    /// that is always the same.
    pub fn closing(&self) -> Option<&'static [u8]> {
        match self.detail {
            Detail::Zstd(_) => Some(&zstd::EMPTY_LAST_BLOCK),
            Detail::Brotli(_) => Some(&[brotli::END]),
            Detail::Deflate(_) => Some(&deflate::EMPTY_LAST_BLOCK),
            Detail::Stored => None,
        }
    }

    /// Whether the encoder is known to panic on some such segments.
    pub fn may_panic(&self, window: &Window<'_>) -> bool {
        match &self.detail {
            Detail::Brotli(tuning) => brotli::may_panic(tuning, window),
            _ => false,
        }
    }

    /// What the trailer will need to know of a segment's input.
    pub fn digest(&self, input: &[u8]) -> Digest {
        let check = match &self.detail {
            Detail::Deflate(tuning) => tuning.framing.check(input),
            Detail::Stored => stored::check(input),
            _ => 0,
        };
        Digest { check, length: input.len() as u64 }
    }

    /// The digest of a body that goes on.
    pub fn join(&self, body: Option<Digest>, next: Digest) -> Digest {
        match (&self.detail, body) {
            (_, None) => next,
            (Detail::Deflate(tuning), Some(body)) => Digest {
                check: tuning.framing.join(body.check, next.check, next.length),
                length: body.length + next.length,
            },
            (_, Some(body)) => Digest { check: 0, length: body.length + next.length },
        }
    }

    /// What follows the last segment of a body.
    pub fn trailer(&self, body: Digest) -> ([u8; TRAILER_MOST], usize) {
        match &self.detail {
            Detail::Deflate(tuning) => tuning.framing.trailer(body),
            _ => ([0; TRAILER_MOST], 0),
        }
    }
}

/// What a trailer says of a body. Workers compute it of each segment, and the owner joins them in
/// their order: a running sum would make the owner read each byte, or each segment wait for the one
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The checksum of the format.
    pub check: u32,
    /// Bytes.
    pub length: u64,
}

/// Bytes of a trailer, at most.
pub const TRAILER_MOST: usize = 8;

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

    /// What was known of it before.
    pub fn extent(&self) -> Extent {
        let input = self.bytes.len() - self.history;
        Extent { history: self.history, input, whole: self.first && self.last }
    }

    /// The same segment, for an encoder that may refer to nothing.
    pub fn without_history(&self) -> Window<'a> {
        Window { bytes: self.input(), history: 0, ..*self }
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

/// A thing that encodes segments, one after another, of any stream of its breed. What it gives
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
