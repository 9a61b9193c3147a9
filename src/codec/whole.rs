//! Brotli bodies of one segment, through Google's encoder: for the same bytes to within a thousandth
//! it takes two thirds of the CPU that the crate `brotli` takes at qualities 0 to 9. Longer bodies
//! are the crate's, since this encoder can be given no history.
//!
//! Here is its memory, kept from body to body, and the account of it; the calls are in
//! `src/ffi/libbrotli.rs`.

use super::blocks::{Cell, Element, STALE};
use super::{Encoder, Fault, Params, Window};
use crate::error::Status;
use crate::ffi::libbrotli;
use ::brotli::{SliceWrapper, SliceWrapperMut};
use std::ops::Range;
use std::panic::catch_unwind;

/// What malloc aligns to, and so what C expects.
type Unit = u128;

/// The blocks of one encoder: what it has freed is handed to it again, as malloc would, uncleared.
#[derive(Default)]
pub struct Memory {
    idle: Vec<Idle>,
    lent: Vec<Cell<Unit>>,
    held: usize,
    // The system had none.
    failed: bool,
}

struct Idle {
    cell: Cell<Unit>,
    age: u32,
}

impl Memory {
    /// A block of at least `bytes`, or null.
    pub fn lend(&mut self, bytes: usize) -> *mut u8 {
        let units = bytes.div_ceil(size_of::<Unit>()).max(1);
        let cell = self.find(units).or_else(|| self.obtain(units));
        let Some(mut cell) = cell else {
            self.failed = true;
            return std::ptr::null_mut();
        };
        let start = cell.slice_mut().as_mut_ptr().cast();
        self.lent.push(cell);
        start
    }

    /// Takes back what `lend` gave.
    pub fn take_back(&mut self, start: *const u8) {
        // The encoder frees in about the reverse order.
        let lent = self.lent.iter().rposition(|cell| cell.slice().as_ptr().cast() == start);
        if let Some(index) = lent {
            self.idle.push(Idle { cell: self.lent.swap_remove(index), age: 0 });
        }
    }

    /// The smallest idle block that has room, unless it is much too large: it will be missed.
    fn find(&mut self, units: usize) -> Option<Cell<Unit>> {
        let fits = |idle: &Idle| (units..=2 * units + 64).contains(&idle.cell.room());
        let sizes = self.idle.iter().enumerate().filter(|(_, idle)| fits(idle));
        let (index, _) = sizes.min_by_key(|(_, idle)| idle.cell.room())?;
        Some(self.idle.swap_remove(index).cell)
    }

    fn obtain(&mut self, units: usize) -> Option<Cell<Unit>> {
        // In steps, so that it fits again.
        let step = (units.next_power_of_two() / 16).max(16);
        let cell = catch_unwind(|| Unit::cell(units.next_multiple_of(step))).ok()?;
        // What has become too small goes for it, or one of each size would stay.
        let mut more = cell.bytes();
        self.held += more;
        while more > 0 {
            let smaller = self.idle.iter().enumerate().filter(|(_, idle)| idle.cell.room() < units);
            let Some((index, _)) = smaller.max_by_key(|(_, idle)| idle.cell.room()) else { break };
            let bytes = self.idle.swap_remove(index).cell.bytes();
            self.held -= bytes;
            more = more.saturating_sub(bytes);
        }
        Some(cell)
    }

    /// A body is done. Lets go of what has long been of no use.
    fn settle(&mut self) {
        debug_assert!(self.lent.is_empty(), "the encoder has freed all of it");
        self.idle.retain_mut(|idle| {
            idle.age += 1;
            idle.age <= STALE
        });
        self.held = self.idle.iter().map(|idle| idle.cell.bytes()).sum();
    }
}

/// See the module.
#[derive(Default)]
pub struct WholeEncoder {
    memory: Memory,
}

