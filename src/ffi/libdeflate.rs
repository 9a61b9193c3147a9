//! The calls of libdeflate's encoder (RFC 1951). What it is called for is in
//! `src/codec/whole_deflate.rs`.

use core::ffi::c_int;
use core::ptr::NonNull;
use libdeflate_sys as sys;

/// An encoder of one level.
pub(crate) struct Compressor(NonNull<sys::libdeflate_compressor>);

// SAFETY: it may be used by one thread at a time, whichever; `&mut` sees to that, and its memory is
// malloc's.
unsafe impl Send for Compressor {}

impl Compressor {
    /// For a level of libdeflate, 0 to 12. `None`: there is no memory.
    pub(crate) fn new(level: i32) -> Option<Compressor> {
        // SAFETY: no pointers; a wrong level gives NULL.
        NonNull::new(unsafe { sys::libdeflate_alloc_compressor(level as c_int) }).map(Compressor)
    }

    /// A whole body as raw deflate, whatever was encoded before; the bytes written. `None`: not enough
    /// room.
    pub(crate) fn encode(&mut self, input: &[u8], out: &mut [u8]) -> Option<usize> {
        // SAFETY: a live compressor; both slices outlive the call, which is told their lengths.
        let written = unsafe {
            sys::libdeflate_deflate_compress(
                self.0.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                out.as_mut_ptr().cast(),
                out.len(),
            )
        };
        (written > 0).then_some(written)
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: a live compressor of ours, not used again.
        unsafe { sys::libdeflate_free_compressor(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::whole_deflate::{LEVELS, MEMORY};
    use core::ffi::c_void;
    use std::cell::Cell;

    thread_local!(static ASKED: Cell<usize> = const { Cell::new(0) });

    unsafe extern "C" fn count(size: usize) -> *mut c_void {
        ASKED.set(ASKED.get() + size);
        // SAFETY: a plain request for memory.
        unsafe { libc::malloc(size) }
    }

    unsafe extern "C" fn release(block: *mut c_void) {
        // SAFETY: the block is from `count`.
        unsafe { libc::free(block) }
    }

    #[test]
    fn the_account_of_memory_is_what_it_asks_for() {
        for level in LEVELS {
            ASKED.set(0);
            let options = sys::libdeflate_options {
                sizeof_options: size_of::<sys::libdeflate_options>(),
                malloc_func: Some(count),
                free_func: Some(release),
            };
            // SAFETY: valid options; the compressor is freed once and not used.
            unsafe {
                let compressor =
                    sys::libdeflate_alloc_compressor_ex(level as c_int, &raw const options);
                assert!(!compressor.is_null());
                sys::libdeflate_free_compressor(compressor);
            }
            let asked = ASKED.get();
            assert!(asked <= MEMORY && asked * 4 > MEMORY, "level {level}: {asked}");
        }
    }
}
