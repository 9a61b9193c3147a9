//! deflate (RFC 1951) in segments, raw or in the frame of gzip (RFC 1952) or zlib (RFC 1950): one
//! member, whatever the number of segments.
//!
//! Each segment ends with a sync flush, so on a byte, and the last one with the final block. What
//! the trailer says of the body is computed for each segment where it is encoded, and put together
//! in order by the owner ([`super::Digest`]).
//!
//! Two things about the crate `zlib-rs`:
//! - Its level 1 grows noise by 6 % and panics on some data. Ours is its level 2.
//! - `reset` and `set_dictionary` on a used encoder do not give what a new encoder gives: the last
//!   positions of the dictionary are hashed with the bytes that lie behind them in its window, which
//!   an earlier segment left there. So the dictionary is set twice, first with the start of the
//!   segment behind it.

use super::noise::is_noise;
use super::{Bounds, Digest, Encoder, Extent, Fault, Params, Shape, TRAILER_MOST, Window};
use crate::error::Status;
use std::ops::Range;
use zlib_rs::adler32::{adler32, adler32_combine};
use zlib_rs::crc32::{crc32, crc32_combine};
use zlib_rs::{Deflate, DeflateError, DeflateFlush, Status as Progress};

/// What stands round the deflate stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Nothing.
    Raw,
    /// RFC 1950, which HTTP calls `deflate`.
    Zlib,
    /// RFC 1952.
    Gzip,
}

impl Framing {
    /// The checksum of a segment.
    pub fn check(self, input: &[u8]) -> u32 {
        match self {
            Framing::Raw => 0,
            Framing::Zlib => adler32(1, input),
            Framing::Gzip => crc32(0, input),
        }
    }

    /// The checksum of a body that goes on for `length` bytes.
    pub fn join(self, body: u32, next: u32, length: u64) -> u32 {
        match self {
            Framing::Raw => 0,
            Framing::Zlib => adler32_combine(body, next, length),
            Framing::Gzip => crc32_combine(body, next, length),
        }
    }

    /// What follows the last segment.
    pub fn trailer(self, body: Digest) -> ([u8; TRAILER_MOST], usize) {
        let mut bytes = [0; TRAILER_MOST];
        let len = match self {
            Framing::Raw => 0,
            Framing::Zlib => {
                bytes[..4].copy_from_slice(&body.check.to_be_bytes());
                4
            }
            Framing::Gzip => {
                bytes[..4].copy_from_slice(&body.check.to_le_bytes());
                // Modulo 2^32, says the RFC.
                bytes[4..].copy_from_slice(&(body.length as u32).to_le_bytes());
                8
            }
        };
        (bytes, len)
    }
}

/// The window of deflate, 32 KiB.
pub const WINDOW_LOG: u32 = 15;

/// How many bytes behind a position its hash looks at, at most.
const HASHED: usize = 8;

/// The final block where nothing is left to say: no bytes, fixed codes.
pub const EMPTY_LAST_BLOCK: [u8; 2] = [0x03, 0x00];

/// Bytes of an encoder: window, tables, pending output. They do not depend on the level.
const MEMORY: usize = 320 << 10;

/// The levels of zlib.
pub fn bounds() -> Bounds {
    Bounds { min: 0, max: 9, default: 6 }
}

/// The longest body that libdeflate is given; without it there is no reason for more than a segment.
fn whole(most: usize) -> usize {
    if cfg!(feature = "c-deflate") { most } else { 0 }
}

/// Segments and history. Nothing reaches back further than the window.
pub fn shape(level: i32) -> Shape {
    let kib = |count: usize| count << 10;
    match level {
        0 => Shape::new(kib(256), kib(256), 0),
        // One segment is libdeflate's, and better than several: 40 ms at most.
        1..=7 => Shape { whole: whole(kib(2048)), ..Shape::new(kib(512), kib(128), kib(32)) },
        _ => Shape { whole: whole(kib(1024)), ..Shape::new(kib(512), kib(128), kib(32)) },
    }
}

/// Worst case of a segment: stored in blocks of at least 5,000 bytes with 5 bytes each in front; then
/// the flush, header or final block.
pub fn output_bound(input: usize) -> usize {
    input + input / 1000 + 64
}

/// The parameters of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    level: i32,
    /// The framing.
    pub framing: Framing,
}

impl Tuning {
    /// Settles the parameters.
    pub fn settle(level: i32, framing: Framing) -> Tuning {
        Tuning { level, framing }
    }

    /// The level used for such bytes.
    pub(crate) fn level_for(&self, input: &[u8]) -> i32 {
        match self.level {
            1 => 2,
            level if level > 2 && is_noise(input) => 2,
            level => level,
        }
    }

    /// Whether bodies of one segment have encoders of their own. The crate is quicker where nothing is
    /// to be found.
    pub(crate) fn whole_apart(&self) -> bool {
        cfg!(feature = "c-deflate") && self.level > 0
    }

    /// Bytes of an encoder.
    pub fn encoder_memory(&self, whole: bool) -> usize {
        match whole {
            #[cfg(feature = "c-deflate")]
            true if self.whole_apart() => super::whole_deflate::MEMORY,
            _ => MEMORY,
        }
    }

