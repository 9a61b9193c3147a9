//! The part of a stream that workers see: results in their order, and whether the owner waits.

use crate::buffer::Buffer;
use crate::codec::{Digest, Fault, Params, TRAILER_MOST};
use crate::engine::{Engine, Spent};
use crate::error::Status;
use crate::notify::{Callback, Queue};
use crate::sync::{AtomicBool, Condvar, Guard, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Output of a segment.
pub struct Output {
    buffer: Buffer,
    start: usize,
    /// Of the segment's input.
    pub(crate) digest: Digest,
}

impl Output {
    pub(crate) fn new(buffer: Buffer, start: usize, digest: Digest) -> Output {
        Output { buffer, start, digest }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[self.start..]
    }
}

/// What a stream will give, in order.
pub(crate) enum Item {
    /// A segment under way.
    Pending,
    /// Its output.
    Bytes(Output),
    /// So many flush marks.
    Marks(u64),
    /// What the format puts behind the last segment: so many of these bytes. Made by the owner.
    Trailer([u8; TRAILER_MOST], usize),
    /// The end of the stream.
    End,
}

impl Item {
    /// The bytes that it gives.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Item::Bytes(output) => Some(output.bytes()),
            Item::Trailer(bytes, len) => Some(&bytes[..*len]),
            _ => None,
        }
    }
}

/// An owner was told AGAIN by poll.
pub(crate) const ARMED_OUTPUT: u8 = 1;
/// An owner was told AGAIN by feed.
pub(crate) const ARMED_ROOM: u8 = 2;

pub(crate) struct State {
    pub(crate) items: VecDeque<Item>,
    /// Number of the first item since begin.
    pub(crate) base: u64,
    pub(crate) under_way: u32,
    /// Bytes of segments under way.
    pub(crate) input: usize,
    /// Bytes of output that workers have made and the owner has not fetched.
    pub(crate) output: usize,
    pub(crate) armed: u8,
    /// On the queue's list.
    pub(crate) listed: bool,
    /// Without a queue: room was made for a feed that was refused, and none was tried since.
    pub(crate) room: bool,
    /// The schedule wants an owner without a queue to come by.
    pub(crate) kicked: bool,
    pub(crate) dead: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) cpu: Duration,
    pub(crate) waited: Duration,
}

impl State {
    pub(crate) fn head_is_ready(&self) -> bool {
        !matches!(self.items.front(), None | Some(Item::Pending))
    }

    pub(crate) fn has_news(&self) -> bool {
        self.fault.is_some()
            || self.head_is_ready()
            || (self.armed & ARMED_ROOM != 0 && self.under_way == 0)
    }
}

/// The part of a stream that workers see. Lives as long as a worker or a queue needs it.
pub struct Core {
    id: u64,
    pub(crate) params: Params,
    pub(crate) queue: Option<Arc<Queue>>,
    on_ready: Option<Callback>,
    state: Mutex<State>,
    pub(crate) news: Condvar,
    // A copy of `State::dead`, for workers to look at before they start.
    dead: AtomicBool,
    // Written under the schedule's lock.
    virtual_time: AtomicU64,
}

impl Core {
    pub(crate) fn new(
        id: u64,
        params: Params,
        queue: Option<Arc<Queue>>,
        on_ready: Option<Callback>,
    ) -> Arc<Core> {
        Arc::new(Core {
            id,
            params,
            queue,
            on_ready,
            state: Mutex::new(State {
                items: VecDeque::new(),
                base: 0,
                under_way: 0,
                input: 0,
                output: 0,
                armed: 0,
                listed: false,
                room: false,
                kicked: false,
                dead: false,
                fault: None,
                cpu: Duration::ZERO,
                waited: Duration::ZERO,
            }),
            news: Condvar::new(),
            dead: AtomicBool::new(false),
            virtual_time: AtomicU64::new(0),
        })
    }

    pub(crate) fn lock(&self) -> Guard<'_, State> {
        self.state.lock()
    }

    /// Nothing of it matters any more; gives back what it held, and whether it had failed.
    pub(crate) fn bury(&self) -> (VecDeque<Item>, bool) {
        self.dead.store(true, Ordering::Release);
        let mut state = self.state.lock();
        state.dead = true;
        state.armed = 0;
        (std::mem::take(&mut state.items), state.fault.is_some())
    }

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
        let counters = engine.counters.of(self.params.kind);
        counters.cpu_ns.add(spent.cpu.as_nanos() as u64);
        counters.queue_ns.add(spent.waited.as_nanos() as u64);
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
                    let bytes = |item: &Item| match item {
                        Item::Bytes(output) => output.bytes().len(),
                        _ => 0,
                    };
                    state.output -= rest.0.iter().map(bytes).sum::<usize>();
                    counters.streams_failed.add(1);
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
    pub(crate) fn fail(self: &Arc<Self>, engine: &Engine, status: Status) {
        let mut state = self.state.lock();
        if state.fault.is_none() {
            state.fault = Some(Fault { status, text: status.to_string() });
            engine.counters.of(self.params.kind).streams_failed.add(1);
        }
        self.publish(state);
        self.withdraw(engine);
    }

    /// Wakes the owner if it was told AGAIN and something has changed for it.
    pub(crate) fn publish(self: &Arc<Self>, state: Guard<'_, State>) {
        let room = state.armed & ARMED_ROOM != 0;
        if room || (state.armed != 0 && state.has_news()) {
            self.list(state);
        }
    }

    /// Disarms the stream and tells its owner.
    pub(crate) fn list(self: &Arc<Self>, mut state: Guard<'_, State>) {
        let room = std::mem::take(&mut state.armed) & ARMED_ROOM != 0;
        let Some(queue) = &self.queue else {
            state.room |= room;
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
    pub(crate) fn arm(self: &Arc<Self>, mut state: Guard<'_, State>, bits: u8) {
        state.armed |= bits;
        if state.has_news() {
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
