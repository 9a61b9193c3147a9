//! The crate's own threads, from the crate `threadpool`.
//!
//! That crate starts its threads when the pool is built, unwraps a failed start, and leaves signal
//! masks to its user. So the pool is built at the first task (a process may load weft and fork
//! before) or when the host says so, with signals blocked meanwhile, and a failure to build refuses
//! the task.

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
    pool: Mutex<State>,
    setting: Arc<Setting>,
    census: Arc<Census>,
}

/// What a thread is given before its first task.
struct Setting {
    nice: u32,
    cpus: Option<Cpus>,
}

enum State {
    NotYet,
    Started(ThreadPool),
    Stopped,
}

/// Which threads there are.
#[derive(Default)]
struct Census {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    started: u64,
    /// Have begun a task, their first.
    entered: u64,
    ended: u64,
}

/// Counts its thread out when the thread ends.
struct Counted(Arc<Census>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.counts.lock().ended += 1;
        self.0.changed.notify_all();
    }
}

/// The first time on a thread of the pool: counts it in, and sets it up.
fn enter(setting: &Setting, census: &Arc<Census>) {
    COUNTED.with_borrow_mut(|counted| {
        counted.get_or_insert_with(|| {
            setting.apply();
            census.counts.lock().entered += 1;
            census.changed.notify_all();
            Counted(Arc::clone(census))
        });
    });
}

thread_local! {
    static COUNTED: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

impl Threads {
    /// `count` threads, none of them started, so many steps of nice(2) below the process, on the
    /// CPUs of this thread: whoever posts the first task may be bound to one.
    pub fn new(count: usize, nice: u32) -> Threads {
        let setting = Arc::new(Setting { nice, cpus: own_cpus() });
        Threads { count, pool: Mutex::new(State::NotYet), setting, census: Arc::default() }
    }

    /// Counts in the threads that had no task yet, so that the end of each can be waited for: each
    /// stays until all are there.
    fn call_the_roll(&self, pool: &ThreadPool) {
        for _ in 0..self.count {
            let (census, setting) = (Arc::clone(&self.census), Arc::clone(&self.setting));
            pool.execute(move || {
                enter(&setting, &census);
                let mut counts = census.counts.lock();
                while counts.entered < counts.started {
                    counts = census.changed.wait(counts, None);
                }
            });
        }
    }

    /// The pool, started when need be.
    fn pool(&self) -> Option<ThreadPool> {
        let mut state = self.pool.lock();
        if let State::NotYet = *state {
            // Held while the threads start: a second poster has to wait for them either way.
            *state = State::Started(start(self.count)?);
            self.census.counts.lock().started = self.count as u64;
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

#[cfg(target_os = "linux")]
type Cpus = rustix::thread::CpuSet;
#[cfg(not(target_os = "linux"))]
type Cpus = ();

/// Where this thread may run; None where the system does not say.
fn own_cpus() -> Option<Cpus> {
    #[cfg(target_os = "linux")]
    if !cfg!(weft_model) {
        return rustix::thread::sched_getaffinity(None).ok();
    }
    None
}

impl Setting {
    /// To this thread: on Linux a thread has a nice value (setpriority(2)) and CPUs of its own. One
    /// that may not have them works as well.
    fn apply(&self) {
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{getpriority_process, setpriority_process};
            if let Some(cpus) = &self.cpus
                && own_cpus().as_ref() != Some(cpus)
            {
                let _ = rustix::thread::sched_setaffinity(None, cpus);
            }
            if self.nice > 0 && !cfg!(weft_model) {
                let before = getpriority_process(None).unwrap_or(0);
                let nice = before.saturating_add(self.nice as i32).min(19);
                let _ = setpriority_process(None, nice);
            }
        }
    }
}

impl Executor for Threads {
    fn post(&self, task: Task) -> Result<(), Task> {
        let Some(pool) = self.pool() else {
            return Err(task);
        };
        let (census, setting) = (Arc::clone(&self.census), Arc::clone(&self.setting));
        pool.execute(move || {
            enter(&setting, &census);
            // A panic here would be a fault of the engine itself; it must not cost a thread.
            let _ = catch_unwind(AssertUnwindSafe(|| task.run()));
        });
        Ok(())
    }

    fn continues(&self) -> bool {
        true
    }

    fn start(&self) -> bool {
        self.pool().is_some()
    }

    fn stop(&self, limit: Duration) -> bool {
        let pool = std::mem::replace(&mut *self.pool.lock(), State::Stopped);
        if let State::Started(pool) = &pool {
            self.call_the_roll(pool);
        }
        // Without a sender the threads end once their queue is empty.
        drop(pool);
        let until = Instant::now() + limit;
        let mut counts = self.census.counts.lock();
        while counts.ended < counts.started {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            counts = self.census.changed.wait(counts, Some(left));
        }
        true
    }

    fn threads(&self) -> u64 {
        let counts = self.census.counts.lock();
        counts.started - counts.ended
    }
}
