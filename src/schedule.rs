//! Which segment is next.
//!
//! Segments wait here, not in the host's queue, so that the most urgent one runs first whenever a
//! task comes by: first those that an owner waits for (no earlier segment of the stream is under
//! way), then those read ahead; among them by virtual finish time, as in fair queueing. A stream's
//! virtual time grows by the estimated cost of what it ran, so a short body that arrives behind
//! long ones is next. And no stream waits for ever: a segment that is read ahead becomes one that is
//! waited for as soon as its predecessors are done, and the clock, from which new streams start,
//! moves on with all that is served.

use crate::segment::Segment;
use crate::shared::Core;
use crate::sync::Mutex;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// A segment on its way to an encoder.
pub struct Job {
    /// The stream it belongs to.
    pub core: Arc<Core>,
    /// Which of the stream's results it makes.
    pub slot: u64,
    /// What is to be encoded.
    pub segment: Segment,
    /// Estimated nanoseconds.
    pub cost: u64,
    /// When it was queued.
    pub queued: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    read_ahead: bool,
    finish: u64,
    stream: u64,
}

struct Entry {
    core: Arc<Core>,
    jobs: VecDeque<Job>,
    running: u32,
    /// Virtual finish time of what the stream ran last.
    time: u64,
    key: Option<Key>,
}

#[derive(Default)]
struct State {
    streams: HashMap<u64, Entry>,
    ready: BTreeSet<Key>,
    /// Of `streams`, those whose owners wait without a queue.
    without_queue: usize,
    clock: u64,
    queued: usize,
    queued_cost: u64,
    /// Units that run now.
    running: usize,
    /// Tasks posted or running, and owners that do a unit themselves.
    outstanding: usize,
    outstanding_peak: usize,
    /// Owners that are posting now: they look again when they are done.
    posting: usize,
    /// A task came back without having done its unit: another one would too. Holds until a unit is
    /// done, or no task is left.
    paused: bool,
    stopped: bool,
}

/// The schedule of one engine.
pub struct Schedule {
    state: Mutex<State>,
    max_running: usize,
}

/// What a task finds.
pub enum Next {
    /// This job is its unit now.
    Job(Box<Job>),
    /// Nothing is left; the task has ended.
    Ended,
}

/// What the end of a task leaves to do.
#[derive(Default)]
pub struct Left {
    /// Someone should come by and post again.
    pub kick: Vec<Arc<Core>>,
}

/// Figures of the schedule.
pub struct Load {
    /// Tasks posted or running.
    pub outstanding: usize,
    /// The most there ever were.
    pub outstanding_peak: usize,
    /// Segments waiting.
    pub queued: usize,
    /// Estimated nanoseconds of what waits.
    pub queued_cost: u64,
}

impl State {
    fn place(&mut self, stream: u64) {
        let clock = self.clock;
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        let before = entry.key.take();
        if let Some(old) = &before {
            self.ready.remove(old);
        }
        match entry.jobs.front() {
            Some(job) => {
                // Once placed, a segment keeps its turn, whatever else of its stream ends meanwhile.
                let finish = before.map_or_else(
                    || entry.time.max(clock).saturating_add(job.cost),
                    |before| before.finish,
                );
                let key = Key { read_ahead: entry.running > 0, finish, stream };
                entry.key = Some(key);
                self.ready.insert(key);
            }
            None if entry.running == 0 => {
                // Kept with the stream, so that pausing gains it nothing.
                let time = entry.time;
                if let Some(entry) = self.streams.remove(&stream) {
                    self.without_queue -= usize::from(entry.core.queue.is_none());
                    entry.core.set_virtual_time(time);
                }
            }
            None => {}
        }
    }

