//! What every entry point does: catch panics, check pointers, read sized structs, notice a fork.

use crate::error::Status;
use core::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an entry point. A panic becomes `WEFT_E_PANIC`; it must not unwind into C.
pub(crate) fn guard(body: impl FnOnce() -> Result<i32, Status>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(status)) => status.code(),
        Err(_) => Status::Panic.code(),
    }
}

/// The same for functions that answer something other than a status.
pub(crate) fn guard_or<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Writes an optional output.
///
/// # Safety
/// `target` is NULL or valid for writing a `T`.
pub(crate) unsafe fn out<T>(target: *mut T, value: T) {
    if !target.is_null() {
        // SAFETY: not NULL, and the caller vouches for the rest.
        unsafe { target.write(value) }
    }
}

/// A handle that knows the process it was made in.
pub(crate) struct Handle<T> {
    pid: i32,
    pub(crate) value: T,
}

impl<T> Handle<T> {
    pub(crate) fn into_raw<C>(value: T) -> *mut C {
        Box::into_raw(Box::new(Handle { pid: pid(), value })).cast()
    }

    /// # Safety
    /// `raw` is NULL or came from `into_raw` of the same `T`, was not freed, and is not borrowed
    /// mutably elsewhere.
    pub(crate) unsafe fn get<'a, C>(raw: *const C) -> Result<&'a T, Status> {
        // SAFETY: the caller's promise, NULL aside.
        let handle = unsafe { raw.cast::<Handle<T>>().as_ref() }.ok_or(Status::Invalid)?;
        handle.check()?;
        Ok(&handle.value)
    }

    /// # Safety
    /// As `get`, and not borrowed at all elsewhere.
    pub(crate) unsafe fn get_mut<'a, C>(raw: *mut C) -> Result<&'a mut T, Status> {
        // SAFETY: the caller's promise, NULL aside.
        let handle = unsafe { raw.cast::<Handle<T>>().as_mut() }.ok_or(Status::Invalid)?;
        handle.check()?;
        Ok(&mut handle.value)
    }

    /// What is behind a handle, which is gone with it. In a child of fork the locks inside may be
    /// held by threads that do not exist there, so it is left alone: an error, and nothing freed.
    ///
    /// # Safety
    /// As `get_mut`; the handle is not used afterwards.
    pub(crate) unsafe fn take<C>(raw: *mut C) -> Result<T, Status> {
        // SAFETY: the caller's promise.
        unsafe { Self::get(raw.cast_const()) }?;
        // SAFETY: not NULL, made by `into_raw`, and given up by the caller.
        Ok(unsafe { Box::from_raw(raw.cast::<Handle<T>>()) }.value)
    }

    /// Frees a handle, as `take` does.
    ///
    /// # Safety
    /// As `take`.
    pub(crate) unsafe fn free<C>(raw: *mut C) {
        // SAFETY: the caller's promise.
        let taken = unsafe { Self::take(raw) };
        guard_or((), move || drop(taken));
    }

    fn check(&self) -> Result<(), Status> {
        if self.pid == pid() { Ok(()) } else { Err(Status::State) }
    }
}

fn pid() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// A struct of the interface that starts with its own size.
///
/// # Safety
/// `repr(C)`, first field `struct_size: usize`, and any bytes are a value of every field.
pub(crate) unsafe trait Sized_ {
    /// What is accepted at least: the fields without which the struct says nothing.
    const LEAST: usize;
}

/// Reads options of any version over `defaults`: an older, shorter struct leaves the defaults of
/// what it lacks; a newer, longer one must be zero where this version knows nothing.
///
/// # Safety
/// `source` is NULL or points to as many readable bytes as its first field says.
pub(crate) unsafe fn read_sized<T: Sized_>(source: *const T, defaults: T) -> Result<T, Status> {
    if source.is_null() {
        return Err(Status::Invalid);
    }
    // SAFETY: the first field of every such struct is its size.
    let size = unsafe { source.cast::<usize>().read() };
    check_size::<T>(size)?;
    let known = size.min(size_of::<T>());
    // SAFETY: `size` bytes are readable.
    let tail = unsafe { core::slice::from_raw_parts(source.cast::<u8>().add(known), size - known) };
    if tail.iter().any(|byte| *byte != 0) {
        return Err(Status::Invalid);
    }
    let mut value = defaults;
    // SAFETY: `known` bytes are readable there and writable here, and `Sized_` promises that any
    // bytes make a value.
    unsafe {
        core::ptr::copy_nonoverlapping(source.cast::<u8>(), (&raw mut value).cast::<u8>(), known);
    }
    Ok(value)
}

/// Fills a caller's info struct as far as it reaches; what this version does not know is zeroed.
///
/// # Safety
/// `target` is NULL or points to as many writable bytes as its first field says.
pub(crate) unsafe fn write_sized<T: Sized_ + Copy>(
    target: *mut T,
    make: impl FnOnce(usize) -> T,
) -> Result<(), Status> {
    if target.is_null() {
        return Err(Status::Invalid);
    }
    // SAFETY: the first field of every such struct is its size.
    let size = unsafe { target.cast::<usize>().read() };
    check_size::<T>(size)?;
    let known = size.min(size_of::<T>());
    let value = make(size);
    // SAFETY: `size` bytes are writable there; `known` are readable here.
    unsafe {
        core::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), target.cast::<u8>(), known);
        core::ptr::write_bytes(target.cast::<u8>().add(known), 0, size - known);
    }
    Ok(())
}

fn check_size<T: Sized_>(size: usize) -> Result<(), Status> {
    // Sizes are multiples of 8, so no pointer or 64-bit field is ever cut in two; the upper bound
    // catches a size that was never set.
    if size < T::LEAST || !size.is_multiple_of(8) || size > 4096 {
        return Err(Status::Invalid);
    }
    Ok(())
}
