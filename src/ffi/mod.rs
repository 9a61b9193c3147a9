//! The C interface: the only `extern "C"` functions of the crate that leave it. Each checks its
//! pointers, turns them into references, calls the safe code and catches panics; nothing else happens
//! here. Except in `libbrotli` and `libdeflate`, which go the other way: what the
//! crate calls in C.

#![allow(unsafe_code, reason = "raw pointers are what a C interface is made of")]

mod engine;
mod guard;
mod host;
#[cfg(feature = "c-brotli")]
pub(crate) mod libbrotli;
#[cfg(feature = "c-deflate")]
pub(crate) mod libdeflate;
mod negotiate;
mod queue;
mod stream;
mod task;
mod types;
mod version;
