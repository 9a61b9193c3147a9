//! brotli (RFC 7932) in segments: one stream, whatever the number of segments.
//!
//! - The first segment is a stream without its end (`BARE_STREAM`, `APPENDABLE`). A later one is a
//!   continuation: no header, history as a dictionary that the decoder has as its window, and
//!   distances that start anew (`CATABLE`). Each ends with a flush, so on a byte; the byte 0x03, a
//!   last and empty block, ends the stream.
//! - A later segment's window is never above the one in the header. Within that it is what history
//!   and segment need, since some tables grow with it; but 17 at qualities 5 to 8, where the crate
//!   falls into a hash table of 32 MiB at 16 and below.
//! - Qualities 0 and 1 take no history, and write no continuation: the header's bits are dropped
//!   from a stream of their own. What they write refers to nothing but itself.
//! - A body of one segment is what the plain encoder gives, byte for byte: Google's, in C
//!   (`src/codec/whole.rs`), or the crate's where weft is built without it.
//!
//! **The crate panics** on some data at qualities 2 to 9 with history: a match that is cut to
//! length 1 where history ends. The engine catches that and encodes the segment again without
//! history ([`may_panic`], `Engine::encode`); `tests/codec_conditions.rs` keeps inputs that do it.

use super::blocks::{Blocks, Clear};
use super::noise::is_noise;
use super::{Bounds, Encoder, Extent, Fault, Params, Shape, WINDOW_LOG_LEAST, Window, ceil_log2};
use crate::error::Status;
use brotli::enc::backward_references::UnionHasher;
use brotli::enc::encode::{
    BrotliEncoderDestroyInstance, BrotliEncoderOperation as Operation,
    BrotliEncoderParameter as Parameter, BrotliEncoderStateStruct,
};
use std::ops::Range;

/// What ends a stream whose last byte is complete: a last, empty block (RFC 7932, section 9.2).
pub const END: u8 = 0x03;

/// Below so many bytes a piece of a longer body is not worth the tables of the higher qualities.
const TINY: usize = 2048;

/// The quality for those.
const TINY_QUALITY: i32 = 4;

/// History and input that make a segment one of a long body.
const LONG: usize = 256 << 10;

/// What a body of unknown length is taken for once it has a long segment: more than 4 MiB, from where
/// on the crate hashes five bytes at qualities 5 and 6. Taken for 1 MiB, a JSON of 4.8 MiB grew by 5.7 %.
const UNKNOWN: u64 = 5 << 20;

/// The quality for noise: finds repetitions, and is quick to see that there are none.
const NOISE_QUALITY: i32 = 4;

/// The qualities of brotli.
pub fn bounds() -> Bounds {
    Bounds { min: 0, max: 11, default: 5 }
}

/// So many bytes of a window cannot be referred to (RFC 7932, section 9.1).
pub const WINDOW_GAP: u64 = 16;

/// Smaller windows make these qualities slower, not faster.
fn least_window(quality: i32) -> u32 {
    if (5..=8).contains(&quality) { 17 } else { 10 }
}

/// Segments and history by class of quality; docs/architecture.md has the figures behind them. A
/// full segment takes 40 ms at quality 4, 70 at 5 and 250 at 9, and from quality 10 on more than a
/// second for each MiB, so that those start small.
pub fn shape(quality: i32) -> Shape {
    let kib = |count: usize| count << 10;
    match quality {
        ..=1 => Shape::new(kib(1024), kib(512), 0),
        2..=4 => Shape::new(kib(2560), kib(512), kib(1024)),
        5..=9 => Shape::new(kib(2560), kib(256), kib(2048)),
        _ => Shape::new(kib(2560), kib(128), kib(2048)),
    }
}

/// Worst case of a segment: what cannot be compressed is stored in blocks of at least 16 KiB with 4
/// bytes each in front; then a padding block and the end.
pub fn output_bound(input: usize) -> usize {
    input + input / 2048 + 64
}