    fn take(&mut self) -> Option<Job> {
        let key = self.ready.pop_first()?;
        let entry = self.streams.get_mut(&key.stream)?;
        let job = entry.jobs.pop_front()?;
        entry.key = None;
        entry.running += 1;
        entry.time = key.finish;
        // The clock follows the start of what is served, and moves on by each one's share of it:
        // where short bodies never cease to come, each starts later than the one before, until a
        // long one's turn has come.
        self.clock = self.clock.max(key.finish.saturating_sub(job.cost));
        self.clock = self.clock.saturating_add(job.cost.div_ceil(self.streams.len() as u64));
        self.queued -= 1;
        self.queued_cost -= job.cost;
        self.running += 1;
        self.place(key.stream);
        Some(job)
    }

    /// Gives back what may be the last hold on the stream, to be let go without the lock.
    #[must_use]
    fn done(&mut self, stream: u64) -> Option<Arc<Core>> {
        self.running -= 1;
        self.paused = false;
        let entry = self.streams.get_mut(&stream)?;
        entry.running -= 1;
        let core = Arc::clone(&entry.core);
        self.place(stream);
        Some(core)
    }

    /// Whether a unit runs or the host holds a task. Of those being posted none is counted; one that
    /// has ended before its post returned hides another, but never one that runs.
    fn some_left(&self) -> bool {
        self.running > 0 || self.outstanding > self.posting
    }

    /// Whether segments wait that no posted task will come for.
    fn uncovered(&self) -> bool {
        self.queued + self.running > self.outstanding
    }

    /// Whom to wake so that tasks are posted for what waits.
    fn left(&self) -> Left {
        if self.queued == 0 || self.posting > 0 || !self.uncovered() || self.stopped {
            return Left::default();
        }
        let ready = || self.ready.iter().filter_map(|key| self.streams.get(&key.stream));
        // One event loop is enough. Owners without one must each look, also beside a loop: its thread
        // may be the one that waits.
        let a_loop = ready().find(|entry| entry.core.has_queue());
        let mut kick: Vec<Arc<Core>> =
            a_loop.map(|entry| Arc::clone(&entry.core)).into_iter().collect();
        if kick.is_empty() || self.without_queue > 0 {
            let owners = ready().filter(|entry| !entry.core.has_queue());
            kick.extend(owners.map(|entry| Arc::clone(&entry.core)));
        }
        Left { kick }
    }
}

impl Schedule {
    /// At most `max_running` tasks at once.
    pub fn new(max_running: usize) -> Schedule {
        Schedule { state: Mutex::default(), max_running }
    }

