//! HTTP response compression in segments, on threads of the host's choosing.
//!
//! A *segment* is a pure function of its bytes, of the bytes before it and of the stream's options.
//! A [`stream::Stream`] therefore holds bytes and never an encoder; encoders belong to the
//! [`engine::Engine`] and are borrowed for the time of one segment. `docs/architecture.md` tells the
//! whole story; `include/weft.h` is the interface that C sees.

#[cfg(panic = "abort")]
compile_error!("weft catches panics at the C boundary and per segment: build it with panic=unwind");

pub mod budget;
pub mod buffer;
pub mod codec;
pub mod engine;
pub mod error;
pub mod executor;
mod ffi;
mod inlet;
pub mod negotiate;
pub mod notify;
mod plan;
mod quiet;
pub mod retain;
mod schedule;
pub mod segment;
mod shared;
pub mod stats;
pub mod stream;
pub mod sync;

use std::ffi::CStr;

const fn number(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let mut value = 0;
    let mut index = 0;
    while index < bytes.len() {
        value = value * 10 + (bytes[index] - b'0') as u32;
        index += 1;
    }
    value
}

/// The version as one number: major * 10000 + minor * 100 + patch.
pub const VERSION_NUMBER: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
    + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
    + number(env!("CARGO_PKG_VERSION_PATCH"));

/// The version as text.
pub const VERSION_TEXT: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    };
