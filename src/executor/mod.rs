//! Where tasks run: on the host's threads, on the crate's own, or nowhere (then the owner does the
//! work itself).

pub mod threads;

use crate::engine::Engine;
use std::sync::Arc;
use std::time::Duration;

/// Leave to do one unit of work. Ended by `run`, and by being discarded or dropped; a refused post
/// ends it too.
pub struct Task {
    // None once it has ended.
    engine: Option<Arc<Engine>>,
}

impl Task {
    pub(crate) fn new(engine: Arc<Engine>) -> Task {
        Task { engine: Some(engine) }
    }

    /// The executor did not take it; the engine sees to the rest.
    pub(crate) fn refused(mut self) {
        self.engine = None;
    }

    /// Does one unit of the most urgent work.
    pub fn run(mut self) {
        if let Some(engine) = self.engine.take() {
            engine.run_task();
        }
    }

    /// Ends the task without work.
    pub fn discard(self) {
        drop(self);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.discard_task();
        }
    }
}

/// Takes tasks to threads.
pub trait Executor: Send + Sync {
    /// Takes a task, or gives it back. Called with no lock held.
    fn post(&self, task: Task) -> Result<(), Task>;

    /// Whether a task that has done its unit may go on with the next at once. A host's threads are
    /// shared with others, so there one task is one unit.
    fn continues(&self) -> bool {
        false
    }

    /// Starts threads of its own now, which it would at the first task; false where it cannot.
    fn start(&self) -> bool {
        true
    }

    /// Takes no more tasks and waits for what is its own; false where the time did not suffice.
    fn stop(&self, _limit: Duration) -> bool {
        true
    }

    /// Threads of its own that are alive.
    fn threads(&self) -> u64 {
        0
    }
}