    /// Queues a segment. Gives it back once the schedule is stopped.
    pub fn push(&self, job: Job) -> Result<(), Box<Job>> {
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Box::new(job));
        }
        let stream = job.core.id();
        state.queued += 1;
        state.queued_cost += job.cost;
        let entry = state.entry(&job.core);
        entry.jobs.push_back(job);
        if entry.jobs.len() == 1 {
            state.place(stream);
        }
        Ok(())
    }

    /// Reserves a task if one more should be posted; then `posted` must be called.
    pub fn wants_task(&self) -> bool {
        let mut state = self.state.lock();
        state.paused &= state.some_left();
        let wanted = !state.stopped
            && !state.paused
            && state.queued > 0
            && state.uncovered()
            && state.outstanding < self.max_running;
        if wanted {
            state.posting += 1;
            state.reserve();
        }
        wanted
    }

    /// The post has returned. A refused one ends the task; `Some` says that no task at all is left,
    /// and with `take` it is the job that the caller must do itself.
    pub fn posted(&self, accepted: bool, take: bool) -> Option<Result<Box<Job>, Left>> {
        let mut state = self.state.lock();
        state.posting -= 1;
        if accepted {
            return None;
        }
        state.outstanding -= 1;
        if state.outstanding > 0 || state.queued == 0 {
            return None;
        }
        if take && let Some(job) = state.take() {
            state.reserve();
            return Some(Ok(Box::new(job)));
        }
        Some(Err(state.left()))
    }

    /// The next job for a task, or the end of it.
    pub fn next(&self) -> Next {
        let mut state = self.state.lock();
        match state.take() {
            Some(job) => Next::Job(Box::new(job)),
            None => {
                state.outstanding -= 1;
                Next::Ended
            }
        }
    }

    /// A unit is done, and its task goes on.
    pub fn unit_done(&self, stream: u64) {
        let core = self.state.lock().done(stream);
        drop(core);
    }

    /// A unit is done, and its task has ended with it.
    pub fn task_done(&self, stream: u64) -> Left {
        let (core, left) = {
            let mut state = self.state.lock();
            let core = state.done(stream);
            state.outstanding -= 1;
            (core, state.left())
        };
        drop(core);
        left
    }

    /// A unit for which no memory could be had goes back, and its task ends, if others run: they
    /// will free memory and see it, and until then no task is posted, which would only come back.
    /// Otherwise it is given back, to be run all the same.
    pub fn put_back(&self, job: Box<Job>) -> Option<Box<Job>> {
        let mut state = self.state.lock();
        // A dead stream's is no one's to run later: cancel has been here, or waits for the lock.
        if state.running <= 1 || state.stopped || job.core.is_dead() {
            return Some(job);
        }
        let stream = job.core.id();
        state.paused = true;
        state.running -= 1;
        state.outstanding -= 1;
        state.queued += 1;
        state.queued_cost += job.cost;
        // It is there: the unit that runs holds it.
        let entry = state.entry(&job.core);
        entry.running -= 1;
        entry.time = entry.time.saturating_sub(job.cost);
        entry.jobs.push_front(*job);
        let behind = entry.key.take();
        if let Some(key) = behind {
            state.ready.remove(&key);
        }
        state.place(stream);
        None
    }

    /// A task was given up by the host. The last one that it has takes what is queued with it. A
    /// host that gives up all that it gets must come to that: so those still being posted do not
    /// count, and after the first no more are posted until one of the rest has done a unit.
    pub fn discard(&self) -> Vec<Job> {
        let mut state = self.state.lock();
        state.outstanding -= 1;
        state.paused = state.some_left();
        if state.paused { Vec::new() } else { state.drain() }
    }

    /// Removes what a stream has queued.
    pub fn cancel(&self, stream: u64) -> Vec<Job> {
        let mut state = self.state.lock();
        let Some(entry) = state.streams.get_mut(&stream) else {
            return Vec::new();
        };
        let jobs: Vec<Job> = entry.jobs.drain(..).collect();
        state.forget(&jobs);
        state.place(stream);
        jobs
    }

    /// Queues nothing more and gives back what is queued.
    pub fn stop(&self) -> Vec<Job> {
        let mut state = self.state.lock();
        state.stopped = true;
        state.drain()
    }

    /// Whether enough waits already to keep every thread at work.
    pub fn is_busy(&self) -> bool {
        self.state.lock().queued >= self.max_running
    }

    /// Figures.
    pub fn load(&self) -> Load {
        let state = self.state.lock();
        Load {
            outstanding: state.outstanding,
            outstanding_peak: state.outstanding_peak,
            queued: state.queued,
            queued_cost: state.queued_cost,
        }
    }
}

impl State {
    fn entry(&mut self, core: &Arc<Core>) -> &mut Entry {
        self.streams.entry(core.id()).or_insert_with(|| {
            self.without_queue += usize::from(core.queue.is_none());
            Entry {
                core: Arc::clone(core),
                jobs: VecDeque::new(),
                running: 0,
                time: core.virtual_time(),
                key: None,
            }
        })
    }

    fn reserve(&mut self) {
        self.outstanding += 1;
        self.outstanding_peak = self.outstanding_peak.max(self.outstanding);
    }

    fn forget(&mut self, jobs: &[Job]) {
        self.queued -= jobs.len();
        self.queued_cost -= jobs.iter().map(|job| job.cost).sum::<u64>();
    }

    fn drain(&mut self) -> Vec<Job> {
        let streams: Vec<u64> = self.streams.keys().copied().collect();
        let mut all = Vec::new();
        for stream in streams {
            if let Some(entry) = self.streams.get_mut(&stream) {
                all.extend(entry.jobs.drain(..));
            }
            self.place(stream);
        }
        self.forget(&all);
        all
    }
}
