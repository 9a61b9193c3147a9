//! The owner's side of a body: feeding, cutting, marks, taking output. And the part of it that
//! workers see.

use crate::budget::Lease;
use crate::buffer::{Block, Buffer, Piece};
use crate::codec::{self, Fault, Kind, Params, Request, Window};
use crate::engine::{Admission, Engine, Spent};
use crate::error::Status;
use crate::notify::{Callback, Queue};
use crate::schedule::Job;
use crate::segment::{Cutter, History, Segment};
use crate::sync::{Condvar, Guard, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Default of `inline_us`.
pub const INLINE_US: u32 = 200;

const TASKS_DEFAULT: u32 = 4;
const TASKS_MOST: u32 = 256;
const SEGMENT_LEAST: u64 = 4 << 10;
const SEGMENT_MOST: u64 = 64 << 20;
const HISTORY_MOST: u64 = 8 << 20;

/// Up to so many bytes of history and input are copied into a task's own buffer, and the stream goes
/// on in the one it has. Larger ones are handed over as they are.
const SMALL: usize = 64 << 10;

/// The first room that a stream makes when it does not know how much will come.
const ROOM_LEAST: usize = 4 << 10;

/// Options of a stream; `weft_stream_options` in `include/weft.h` says what each means.
#[allow(missing_docs, reason = "the same names stand, documented, in weft_stream_options")]
pub struct Options {
    pub kind: Kind,
    pub level: Option<i32>,
    pub overload_level: Option<i32>,
    pub window_log: u32,
    pub content_length: Option<u64>,
    pub segment_size: u64,
    pub history_size: Option<u64>,
    pub max_input: u64,
    pub max_output: u64,
    pub max_tasks: u32,
    pub inline_us: u32,
    pub queue: Option<Arc<Queue>>,
    pub on_ready: Option<Callback>,
}

impl Options {
    /// The defaults for a codec.
    pub fn new(kind: Kind) -> Options {
        Options {
            kind,
            level: None,
            overload_level: None,
            window_log: 0,
            content_length: None,
            segment_size: 0,
            history_size: None,
            max_input: 0,
            max_output: 0,
            max_tasks: 0,
            inline_us: INLINE_US,
            queue: None,
            on_ready: None,
        }
    }
}

/// A word about the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Done as asked.
    Ok,
    /// Not now; the stream is armed.
    Again,
    /// The stream has ended.
    Done,
}

/// What `poll` gave.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Bytes.
    pub produced: usize,
    /// A flush mark was reached.
    pub flushed: bool,
    /// More is ready at once.
    pub more: bool,
    /// How it stands.
    pub flow: Flow,
}

/// Figures of a stream; `weft_stream_info` in `include/weft.h` says what each means.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the same names stand, documented, in weft_stream_info")]
pub struct StreamStats {
    pub codec: Kind,
    pub level: i32,
    pub window_log: u32,
    pub segments_under_way: u32,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub segments: u64,
    pub cpu_ns: u64,
    pub queue_ns: u64,
    pub memory_minimum: u64,
    pub output_ready: u64,
}

/// Output of a segment.
pub struct Output {
    buffer: Buffer,
    start: usize,
}

impl Output {
    pub(crate) fn new(buffer: Buffer, start: usize) -> Output {
        Output { buffer, start }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[self.start..]
    }
}

/// What a stream will give, in order.
enum Item {
    /// A segment under way.
    Pending,
    /// Its output.
    Bytes(Output),
    /// So many flush marks.
    Marks(u64),
    /// The end of the stream.
    End,
}

/// An owner was told AGAIN by poll.
const ARMED_OUTPUT: u8 = 1;
/// An owner was told AGAIN by feed.
const ARMED_ROOM: u8 = 2;

struct State {
    items: VecDeque<Item>,
    /// Number of the first item since begin.
    base: u64,
    under_way: u32,
    /// Bytes of segments under way.
    input: usize,
    /// Bytes of output that workers have made and the owner has not fetched.
    output: usize,
    armed: u8,
    /// On the queue's list.
    listed: bool,
    /// The schedule wants an owner without a queue to come by.
    kicked: bool,
    dead: bool,
    fault: Option<Fault>,
    cpu: Duration,
    waited: Duration,
}

