//! The locks of the crate, and their stand-ins for the model tests.
//!
//! Every lock and condition variable is taken from here, so that `--cfg weft_model` puts the very
//! same engine under the scheduler of the crate `shuttle`. Atomics that only count stay std's. shuttle
//! knows no time: there a wait with a limit lasts until it is woken, which shows where only the limit
//! would ever end it.
//!
//! Lock order, outermost first: a stream's state or the schedule, then a queue's state. A stream's
//! state and the schedule are never held together; no lock is held while compressing, posting or
//! calling back.

#[cfg(not(weft_model))]
use std::sync as imp;

#[cfg(weft_model)]
use shuttle::sync as imp;

/// For flags that decide something: the model tests interleave at them too.
pub use imp::atomic::AtomicBool;

use std::time::Duration;

/// A mutex without poison: the state behind each lock of the crate is whole between statements that
/// can panic, and a stream that panicked is failed by name.
#[derive(Default)]
pub struct Mutex<T>(imp::Mutex<T>);

/// What `Mutex::lock` gives.
pub type Guard<'a, T> = imp::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    /// A new mutex.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(imp::Mutex::new(value))
    }

    /// Takes the lock.
    pub fn lock(&self) -> Guard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A condition variable over [`Mutex`].
#[derive(Default)]
pub struct Condvar(imp::Condvar);

impl Condvar {
    /// A new condition variable.
    pub fn new() -> Condvar {
        Condvar(imp::Condvar::new())
    }

    /// Wakes everyone that waits.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits for a wake-up, or for `limit` to pass where one is given.
    pub fn wait<'a, T>(&self, guard: Guard<'a, T>, limit: Option<Duration>) -> Guard<'a, T> {
        match limit {
            None => self.0.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner()),
            Some(limit) => {
                self.0.wait_timeout(guard, limit).unwrap_or_else(|poisoned| poisoned.into_inner()).0
            }
        }
    }
}
