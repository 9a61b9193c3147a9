//! The host's executor behind the crate's trait.

use super::guard::Handle;
use super::queue::Context;
use super::types::*;
use crate::error::Status;
use crate::executor::{Executor, Task};
use core::ffi::{c_int, c_void};
use core::mem::size_of;

type Post = unsafe extern "C" fn(ctx: *mut c_void, task: *mut weft_task) -> c_int;
type Release = unsafe extern "C" fn(ctx: *mut c_void);

/// A copy of a host's `weft_executor`.
pub(crate) struct HostExecutor {
    ctx: Context,
    post: Post,
    release: Option<Release>,
}

// SAFETY: repr(C), size first, pointers only.
unsafe impl super::guard::Sized_ for weft_executor {
    const LEAST: usize = core::mem::offset_of!(weft_executor, release);
}

impl HostExecutor {
    /// # Safety
    /// `source` is valid as its size says, and its functions may be called with its `ctx` from any
    /// thread until `release` was.
    pub(crate) unsafe fn copy(source: *const weft_executor) -> Result<HostExecutor, Status> {
        let defaults = weft_executor {
            struct_size: size_of::<weft_executor>(),
            ctx: core::ptr::null_mut(),
            post: None,
            release: None,
        };
        // SAFETY: the caller's promise.
        let given = unsafe { super::guard::read_sized(source, defaults) }?;
        Ok(HostExecutor {
            ctx: Context(given.ctx),
            post: given.post.ok_or(Status::Invalid)?,
            release: given.release,
        })
    }
}

impl Executor for HostExecutor {
    fn post(&self, task: Task) -> Result<(), Task> {
        let raw: *mut weft_task = Handle::into_raw(task);
        // SAFETY: the promise of `copy`. The task is the host's until it answers nonzero.
        if unsafe { (self.post)(self.ctx.get(), raw) } == 0 {
            return Ok(());
        }
        // SAFETY: refused, so it is still ours.
        match unsafe { Handle::<Task>::take(raw) } {
            Ok(task) => Err(task),
            // A host that forked inside `post` and came back in the child: nothing here is its.
            Err(_) => Ok(()),
        }
    }
}

impl Drop for HostExecutor {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the promise of `copy`; dropped once, with the engine's shared part.
            unsafe { release(self.ctx.get()) }
        }
    }
}