/// Whether the crate may panic on this segment.
pub fn may_panic(tuning: &Tuning, window: &Window<'_>) -> bool {
    !window.history().is_empty() && (2..=9).contains(&tuning.quality)
}

/// The parameters of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    quality: i32,
    window_log: u32,
    /// Of the whole body, as far as is known.
    length: usize,
}

/// What one segment is encoded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) quality: i32,
    pub(crate) window_log: u32,
    pub(crate) size_hint: usize,
}

impl Tuning {
    /// Settles the parameters. `window_log` is what the stream needs, `most` what it may have.
    pub fn settle(quality: i32, length: Option<u64>, most: u32, window_log: u32) -> Tuning {
        let most = most.max(WINDOW_LOG_LEAST);
        Tuning {
            quality,
            window_log: window_log.max(least_window(quality)).min(most),
            length: usize::try_from(length.unwrap_or(UNKNOWN)).unwrap_or(usize::MAX),
        }
    }

    /// The window that the stream's header declares: the qualities without history do not go below
    /// 18, whatever they are asked for.
    pub fn declared(&self) -> u32 {
        if self.quality <= 1 { self.window_log.max(18) } else { self.window_log }
    }

    /// The quality used for such a segment.
    fn quality_for(&self, input: usize, alone: bool) -> i32 {
        if input < TINY && !alone { self.quality.min(TINY_QUALITY) } else { self.quality }
    }

    /// Everything that a segment is encoded with, from its bytes and its place.
    pub(crate) fn setting(&self, window: &Window<'_>) -> Setting {
        let (history, input) = (window.history(), window.input());
        let alone = window.first && window.last;
        let mut quality = self.quality_for(input.len(), alone);
        // Below 10 noise costs no more than text does, and a body of one segment stays the plain
        // encoder's.
        if quality > NOISE_QUALITY && (quality >= 10 || !alone) && is_noise(input) {
            quality = NOISE_QUALITY;
        }
        let window_log = if window.first {
            self.window_log
        } else {
            let reach = (history.len() + input.len()) as u64 + WINDOW_GAP;
            ceil_log2(reach).max(least_window(quality)).min(self.window_log)
        };
        let bytes = history.len() + input.len();
        // The crate takes larger tables for bodies above 1 MiB and 4 MiB. Long segments are parts of
        // such bodies; short ones would only pay for them.
        let size_hint = if alone || bytes < LONG { bytes } else { bytes.max(self.length) };
        Setting { quality, window_log, size_hint }
    }

    /// Bytes that the encoder takes for such a segment: the ring, the tables of the quality, and the
    /// commands and statistics of a block, as measured.
    pub fn encoder_memory(&self, extent: Extent) -> usize {
        let Extent { history, input, whole } = extent;
        let whole = whole && cfg!(feature = "c-brotli");
        let quality = self.quality_for(input, history == 0);
        let log = ceil_log2((history + input) as u64 + WINDOW_GAP).max(17).min(self.window_log);
        let ring = if quality < 2 { 0 } else { (2 << log) + (1 << 18) };
        let large = (history + input >= LONG) && self.length.max(history + input) >= 1 << 20;
        let mib = |count: usize| count << 20;
        // The tables; then bytes for each of the first 256 KiB, and for each of all.
        let (tables, early, each) = match quality {
            0 => (mib(1) / 4, 1, 2),
            1 => (mib(1), 2, 3),
            2 | 3 => (mib(1) * 3 / 4, 14, 2),
            4 => (if large { mib(5) } else { mib(1) }, 6, 13),
            5..=8 if log <= 16 => (mib(36), 6, 13),
            9 if log <= 16 && whole => (mib(5) / 4, 6, 11),
            5 => (if large { mib(3) } else { mib(3) / 2 }, 6, 13),
            6 => (if large { mib(5) } else { mib(3) }, 6, 13),
            7 => (mib(9), 6, 13),
            8 => (mib(18), 6, 13),
            9 => (mib(36), 6, 11),
            10 => ((9 << log) + mib(1), 75, 14),
            _ => ((9 << log) + mib(1), 105, 20),
        };
        let rest = (256 << 10) + ring + input.min(256 << 10) * early + input * each;
        // Google's encoder has the same tables and smaller lists.
        let rest = if whole && quality >= 4 { rest * 2 / 3 } else { rest };
        tables + rest
    }

