//! Scripts for streams of zstd (src/script.rs), decoded by the system's C library.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft::codec::Kind;
use weft_fuzz::{check, proof};

const KINDS: &[Kind] = &[Kind::Zstd];

fuzz_target!(init: proof::of_decoders(KINDS), |input: &[u8]| check::run(KINDS, input));