impl Encoder for WholeEncoder {
    fn encode(
        &mut self,
        params: &Params,
        window: &Window<'_>,
        out: &mut [u8],
    ) -> Result<Range<usize>, Fault> {
        let super::Detail::Brotli(tuning) = &params.detail else {
            return Err(Fault { status: Status::Invalid, text: "not a brotli stream".into() });
        };
        if !window.first || !window.last {
            return Err(Fault { status: Status::Invalid, text: "not a whole body".into() });
        }
        self.memory.failed = false;
        let setting = tuning.setting(window);
        let written = libbrotli::encode(&mut self.memory, setting, window.input(), out);
        let failed = self.memory.failed;
        self.memory.settle();
        match written {
            Some(written) => Ok(0..written),
            None if failed => Err(Fault {
                status: Status::NoMemory,
                text: "no memory for the brotli encoder".into(),
            }),
            None => {
                Err(Fault { status: Status::Codec, text: "brotli: output bound too small".into() })
            }
        }
    }

    fn memory(&self) -> usize {
        self.memory.held + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Kind, Request};

    fn text(len: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
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

    fn params(level: i32, length: usize) -> Params {
        Params::settle(&Request {
            kind: Kind::Brotli,
            level,
            window_log: 0,
            content_length: Some(length as u64),
            history: 0,
            segment: length,
        })
        .expect("in bounds")
    }

    fn encode(encoder: &mut WholeEncoder, level: i32, body: &[u8]) -> Vec<u8> {
        let params = params(level, body.len());
        let mut out = vec![0; params.output_bound(body.len())];
        let window = Window::new(body, 0, true, true);
        let range = encoder.encode(&params, &window, &mut out).expect("encodes");
        out[range].to_vec()
    }

    #[test]
    fn what_a_block_held_before_is_not_seen() {
        let body = text(1_200_000);
        let mut used = WholeEncoder::default();
        for round in 0..3 {
            for level in 0..=11 {
                let most = if level < 10 { 1_200_000 } else { 150_000 };
                for length in [0, 1, 1900, 85_000, most, 17_000] {
                    let body = &body[round..round + length.min(body.len() - round)];
                    let fresh = encode(&mut WholeEncoder::default(), level, body);
                    for idle in &mut used.memory.idle {
                        idle.cell.slice_mut().fill(0x5A5A_5A5A_5A5A_5A5A_5A5A_5A5A_5A5A_5A5A);
                    }
                    let again = encode(&mut used, level, body);
                    assert!(fresh == again, "quality {level}, {length} bytes");
                }
            }
        }
    }

    #[test]
    fn the_estimate_of_memory_holds() {
        let noise: Vec<u8> = (0..1_000_000_u32)
            .map(|index| (index.wrapping_mul(2_654_435_761).rotate_left(9) ^ index >> 3) as u8)
            .collect();
        for body in [text(1_000_000), noise, vec![7; 1_000_000]] {
            for level in 0..=11 {
                for length in [0, 100, 1900, 20_000, 85_000, 300_000, 1_000_000] {
                    let length = if level >= 10 { length.min(300_000) } else { length };
                    let params = params(level, length);
                    let mut encoder = WholeEncoder::default();
                    encode(&mut encoder, level, &body[..length]);
                    let window = Window::new(&body[..length], 0, true, true);
                    let estimate = params.encoder_memory(window.extent());
                    let real = encoder.memory();
                    assert!(real <= estimate, "quality {level}, {length}: {real} of {estimate}");
                }
            }
        }
    }

    #[test]
    fn memory_stays_that_of_the_largest_body() {
        let body = text(400_000);
        for level in [1, 5, 9] {
            let mut one = WholeEncoder::default();
            encode(&mut one, level, &body);
            let most = one.memory();
            for length in [400_000, 9, 1900, 30_000, 399_000, 60_000, 5_000, 250_000] {
                encode(&mut one, level, &body[..length]);
                let held = one.memory();
                assert!(held < most + most / 4 + (64 << 10), "quality {level}: {held} of {most}");
            }
        }
    }

    #[test]
    fn no_memory_is_an_error() {
        let mut memory = Memory::default();
        assert!(memory.lend(usize::MAX / 2).is_null());
        assert!(memory.failed);
        assert!(!memory.lend(100).is_null());
    }
}
