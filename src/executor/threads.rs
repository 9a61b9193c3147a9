//! The crate's own threads, from the crate `threadpool`.
//!
//! That crate starts its threads when the pool is built, unwraps a failed start, and leaves signal
//! masks to its user. So the pool is built at the first task (a process may load weft and fork
//! before), with signals blocked meanwhile, and a failure to build refuses the task.

use super::{Executor, Task};
use crate::sync::{Condvar, Mutex};
use nix::sys::signal::{SigSet, Signal};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use threadpool::ThreadPool;

/// Own threads.
pub struct Threads {
    count: usize,
    nice: u32,
    pool: Mutex<State>,
    alive: Arc<Alive>,
}

enum State {
    NotYet,
    Started(ThreadPool),
    Stopped,
}

/// Threads that have run a task and not ended.
#[derive(Default)]
struct Alive {
    count: Mutex<u64>,
    ended: Condvar,
}

/// Counts its thread out when the thread ends.
struct Counted(Arc<Alive>);

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.ended.notify_all();
    }
}

thread_local! {
    static COUNTED: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

impl Threads {
    /// `count` threads, none of them started, so many steps of nice(2) below the process.
    pub fn new(count: usize, nice: u32) -> Threads {
        Threads { count, nice, pool: Mutex::new(State::NotYet), alive: Arc::default() }
    }

    /// The pool, started when need be.
    fn pool(&self) -> Option<ThreadPool> {
        let mut state = self.pool.lock();
        if let State::NotYet = *state {
            // Held while the threads start: a second poster has to wait for them either way.
            *state = State::Started(start(self.count)?);
        }
        match &*state {
            State::Started(pool) => Some(pool.clone()),
            _ => None,
        }
    }
}

/// Builds the pool with all signals blocked that someone else can send: the host's handlers run on
/// the host's threads. What a fault of this very thread raises stays, for the host's crash handler.
fn start(count: usize) -> Option<ThreadPool> {
    let mut mask = SigSet::all();
    for fault in [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGILL,
        Signal::SIGFPE,
        Signal::SIGABRT,
        Signal::SIGTRAP,
        Signal::SIGSYS,
    ] {
        mask.remove(fault);
    }
    let before = SigSet::thread_get_mask().ok()?;
    mask.thread_block().ok()?;
    let built = catch_unwind(|| {
        threadpool::Builder::new().num_threads(count).thread_name("weft".into()).build()
    });
    let _ = before.thread_set_mask();
    built.ok()
}

/// Of this thread: on Linux a thread has a nice value of its own (setpriority(2)). One that may not be
/// lowered works as well.
fn lower_priority(steps: u32) {
    #[cfg(target_os = "linux")]
    if steps > 0 && !cfg!(weft_model) {
        use rustix::process::{getpriority_process, setpriority_process};
        let before = getpriority_process(None).unwrap_or(0);
        let _ = setpriority_process(None, before.saturating_add(steps as i32).min(19));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = steps;
}

impl Executor for Threads {
    fn post(&self, task: Task) -> Result<(), Task> {
        let Some(pool) = self.pool() else {
            return Err(task);
        };
        let (alive, nice) = (Arc::clone(&self.alive), self.nice);
        pool.execute(move || {
            COUNTED.with_borrow_mut(|counted| {
                counted.get_or_insert_with(|| {
                    lower_priority(nice);
                    *alive.count.lock() += 1;
                    Counted(alive)
                });
            });
            // A panic here would be a fault of the engine itself; it must not cost a thread.
            let _ = catch_unwind(AssertUnwindSafe(|| task.run()));
        });
        Ok(())
    }

    fn continues(&self) -> bool {
        true
    }

    fn stop(&self, limit: Duration) -> bool {
        // Without a sender the threads end once their queue is empty.
        let pool = std::mem::replace(&mut *self.pool.lock(), State::Stopped);
        drop(pool);
        let until = Instant::now() + limit;
        let mut count = self.alive.count.lock();
        while *count > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            count = self.alive.ended.wait(count, Some(left));
        }
        true
    }

    fn threads(&self) -> u64 {
        *self.alive.count.lock()
    }
}
