//! `weft_negotiate`.

use super::guard::guard;
use super::types::*;
use crate::codec::Kind;
use crate::error::Status;
use crate::negotiate::negotiate;

/// Chooses a content coding for a request (RFC 9110, section 12.5.3). `accept_encoding` is the value
/// of the field, all its lines joined with commas, `len` bytes; NULL when the request has no such
/// field, which means identity, as does a value that allows none of `preference`. `preference` is
/// the host's order, `n` codecs, at most 64: among those that the client ranks highest the first
/// wins. `*codec` becomes one of them, or 0 for identity. An element with a bad weight is dropped; names
/// are compared without case; `x-gzip` is gzip. Identity is chosen over a coding only where the
/// client ranks it higher in so many words. Any thread.
///
/// # Safety
/// `accept_encoding` is NULL or valid for `len` bytes, `preference` for `n` values, `codec` for
/// writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_negotiate(
    accept_encoding: *const core::ffi::c_char,
    len: usize,
    preference: *const u32,
    n: usize,
    codec: *mut u32,
) -> weft_status {
    guard(|| {
        if codec.is_null()
            || (preference.is_null() && n != 0)
            || n > 64
            || len > isize::MAX as usize
        {
            return Err(Status::Invalid);
        }
        let mut wanted = Vec::with_capacity(n);
        for index in 0..n {
            // SAFETY: the caller vouches for `n` values.
            wanted.push(Kind::from_c(unsafe { preference.add(index).read() })?);
        }
        let chosen = if accept_encoding.is_null() {
            None
        } else {
            // SAFETY: the caller vouches for `len` bytes.
            let value = unsafe { core::slice::from_raw_parts(accept_encoding.cast::<u8>(), len) };
            negotiate(value, &wanted)
        };
        // SAFETY: checked above.
        unsafe { codec.write(chosen.map_or(0, Kind::to_c)) };
        Ok(WEFT_OK)
    })
}
