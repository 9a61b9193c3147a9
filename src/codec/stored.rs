//! A codec that needs no C and compresses nothing: each segment becomes a frame that says what the
//! encoder was given, so that a test can see whether cutting, history and order are right.
//!
//! Frame: flags (1 first, 2 last), history length, history checksum, input length (4 bytes each,
//! little-endian), input.

use super::{Encoder, Fault, Params, Window};
use crate::error::Status;
use std::ops::Range;

const HEAD: usize = 13;

/// A segment that starts with these bytes cannot be encoded.
pub const FAILS: &[u8] = b"\0stored: fail\0";

/// The encoder panics at a segment that starts with these bytes.
pub const PANICS: &[u8] = b"\0stored: panic\0";

/// The engine panics, after the encoder, at a segment that starts with these bytes.
pub const PANICS_LATER: &[u8] = b"\0stored: panic later\0";

/// There is no checksum of a body.
pub fn check(input: &[u8]) -> u32 {
    assert!(!input.starts_with(PANICS_LATER), "stored: told to panic outside the encoder");
    0
}

/// Bytes of the frame for `input` bytes.
pub fn output_bound(input: usize) -> usize {
    HEAD + input
}

/// See the module.
pub struct StoredEncoder;

impl Encoder for StoredEncoder {
    fn encode(
        &mut self,
        _: &Params,
        window: &Window<'_>,
        out: &mut [u8],
    ) -> Result<Range<usize>, Fault> {
        let input = window.input();
        if input.starts_with(FAILS) {
            return Err(Fault { status: Status::Codec, text: "stored: told to fail".into() });
        }
        assert!(!input.starts_with(PANICS), "stored: told to panic");
        out[0] = u8::from(window.first) | u8::from(window.last) << 1;
        out[1..5].copy_from_slice(&(window.history().len() as u32).to_le_bytes());
        out[5..9].copy_from_slice(&checksum(window.history()).to_le_bytes());
        out[9..13].copy_from_slice(&(input.len() as u32).to_le_bytes());
        out[HEAD..HEAD + input.len()].copy_from_slice(input);
        Ok(0..HEAD + input.len())
    }

    fn memory(&self) -> usize {
        64
    }
}

/// FNV-1a, 32 bits.
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Takes a stream apart and puts the body together again, checking each frame's history.
pub fn decode(mut bytes: &[u8]) -> Result<(Vec<u8>, bool), String> {
    let mut body = Vec::new();
    let (mut index, mut ended) = (0, false);
    while !bytes.is_empty() {
        if ended {
            return Err("bytes after the last frame".into());
        }
        if bytes.len() < HEAD {
            return Err("cut inside a frame's head".into());
        }
        let word = |at: usize| {
            bytes[at..at + 4].iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
        };
        let (history, sum, length) = (word(1) as usize, word(5), word(9) as usize);
        if (bytes[0] & 1 != 0) != (index == 0) {
            return Err(format!("frame {index}: first is wrong"));
        }
        if history > body.len() || checksum(&body[body.len() - history..]) != sum {
            return Err(format!("frame {index}: history of {history} bytes is wrong"));
        }
        ended = bytes[0] & 2 != 0;
        body.extend(bytes.get(HEAD..HEAD + length).ok_or("cut inside a frame")?);
        bytes = &bytes[HEAD + length..];
        index += 1;
    }
    Ok((body, ended))
}
