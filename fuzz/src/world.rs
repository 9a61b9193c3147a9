//! A host of the C interface that does all that it may: calls in any order on several streams, from
//! inside callbacks too, with an executor that does as the script says. Then it comes to an end as
//! an event loop would, acting on news only, and everything must be over, and freed.

use crate::body::Body;
use crate::c_interface::*;
use crate::host::{Host, Post};
use crate::reader::{Numbers, Reader};
use crate::threads;
use core::ffi::c_void;
use std::cell::{Cell, RefCell};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft::codec::Kind;

/// The codecs that C can ask for.
pub const KINDS: [Kind; 5] = [Kind::Zstd, Kind::Brotli, Kind::Gzip, Kind::Deflate, Kind::Zlib];

/// Streams at once.
const STREAMS: usize = 5;
const QUEUES: usize = 2;
/// Commands of a script.
const COMMANDS: usize = 400;
/// Bytes that all streams of a script may be given.
const BYTES: usize = 400 << 10;
/// Callbacks inside callbacks.
const DEPTH: usize = 3;

/// What is handed to `on_ready`: the place of a stream. It stays where it is.
struct Place {
    world: Cell<*const c_void>,
    body: RefCell<Option<Body>>,
}

struct Queue {
    handle: Cell<*mut weft_queue>,
    has_notify: bool,
    rung: AtomicBool,
    closed: AtomicBool,
    dispatching: Cell<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum Workers {
    Host,
    Inline,
    Own,
}

struct World<'a> {
    reader: RefCell<Reader<'a>>,
    workers: Workers,
    /// Threads there were before the engine.
    threads_before: usize,
    host: Box<Host>,
    engine: Cell<*mut weft_engine>,
    stopped: Cell<bool>,
    queues: [Queue; QUEUES],
    places: [Place; STREAMS],
    fed: Cell<usize>,
    depth: Cell<usize>,
    /// The script is over: callbacks only take note.
    ending: Cell<bool>,
}

/// Runs an input; panics where something is wrong.
pub fn run(input: &[u8]) {
    let world = World::new(Reader::new(input));
    for place in &world.places {
        place.world.set((&raw const *world).cast());
    }
    for _ in 0..COMMANDS {
        if world.reader.borrow().is_empty() {
            break;
        }
        world.command();
    }
    world.end();
}

