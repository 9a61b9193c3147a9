//! deflate bodies of one segment, through libdeflate: less CPU than `zlib-rs` for smaller output. It
//! knows whole buffers only, and no history, so longer bodies are the crate's.

use super::deflate;
use super::{Encoder, Fault, Params, Window};
use crate::error::Status;
use crate::ffi::libdeflate::Compressor;
use std::ops::Range;

/// The levels of libdeflate that are used.
pub(crate) const LEVELS: std::ops::RangeInclusive<i32> = 2..=8;

/// Bytes of an encoder at most, of whichever level.
pub(crate) const MEMORY: usize = 832 << 10;

/// Its level for one of zlib's. Its 8 makes less of every file than zlib's 9, and its 9 takes a fifth
/// more time for a thousandth.
fn level(zlib: i32) -> i32 {
    zlib.clamp(*LEVELS.start(), *LEVELS.end())
}

/// See the module.
#[derive(Default)]
pub struct WholeDeflateEncoder {
    inner: Option<(i32, Compressor)>,
}

impl WholeDeflateEncoder {
    fn of(&mut self, level: i32) -> Result<&mut Compressor, Fault> {
        let inner = match self.inner.take() {
            Some(inner) if inner.0 == level => inner,
            other => {
                // Not two at a time.
                drop(other);
                let none = || Fault {
                    status: Status::NoMemory,
                    text: "no memory for the deflate encoder".into(),
                };
                (level, Compressor::new(level).ok_or_else(none)?)
            }
        };
        Ok(&mut self.inner.insert(inner).1)
    }
}

impl Encoder for WholeDeflateEncoder {
    fn encode(
        &mut self,
        params: &Params,
        window: &Window<'_>,
        out: &mut [u8],
    ) -> Result<Range<usize>, Fault> {
        let super::Detail::Deflate(tuning) = &params.detail else {
            return Err(Fault { status: Status::Invalid, text: "not a deflate stream".into() });
        };
        if !window.first || !window.last {
            return Err(Fault { status: Status::Invalid, text: "not a whole body".into() });
        }
        let start = deflate::write_header(tuning, out);
        let compressor = self.of(level(tuning.level_for(window.input())))?;
        match compressor.encode(window.input(), &mut out[start..]) {
            Some(written) => Ok(0..start + written),
            None => {
                Err(Fault { status: Status::Codec, text: "deflate: output bound too small".into() })
            }
        }
    }

    fn memory(&self) -> usize {
        MEMORY
    }
}
