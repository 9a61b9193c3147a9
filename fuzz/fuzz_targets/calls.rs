//! Calls of the C interface in any order (src/world.rs), by a host that does all that it may.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_fuzz::{proof, world};

fuzz_target!(init: proof::of_decoders(&world::KINDS), |input: &[u8]| world::run(input));
