//! A host: threads that run tasks, an executor that takes or refuses them, bells that loops hear.

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::mpsc::Receiver;
use shuttle::sync::{Condvar, Mutex};
use shuttle::thread;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weft::executor::{Executor, Task};

/// A number below `limit`, chosen by the model.
pub fn pick(limit: usize) -> usize {
    thread_rng().r#gen::<u64>() as usize % limit.max(1)
}

/// True once in `of` times.
pub fn chance(of: usize) -> bool {
    pick(of) == 0
}

/// What a host does with a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Post {
    Takes,
    RefusesAll,
    RefusesEverySecond,
    RefusesAtRandom,
    /// Runs it before the post returns.
    RunsInside,
    /// Takes it, and a task goes on with the next unit.
    Continues,
    /// Takes it, and gives it up.
    Discards,
    /// Takes it, gives it up once in three times.
    DiscardsSome,
}

/// What wakes a loop.
pub struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
    closed: AtomicBool,
}

impl Bell {
    pub fn new() -> Arc<Bell> {
        Arc::new(Bell {
            rung: Mutex::new(false),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
        })
    }

    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_all();
    }

    /// As `notify`: may not be under way once the queue is closed.
    pub fn ring_by_weft(&self) {
        assert!(!self.closed.load(Ordering::Relaxed), "notified after close");
        self.ring();
        assert!(!self.closed.load(Ordering::Relaxed), "close did not wait for notify");
    }

    pub fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

struct Posted {
    task: Task,
    by: thread::ThreadId,
}

#[derive(Default)]
struct Line {
    tasks: VecDeque<Posted>,
    closed: bool,
}

struct Inner {
    post: Post,
    max_running: usize,
    line: Mutex<Line>,
    changed: Condvar,
    // Tasks posted and not ended, as the host counts them.
    out: AtomicUsize,
    posts: AtomicUsize,
    bells: std::sync::Mutex<HashMap<thread::ThreadId, Arc<Bell>>>,
}

#[derive(Clone)]
pub struct Host(Arc<Inner>);

impl Host {
    pub fn new(post: Post, max_running: usize) -> Host {
        Host(Arc::new(Inner {
            post,
            max_running,
            line: Mutex::default(),
            changed: Condvar::new(),
            out: AtomicUsize::new(0),
            posts: AtomicUsize::new(0),
            bells: std::sync::Mutex::default(),
        }))
    }

    pub fn executor(&self) -> impl Executor + use<> {
        HostExecutor(Arc::clone(&self.0))
    }

    /// The calling thread hears by `bell` of the end of each task that it has posted.
    pub fn completes_here(&self, bell: &Arc<Bell>) {
        let id = thread::current().id();
        self.0.bells.lock().unwrap().insert(id, Arc::clone(bell));
    }

    /// A thread that runs tasks until the host closes.
    pub fn worker(&self) -> thread::JoinHandle<()> {
        let host = Arc::clone(&self.0);
        thread::spawn(move || {
            while let Some(posted) = host.next() {
                host.run(posted.task);
                // The task has ended for the host: now the completion event.
                let bell = host.bells.lock().unwrap().get(&posted.by).cloned();
                if let Some(bell) = bell {
                    bell.ring();
                }
            }
        })
    }

    /// A thread that runs one task for each word that comes, and all of them once none will come.
    pub fn worker_when(&self, may_run: Receiver<()>) -> thread::JoinHandle<()> {
        let host = Arc::clone(&self.0);
        thread::spawn(move || {
            loop {
                let _ = may_run.recv();
                match host.next() {
                    Some(posted) => host.run(posted.task),
                    None => break,
                }
            }
        })
    }

    /// How often it was asked to take a task.
    pub fn posts(&self) -> usize {
        self.0.posts.load(Ordering::Relaxed)
    }

    pub fn close(&self) {
        self.0.line.lock().unwrap().closed = true;
        self.0.changed.notify_all();
    }
}

impl Inner {
    fn next(&self) -> Option<Posted> {
        let mut line = self.line.lock().unwrap();
        loop {
            if let Some(task) = line.tasks.pop_front() {
                return Some(task);
            }
            if line.closed {
                return None;
            }
            line = self.changed.wait(line).unwrap();
        }
    }

    fn run(&self, task: Task) {
        let gives_up = match self.post {
            Post::Discards => true,
            Post::DiscardsSome => chance(3),
            _ => false,
        };
        // Taken off first: weft may post again before `run` returns.
        self.out.fetch_sub(1, Ordering::Relaxed);
        if gives_up { task.discard() } else { task.run() }
    }
}

struct HostExecutor(Arc<Inner>);

impl Executor for HostExecutor {
    fn post(&self, task: Task) -> Result<(), Task> {
        let host = &self.0;
        let count = host.posts.fetch_add(1, Ordering::Relaxed);
        let refuses = match host.post {
            Post::RefusesAll => true,
            Post::RefusesEverySecond => count.is_multiple_of(2),
            Post::RefusesAtRandom => chance(2),
            _ => false,
        };
        if refuses {
            // That takes its time too.
            thread::yield_now();
            return Err(task);
        }
        let out = host.out.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(out <= host.max_running, "{out} tasks posted");
        if host.post == Post::RunsInside {
            host.run(task);
            return Ok(());
        }
        let by = thread::current().id();
        host.line.lock().unwrap().tasks.push_back(Posted { task, by });
        host.changed.notify_all();
        Ok(())
    }

    fn continues(&self) -> bool {
        self.0.post == Post::Continues
    }
}
