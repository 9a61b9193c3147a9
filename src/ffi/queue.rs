//! `weft_queue_*`.

use super::guard::{Handle, guard, guard_or};
use super::types::*;
use crate::engine::Engine;
use crate::error::Status;
use crate::notify::Queue;
use core::ffi::c_void;
use std::sync::Arc;

/// A pointer of the host's that weft only hands back.
pub(crate) struct Context(pub(crate) *mut c_void);
// SAFETY: weft never looks behind it; the header says on which threads it is handed back.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Makes a queue for the calling thread. `notify`, which may be NULL, is called when the queue has
/// news after having had none, from any thread, this one included; it may only wake the loop (write
/// an eventfd, post an event), so that the loop then calls `weft_queue_dispatch`. Without it nothing
/// wakes the loop: the queue's thread itself must dispatch after its own calls into this engine, and
/// after each `weft_task_run` and `weft_task_discard` has returned, of which the host's pool must tell
/// it. That suffices where no other thread owns streams of the engine or shuts it down: their calls
/// can make news, too, and so can threads of weft's own, which tell nobody else.
///
/// # Safety
/// `engine` is NULL or a live engine; `queue` is valid for writing; `notify` may be called with
/// `ctx` until the queue is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_new(
    engine: *mut weft_engine,
    notify: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
    ctx: *mut c_void,
    queue: *mut *mut weft_queue,
) -> weft_status {
    guard(|| {
        if queue.is_null() {
            return Err(Status::Invalid);
        }
        // SAFETY: the caller's promise.
        let engine = unsafe { Handle::<Arc<Engine>>::get(engine) }?;
        let ctx = Context(ctx);
        let call = notify.map(|notify| {
            // SAFETY: the caller's promise lasts until the queue is freed, and `Queue::close`
            // waits for a call in progress.
            Box::new(move || unsafe { notify(ctx.get()) }) as crate::notify::Callback
        });
        let made = Queue::new(engine, call);
        // SAFETY: checked above.
        unsafe { queue.write(Handle::into_raw(made)) };
        Ok(WEFT_OK)
    })
}

/// Calls `on_ready` of each stream that has news, and posts tasks for segments that wait. Returns
/// how many callbacks it made; 0 for NULL and inside another dispatch of the same queue. The
/// queue's thread.
///
/// # Safety
/// `queue` is NULL or a live queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_dispatch(queue: *mut weft_queue) -> usize {
    guard_or(0, || {
        // SAFETY: the caller's promise. A clone, so that a callback may free the handle.
        match unsafe { Handle::<Arc<Queue>>::get(queue.cast_const()) } {
            Ok(queue) => Arc::clone(queue).dispatch(),
            Err(_) => 0,
        }
    })
}

/// Frees a queue. Waits for a `notify` in progress, so not from inside `notify`. Streams that name
/// it must be freed before, or not be used but to be freed. NULL is ignored. The queue's thread.
///
/// # Safety
/// `queue` is NULL or a live queue, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_queue_free(queue: *mut weft_queue) {
    // SAFETY: the caller's promise.
    if let Ok(live) = unsafe { Handle::<Arc<Queue>>::get(queue.cast_const()) } {
        guard_or((), || live.close());
    }
    // SAFETY: the caller's promise.
    unsafe { Handle::<Arc<Queue>>::free(queue) }
}
