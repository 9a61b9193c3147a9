//! What the fuzz targets share: docs/testing.md says how to run them.
//!
//! `unsafe` is for the decoders, which are C libraries of the system, and for calling weft as C does.

pub mod body;
pub mod c_interface;
pub mod check;
pub mod decoders;
pub mod host;
pub mod proof;
pub mod reader;
pub mod script;
pub mod threads;
pub mod world;

/// The second implementation that the tests compare negotiation with.
#[path = "../../tests/support/plain_negotiation.rs"]
pub mod plain_negotiation;

// What the files that are shared with the library know as their own crate's.
use weft::{codec, error, retain, stats};