impl State {
    fn head_is_ready(&self) -> bool {
        !matches!(self.items.front(), None | Some(Item::Pending))
    }

    fn has_news(&self) -> bool {
        self.fault.is_some()
            || self.head_is_ready()
            || (self.armed & ARMED_ROOM != 0 && self.under_way == 0)
    }
}

/// The part of a stream that workers see. Lives as long as a worker or a queue needs it.
pub struct Core {
    id: u64,
    params: Params,
    queue: Option<Arc<Queue>>,
    on_ready: Option<Callback>,
    state: Mutex<State>,
    news: Condvar,
    // A copy of `State::dead`, for workers to look at before they start.
    dead: AtomicBool,
    // Written under the schedule's lock.
    virtual_time: AtomicU64,
}

impl Core {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn params(&self) -> &Params {
        &self.params
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    pub(crate) fn has_queue(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.is_open())
    }

    pub(crate) fn virtual_time(&self) -> u64 {
        self.virtual_time.load(Ordering::Relaxed)
    }

    pub(crate) fn set_virtual_time(&self, time: u64) {
        self.virtual_time.store(time, Ordering::Relaxed);
    }

    /// The result of a segment of `input` bytes, from whichever thread encoded it.
    pub(crate) fn complete(
        self: &Arc<Self>,
        engine: &Engine,
        slot: u64,
        input: usize,
        result: Result<Output, Fault>,
        spent: Spent,
    ) {
        engine.counters.cpu_ns.add(spent.cpu.as_nanos() as u64);
        engine.counters.queue_ns.add(spent.waited.as_nanos() as u64);
        let mut state = self.state.lock();
        state.cpu += spent.cpu;
        state.waited += spent.waited;
        state.under_way -= 1;
        state.input -= input;
        // Whatever is dropped is dropped without the lock.
        let mut rest = (VecDeque::new(), None);
        if state.dead || state.fault.is_some() {
            rest.1 = Some(result);
        } else {
            let index = (slot - state.base) as usize;
            match result {
                Ok(output) => {
                    state.output += output.bytes().len();
                    state.items[index] = Item::Bytes(output);
                }
                Err(fault) => {
                    state.fault = Some(fault);
                    // What was made before can still be taken; nothing after it ever.
                    rest.0 = state.items.split_off(index);
                    engine.counters.streams_failed.add(1);
                }
            }
        }
        let failed = state.fault.is_some();
        self.publish(state);
        drop(rest);
        if failed {
            self.withdraw(engine);
        }
    }

    /// Takes what is queued of this stream off the schedule.
    fn withdraw(self: &Arc<Self>, engine: &Engine) {
        let jobs = engine.cancel(self.id);
        if !jobs.is_empty() {
            let mut state = self.state.lock();
            state.under_way -= jobs.len() as u32;
            state.input -= jobs.iter().map(|job| job.segment.input.len()).sum::<usize>();
            self.publish(state);
        }
    }

    /// Fails the stream where the owner itself could not go on.
    fn fail(self: &Arc<Self>, engine: &Engine, status: Status) {
        let mut state = self.state.lock();
        if state.fault.is_none() {
            state.fault = Some(Fault { status, text: status.to_string() });
            engine.counters.streams_failed.add(1);
        }
        self.publish(state);
        self.withdraw(engine);
    }

    /// Wakes the owner if it was told AGAIN and something has changed for it.
    fn publish(self: &Arc<Self>, mut state: Guard<'_, State>) {
        let room = state.armed & ARMED_ROOM != 0;
        if state.armed == 0 || !(room || state.has_news()) {
            return;
        }
        state.armed = 0;
        self.list(state);
    }

    fn list(self: &Arc<Self>, mut state: Guard<'_, State>) {
        let Some(queue) = &self.queue else {
            drop(state);
            self.news.notify_all();
            return;
        };
        if state.listed || state.dead {
            return;
        }
        state.listed = true;
        let ring = queue.put(self);
        drop(state);
        if ring {
            queue.ring();
        }
    }