    /// Nanoseconds, from the level's speed on text (`cargo bench --bench cost`).
    pub fn cost_ns(&self, extent: Extent) -> u64 {
        let Extent { history, input, whole } = extent;
        // Picoseconds for each byte of input, and of history to be loaded, which is done twice.
        let whole = whole && self.whole_apart();
        let (input_ps, history_ps, setup_ns): (u64, u64, u64) = match self.level {
            1 | 2 if whole => (3_900, 0, 6_500),
            3 if whole => (4_600, 0, 6_500),
            4 if whole => (5_300, 0, 6_500),
            5 if whole => (6_300, 0, 6_500),
            6 if whole => (8_500, 0, 6_500),
            7 if whole => (13_500, 0, 6_500),
            8.. if whole => (25_000, 0, 6_500),
            0 => (40, 0, 2_000),
            1 | 2 => (3_900, 1_700, 7_000),
            3 => (5_500, 1_700, 7_000),
            4 => (7_200, 1_700, 7_000),
            5 => (8_200, 1_700, 7_000),
            6 => (12_500, 1_700, 7_000),
            7 => (18_000, 1_700, 7_000),
            8 => (30_000, 1_700, 7_000),
            _ => (25_000, 1_700, 7_000),
        };
        let history = history.min(1 << WINDOW_LOG);
        setup_ns + (input as u64 * input_ps + history as u64 * history_ps) / 1_000
    }
}

/// A `zlib-rs` encoder.
pub struct DeflateEncoder {
    inner: Deflate,
    level: i32,
}

impl DeflateEncoder {
    /// A fresh one.
    pub fn new() -> DeflateEncoder {
        let level = bounds().default;
        DeflateEncoder { inner: Deflate::new(level, false, WINDOW_LOG as u8), level }
    }

    fn prepare(&mut self, level: i32, window: &Window<'_>) -> Result<(), Fault> {
        self.inner.reset();
        if self.level != level {
            self.inner.set_level(level).map_err(fault)?;
            self.level = level;
            self.inner.reset();
        }
        let most = 1 << WINDOW_LOG;
        let history = window.history();
        let history = &history[history.len().saturating_sub(most)..];
        if history.is_empty() || level == 0 {
            return Ok(());
        }
        // What lies behind the dictionary, whatever the encoder did before: the segment's first
        // bytes, and zeros where it has fewer.
        let mut longer = [0; (1 << WINDOW_LOG) + HASHED];
        let longer = &mut longer[..history.len() + HASHED];
        longer[..history.len()].copy_from_slice(history);
        let known = window.input().len().min(HASHED);
        longer[history.len()..][..known].copy_from_slice(&window.input()[..known]);
        self.inner.set_dictionary(longer).map_err(fault)?;
        self.inner.reset();
        self.inner.set_dictionary(history).map_err(fault)?;
        Ok(())
    }
}

impl Default for DeflateEncoder {
    fn default() -> DeflateEncoder {
        DeflateEncoder::new()
    }
}

impl Encoder for DeflateEncoder {
    fn encode(
        &mut self,
        params: &Params,
        window: &Window<'_>,
        out: &mut [u8],
    ) -> Result<Range<usize>, Fault> {
        let super::Detail::Deflate(tuning) = &params.detail else {
            return Err(Fault { status: Status::Invalid, text: "not a deflate stream".into() });
        };
        let mut end = if window.first { write_header(tuning, out) } else { 0 };
        let input = window.input();
        if input.is_empty() {
            if window.last {
                out[end..end + 2].copy_from_slice(&EMPTY_LAST_BLOCK);
                end += 2;
            }
            return Ok(0..end);
        }
        self.prepare(tuning.level_for(input), window)?;
        let flush = if window.last { DeflateFlush::Finish } else { DeflateFlush::SyncFlush };
        let progress = self.inner.compress(input, &mut out[end..], flush).map_err(fault)?;
        end += self.inner.total_out() as usize;
        let complete = self.inner.total_in() == input.len() as u64
            // A full output may hide that more is to come.
            && end < out.len()
            && (progress == Progress::StreamEnd) == window.last;
        if complete {
            return Ok(0..end);
        }
        Err(Fault { status: Status::Codec, text: "deflate: output bound too small".into() })
    }

    fn memory(&self) -> usize {
        MEMORY
    }
}

/// What stands in front of the first segment; its length.
pub(crate) fn write_header(tuning: &Tuning, out: &mut [u8]) -> usize {
    let (header, len) = header(tuning);
    out[..len].copy_from_slice(&header[..len]);
    len
}

fn header(tuning: &Tuning) -> ([u8; 10], usize) {
    match tuning.framing {
        Framing::Raw => ([0; 10], 0),
        Framing::Zlib => {
            // A window of 32 KiB; the second byte says the class of level and makes the pair a
            // multiple of 31.
            let class = match tuning.level {
                0 | 1 => 0x01,
                2..=5 => 0x5E,
                6 => 0x9C,
                _ => 0xDA,
            };
            ([0x78, class, 0, 0, 0, 0, 0, 0, 0, 0], 2)
        }
        Framing::Gzip => {
            let effort = match tuning.level {
                9 => 2,
                1 => 4,
                _ => 0,
            };
            // No name, no time, and a system that is not said: the same bytes everywhere.
            ([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, effort, 255], 10)
        }
    }
}

fn fault(error: DeflateError) -> Fault {
    let status = match error {
        DeflateError::MemError => Status::NoMemory,
        _ => Status::Codec,
    };
    Fault { status, text: format!("deflate: {}", error.as_str()) }
}
