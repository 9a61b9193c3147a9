//! `weft_task_*`: what a host's threads call.

use super::guard::{Handle, guard_or};
use super::types::*;
use crate::executor::Task;

/// Does one unit of work on the calling thread, and ends the task. NULL is ignored; in a child of
/// fork it does nothing. Any thread that runs no other task at the moment, or the one inside `post`.
///
/// # Safety
/// `task` is NULL, or was taken by `post` and neither run nor discarded yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_task_run(task: *mut weft_task) {
    // SAFETY: made by `into_raw` in `HostExecutor::post`, and given up by the caller.
    if let Ok(task) = unsafe { Handle::<Task>::take(task) } {
        guard_or((), move || task.run());
    }
}

/// Ends a task without running it, where the host's threads stop. When the last one is discarded
/// while segments are queued, their streams fail with `WEFT_E_SHUTDOWN` and the owners are woken.
/// NULL is ignored; in a child of fork it does nothing. Any thread.
///
/// # Safety
/// `task` is NULL, or was taken by `post` and neither run nor discarded yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_task_discard(task: *mut weft_task) {
    // SAFETY: as above.
    if let Ok(task) = unsafe { Handle::<Task>::take(task) } {
        guard_or((), move || task.discard());
    }
}