    /// Nanoseconds, from the quality's speed on text (`cargo bench --bench cost`).
    pub fn cost_ns(&self, extent: Extent) -> u64 {
        let Extent { history, input, whole } = extent;
        let quality = self.quality_for(input, history == 0);
        // Picoseconds for each byte of input, and of history to be loaded; nanoseconds to set up.
        let (input_ps, history_ps, setup_ns): (u64, u64, u64) = match quality {
            0 => (5_000, 0, 6_000),
            1 => (6_000, 0, 10_000),
            2 => (9_000, 800, 15_000),
            3 => (8_500, 800, 15_000),
            4 => (10_500, 800, 16_000),
            5 => (17_000, 3_000, 18_000),
            6 => (22_000, 3_000, 18_000),
            7 => (27_000, 5_000, 20_000),
            8 => (33_000, 5_000, 22_000),
            9 => (50_000, 8_000, 25_000),
            10 => (500_000, 100_000, 800_000),
            _ => (1_350_000, 150_000, 800_000),
        };
        let cost = setup_ns + (input as u64 * input_ps + history as u64 * history_ps) / 1_000;
        // What Google's encoder takes of that.
        let percent = match quality {
            _ if !whole || !cfg!(feature = "c-brotli") => 100,
            ..=1 => 45,
            9 => 50,
            _ => 70,
        };
        cost * percent / 100
    }
}

/// The memory of encoders; the encoder itself is made for each segment and costs nothing without
/// its tables.
#[derive(Default)]
pub struct BrotliEncoder {
    blocks: Blocks,
    held: usize,
}

impl Encoder for BrotliEncoder {
    fn encode(
        &mut self,
        params: &Params,
        window: &Window<'_>,
        out: &mut [u8],
    ) -> Result<Range<usize>, Fault> {
        let super::Detail::Brotli(tuning) = &params.detail else {
            return Err(Fault { status: Status::Invalid, text: "not a brotli stream".into() });
        };
        let setting = tuning.setting(window);
        let mut end = 0;
        if !window.input().is_empty() || window.first {
            self.blocks.set_clear(match setting.quality {
                0 | 1 | 5..=9 => Clear::Counts,
                2..=4 => Clear::Words,
                _ => Clear::All,
            });
            // On a panic the blocks are gone with the state, and the encoder is dropped.
            let mut state = BrotliEncoderStateStruct::new(std::mem::take(&mut self.blocks));
            let done = run(&mut state, setting, window, out);
            BrotliEncoderDestroyInstance(&mut state);
            self.blocks = state.m8;
            self.held = self.blocks.settle();
            end = done?;
        }
        if window.last && !window.first {
            out[end] = END;
            end += 1;
        }
        Ok(0..end)
    }

    fn memory(&self) -> usize {
        self.held + size_of::<Self>()
    }
}

