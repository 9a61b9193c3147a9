//! The shared object: executor, schedule, idle encoders, memory account, counters.

use crate::budget::Budget;
use crate::buffer::Buffer;
use crate::codec::{Extent, Fault, Kind, Params, Window};
use crate::error::Status;
use crate::executor::threads::Threads;
use crate::executor::{Executor, Task};
use crate::quiet::{self, Cleanup};
use crate::retain::{Loan, Retain, Retention};
use crate::schedule::{Job, Left, Next, Schedule};
use crate::shared::Output;
use crate::stats::{CodecStats, Counters, EngineStats, Times, Timing};
use crate::sync::{AtomicBool, Condvar, Mutex};
use nix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Who compresses.
pub enum Workers {
    /// The owner, inside its calls.
    Inline,
    /// So many threads of the crate's own.
    Threads(u32),
    /// The host's threads.
    Host(Box<dyn Executor>),
}

/// Options of an engine; `weft_engine_options` in `include/weft.h` says what each means.
#[allow(missing_docs, reason = "the same names stand, documented, in weft_engine_options")]
pub struct Options {
    pub workers: Workers,
    pub max_running: u32,
    pub max_memory: u64,
    pub retention: Retention,
    pub retain_bytes: u64,
    pub overload_ms: u32,
    pub idle_encoders: u32,
    pub overload_refuse_ms: u32,
    pub thread_nice: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            workers: Workers::Inline,
            max_running: 0,
            max_memory: 0,
            retention: Retention::Bounded,
            retain_bytes: 64 << 20,
            overload_ms: 2000,
            idle_encoders: u32::MAX,
            overload_refuse_ms: 0,
            thread_nice: 0,
        }
    }
}

/// The lowest priority of Linux is so many steps below the usual one.
const NICE_MOST: u32 = 19;

/// More threads than any machine gains from are a mistake in the options.
pub const THREADS_MOST: u32 = 1024;

/// A year, which can be added to any time.
const WAIT_MOST: Duration = Duration::from_secs(365 * 24 * 3600);

/// See the module.
pub struct Engine {
    me: Weak<Engine>,
    executor: Option<Box<dyn Executor>>,
    schedule: Schedule,
    store: Arc<Retain>,
    budget: Arc<Budget>,
    pub(crate) counters: Counters,
    max_running: u32,
    overload_ns: u64,
    refuse_ns: u64,
    stopping: AtomicBool,
    streams: AtomicU64,
    task_ended: Condvar,
    // Guards nothing: pairs the check of the schedule with the wait.
    ending: Mutex<()>,
}

/// What encoding one segment needs, all of it charged.
pub(crate) struct Kit {
    loan: Loan,
    out: Buffer,
    join: Option<Buffer>,
}

/// How a unit ended.
enum Unit {
    Done,
    /// No memory for it now; its task has ended.
    PutBack,
}

/// What came of a job.
enum Encoded {
    Result(Result<Output, Fault>, Spent),
    /// Its stream is gone.
    Dead,
    /// No memory for it now; its task has ended.
    PutBack,
}

/// Why a stream may not begin as asked.
pub(crate) enum Admission {
    Yes,
    Memory,
    Overload,
    Refused,
}

