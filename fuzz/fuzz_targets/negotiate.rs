//! Negotiation, against a second implementation that was written for being plain.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| weft_fuzz::check::negotiation(input));
