//! Catching panics, cleaning up behind those that go on, and keeping those silent that are known and
//! dealt with.
//!
//! The message of a panic is written by the process-wide hook before anything can be caught. So a
//! hook is put in front of the one there, once, at the first segment that may panic: it is silent
//! where this thread says so, and hands everything else to the hook that was there. Inside a C
//! program that hook is the library's own, since its copy of Rust's standard library is (its symbols
//! are local). In a Rust program it is the program's, which sees every panic as before but those of
//! a segment that is then encoded another way.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static SILENT: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Runs `work` and catches its panic; without a message where `silent` says that one is expected.
pub fn catch<T>(silent: bool, work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    if !silent {
        return catch_unwind(AssertUnwindSafe(work));
    }
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !SILENT.try_with(Cell::get).unwrap_or(false) {
                before(panic);
            }
        }));
    });
    SILENT.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    SILENT.set(false);
    result
}

/// What must be done on the way out of a scope, though it be a panic's; unless it is cancelled.
pub struct Cleanup<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Cleanup<F> {
    /// Runs `work` when this is dropped.
    pub fn new(work: F) -> Cleanup<F> {
        Cleanup(Some(work))
    }

    /// There was no panic, and nothing is to be done.
    pub fn cancel(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for Cleanup<F> {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            // A second panic that left this would end the process.
            let _ = catch(false, work);
        }
    }
}