impl Engine {
    /// A new engine, without threads yet.
    pub fn new(options: Options) -> Result<Arc<Engine>, Status> {
        let (executor, threads): (Option<Box<dyn Executor>>, u32) = match options.workers {
            Workers::Inline | Workers::Threads(0) => (None, 1),
            Workers::Threads(count) if count <= THREADS_MOST => {
                (Some(Box::new(Threads::new(count as usize, options.thread_nice))), count)
            }
            Workers::Threads(_) => return Err(Status::Invalid),
            Workers::Host(executor) => (Some(executor), 1),
        };
        if options.max_running > THREADS_MOST || options.thread_nice > NICE_MOST {
            return Err(Status::Invalid);
        }
        let max_running = if options.max_running == 0 { threads } else { options.max_running };
        let budget = Budget::new(options.max_memory);
        Ok(Arc::new_cyclic(|me| Engine {
            me: Weak::clone(me),
            executor,
            schedule: Schedule::new(max_running as usize),
            store: Retain::new(
                options.retention,
                options.retain_bytes,
                options.idle_encoders,
                Arc::clone(&budget),
            ),
            budget,
            counters: Counters::default(),
            max_running,
            overload_ns: u64::from(options.overload_ms) * 1_000_000,
            refuse_ns: u64::from(options.overload_refuse_ms) * 1_000_000,
            stopping: AtomicBool::new(false),
            streams: AtomicU64::new(0),
            task_ended: Condvar::new(),
            ending: Mutex::new(()),
        }))
    }

    /// Starts threads of the engine's own now.
    pub fn start(&self) -> Result<(), Status> {
        if self.is_stopping() {
            return Err(Status::Shutdown);
        }
        match self.executor.as_ref().is_none_or(|executor| executor.start()) {
            true => Ok(()),
            false => Err(Status::NoMemory),
        }
    }