fn run(
    state: &mut BrotliEncoderStateStruct<Blocks>,
    setting: Setting,
    window: &Window<'_>,
    out: &mut [u8],
) -> Result<usize, Fault> {
    let (history, input) = (window.history(), window.input());
    let alone = window.first && window.last;
    let mut set = |parameter, value: usize| {
        state.set_parameter(parameter, u32::try_from(value).unwrap_or(u32::MAX));
    };
    set(Parameter::BROTLI_PARAM_QUALITY, setting.quality as usize);
    set(Parameter::BROTLI_PARAM_LGWIN, setting.window_log as usize);
    set(Parameter::BROTLI_PARAM_SIZE_HINT, setting.size_hint);
    if !alone {
        set(Parameter::BROTLI_PARAM_BARE_STREAM, 1);
        set(Parameter::BROTLI_PARAM_APPENDABLE, 1);
    }
    if !window.first {
        if setting.quality >= 2 {
            set(Parameter::BROTLI_PARAM_CATABLE, 1);
            if !history.is_empty() {
                // The last argument: these bytes are the stream's own, contexts go on from them.
                let none = UnionHasher::Uninit;
                state.set_custom_dictionary_with_optional_precomputed_hasher(
                    history.len(),
                    history,
                    none,
                    true,
                );
            }
        } else {
            // Settles the parameters, after which the header's bits wait to be written.
            state.input_block_size();
            (state.last_bytes_, state.last_bytes_bits_) = (0, 0);
        }
    }
    let operation =
        if alone { Operation::BROTLI_OPERATION_FINISH } else { Operation::BROTLI_OPERATION_FLUSH };
    let (mut left, mut read) = (input.len(), 0);
    let (mut room, mut written) = (out.len(), 0);
    let went = state.compress_stream(
        operation,
        &mut left,
        input,
        &mut read,
        &mut room,
        out,
        &mut written,
        &mut None,
        &mut |_, _, _, _| (),
    );
    if !went || left > 0 || state.has_more_output() || (alone && !state.is_finished()) {
        let text = "brotli: output bound too small".into();
        return Err(Fault { status: Status::Codec, text });
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Kind, Request};

    fn text(len: usize, seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut body = Vec::new();
        while body.len() < len {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let word = [b"the ", b"web ", b"of a", b"weft", b" 10,", b"\nif "][state as usize % 6];
            body.extend(word);
            body.push((state >> 40) as u8 % 64 + 32);
        }
        body.truncate(len);
        body
    }

    fn params(level: i32, segment: usize) -> Params {
        Params::settle(&Request {
            kind: Kind::Brotli,
            level,
            window_log: 0,
            content_length: None,
            history: 64 << 10,
            segment,
        })
        .expect("in bounds")
    }

    #[test]
    fn what_a_block_held_before_is_not_seen() {
        let body = text(150_000, 3);
        let mut out = vec![0; output_bound(body.len())];
        for level in 0..=11 {
            let params = params(level, 100_000);
            let mut used = BrotliEncoder::default();
            for (start, history, end) in
                [(0, 0, 90_000), (10_000, 40_000, 60_000), (90_000, 50_000, 150_000), (9, 900, 999)]
            {
                let (first, last) = (history == 0, end == 150_000);
                let window = Window::new(&body[start..end], history.min(end - start), first, last);
                let fresh = {
                    let range = BrotliEncoder::default().encode(&params, &window, &mut out);
                    out[range.expect("encodes")].to_vec()
                };
                used.blocks.poison();
                let range = used.encode(&params, &window, &mut out).expect("encodes");
                assert!(out[range] == fresh, "quality {level}: {history} {end}");
            }
        }
    }

    #[test]
    fn the_estimate_of_memory_holds() {
        for level in 0..=11 {
            for (history, input) in [(0, 1900), (8 << 10, 1900), (0, 100_000), (400_000, 1_000_000)]
            {
                let params = params(level, input);
                let body = text(history + input, 5);
                let mut out = vec![0; output_bound(input)];
                let mut encoder = BrotliEncoder::default();
                let window = Window::new(&body, history, history == 0, false);
                encoder.encode(&params, &window, &mut out).expect("encodes");
                let (real, estimate) = (encoder.memory(), params.encoder_memory(window.extent()));
                let what = format!("quality {level}, {history}+{input}: {real} of {estimate}");
                assert!(real <= estimate, "{what}");
                // Whether a tiny first segment is the whole body is not known when memory is taken.
                assert!(real * 2 > estimate || estimate < 6 << 20 || input < TINY, "{what}");
            }
        }
    }
}