    /// Arms the stream; where what it waits for is there already, lists it at once.
    fn arm(self: &Arc<Self>, mut state: Guard<'_, State>, bits: u8) {
        state.armed |= bits;
        if state.has_news() {
            state.armed = 0;
            self.list(state);
        }
    }

    /// The owner should come by and post tasks.
    pub(crate) fn kick(&self) {
        match &self.queue {
            Some(queue) if queue.is_open() => queue.kick(),
            _ => {
                self.state.lock().kicked = true;
                self.news.notify_all();
            }
        }
    }

    /// Taken off the list; whether the owner shall be called.
    pub(crate) fn accept_news(&self) -> bool {
        let mut state = self.state.lock();
        state.listed = false;
        !state.dead
    }

    pub(crate) fn call_back(&self) {
        if let Some(on_ready) = &self.on_ready {
            on_ready();
        }
    }
}

/// A body on its way through. Dropping it cancels what is left.
pub struct Stream {
    engine: Arc<Engine>,
    core: Arc<Core>,
    cutter: Cutter,
    history: History,
    max_input: usize,
    max_output: usize,
    max_tasks: u32,
    inline_ns: u64,
    minimum: usize,
    /// Bytes that were cut before, then bytes of the segment being filled.
    open: Option<Buffer>,
    open_past: usize,
    /// What came before `open`, oldest first; no more than history needs.
    past: VecDeque<Piece>,
    past_len: usize,
    /// Bytes cut so far, and bytes accepted.
    offset: u64,
    accepted: u64,
    segments: u64,
    finished: bool,
    /// Output fetched from the core, not yet taken.
    ready: VecDeque<Item>,
    /// Bytes of the first of `ready` that were taken.
    taken: usize,
    ready_bytes: usize,
    bytes_out: u64,
    ended: bool,
    /// Holds the stream's minimum from begin until it holds bytes of its own.
    promise: Option<Lease>,
}

impl Stream {
    /// Begins a body.
    pub fn begin(engine: &Arc<Engine>, options: Options) -> Result<Stream, Status> {
        if engine.is_stopping() {
            return Err(Status::Shutdown);
        }
        let bounds = codec::bounds(options.kind)?;
        if let Some(queue) = &options.queue
            && !Arc::ptr_eq(queue.engine(), engine)
        {
            return Err(Status::Invalid);
        }
        let in_bounds = |level: i32| level >= bounds.min && level <= bounds.max;
        if options.overload_level.is_some_and(|level| !in_bounds(level))
            || options.max_tasks > TASKS_MOST
            || (options.segment_size != 0
                && !(SEGMENT_LEAST..=SEGMENT_MOST).contains(&options.segment_size))
            || options.history_size.is_some_and(|size| size > HISTORY_MOST)
        {
            return Err(Status::Invalid);
        }
        let level = options.level.unwrap_or(bounds.default);
        let mut plan = Plan::settle(&options, level)?;
        match engine.admit(&plan.params, plan.promise) {
            Admission::Yes => {}
            Admission::Overload if options.overload_level.is_some() => {
                plan = Plan::settle(&options, options.overload_level.unwrap_or(level))?;
                engine.counters.overload_lowered.add(1);
            }
            Admission::Overload => {
                engine.counters.refused_overload.add(1);
                return Err(Status::Limit);
            }
            Admission::Memory => {
                engine.counters.refused_memory.add(1);
                return Err(Status::Limit);
            }
        }
        let most = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let max_tasks = if options.max_tasks == 0 { TASKS_DEFAULT } else { options.max_tasks };
        let segment = plan.cutter.longest();
        engine.counters.streams_begun.add(1);
        engine.counters.streams_live.add(1);
        Ok(Stream {
            core: Arc::new(Core {
                id: engine.next_stream(),
                params: plan.params,
                queue: options.queue,
                on_ready: options.on_ready,
                state: Mutex::new(State {
                    items: VecDeque::new(),
                    base: 0,
                    under_way: 0,
                    input: 0,
                    output: 0,
                    armed: 0,
                    listed: false,
                    kicked: false,
                    dead: false,
                    fault: None,
                    cpu: Duration::ZERO,
                    waited: Duration::ZERO,
                }),
                news: Condvar::new(),
                dead: AtomicBool::new(false),
                virtual_time: AtomicU64::new(0),
            }),
            cutter: plan.cutter,
            history: History::new(plan.history),
            max_input: match options.max_input {
                0 => segment.saturating_mul(max_tasks as usize + 1),
                given => most(given),
            },
            max_output: match options.max_output {
                0 => segment.saturating_mul(2),
                given => most(given),
            },
            max_tasks,
            inline_ns: match options.inline_us {
                u32::MAX => u64::MAX,
                micros => u64::from(micros) * 1000,
            },
            minimum: plan.minimum,
            promise: Some(engine.budget().lease(plan.promise)),
            engine: Arc::clone(engine),
            open: None,
            open_past: 0,
            past: VecDeque::new(),
            past_len: 0,
            offset: 0,
            accepted: 0,
            segments: 0,
            finished: false,
            ready: VecDeque::new(),
            taken: 0,
            ready_bytes: 0,
            bytes_out: 0,
            ended: false,
        })
    }