    pub(crate) fn store(&self) -> &Arc<Retain> {
        &self.store
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn is_inline(&self) -> bool {
        self.executor.is_none()
    }

    /// Whether reading ahead would only make segments wait, and hold memory meanwhile.
    pub(crate) fn is_busy(&self) -> bool {
        self.schedule.is_busy()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn next_stream(&self) -> u64 {
        self.streams.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether a stream may begin that holds `bytes` for such a first segment.
    pub(crate) fn admit(&self, params: &Params, first: Extent, bytes: usize) -> Admission {
        let limit = self.budget.limit();
        if limit != u64::MAX {
            let encoder = params.encoder_memory(first);
            let held = self.store.holding();
            // One encoder must fit beside it, unless one of that size is there already.
            let there = held.largest_idle >= encoder || held.encoders_running > 0;
            let need = (bytes + if there { 0 } else { encoder }) as u64;
            let fits = || self.budget.used().saturating_add(need) <= limit;
            let ever = (bytes + encoder) as u64 <= limit;
            if !ever || !(fits() || (self.trim(), fits()).1) {
                return Admission::Memory;
            }
        }
        if self.overload_ns > 0 && self.executor.is_some() {
            let queued = self.schedule.load().queued_cost;
            let wait = queued / u64::from(self.max_running);
            if self.refuse_ns > 0 && wait > self.refuse_ns {
                return Admission::Refused;
            }
            if wait > self.overload_ns {
                return Admission::Overload;
            }
        }
        Admission::Yes
    }

    /// Queues a segment and sees to it that a task comes for it.
    pub(crate) fn submit(&self, job: Job) {
        if let Err(job) = self.schedule.push(job) {
            job.core.complete(
                self,
                job.slot,
                job.segment.input.len(),
                Err(shut_down()),
                Spent::default(),
            );
            return;
        }
        self.pump(true);
    }

    /// Posts tasks for what waits. With `may_run` the caller, an owner, does one unit itself where
    /// every post is refused and no task is left: nothing else would ever run it. True says that
    /// segments still wait and no task is left; someone was kicked to come by.
    pub(crate) fn pump(&self, may_run: bool) -> bool {
        let Some(executor) = &self.executor else {
            return false;
        };
        let mut may_run = may_run;
        while self.schedule.wants_task() {
            let Some(me) = self.me.upgrade() else { return false };
            // Where the post panics, the task is dropped, which ends it.
            let posting = Cleanup::new(|| drop(self.schedule.posted(true, false)));
            let accepted = match executor.post(Task::new(me)) {
                Ok(()) => true,
                Err(task) => {
                    task.refused();
                    self.counters.post_refused();
                    false
                }
            };
            posting.cancel();
            let posted = self.schedule.posted(accepted, may_run);
            if !accepted {
                self.announce_end();
            }
            match posted {
                None if accepted => {}
                None => return false,
                Some(Ok(job)) => {
                    may_run = false;
                    let (stream, kind) = (job.core.id(), job.core.params().kind);
                    if let Unit::Done = self.run_unit_of_task(job, Timing::Inline) {
                        self.counters.of(kind).segments_refused.add(1);
                        // What it leaves is looked at by the next round.
                        self.schedule.task_done(stream);
                    }
                    self.announce_end();
                }
                Some(Err(left)) => {
                    let waits = !left.kick.is_empty();
                    self.kick(left);
                    return waits;
                }
            }
        }
        false
    }

    fn kick(&self, left: Left) {
        for core in left.kick {
            core.kick();
        }
    }

    /// A task, on whatever thread.
    pub(crate) fn run_task(&self) {
        let continues = self.executor.as_ref().is_some_and(|executor| executor.continues());
        loop {
            let job = match self.schedule.next() {
                Next::Job(job) => job,
                Next::Ended => break,
            };
            let (stream, kind) = (job.core.id(), job.core.params().kind);
            let unit = self.run_unit_of_task(job, Timing::Run);
            if let Unit::Done = unit {
                self.counters.of(kind).segments_tasks.add(1);
            }
            match unit {
                Unit::PutBack => break,
                Unit::Done if continues => {
                    self.schedule.unit_done(stream);
                    // A task that had ended for lack of memory may find some now.
                    self.pump(false);
                }
                Unit::Done => {
                    let left = self.schedule.task_done(stream);
                    self.kick(left);
                    break;
                }
            }
        }
        self.announce_end();
    }

    /// A task that the host gave up.
    pub(crate) fn discard_task(&self) {
        let jobs = self.schedule.discard();
        self.fail_all(jobs);
        self.announce_end();
    }

    fn fail_all(&self, jobs: Vec<Job>) {
        for job in jobs {
            job.core.complete(
                self,
                job.slot,
                job.segment.input.len(),
                Err(shut_down()),
                Spent::default(),
            );
        }
    }

    fn announce_end(&self) {
        if self.is_stopping() {
            drop(self.ending.lock());
            self.task_ended.notify_all();
        }
    }

    /// A unit, and the end of its task where a callback of the host's panics.
    fn run_unit_of_task(&self, job: Box<Job>, timing: Timing) -> Unit {
        let stream = job.core.id();
        let task = Cleanup::new(|| {
            let left = self.schedule.task_done(stream);
            self.announce_end();
            self.kick(left);
        });
        let unit = self.run_unit(job, timing);
        task.cancel();
        unit
    }

    fn run_unit(&self, job: Box<Job>, timing: Timing) -> Unit {
        let (core, slot) = (Arc::clone(&job.core), job.slot);
        let input = job.segment.input.len();
        let (result, spent) = match quiet::catch(false, || self.encode_job(job, timing)) {
            Ok(Encoded::Result(result, spent)) => (result, spent),
            Ok(Encoded::Dead) => return Unit::Done,
            Ok(Encoded::PutBack) => return Unit::PutBack,
            // A fault of the engine's own. Its stream must hear of it, or wait for ever.
            Err(_) => {
                let text = "the engine panicked".into();
                (Err(Fault { status: Status::Panic, text }), Spent::default())
            }
        };
        core.complete(self, slot, input, result, spent);
        Unit::Done
    }

    fn encode_job(&self, mut job: Box<Job>, timing: Timing) -> Encoded {
        let waited = job.queued.elapsed();
        let mut force = false;
        let kit = loop {
            if job.core.is_dead() {
                return Encoded::Dead;
            }
            let segment = &job.segment;
            match self.kit(job.core.params(), segment.extent(), segment.join_len(), force) {
                Ok(Some(kit)) => break Ok(kit),
                Ok(None) => match self.schedule.put_back(job) {
                    Some(back) => (job, force) = (back, true),
                    None => return Encoded::PutBack,
                },
                Err(status) => break Err(status),
            }
        };
        let cpu = thread_cpu();
        let result = match kit {
            Ok(kit) => {
                let Kit { loan, out, mut join } = kit;
                let window = job.segment.window(&mut join);
                self.encode(job.core.params(), loan, out, &window)
            }
            Err(status) => Err(Fault { status, text: "no memory for an encoder".into() }),
        };
        let spent = Spent { cpu: thread_cpu().saturating_sub(cpu), waited };
        self.counters.record(Timing::Queue, waited);
        self.counters.record(timing, job.queued.elapsed().saturating_sub(waited));
        Encoded::Result(result, spent)
    }

    /// What encoding such a segment needs. `None`: not within the memory limit.
    pub(crate) fn kit(
        &self,
        params: &Params,
        extent: Extent,
        join: usize,
        force: bool,
    ) -> Result<Option<Kit>, Status> {
        let store = &self.store;
        let Some(out) = Buffer::within_limit(params.output_bound(extent.input), store, force)?
        else {
            return Ok(None);
        };
        let join = if join == 0 {
            None
        } else {
            match Buffer::within_limit(join, store, force)? {
                Some(room) => Some(room),
                None => return Ok(None),
            }
        };
        let loan = store.take_encoder(params, extent, force)?;
        Ok(loan.map(|loan| Kit { loan, out, join }))
    }

    /// A last segment without bytes, whose output is `bytes`.
    pub(crate) fn close_here(&self, params: &Params, bytes: &[u8]) -> Result<Output, Status> {
        let mut out = Buffer::new(bytes.len(), &self.store)?;
        out.append(bytes);
        let counters = self.counters.of(params.kind);
        counters.bytes_out.add(bytes.len() as u64);
        counters.segments_inline.add(1);
        self.counters.record(Timing::Inline, Duration::ZERO);
        Ok(Output::new(out, 0, params.digest(&[])))
    }

    /// Encodes in the calling thread. `join` must be empty in the kit.
    pub(crate) fn encode_here(
        &self,
        params: &Params,
        kit: Kit,
        window: &Window<'_>,
    ) -> (Result<Output, Fault>, Spent) {
        let began = Instant::now();
        let result = self.encode(params, kit.loan, kit.out, window);
        let cpu = began.elapsed();
        self.counters.of(params.kind).segments_inline.add(1);
        self.counters.record(Timing::Inline, cpu);
        (result, Spent { cpu, waited: Duration::ZERO })
    }

    fn encode(
        &self,
        params: &Params,
        mut loan: Loan,
        mut out: Buffer,
        window: &Window<'_>,
    ) -> Result<Output, Fault> {
        let mut window = *window;
        let range = loop {
            let encoder = &mut loan.encoder;
            let encoded = quiet::catch(params.may_panic(&window), || {
                encoder.encode(params, &window, out.room_mut())
            });
            let panic = match encoded {
                Ok(Ok(range)) => {
                    self.store.give_encoder(loan);
                    break range;
                }
                Ok(Err(fault)) => {
                    drop(loan);
                    return Err(fault);
                }
                Err(panic) => panic,
            };
            drop(loan);
            if let Some(status) = panic.downcast_ref::<Status>() {
                return Err(Fault { status: *status, text: status.to_string() });
            }
            // What goes wrong with history (src/codec/brotli.rs) goes well without. Which of the two
            // it was depends on the bytes only, so the output still does.
            if window.history().is_empty() {
                let text = format!("the {:?} encoder panicked", params.kind);
                return Err(Fault { status: Status::Panic, text });
            }
            self.counters.of(params.kind).segments_again.add(1);
            window = window.without_history();
            loan = self.another_encoder(params, window.extent())?;
        };
        let digest = params.digest(window.input());
        let counters = self.counters.of(params.kind);
        counters.bytes_in.add(window.input().len() as u64);
        counters.bytes_out.add(range.len() as u64);
        out.set_len(range.end);
        if range.len() > out.capacity() / 2 {
            return Ok(Output::new(out, range.start, digest));
        }
        // The room was for the worst case; what waits for the client shall not hold it.
        let mut exact = match Buffer::new(range.len(), &self.store) {
            Ok(exact) => exact,
            Err(_) => return Ok(Output::new(out, range.start, digest)),
        };
        exact.append(&out.bytes()[range]);
        Ok(Output::new(exact, 0, digest))
    }

    fn another_encoder(&self, params: &Params, extent: Extent) -> Result<Loan, Fault> {
        let loan = self.store.take_encoder(params, extent, true).transpose();
        let loan = loan.unwrap_or(Err(Status::NoMemory));
        loan.map_err(|status| Fault { status, text: "no memory for an encoder".into() })
    }

    /// Removes what a stream has queued.
    pub(crate) fn cancel(&self, stream: u64) -> Vec<Job> {
        self.schedule.cancel(stream)
    }

    /// Gives idle encoders and buffers back to the system.
    pub fn trim(&self) {
        self.store.trim();
    }

    /// Stops the engine; true when no task and no thread of its own is left after at most `limit`.
    pub fn shutdown(&self, limit: Duration) -> bool {
        self.stopping.store(true, Ordering::Release);
        let jobs = self.schedule.stop();
        self.fail_all(jobs);
        let until = Instant::now() + limit.min(WAIT_MOST);
        {
            let mut ending = self.ending.lock();
            while self.schedule.load().outstanding > 0 {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                ending = self.task_ended.wait(ending, Some(left));
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        let stopped = self.executor.as_ref().is_none_or(|executor| executor.stop(left));
        stopped && self.schedule.load().outstanding == 0
    }

    /// All figures.
    pub fn stats(&self) -> EngineStats {
        let (c, load) = (self.counters.sum(None), self.schedule.load());
        let held = self.store.holding();
        EngineStats {
            streams_begun: c.streams_begun,
            streams_done: c.streams_done,
            streams_failed: c.streams_failed,
            streams_cancelled: c.streams_cancelled,
            streams_live: c.streams_live,
            refused_memory: c.refused_memory,
            refused_overload: c.refused_overload,
            overload_lowered: c.overload_lowered,
            bytes_in: c.bytes_in,
            bytes_out: c.bytes_out,
            segments_inline: c.segments_inline,
            segments_tasks: c.segments_tasks,
            segments_refused: c.segments_refused,
            posts_refused: self.counters.posts_refused(),
            segments_again: c.segments_again,
            tasks_outstanding: load.outstanding as u64,
            tasks_peak: load.outstanding_peak as u64,
            segments_queued: load.queued as u64,
            cpu_ns: c.cpu_ns,
            queue_ns: c.queue_ns,
            memory: self.budget.used(),
            memory_peak: self.budget.peak(),
            memory_idle_encoders: held.encoder_bytes,
            memory_idle_buffers: held.block_bytes,
            encoders_idle: held.encoders_idle,
            encoders_running: held.encoders_running,
            encoders_made: held.encoders_made,
            threads: self.executor.as_ref().map_or(0, |executor| executor.threads()),
            refused_shutdown: c.refused_shutdown,
        }
    }

    /// The figures of one codec.
    pub fn codec_stats(&self, kind: Kind) -> CodecStats {
        self.counters.sum(Some(kind))
    }

    /// How long segments took.
    pub fn times(&self, timing: Timing) -> Times {
        self.counters.times(timing)
    }
}

/// What a unit took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    pub(crate) waited: Duration,
}

fn shut_down() -> Fault {
    Fault { status: Status::Shutdown, text: "the engine is shut down".into() }
}

fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
