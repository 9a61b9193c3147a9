//! The owner's side of a body: feeding, cutting, marks, taking output.

use crate::budget::Lease;
use crate::codec::{self, Digest, Extent, Fault, Kind};
use crate::engine::{Admission, Engine, Spent};
use crate::error::Status;
use crate::inlet::Inlet;
use crate::plan::Plan;
pub use crate::plan::{INLINE_US, Options};
use crate::quiet;
use crate::schedule::Job;
use crate::segment::Cutter;
use crate::shared::{ARMED_OUTPUT, ARMED_ROOM, Core, Item, Output, State};
use crate::stats::CodecCounters;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TASKS_DEFAULT: u32 = 4;
const TASKS_MOST: u32 = 256;
const SEGMENT_LEAST: u64 = 4 << 10;
const SEGMENT_MOST: u64 = 64 << 20;
const OUTPUT_LEAST: usize = 64 << 10;
const HISTORY_MOST: u64 = 8 << 20;

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

/// What became of a segment that was cut.
enum Started {
    Encoded(Result<Output, Fault>, Spent),
    Job(Job),
}

/// A body on its way through. Dropping it cancels what is left.
pub struct Stream {
    engine: Arc<Engine>,
    core: Arc<Core>,
    cutter: Cutter,
    inlet: Inlet,
    max_input: usize,
    max_output: usize,
    max_tasks: u32,
    inline_ns: u64,
    minimum: usize,
    minimum_beyond: usize,
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
    /// Of the segments fetched.
    digest: Option<Digest>,
    bytes_out: u64,
    ended: bool,
    /// Holds the stream's minimum from begin until it holds bytes of its own.
    promise: Option<Lease>,
}

impl Stream {
    /// Begins a body.
    pub fn begin(engine: &Arc<Engine>, options: Options) -> Result<Stream, Status> {
        let counters = engine.counters.of(options.kind);
        if engine.is_stopping() {
            counters.refused_shutdown.add(1);
            return Err(Status::Shutdown);
        }
        let bounds = codec::bounds(options.kind);
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
        match engine.admit(&plan.params, plan.first(), plan.promise) {
            Admission::Yes => {}
            Admission::Overload if options.overload_level.is_some() => {
                plan = Plan::settle(&options, options.overload_level.unwrap_or(level))?;
                counters.overload_lowered.add(1);
            }
            Admission::Overload | Admission::Refused => {
                counters.refused_overload.add(1);
                return Err(Status::Overload);
            }
            Admission::Memory => {
                counters.refused_memory.add(1);
                return Err(Status::Limit);
            }
        }
        let most = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let max_tasks = if options.max_tasks == 0 { TASKS_DEFAULT } else { options.max_tasks };
        let segment = plan.cutter.longest();
        counters.streams_begun.add(1);
        counters.streams_live.add(1);
        Ok(Stream {
            core: Core::new(engine.next_stream(), plan.params, options.queue, options.on_ready),
            cutter: plan.cutter,
            inlet: Inlet::new(plan.history, engine.store()),
            max_input: match options.max_input {
                0 => segment.saturating_mul(max_tasks as usize + 1),
                given => most(given),
            },
            max_output: match options.max_output {
                0 => (segment / 4).max(OUTPUT_LEAST),
                given => most(given),
            },
            max_tasks,
            inline_ns: match options.inline_us {
                u32::MAX => u64::MAX,
                micros => u64::from(micros) * 1000,
            },
            minimum: plan.minimum,
            minimum_beyond: plan.minimum_beyond,
            promise: Some(engine.budget().lease(plan.promise)),
            engine: Arc::clone(engine),
            offset: 0,
            accepted: 0,
            segments: 0,
            finished: false,
            ready: VecDeque::new(),
            taken: 0,
            ready_bytes: 0,
            digest: None,
            bytes_out: 0,
            ended: false,
        })
    }