    /// Accepts bytes; how many, and whether the rest must wait.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Flow), Status> {
        self.check()?;
        if self.finished {
            return Err(Status::State);
        }
        let result = self.accept(bytes);
        self.sticky(result)
    }

    fn accept(&mut self, mut bytes: &[u8]) -> Result<(usize, Flow), Status> {
        let offered = bytes.len();
        while !bytes.is_empty() {
            let target = self.cutter.target(self.offset);
            let filled = self.filled();
            if filled >= target {
                if !self.cut_when_allowed() {
                    return Ok((offered - bytes.len(), Flow::Again));
                }
                continue;
            }
            if filled == 0 && !self.may_open() {
                return Ok((offered - bytes.len(), Flow::Again));
            }
            let count = bytes.len().min(target - filled);
            self.append(&bytes[..count], target)?;
            bytes = &bytes[count..];
        }
        // A full segment starts now, not with the next feed. The one that is known to be the last
        // waits for `finish`, to close the stream with it.
        let filled = self.filled();
        if filled > 0
            && filled >= self.cutter.target(self.offset)
            && !self.cutter.ends_at(self.accepted)
            && self.may_start(&self.core.state.lock())
        {
            self.cut(false);
        }
        Ok((offered, Flow::Ok))
    }

    /// Sets a flush mark.
    pub fn flush(&mut self) -> Result<(), Status> {
        self.check()?;
        if self.finished {
            return Err(Status::State);
        }
        if self.filled() > 0 {
            self.cut(false);
        }
        self.history.flush();
        let settled = self.settle_down();
        self.sticky(settled)?;
        self.promise = None;
        self.mark(Item::Marks(1));
        Ok(())
    }

    /// Ends the body.
    pub fn finish(&mut self) -> Result<(), Status> {
        self.check()?;
        if self.finished {
            return Err(Status::State);
        }
        let filled = self.filled();
        if filled > 0
            && filled >= self.cutter.target(self.offset)
            && !self.cutter.ends_at(self.accepted)
        {
            // As `feed` would have done, had there been room: bytes must not depend on that.
            self.cut(false);
        }
        self.finished = true;
        self.cut(true);
        self.mark(Item::End);
        self.past.clear();
        self.past_len = 0;
        self.open = None;
        self.open_past = 0;
        self.promise = None;
        Ok(())
    }

    /// Takes up to `cap` bytes, given to `sink` piece by piece.
    pub fn poll(&mut self, cap: usize, sink: &mut dyn FnMut(&[u8])) -> Result<Taken, Status> {
        self.come_by();
        let (mut produced, mut flushed) = (0, false);
        loop {
            if self.ready.is_empty() && !self.fetch() {
                if produced > 0 {
                    break;
                }
                let state = self.core.state.lock();
                if state.head_is_ready() {
                    // Came in between.
                    continue;
                }
                if let Some(fault) = &state.fault {
                    return Err(fault.status);
                }
                if state.under_way == 0 && self.engine.is_stopping() {
                    return Err(Status::Shutdown);
                }
                self.core.arm(state, ARMED_OUTPUT);
                return Ok(Taken { produced, flushed, more: false, flow: Flow::Again });
            }
            match self.ready.front_mut() {
                Some(Item::Bytes(output)) => {
                    let rest = &output.bytes()[self.taken..];
                    let count = rest.len().min(cap - produced);
                    sink(&rest[..count]);
                    produced += count;
                    self.ready_bytes -= count;
                    if count < rest.len() {
                        self.taken += count;
                        break;
                    }
                    self.taken = 0;
                    self.ready.pop_front();
                }
                Some(Item::Marks(count)) => {
                    flushed = true;
                    *count -= 1;
                    if *count == 0 {
                        self.ready.pop_front();
                    }
                    break;
                }
                _ => {
                    if !std::mem::replace(&mut self.ended, true) {
                        self.engine.counters.streams_done.add(1);
                    }
                    break;
                }
            }
        }
        self.bytes_out += produced as u64;
        if self.ended {
            return Ok(Taken { produced, flushed, more: false, flow: Flow::Done });
        }
        let more = !self.ready.is_empty() || self.core.state.lock().head_is_ready();
        Ok(Taken { produced, flushed, more, flow: Flow::Ok })
    }

    /// How many bytes could be taken before the next mark. Takes nothing, arms nothing.
    pub fn query(&mut self) -> Result<Taken, Status> {
        self.come_by();
        while self.fetch() {}
        let mut produced = 0;
        for item in &self.ready {
            match item {
                Item::Bytes(output) => produced += output.bytes().len(),
                _ => break,
            }
        }
        produced -= self.taken;
        let more = !self.ready.is_empty();
        if self.ended {
            return Ok(Taken { produced: 0, flushed: false, more: false, flow: Flow::Done });
        }
        if !more {
            self.check()?;
        }
        Ok(Taken { produced, flushed: false, more, flow: Flow::Ok })
    }

    /// Waits for news since the last AGAIN.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<Flow, Status> {
        if self.core.queue.is_some() {
            return Err(Status::State);
        }
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            self.engine.pump(true);
            let mut state = self.core.state.lock();
            loop {
                if state.armed == 0 || state.has_news() {
                    state.armed = 0;
                    return Ok(Flow::Ok);
                }
                if state.under_way == 0 {
                    // Nothing is under way that could become news.
                    return Err(Status::State);
                }
                if std::mem::take(&mut state.kicked) {
                    break;
                }
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left.is_zero()) {
                    return Ok(Flow::Again);
                }
                state = self.core.news.wait(state, left);
            }
        }
    }

    /// What went wrong.
    pub fn error(&self) -> Option<String> {
        self.core.state.lock().fault.as_ref().map(|fault| fault.text.clone())
    }

    /// Figures.
    pub fn stats(&self) -> StreamStats {
        let state = self.core.state.lock();
        StreamStats {
            codec: self.core.params.kind,
            level: self.core.params.level,
            window_log: self.core.params.window_log,
            segments_under_way: state.under_way,
            bytes_in: self.accepted,
            bytes_out: self.bytes_out,
            segments: self.segments,
            cpu_ns: state.cpu.as_nanos() as u64,
            queue_ns: state.waited.as_nanos() as u64,
            memory_minimum: self.minimum as u64,
            output_ready: (state.output + self.ready_bytes) as u64,
        }
    }

    /// An error of the owner's side fails the stream for good: what was accepted before it is lost.
    fn sticky<T>(&self, result: Result<T, Status>) -> Result<T, Status> {
        result.inspect_err(|status| self.core.fail(&self.engine, *status))
    }

    fn check(&self) -> Result<(), Status> {
        match &self.core.state.lock().fault {
            Some(fault) => Err(fault.status),
            None if self.engine.is_stopping() => Err(Status::Shutdown),
            None => Ok(()),
        }
    }

    /// Posts what a refused post left behind, where no dispatch does it.
    fn come_by(&mut self) {
        if self.core.queue.is_none() && std::mem::take(&mut self.core.state.lock().kicked) {
            self.engine.pump(true);
        }
    }

    /// Bytes of the segment being filled.
    fn filled(&self) -> usize {
        self.open.as_ref().map_or(0, Buffer::len) - self.open_past
    }

    /// Whether another segment may go under way. Above the memory limit a stream has one at a time,
    /// and none while output waits.
    fn may_start(&self, state: &State) -> bool {
        let output = state.output + self.ready_bytes;
        if self.engine.budget().is_over() {
            return state.under_way == 0 && output == 0;
        }
        state.under_way < self.max_tasks && output < self.max_output
    }

    /// Whether a new segment may be begun to be filled; if not, the stream is armed.
    fn may_open(&mut self) -> bool {
        let state = self.core.state.lock();
        let over = self.engine.budget().is_over();
        let refuse = state.under_way > self.max_tasks
            || (state.under_way > 0 && (over || state.input >= self.max_input))
            || (state.output + self.ready_bytes >= self.max_output);
        if refuse {
            self.core.arm(state, ARMED_ROOM);
            self.list_when_ready();
        }
        !refuse
    }

    /// Cuts the full segment if it may start; if not, the stream is armed.
    fn cut_when_allowed(&mut self) -> bool {
        let state = self.core.state.lock();
        if self.may_start(&state) {
            drop(state);
            self.cut(false);
            return true;
        }
        self.core.arm(state, ARMED_ROOM);
        self.list_when_ready();
        false
    }

    /// Output that the owner has fetched and not taken is news too, for one who was refused room.
    fn list_when_ready(&self) {
        let mut state = self.core.state.lock();
        if state.armed != 0 && !self.ready.is_empty() {
            state.armed = 0;
            self.core.list(state);
        }
    }

    /// Makes room and appends bytes to the segment being filled.
    fn append(&mut self, bytes: &[u8], target: usize) -> Result<(), Status> {
        if self.filled() == 0 && !self.past.is_empty() && self.engine.budget().is_over() {
            self.compact()?;
        }
        let filled = self.filled();
        let wanted = filled + bytes.len();
        // History that this buffer must keep in front: what `past` does not have.
        let keep = self.open_past.min(self.history.available());
        let fits = |buffer: &Buffer, front: usize| front + wanted <= buffer.capacity();
        match &mut self.open {
            Some(buffer) if fits(buffer, self.open_past) => {}
            Some(buffer) if fits(buffer, keep) => {
                buffer.keep_last(keep + filled);
                self.open_past = keep;
            }
            _ => {
                // Doubling, up to the whole segment; the known length is the whole segment at once.
                let sure = if self.cutter.knows_length() { target } else { ROOM_LEAST };
                let room = target.min(sure.max(wanted * 2));
                let mut larger = Buffer::new(keep + room, self.engine.store())?;
                if let Some(old) = &self.open {
                    larger.append(&old.bytes()[self.open_past - keep..]);
                }
                self.open = Some(larger);
                self.open_past = keep;
            }
        }
        if let Some(buffer) = &mut self.open {
            buffer.append(bytes);
        }
        self.accepted += bytes.len() as u64;
        Ok(())
    }

    /// Cuts the segment being filled. A fault on the way is the segment's result.
    fn cut(&mut self, last: bool) {
        let input = self.filled();
        let history = if input == 0 { 0 } else { self.history.for_segment(input) };
        let first = self.segments == 0;
        let cost = self.core.params.cost_ns(history, input);
        let slot = {
            let mut state = self.core.state.lock();
            state.items.push_back(Item::Pending);
            state.under_way += 1;
            state.input += input;
            state.base + state.items.len() as u64 - 1
        };
        self.segments += 1;
        self.offset += input as u64;
        self.promise = None;
        let job = match self.start(slot, history, cost, first, last) {
            Ok(job) => job,
            Err(status) => {
                let fault = Fault { status, text: status.to_string() };
                self.core.complete(&self.engine, slot, input, Err(fault), Spent::default());
                None
            }
        };
        if let Some(open) = &self.open {
            self.open_past = open.len();
        }
        self.history.grow(input);
        self.forget_old();
        if let Some(job) = job {
            self.engine.submit(job);
        }
    }

    /// Encodes the segment here, or makes it a job.
    fn start(
        &mut self,
        slot: u64,
        history: usize,
        cost: u64,
        first: bool,
        last: bool,
    ) -> Result<Option<Job>, Status> {
        let input = self.filled();
        if (input == 0 || self.runs_here(cost)) && self.encode_here(slot, history, first, last)? {
            return Ok(None);
        }
        let segment = self.hand_over(history, input, first, last)?;
        let core = Arc::clone(&self.core);
        Ok(Some(Job { core, slot, segment, cost, queued: Instant::now() }))
    }

    fn runs_here(&self, cost: u64) -> bool {
        self.engine.is_inline()
            || self.inline_ns == u64::MAX
            || (cost <= self.inline_ns
                && self.core.queue.as_ref().is_none_or(|queue| queue.allow_inline(cost)))
    }

    /// Encodes in the owner's call. False: the memory for it is not to be had now.
    fn encode_here(
        &mut self,
        slot: u64,
        history: usize,
        first: bool,
        last: bool,
    ) -> Result<bool, Status> {
        let force = self.engine.is_inline() || self.inline_ns == u64::MAX;
        let input = self.filled();
        let store = self.engine.store();
        let joined = if history <= self.open_past || input == 0 {
            None
        } else {
            match Buffer::within_limit(history + input, store, force)? {
                Some(room) => Some(self.join(room, history)),
                None => return Ok(false),
            }
        };
        let Some(kit) = self.engine.kit(&self.core.params, input, 0, force)? else {
            return Ok(false);
        };
        let open: &[u8] = self.open.as_ref().map_or(&[], Buffer::bytes);
        let window = match &joined {
            Some(joined) => Window::new(joined.bytes(), history, first, last),
            None if input == 0 => Window::new(&[], 0, first, last),
            None => Window::new(&open[self.open_past - history..], history, first, last),
        };
        let (result, spent) = self.engine.encode_here(&self.core.params, kit, &window);
        self.core.complete(&self.engine, slot, input, result, spent);
        Ok(true)
    }

    /// The last `history` bytes before the segment, and the segment, in one buffer.
    fn join(&self, mut room: Buffer, history: usize) -> Buffer {
        let from_past = history.saturating_sub(self.open_past);
        for piece in self.last_of_past(from_past) {
            room.append(piece.bytes());
        }
        if let Some(open) = &self.open {
            room.append(&open.bytes()[self.open_past - (history - from_past)..]);
        }
        room
    }

    /// The last `count` bytes of `past`, as pieces.
    fn last_of_past(&self, count: usize) -> Vec<Piece> {
        let mut skip = self.past_len - count;
        let mut pieces = Vec::new();
        for piece in &self.past {
            if skip >= piece.len() {
                skip -= piece.len();
            } else {
                pieces.push(piece.skip(skip));
                skip = 0;
            }
        }
        pieces
    }

    /// Makes the segment a task's. Small ones are copied, so that the buffer can go on; a large one
    /// takes the buffer along, and it becomes the past.
    fn hand_over(
        &mut self,
        history: usize,
        input: usize,
        first: bool,
        last: bool,
    ) -> Result<Segment, Status> {
        if history + input <= SMALL {
            let room = Buffer::new(history + input, self.engine.store())?;
            let joined = Arc::new(self.join(room, history));
            let before = Piece::new(Arc::clone(&joined), 0..history);
            return Ok(Segment {
                history: if history == 0 { Vec::new() } else { vec![before] },
                input: Piece::new(joined, history..history + input),
                first,
                last,
            });
        }
        let Some(open) = self.open.take() else {
            return Err(Status::State);
        };
        let (past_of_open, len) = (std::mem::take(&mut self.open_past), open.len());
        let open = Arc::new(open);
        let near = history.min(past_of_open);
        let mut pieces = self.last_of_past(history - near);
        if near > 0 {
            pieces.push(Piece::new(Arc::clone(&open), past_of_open - near..past_of_open));
        }
        self.past.push_back(Piece::new(Arc::clone(&open), 0..len));
        self.past_len += len;
        Ok(Segment { history: pieces, input: Piece::new(open, past_of_open..len), first, last })
    }

    /// Lets go of what history does not reach any more.
    fn forget_old(&mut self) {
        let need = self.history.available().saturating_sub(self.open_past);
        while let Some(oldest) = self.past.front()
            && self.past_len - oldest.len() >= need
        {
            self.past_len -= oldest.len();
            self.past.pop_front();
        }
    }

    /// Brings history into one buffer of its size, so that an idle stream holds no more.
    fn compact(&mut self) -> Result<(), Status> {
        let available = self.history.available();
        let room = Buffer::new(available.max(1), self.engine.store())?;
        // `join` takes what is filled along; callers have nothing filled.
        let joined = self.join(room, available);
        self.past.clear();
        self.past_len = 0;
        self.open_past = joined.len();
        self.open = (available > 0).then_some(joined);
        Ok(())
    }

    /// At a flush mark: the stream may be idle from now on.
    fn settle_down(&mut self) -> Result<(), Status> {
        self.forget_old();
        let available = self.history.available();
        let room = self.open.as_ref().map_or(0, Buffer::capacity);
        if !self.past.is_empty() || room > 2 * available + 2 * ROOM_LEAST {
            self.compact()?;
        }
        Ok(())
    }

    /// Sets a mark behind what was cut.
    fn mark(&mut self, item: Item) {
        let mut state = self.core.state.lock();
        match (state.items.back_mut(), item) {
            (Some(Item::Marks(count)), Item::Marks(more)) => *count += more,
            (_, item) => state.items.push_back(item),
        }
        self.core.publish(state);
    }

    /// Fetches what is ready from the core; whether there was any.
    fn fetch(&mut self) -> bool {
        let mut state = self.core.state.lock();
        let before = self.ready.len();
        while state.head_is_ready() {
            let Some(item) = state.items.pop_front() else {
                break;
            };
            state.base += 1;
            if let Item::Bytes(output) = &item {
                let bytes = output.bytes().len();
                state.output -= bytes;
                self.ready_bytes += bytes;
                if bytes == 0 {
                    continue;
                }
            }
            self.ready.push_back(item);
        }
        self.ready.len() > before
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.core.dead.store(true, Ordering::Release);
        let (items, failed) = {
            let mut state = self.core.state.lock();
            state.dead = true;
            state.armed = 0;
            (std::mem::take(&mut state.items), state.fault.is_some())
        };
        drop(items);
        drop(self.engine.cancel(self.core.id));
        self.engine.counters.streams_live.sub(1);
        if !self.ended && !failed {
            self.engine.counters.streams_cancelled.add(1);
        }
        // What was kicked by way of this stream must not be stranded with it.
        self.engine.pump(false);
    }
}

