//! The threads of a host: tasks that wait until the script wants them run, in whatever order, on
//! whatever thread, or not at all.

use crate::c_interface::*;
use core::ffi::{c_int, c_void};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{JoinHandle, ThreadId, current, spawn};

/// What the executor does when it is given a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Post {
    /// Keeps it.
    Takes,
    /// Does not take it.
    Refuses,
    /// Does not take every second one.
    RefusesSome,
    /// Runs it before it returns.
    RunsInside,
    /// Has a thread run it at once.
    RunsBeside,
    /// Gives it up before it returns.
    DiscardsInside,
}

/// A task that was taken. Any thread may end it.
struct Task(*mut weft_task);
// SAFETY: the header says so.
unsafe impl Send for Task {}

/// See the module.
pub struct Host {
    /// What it does with the next.
    pub post: Cell<Post>,
    /// Tasks that may be out at once.
    pub max_running: usize,
    /// Whether a task was given up, or the engine shut down: streams may fail.
    pub excuse: Cell<bool>,
    owner: ThreadId,
    posts: Cell<usize>,
    tasks: Mutex<Vec<Task>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    released: AtomicUsize,
}

impl Host {
    /// A host of the calling thread, which holds no task.
    pub fn new(post: Post, max_running: usize) -> Box<Host> {
        Box::new(Host {
            post: Cell::new(post),
            max_running,
            excuse: Cell::new(false),
            owner: current().id(),
            posts: Cell::new(0),
            tasks: Mutex::default(),
            threads: Mutex::default(),
            released: AtomicUsize::new(0),
        })
    }

    /// As weft wants it. The host must stay where it is until it is released.
    pub fn executor(&self) -> weft_executor {
        weft_executor {
            struct_size: size_of::<weft_executor>(),
            ctx: std::ptr::from_ref(self).cast_mut().cast(),
            post: Some(post),
            release: Some(release),
        }
    }

    /// How often weft has let go of it.
    pub fn released(&self) -> usize {
        self.released.load(Ordering::Relaxed)
    }

    /// Tasks that wait to be run.
    pub fn waiting(&self) -> usize {
        self.tasks.lock().unwrap().len()
    }

    fn take(&self, index: usize) -> Option<Task> {
        let mut tasks = self.tasks.lock().unwrap();
        let count = tasks.len();
        (count > 0).then(|| tasks.remove(index % count))
    }

    /// Runs one of those that wait; false when none does.
    pub fn run(&self, index: usize) -> bool {
        let Some(task) = self.take(index) else { return false };
        // SAFETY: taken, and ended once.
        unsafe { weft_task_run(task.0) };
        true
    }

    /// The same on another thread; with `beside` it goes on while the owner does.
    pub fn run_elsewhere(&self, index: usize, beside: bool) {
        if let Some(task) = self.take(index) {
            self.start(task);
            if !beside {
                self.join();
            }
        }
    }

    /// Gives one of those that wait up.
    pub fn discard(&self, index: usize) {
        if let Some(task) = self.take(index) {
            self.excuse.set(true);
            // SAFETY: taken, and ended once.
            unsafe { weft_task_discard(task.0) };
        }
    }

    fn start(&self, task: Task) {
        let run = move || {
            let task = task;
            // SAFETY: taken, and ended once.
            unsafe { weft_task_run(task.0) }
        };
        self.threads.lock().unwrap().push(spawn(run));
    }

    /// Waits for the threads that run tasks; whether there were any.
    pub fn join(&self) -> bool {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap());
        let any = !threads.is_empty();
        for thread in threads {
            thread.join().expect("a task does not panic");
        }
        any
    }
}

unsafe extern "C" fn post(ctx: *mut c_void, task: *mut weft_task) -> c_int {
    // SAFETY: a host outlives its engine.
    let host = unsafe { &*ctx.cast::<Host>() };
    assert!(current().id() == host.owner, "post on another thread than the owner's");
    assert!(host.released() == 0, "post after release");
    assert!(host.waiting() < host.max_running, "more tasks than max_running");
    let count = host.posts.get();
    host.posts.set(count + 1);
    let task = Task(task);
    match host.post.get() {
        Post::Refuses => return 1,
        Post::RefusesSome if count.is_multiple_of(2) => return -1,
        Post::Takes | Post::RefusesSome => host.tasks.lock().unwrap().push(task),
        // SAFETY: taken, and ended once.
        Post::RunsInside => unsafe { weft_task_run(task.0) },
        Post::RunsBeside => host.start(task),
        Post::DiscardsInside => {
            host.excuse.set(true);
            // SAFETY: taken, and ended once.
            unsafe { weft_task_discard(task.0) }
        }
    }
    0
}

unsafe extern "C" fn release(ctx: *mut c_void) {
    // SAFETY: a host outlives its engine.
    let host = unsafe { &*ctx.cast::<Host>() };
    host.released.fetch_add(1, Ordering::Relaxed);
}
