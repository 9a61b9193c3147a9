//! Version, texts and bounds.

use super::guard::{guard, out};
use super::types::*;
use crate::codec;
use crate::error::Status;
use core::ffi::c_char;

/// The version of the library in use: major * 10000 + minor * 100 + patch, as
/// `WEFT_VERSION_NUMBER` has it for the header. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn weft_version_number() -> u32 {
    crate::VERSION_NUMBER
}

/// The version of the library in use as text, "0.1.0". Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn weft_version_string() -> *const c_char {
    crate::VERSION_TEXT.as_ptr()
}

/// A short English text for a status, also for one that is not known. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn weft_status_string(status: weft_status) -> *const c_char {
    Status::text(status).as_ptr()
}

/// The lowest, highest and default level of a codec. Each output may be NULL. Any thread.
/// `WEFT_E_UNSUPPORTED` when this build lacks the codec.
///
/// # Safety
/// Each output pointer is NULL or valid for writing one value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_level_bounds(
    codec: u32,
    min: *mut i32,
    max: *mut i32,
    dflt: *mut i32,
) -> weft_status {
    guard(|| {
        let bounds = codec::bounds(codec::Kind::from_c(codec)?);
        // SAFETY: the caller vouches for each pointer that is not NULL.
        unsafe {
            out(min, bounds.min);
            out(max, bounds.max);
            out(dflt, bounds.default);
        }
        Ok(WEFT_OK)
    })
}