/// What begin settles for the whole stream.
struct Plan {
    params: Params,
    cutter: Cutter,
    history: usize,
    /// Bytes it may always hold, and those that begin sets aside.
    minimum: usize,
    promise: usize,
}

impl Plan {
    fn settle(options: &Options, level: i32) -> Result<Plan, Status> {
        let shape = Params::shape(options.kind, level);
        let segment = match options.segment_size {
            0 => shape.segment,
            given => given as usize,
        };
        // As early as in the default shape, in proportion.
        let first = (segment as u64 * shape.first as u64 / shape.segment as u64) as usize;
        let cutter = Cutter::new(segment, first, options.content_length);
        let longest = cutter.longest();
        // A body of one segment has no history.
        let alone = options.content_length.is_some_and(|length| length <= segment as u64);
        let wanted = options.history_size.map_or(shape.history, |given| given as usize);
        let params = Params::settle(&Request {
            kind: options.kind,
            level,
            window_log: options.window_log,
            content_length: options.content_length,
            history: wanted,
            segment: longest,
        })?;
        let history = wanted.min(1 << params.window_log);
        let before = if alone { 0 } else { history };
        // Twice: as the stream holds them, and joined for the encoder.
        let holds = |before: usize, input: usize| {
            2 * Block::round(before + input) + Block::round(params.output_bound(input))
        };
        // A stream of unknown length may end with its first segment: more is not promised to it.
        let promise = holds(0, cutter.target(0));
        Ok(Plan { params, cutter, history, minimum: holds(before, longest), promise })
    }
}