impl<'a> World<'a> {
    fn new(mut reader: Reader<'a>) -> Box<World<'a>> {
        let workers = reader.pick(&[
            Workers::Host,
            Workers::Host,
            Workers::Host,
            Workers::Host,
            Workers::Inline,
            Workers::Own,
        ]);
        let most = 1 + reader.below(3);
        let host = Host::new(post(&mut reader), most);
        let executor = host.executor();
        // SAFETY: integers and pointers that may be NULL.
        let mut options: weft_engine_options = unsafe { std::mem::zeroed() };
        // SAFETY: valid for writing.
        unsafe { weft_engine_options_init(&mut options) };
        options.max_running = most as u32;
        match workers {
            Workers::Host => options.executor = &executor,
            Workers::Inline => options.max_running = 0,
            Workers::Own => options.threads = most as u32,
        }
        options.max_memory = reader.pick(&[0, 0, 0, 1, 300 << 10, 4 << 20]);
        options.retention = reader.pick(&[WEFT_RETAIN_ALL, WEFT_RETAIN_BOUNDED, WEFT_RELEASE_ALL]);
        options.retain_bytes = reader.pick(&[64 << 20, 1 << 20, 10_000, 0]);
        options.overload_ms = reader.pick(&[2_000, 0, 1]);
        let threads_before = if workers == Workers::Own { threads::count() } else { 0 };
        let mut engine = null_mut();
        // SAFETY: valid options.
        assert!(unsafe { weft_engine_new(&options, &mut engine) } == WEFT_OK);
        let notifies = reader.byte();
        let queue = |number: usize| Queue {
            handle: Cell::new(null_mut()),
            has_notify: notifies >> number & 1 == 0,
            rung: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            dispatching: Cell::new(false),
        };
        let place = |_| Place { world: Cell::new(null()), body: RefCell::new(None) };
        let world = Box::new(World {
            reader: RefCell::new(reader),
            workers,
            threads_before,
            host,
            engine: Cell::new(engine),
            stopped: Cell::new(false),
            queues: [0, 1].map(queue),
            places: std::array::from_fn(place),
            fed: Cell::new(0),
            depth: Cell::new(0),
            ending: Cell::new(false),
        });
        for queue in &world.queues {
            let mut handle = null_mut();
            let notify = queue.has_notify.then_some(ring as unsafe extern "C" fn(*mut c_void));
            let ctx = std::ptr::from_ref(queue).cast_mut().cast();
            // SAFETY: a live engine; the queue stays where it is.
            assert!(unsafe { weft_queue_new(engine, notify, ctx, &mut handle) } == WEFT_OK);
            queue.handle.set(handle);
        }
        world
    }

    fn byte(&self) -> u8 {
        self.reader.borrow_mut().byte()
    }

    fn short(&self) -> usize {
        self.reader.borrow_mut().short()
    }

    fn below(&self, limit: usize) -> usize {
        self.reader.borrow_mut().below(limit)
    }

    fn pick<T: Copy>(&self, of: &[T]) -> T {
        self.reader.borrow_mut().pick(of)
    }

    fn with(&self, place: usize, call: impl FnOnce(&mut Body)) {
        if let Some(body) = &mut *self.places[place].body.borrow_mut() {
            call(body);
        }
    }

    fn command(&self) {
        let (what, place) = (self.below(32), self.below(STREAMS));
        let excuse = &self.host.excuse;
        match what {
            0..=2 => self.begin(place),
            3..=7 => self.feed(place),
            8 | 9 => self.with(place, |body| body.flush(excuse)),
            10 => self.with(place, |body| body.finish(excuse)),
            11..=13 => {
                let cap = self.pick(&[40_000, 1_000, 50, 1]);
                self.with(place, |body| {
                    body.poll(cap, excuse);
                });
            }
            14 => self.with(place, |body| body.query(excuse)),
            15 => {
                let timeout = self.timeout();
                self.with(place, |body| {
                    body.wait(timeout);
                });
            }
            16 => self.with(place, |body| {
                body.stats();
                body.error();
            }),
            17 => self.free(place),
            18 | 19 => {
                self.host.run(place);
            }
            20 => self.host.run_elsewhere(place, false),
            21 => self.host.run_elsewhere(place, true),
            22 => {
                self.host.join();
            }
            23 => {
                let new = post(&mut self.reader.borrow_mut());
                self.host.post.set(new);
            }
            24..=26 => {
                self.dispatch(place % QUEUES);
            }
            27 => {
                self.stats();
                // SAFETY: NULL or a live engine.
                unsafe { weft_engine_start(self.engine.get()) };
                // SAFETY: NULL or a live engine.
                unsafe { weft_engine_trim(self.engine.get()) };
            }
            28 => self.wrong_calls(place),
            // What ends everything comes seldom.
            _ => match self.byte() {
                0..=7 => self.host.discard(place),
                8..=10 if self.depth.get() == 0 => self.shut_down(),
                11 if self.depth.get() == 0 => self.free_engine(),
                12..=14 => self.free_queue(place % QUEUES),
                _ => {}
            },
        }
    }

    fn timeout(&self) -> u32 {
        // With a host whose tasks stand still, a wait may rightly last.
        if self.workers == Workers::Host { self.below(2) as u32 } else { 20_000 }
    }

    fn begin(&self, place: usize) {
        self.free(place);
        let kind = self.pick(&KINDS);
        // SAFETY: integers and pointers that may be NULL.
        let mut options: weft_stream_options = unsafe { std::mem::zeroed() };
        // SAFETY: valid for writing.
        unsafe { weft_stream_options_init(&mut options) };
        options.codec = kind.to_c();
        let cheap = match kind {
            Kind::Zstd => 7,
            Kind::Brotli => 6,
            _ => 10,
        };
        options.level = self.below(cheap) as i32;
        options.overload_level = self.pick(&[WEFT_LEVEL_NONE, WEFT_LEVEL_DEFAULT, 1]);
        options.window_log = self.pick(&[0, 0, 10, 16]);
        options.content_length = self.pick(&[WEFT_LENGTH_UNKNOWN, 0, 10_000, 30_000]);
        options.segment_size = self.pick(&[4_096, 4_096, 10_000, 0]);
        options.history_size = self.pick(&[WEFT_SIZE_DEFAULT, 0, 100, 5_000]);
        options.max_input = self.pick(&[0, 0, 1, 6_000]);
        options.max_output = self.pick(&[0, 0, 1, 600]);
        options.max_tasks = self.pick(&[0, 1, 2, 8]);
        options.inline_us = self.pick(&[0, 0, 0, 200, u32::MAX]);
        let how = self.byte();
        let queue = match usize::from(how & 3) {
            number if number < QUEUES => {
                let handle = self.queues[number].handle.get();
                options.queue = handle;
                (!handle.is_null()).then_some(number)
            }
            _ => None,
        };
        if how & 0x30 != 0x30 {
            options.on_ready = Some(on_ready);
            options.user = std::ptr::from_ref(&self.places[place]).cast_mut().cast();
        }
        // SAFETY: NULL or a live engine, valid options, a live queue of this engine or none.
        match unsafe { Body::begin(self.engine.get(), &options, kind, queue) } {
            Ok(body) => *self.places[place].body.borrow_mut() = Some(body),
            Err(WEFT_E_LIMIT | WEFT_E_OVERLOAD) => {}
            Err(WEFT_E_SHUTDOWN) => assert!(self.stopped.get(), "begin says shut down"),
            Err(status) => assert!(
                status == WEFT_E_INVALID && self.engine.get().is_null(),
                "begin answered {status}"
            ),
        }
    }

    fn feed(&self, place: usize) {
        let (count, seed) = (self.short() % 20_000, self.byte());
        let count = count.min(BYTES - self.fed.get());
        self.fed.set(self.fed.get() + count);
        // A bit of noise, over and over.
        let mut numbers = Numbers::new(seed.into());
        let noise: Vec<u8> = (0..1 + usize::from(seed) * 8).map(|_| numbers.any() as u8).collect();
        let bytes: Vec<u8> = noise.iter().copied().cycle().take(count).collect();
        let excuse = &self.host.excuse;
        self.with(place, |body| {
            body.feed(&bytes, excuse);
        });
    }

    fn free(&self, place: usize) {
        let body = self.places[place].body.borrow_mut().take();
        if let Some(body) = body {
            body.free();
        }
    }

    /// How many callbacks there were.
    fn dispatch(&self, number: usize) -> usize {
        let queue = &self.queues[number];
        let inside = queue.dispatching.replace(true);
        // From inside, a loop does not hear its bell.
        if !inside {
            queue.rung.store(false, Ordering::SeqCst);
        }
        // SAFETY: NULL or live.
        let count = unsafe { weft_queue_dispatch(queue.handle.get()) };
        assert!(!inside || count == 0, "a dispatch inside a dispatch called back");
        queue.dispatching.set(inside);
        count
    }

    fn free_queue(&self, number: usize) {
        for place in 0..STREAMS {
            let names_it = |body: &Body| body.queue == Some(number);
            if self.places[place].body.borrow().as_ref().is_some_and(names_it) {
                self.free(place);
            }
        }
        let queue = &self.queues[number];
        let handle = queue.handle.replace(null_mut());
        // SAFETY: NULL or live, and not used afterwards.
        unsafe { weft_queue_free(handle) };
        queue.closed.store(true, Ordering::SeqCst);
    }

    fn stop(&self) {
        self.stopped.set(true);
        self.host.excuse.set(true);
    }

    fn shut_down(&self) {
        if self.engine.get().is_null() {
            return;
        }
        self.stop();
        let timeout = self.below(2) as u32;
        // SAFETY: a live engine; not inside a callback.
        let status = unsafe { weft_engine_shutdown(self.engine.get(), timeout) };
        assert!(status == WEFT_OK || status == WEFT_AGAIN, "shutdown answered {status}");
    }

    fn free_engine(&self) {
        self.stop();
        // SAFETY: NULL or live, and not used afterwards.
        unsafe { weft_engine_free(self.engine.replace(null_mut())) };
    }

    fn stats(&self) -> Option<weft_engine_info> {
        if self.engine.get().is_null() {
            return None;
        }
        // SAFETY: integers only.
        let mut info: weft_engine_info = unsafe { std::mem::zeroed() };
        info.struct_size = size_of::<weft_engine_info>();
        // SAFETY: a live engine.
        assert!(unsafe { weft_engine_stats(self.engine.get(), &mut info) } == WEFT_OK);
        let live = self.places.iter().filter(|place| place.body.borrow().is_some()).count();
        assert!(info.streams_live == live as u64, "{live} streams, not {}", info.streams_live);
        Some(info)
    }

    /// Calls that are wrong in themselves: each says so, and nothing happens.
    fn wrong_calls(&self, place: usize) {
        let (mut count, mut events) = (7, 7);
        let (engine, body) = (self.engine.get(), null_mut());
        // SAFETY: NULL is allowed everywhere; what is not NULL is live.
        unsafe {
            let refused = [
                weft_stream_feed(body, null(), 0, &mut count),
                weft_stream_flush(body),
                weft_stream_finish(body),
                weft_stream_poll(body, null_mut(), 0, &mut count, &mut events),
                weft_stream_poll(body, null_mut(), 9, &mut count, &mut events),
                weft_stream_wait(body, u32::MAX),
                weft_stream_begin(engine, null(), &mut null_mut()),
                weft_engine_stats(engine, null_mut()),
                weft_engine_new(null(), null_mut()),
                weft_queue_new(engine, None, null_mut(), null_mut()),
                weft_negotiate(null(), 3, null(), 0, null_mut()),
            ];
            assert!(refused == [WEFT_E_INVALID; 11], "{refused:?}");
            assert!(count == 7 && events == 7, "outputs of calls that failed");
            weft_stream_free(null_mut());
            weft_engine_free(null_mut());
            weft_task_run(null_mut());
            weft_task_discard(null_mut());
        }
        // Sizes and options that cannot be.
        // SAFETY: integers and pointers that may be NULL.
        let mut options: weft_stream_options = unsafe { std::mem::zeroed() };
        // SAFETY: valid for writing.
        unsafe { weft_stream_options_init(&mut options) };
        match place {
            0 => options.struct_size = self.below(24),
            1 => options.struct_size += 1,
            2 => options.codec = 6 + u32::from(self.byte()),
            3 => options.window_log = 24 + u32::from(self.byte()),
            _ => options.max_tasks = 257,
        }
        let mut handle = null_mut();
        // SAFETY: a live engine or NULL; the struct is at least as large as is said, or refused
        // before its tail is looked at.
        let status = unsafe { weft_stream_begin(engine, &options, &mut handle) };
        let expected =
            status == WEFT_E_INVALID || (status == WEFT_E_SHUTDOWN && self.stopped.get());
        assert!(expected && handle.is_null(), "{status}");
    }

    // ---- the end

    fn end(&self) {
        self.ending.set(true);
        let how = self.byte();
        if how & 1 == 0 {
            // An event loop that gives nothing more, and takes all that comes.
            self.finish_all();
        }
        self.host.post.set(Post::Takes);
        if how & 2 != 0 {
            self.free_engine();
        }
        for place in 0..STREAMS {
            self.free(place);
        }
        for number in 0..QUEUES {
            self.free_queue(number);
        }
        self.host.join();
        // Tasks that are out although nothing is left to do.
        while how & 4 != 0 && self.host.waiting() > 0 {
            self.host.discard(0);
        }
        while self.host.run(0) {}
        if let Some(info) = self.settled() {
            assert!(info.tasks_outstanding == 0, "tasks are out");
            assert!(info.segments_queued == 0, "segments are queued");
            let ended = info.streams_done + info.streams_failed + info.streams_cancelled;
            assert!(info.streams_begun == ended, "{} begun, {ended} ended", info.streams_begun);
            // SAFETY: a live engine.
            unsafe { weft_engine_trim(self.engine.get()) };
            let info = self.stats().expect("a live engine");
            assert!(info.memory == 0, "{} bytes are left", info.memory);
            assert!(info.encoders_idle == 0 && info.encoders_running == 0, "encoders are left");
        }
        self.free_engine();
        if self.workers == Workers::Own {
            threads::wait_for(self.threads_before);
        }
        let released = usize::from(self.workers == Workers::Host);
        assert!(self.host.released() == released, "released {} times", self.host.released());
    }

    /// The figures, once threads of weft's own have come to rest.
    fn settled(&self) -> Option<weft_engine_info> {
        self.stats()?;
        if self.workers == Workers::Own {
            // SAFETY: a live engine.
            let status = unsafe { weft_engine_shutdown(self.engine.get(), 20_000) };
            assert!(status == WEFT_OK, "threads do not end: {status}");
        }
        self.stats()
    }

    fn finish_all(&self) {
        let mut round = 0;
        let (mut idle_since, mut idle) = (Instant::now(), 0);
        loop {
            round += 1;
            assert!(round < 100_000, "no end");
            let mut moved = self.host.join();
            for place in 0..STREAMS {
                moved |= self.act(place, round == 1);
            }
            if self
                .places
                .iter()
                .all(|place| place.body.borrow().as_ref().is_none_or(|body| body.over.is_some()))
            {
                return;
            }
            moved |= self.host.run(round);
            for number in 0..QUEUES {
                let queue = &self.queues[number];
                // With notify, nobody dispatches without having been told to.
                if queue.rung.load(Ordering::SeqCst) {
                    moved = true;
                    self.dispatch(number);
                } else if !queue.has_notify {
                    moved |= self.dispatch(number) > 0;
                }
            }
            if moved {
                (idle_since, idle) = (Instant::now(), 0);
                continue;
            }
            idle += 1;
            // Only threads of weft's own go on by themselves.
            let patience = if self.workers == Workers::Own { 20_000 } else { 0 };
            let over = idle > 10 && idle_since.elapsed() >= Duration::from_millis(patience);
            assert!(!over, "it stands still");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Finishes a stream and takes what is ready, if there is news of it; whether it did anything.
    fn act(&self, place: usize, first: bool) -> bool {
        let excuse = &self.host.excuse;
        let mut moved = false;
        self.with(place, |body| {
            let told = body.queue.is_some() && body.calls_back;
            if first {
                body.finish(excuse);
            }
            // Whom AGAIN was the last word to, whatever the call, comes back when it is called.
            if body.over.is_some() || (told && body.waits) {
                return;
            }
            loop {
                match body.poll(10_000, excuse) {
                    WEFT_OK => moved = true,
                    WEFT_AGAIN => break,
                    _ => {
                        moved = true;
                        return;
                    }
                }
            }
            if body.queue.is_none() {
                let timeout = if self.workers == Workers::Host { 0 } else { 20_000 };
                moved |= body.wait(timeout) == WEFT_OK;
            }
        });
        moved
    }
}

fn post(reader: &mut Reader<'_>) -> Post {
    reader.pick(&[
        Post::Takes,
        Post::Takes,
        Post::Takes,
        Post::Refuses,
        Post::RefusesSome,
        Post::RunsInside,
        Post::RunsBeside,
        Post::DiscardsInside,
    ])
}

unsafe extern "C" fn ring(ctx: *mut c_void) {
    // SAFETY: queues stay where they are until the end, which waits for all threads.
    let queue = unsafe { &*ctx.cast::<Queue>() };
    assert!(!queue.closed.load(Ordering::SeqCst), "notified after the queue was freed");
    queue.rung.store(true, Ordering::SeqCst);
}

unsafe extern "C" fn on_ready(user: *mut c_void) {
    // SAFETY: places stay where they are until the end.
    let place = unsafe { &*user.cast::<Place>() };
    // SAFETY: the world lives as long; callbacks come on its thread, inside a dispatch.
    let world = unsafe { &*place.world.get().cast::<World<'_>>() };
    match &mut *place.body.borrow_mut() {
        Some(body) => body.waits = false,
        None => panic!("a stream that was freed is called back"),
    }
    if world.ending.get() || world.depth.get() == DEPTH {
        return;
    }
    world.depth.set(world.depth.get() + 1);
    for _ in 0..world.below(4) {
        world.command();
    }
    world.depth.set(world.depth.get() - 1);
}
