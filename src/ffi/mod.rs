//! The C interface: the only `extern "C"` functions of the crate. Each checks its pointers, turns
//! them into references, calls the safe code and catches panics; nothing else happens here.

#![allow(unsafe_code, reason = "raw pointers are what a C interface is made of")]

mod engine;
mod guard;
mod host;
mod negotiate;
mod queue;
mod stream;
mod task;
mod types;
mod version;
