//! News: how the owner of a stream learns that something has become possible.

use crate::engine::Engine;
use crate::quiet::Cleanup;
use crate::shared::Core;
use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A call into the host.
pub type Callback = Box<dyn Fn() + Send + Sync>;

/// Work that one event-loop thread may do inside its calls: so much in so much time.
const INLINE_BURST: Duration = Duration::from_millis(1);
const INLINE_PERIOD: Duration = Duration::from_millis(2);
const BURST_NS: i64 = INLINE_BURST.as_nanos() as i64;

struct State {
    news: VecDeque<Arc<Core>>,
    /// `notify` was called, or need not be, since the last dispatch.
    signalled: bool,
    dispatching: bool,
    closed: bool,
    /// Calls of `notify` in progress.
    notifying: u32,
}

/// The streams that have news for one thread.
pub struct Queue {
    engine: Arc<Engine>,
    notify: Option<Callback>,
    state: Mutex<State>,
    notified: Condvar,
    inline: Mutex<Allowance>,
}

/// A token bucket for work done on the loop.
struct Allowance {
    // Nanoseconds. Below 0 after a segment that was longer than the burst: made up for by a pause.
    left: i64,
    filled: Instant,
}

impl Queue {
    /// A queue for the calling thread.
    pub fn new(engine: &Arc<Engine>, notify: Option<Callback>) -> Arc<Queue> {
        Arc::new(Queue {
            engine: Arc::clone(engine),
            notify,
            state: Mutex::new(State {
                news: VecDeque::new(),
                signalled: false,
                dispatching: false,
                closed: false,
                notifying: 0,
            }),
            notified: Condvar::new(),
            inline: Mutex::new(Allowance { left: BURST_NS, filled: Instant::now() }),
        })
    }

    /// The engine it was made for.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Puts a stream on the list. Called with the stream's state locked, so that being armed and
    /// being listed change together; `ring` follows without the lock, if this says so.
    pub(crate) fn put(&self, core: &Arc<Core>) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.news.push_back(Arc::clone(core));
        !std::mem::replace(&mut state.signalled, true)
    }

    /// Asks for a dispatch although no stream has news: tasks must be posted.
    pub(crate) fn kick(&self) {
        let ring = {
            let mut state = self.state.lock();
            !state.closed && !std::mem::replace(&mut state.signalled, true)
        };
        if ring {
            self.ring();
        }
    }

    /// Calls `notify`, with no lock held.
    pub(crate) fn ring(&self) {
        let Some(notify) = &self.notify else { return };
        {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            state.notifying += 1;
        }
        let _ended = Cleanup::new(|| {
            let mut state = self.state.lock();
            state.notifying -= 1;
            if state.closed {
                self.notified.notify_all();
            }
        });
        notify();
    }

    /// Whether it can still wake anyone.
    pub(crate) fn is_open(&self) -> bool {
        !self.state.lock().closed
    }

    /// Calls back each stream that had news when the dispatch began. Says how many it called.
    pub fn dispatch(&self) -> usize {
        {
            let mut state = self.state.lock();
            if state.dispatching || state.closed {
                return 0;
            }
            state.dispatching = true;
            // From here on news needs a new signal.
            state.signalled = false;
        }
        let ended = Cleanup::new(|| self.break_off());
        // Without `notify`, nothing brings the thread here again for what no task will come for.
        while self.engine.pump(true) && self.notify.is_none() {}
        // After it: what the pump did here is news too, and without `notify` no one else says so.
        let mut left = self.state.lock().news.len();
        let mut called = 0;
        while left > 0 {
            left -= 1;
            // One at a time: a callback may free any stream, or the queue.
            let Some(core) = self.state.lock().news.pop_front() else {
                break;
            };
            if core.accept_news() {
                core.call_back();
                called += 1;
            }
        }
        self.state.lock().dispatching = false;
        ended.cancel();
        called
    }

    /// A callback has panicked: the streams behind it are for the next dispatch.
    fn break_off(&self) {
        let ring = {
            let mut state = self.state.lock();
            state.dispatching = false;
            !state.news.is_empty() && !std::mem::replace(&mut state.signalled, true)
        };
        if ring {
            self.ring();
        }
    }

    /// Ends it: no `notify` is in progress afterwards, and none will be.
    pub fn close(&self) {
        let news = {
            let mut state = self.state.lock();
            state.closed = true;
            let news = std::mem::take(&mut state.news);
            while state.notifying > 0 {
                state = self.notified.wait(state, None);
            }
            news
        };
        drop(news);
        // What counted on this queue to be posted must find another.
        self.engine.pump(false);
    }

    /// Whether the owner may spend `cost` nanoseconds inside its call now.
    pub(crate) fn allow_inline(&self, cost: u64) -> bool {
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        let least = cost.min(BURST_NS);
        let mut inline = self.inline.lock();
        if inline.left < least {
            let now = Instant::now();
            let gained = now
                .duration_since(inline.filled)
                .mul_f64(INLINE_BURST.as_secs_f64() / INLINE_PERIOD.as_secs_f64());
            let gained = i64::try_from(gained.as_nanos()).unwrap_or(i64::MAX);
            inline.filled = now;
            inline.left = BURST_NS.min(inline.left.saturating_add(gained));
        }
        if inline.left < least {
            return false;
        }
        inline.left = inline.left.saturating_sub(cost);
        true
    }
}

#[cfg(all(test, not(weft_model)))]
mod tests {
    use super::*;
    use crate::engine::Options;

    #[test]
    fn a_segment_longer_than_the_burst_may_run_inline_and_is_made_up_for() {
        let engine = Engine::new(Options::default()).expect("engine");
        let queue = Queue::new(&engine, None);
        let hour = 3_600_000_000_000;
        assert!(queue.allow_inline(hour), "inline_us above 1000 has no effect");
        assert!(!queue.allow_inline(1_000_000), "and there is no end to it");
    }
}