    /// Accepts bytes; how many, and whether the rest must wait.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Flow), Status> {
        self.check()?;
        self.core.lock().room = false;
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
            let filled = self.inlet.filled();
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
        let filled = self.inlet.filled();
        if filled > 0
            && filled >= self.cutter.target(self.offset)
            && !self.cutter.ends_at(self.accepted)
            && self.may_start(&self.core.lock())
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
        if self.inlet.filled() > 0 {
            self.cut(false);
        }
        let settled = self.inlet.settle_down();
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
        let filled = self.inlet.filled();
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
        self.inlet.close();
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
                let state = self.core.lock();
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
            if let Some(bytes) = self.ready.front().and_then(Item::bytes) {
                let rest = &bytes[self.taken..];
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
                continue;
            }
            match self.ready.front_mut() {
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
                        self.counters().streams_done.add(1);
                    }
                    break;
                }
            }
        }
        self.bytes_out += produced as u64;
        if self.ended {
            return Ok(Taken { produced, flushed, more: false, flow: Flow::Done });
        }
        let more = !self.ready.is_empty() || self.core.lock().head_is_ready();
        Ok(Taken { produced, flushed, more, flow: Flow::Ok })
    }

    /// How many bytes could be taken before the next mark. Takes nothing, arms nothing.
    pub fn query(&mut self) -> Result<Taken, Status> {
        self.come_by();
        while self.fetch() {}
        let mut produced = 0;
        for item in &self.ready {
            match item.bytes() {
                Some(bytes) => produced += bytes.len(),
                None => break,
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
            let mut state = self.core.lock();
            loop {
                // Where nothing is under way, nothing could become news, and nothing stands in the
                // way of a feed. Room is news too, though poll has answered AGAIN since.
                let room = std::mem::take(&mut state.room);
                if room || state.armed == 0 || state.has_news() || state.under_way == 0 {
                    state.armed = 0;
                    return Ok(Flow::Ok);
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
        self.core.lock().fault.as_ref().map(|fault| fault.text.clone())
    }

    /// Figures.
    pub fn stats(&self) -> StreamStats {
        let state = self.core.lock();
        StreamStats {
            codec: self.core.params().kind,
            level: self.core.params().level,
            window_log: self.core.params().window_log,
            segments_under_way: state.under_way,
            bytes_in: self.accepted,
            bytes_out: self.bytes_out,
            segments: self.segments,
            cpu_ns: state.cpu.as_nanos() as u64,
            queue_ns: state.waited.as_nanos() as u64,
            memory_minimum: if self.cutter.is_beyond(self.accepted) {
                self.minimum_beyond as u64
            } else {
                self.minimum as u64
            },
            output_ready: (state.output + self.ready_bytes) as u64,
        }
    }

    fn counters(&self) -> &CodecCounters {
        self.engine.counters.of(self.core.params().kind)
    }

    /// An error of the owner's side fails the stream for good: what was accepted before it is lost.
    fn sticky<T>(&self, result: Result<T, Status>) -> Result<T, Status> {
        result.inspect_err(|status| self.core.fail(&self.engine, *status))
    }

    fn check(&self) -> Result<(), Status> {
        match &self.core.lock().fault {
            Some(fault) => Err(fault.status),
            None if self.engine.is_stopping() => Err(Status::Shutdown),
            None => Ok(()),
        }
    }

    /// Posts what a refused post left behind, where no dispatch does it.
    fn come_by(&mut self) {
        if self.core.queue.is_none() && std::mem::take(&mut self.core.lock().kicked) {
            self.engine.pump(true);
        }
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
        // A stream with a segment under way reads ahead only while threads are idle and memory is
        // there: its own segment's end wakes it.
        let over = self.engine.budget().is_over();
        let hold = over || self.engine.is_busy();
        let state = self.core.lock();
        let output = state.output + self.ready_bytes;
        let refuse = state.under_way > self.max_tasks
            || (state.under_way > 0 && (hold || state.input >= self.max_input))
            || output >= self.max_output
            || (over && output > 0);
        if refuse {
            self.core.arm(state, ARMED_ROOM);
            self.list_when_ready();
        }
        !refuse
    }

    /// Cuts the full segment if it may start; if not, the stream is armed.
    fn cut_when_allowed(&mut self) -> bool {
        let state = self.core.lock();
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
        let state = self.core.lock();
        if state.armed != 0 && !self.ready.is_empty() {
            self.core.list(state);
        }
    }

    fn append(&mut self, bytes: &[u8], target: usize) -> Result<(), Status> {
        let spare = self.engine.budget().is_over();
        if spare {
            self.inlet.compact_when_empty()?;
        }
        let sure = if self.cutter.knows_length() { target } else { 0 };
        self.inlet.append(bytes, sure, target, spare)?;
        self.accepted += bytes.len() as u64;
        Ok(())
    }

    /// Cuts the segment being filled. A fault on the way is the segment's result.
    fn cut(&mut self, last: bool) {
        let input = self.inlet.filled();
        let history = self.inlet.history_for(input);
        let first = self.segments == 0;
        let whole = first && last;
        let cost = self.core.params().cost_ns(Extent { history, input, whole });
        let slot = {
            let mut state = self.core.lock();
            state.items.push_back(Item::Pending);
            state.under_way += 1;
            state.input += input;
            state.base + state.items.len() as u64 - 1
        };
        self.segments += 1;
        self.offset += input as u64;
        self.promise = None;
        // A slot that nobody fills would be waited for without end.
        let started = quiet::catch(false, || self.start(slot, history, cost, first, last));
        self.inlet.cut(input);
        let (result, spent) = match started.unwrap_or(Err(Status::Panic)) {
            Ok(Started::Job(job)) => return self.engine.submit(job),
            Ok(Started::Encoded(result, spent)) => (result, spent),
            Err(status) => (Err(Fault { status, text: status.to_string() }), Spent::default()),
        };
        self.core.complete(&self.engine, slot, input, result, spent);
    }

    /// Encodes the segment here, or makes it a job.
    fn start(
        &mut self,
        slot: u64,
        history: usize,
        cost: u64,
        first: bool,
        last: bool,
    ) -> Result<Started, Status> {
        let input = self.inlet.filled();
        if input == 0
            && !first
            && let Some(bytes) = self.core.params().closing()
        {
            let output = self.engine.close_here(self.core.params(), bytes)?;
            return Ok(Started::Encoded(Ok(output), Spent::default()));
        }
        if (input == 0 || self.runs_here(cost))
            && let Some(encoded) = self.encode_here(history, first, last)?
        {
            return Ok(encoded);
        }
        let segment = self.inlet.hand_over(history, first, last)?;
        let core = Arc::clone(&self.core);
        Ok(Started::Job(Job { core, slot, segment, cost, queued: Instant::now() }))
    }

    fn runs_here(&self, cost: u64) -> bool {
        self.engine.is_inline()
            || self.inline_ns == u64::MAX
            || (cost <= self.inline_ns
                && self.core.queue.as_ref().is_none_or(|queue| queue.allow_inline(cost)))
    }

    /// Encodes in the owner's call. `None`: the memory for it is not to be had now.
    fn encode_here(
        &mut self,
        history: usize,
        first: bool,
        last: bool,
    ) -> Result<Option<Started>, Status> {
        let force = self.engine.is_inline() || self.inline_ns == u64::MAX;
        let input = self.inlet.filled();
        let Some(joined) = self.inlet.join_when_needed(history, force)? else {
            return Ok(None);
        };
        let extent = Extent { history, input, whole: first && last };
        let Some(kit) = self.engine.kit(self.core.params(), extent, 0, force)? else {
            return Ok(None);
        };
        let window = self.inlet.window(&joined, history, first, last);
        let (result, spent) = self.engine.encode_here(self.core.params(), kit, &window);
        Ok(Some(Started::Encoded(result, spent)))
    }

    /// Sets a mark behind what was cut. Not in a stream that has failed meanwhile: an end that follows
    /// what is lost would look like the end of the body.
    fn mark(&mut self, item: Item) {
        let mut state = self.core.lock();
        if state.fault.is_some() {
            return;
        }
        match (state.items.back_mut(), item) {
            (Some(Item::Marks(count)), Item::Marks(more)) => *count += more,
            (_, item) => state.items.push_back(item),
        }
        self.core.publish(state);
    }

    /// Fetches what is ready from the core; whether there was any.
    fn fetch(&mut self) -> bool {
        let mut state = self.core.lock();
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
                self.digest = Some(self.core.params.join(self.digest, output.digest));
                if bytes == 0 {
                    continue;
                }
            }
            if let (Item::End, Some(body)) = (&item, self.digest) {
                let (bytes, len) = self.core.params.trailer(body);
                if len > 0 {
                    self.ready.push_back(Item::Trailer(bytes, len));
                    self.ready_bytes += len;
                    self.counters().bytes_out.add(len as u64);
                }
            }
            self.ready.push_back(item);
        }
        self.ready.len() > before
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let (items, failed) = self.core.bury();
        drop(items);
        drop(self.engine.cancel(self.core.id()));
        self.counters().streams_live.sub(1);
        if !self.ended && !failed {
            self.counters().streams_cancelled.add(1);
        }
        // What was kicked by way of this stream must not be stranded with it.
        self.engine.pump(false);
    }
}
