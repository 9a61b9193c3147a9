//! Model tests: the real engine under the scheduler of the crate `shuttle`, which chooses at each
//! lock, wake-up and flag who runs next, and finds deadlocks by itself. An owner here acts only when
//! it is told to, so a wake-up that is lost is a deadlock.
//!
//! `RUSTFLAGS='--cfg weft_model' CARGO_TARGET_DIR=target/model cargo test --release --test model`;
//! `WEFT_MODEL_EFFORT=10` in the environment for ten times the schedules.

#![cfg(weft_model)]

#[path = "model/client.rs"]
mod client;
#[path = "model/host.rs"]
mod host;

use client::{Client, Sketch, Step};
use host::{Bell, Host, Post, chance, pick};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weft::codec::{Kind, stored};
use weft::engine::{Engine, Options as EngineOptions, Workers};
use weft::error::Status;
use weft::notify::Queue;
use weft::retain::Retention;
use weft::stream::{Flow, Stream};

/// Longer than any test: under the model nothing times out.
const LONG: Duration = Duration::from_secs(1 << 20);

/// Runs `test` under so many schedules chosen at random, and half as many chosen by PCT.
fn explore(name: &str, schedules: usize, test: impl Fn() + Send + Sync + Copy + 'static) {
    let effort = std::env::var("WEFT_MODEL_EFFORT").ok().and_then(|text| text.parse().ok());
    let schedules = schedules * effort.unwrap_or(1);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 17;
    let began = Instant::now();
    shuttle::Runner::new(RandomScheduler::new(schedules), config.clone()).run(test);
    shuttle::Runner::new(PctScheduler::new(3, schedules / 2), config).run(test);
    println!("{name}: {} schedules in {:.1?}", schedules + schedules / 2, began.elapsed());
}

/// An engine on a host's executor, and the host.
fn setup(post: Post, max_running: u32, threads: usize, options: EngineOptions) -> Setup {
    let host = Host::new(post, max_running as usize);
    let engine = Engine::new(EngineOptions {
        workers: Workers::Host(Box::new(host.executor())),
        max_running,
        ..options
    })
    .expect("engine");
    let workers = (0..threads).map(|_| host.worker()).collect();
    Setup { host, engine, workers, max_running }
}

struct Setup {
    host: Host,
    engine: Arc<Engine>,
    workers: Vec<thread::JoinHandle<()>>,
    max_running: u32,
}

impl Setup {
    /// After the last stream: nothing is left anywhere, and no account is out of balance.
    fn finish(self) {
        let engine = self.engine;
        assert!(engine.shutdown(LONG), "a task is left");
        self.host.close();
        for worker in self.workers {
            worker.join().expect("worker");
        }
        engine.trim();
        let stats = engine.stats();
        assert_eq!(stats.tasks_outstanding, 0);
        assert_eq!(stats.segments_queued, 0, "a segment is stranded");
        assert!(stats.tasks_peak <= u64::from(self.max_running), "{} tasks", stats.tasks_peak);
        assert_eq!((stats.streams_live, stats.encoders_running, stats.encoders_idle), (0, 0, 0));
        assert_eq!(stats.memory, 0, "bytes are still charged");
        assert_eq!(
            stats.streams_begun,
            stats.streams_done + stats.streams_failed + stats.streams_cancelled
        );
        assert!(stats.segments_tasks <= 1000 && stats.segments_refused <= 1000, "a count wrapped");
        assert!(self.host.posts() < 1000, "{} posts: a busy loop", self.host.posts());
        drop(self.host);
        assert_eq!(Arc::strong_count(&engine), 1, "someone still holds the engine");
    }
}

/// What an owner expects of the end of its stream.
#[derive(Clone, Copy, PartialEq)]
enum Expect {
    Whole,
    WholeOrShutdown,
    Failed,
}

fn check_end(client: &Client, step: &Step, expect: Expect) {
    match (step, expect) {
        (Step::Done, Expect::Whole | Expect::WholeOrShutdown) => client.check_whole(),
        (Step::Failed(Status::Shutdown), Expect::WholeOrShutdown) => client.check_part(),
        (Step::Failed(Status::Codec), Expect::Failed) => client.check_part(),
        _ => panic!("ended with {step:?}"),
    }
}

/// Owners with a queue: streams in slots, each moved on by its callback alone.
struct Loop {
    engine: Arc<Engine>,
    bell: Arc<Bell>,
    slots: Mutex<Vec<Option<Client>>>,
    open: AtomicUsize,
    chaos: bool,
    queue: Arc<Queue>,
}

impl Loop {
    /// `notify`: the queue has one; else the loop lives by completion events, as nginx does.
    fn new(engine: &Arc<Engine>, bell: &Arc<Bell>, notify: bool, chaos: bool) -> Arc<Loop> {
        let ring = Arc::clone(bell);
        let callback = move || ring.ring_by_weft();
        let queue = Queue::new(engine, notify.then(|| Box::new(callback) as _));
        Arc::new(Loop {
            engine: Arc::clone(engine),
            bell: Arc::clone(bell),
            slots: Mutex::default(),
            open: AtomicUsize::new(0),
            chaos,
            queue,
        })
    }

    fn begin(self: &Arc<Self>, sketch: Sketch, expect: Expect) {
        let index = {
            let mut slots = self.slots.lock().unwrap();
            slots.push(None);
            slots.len() - 1
        };
        let me = Arc::clone(self);
        let on_ready = move || {
            if me.chaos {
                assert_eq!(me.queue.dispatch(), 0, "a dispatch within a dispatch");
            }
            let client = me.slots.lock().unwrap()[index].take();
            me.go_on(index, client.expect("called back after free"), expect);
        };
        let mut options = sketch.options();
        options.queue = Some(Arc::clone(&self.queue));
        options.on_ready = Some(Box::new(on_ready));
        match Client::begin(&self.engine, sketch, options) {
            Ok(client) => {
                self.open.fetch_add(1, Ordering::Relaxed);
                self.go_on(index, client, expect);
            }
            Err(status) => assert!(
                status == Status::Limit
                    || (status == Status::Shutdown && expect == Expect::WholeOrShutdown)
            ),
        }
    }

    /// Moves a stream on until it must wait.
    fn go_on(self: &Arc<Self>, index: usize, mut client: Client, expect: Expect) {
        let step = client.step();
        if step == Step::Waiting && !(self.chaos && chance(6)) {
            self.slots.lock().unwrap()[index] = Some(client);
        } else {
            if step != Step::Waiting {
                check_end(&client, &step, expect);
            }
            drop(client);
            self.open.fetch_sub(1, Ordering::Relaxed);
            if self.chaos && chance(3) && self.slots.lock().unwrap().len() < 5 {
                self.begin(Sketch::random(), expect);
            }
        }
        if self.chaos && chance(4) {
            self.free_any();
        }
    }

    /// Frees a stream that may be anywhere: idle, listed, with segments queued or running.
    fn free_any(&self) {
        let freed = {
            let mut slots = self.slots.lock().unwrap();
            let len = slots.len();
            slots[pick(len)].take()
        };
        if freed.is_some() {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        drop(freed);
    }

    /// Dispatches as the header asks of a host, until nothing is open or `rounds` are over.
    fn run(self: &Arc<Self>, notify: bool, rounds: usize) {
        for _ in 0..rounds {
            if !notify {
                // Calls of its own may have run a task.
                while self.queue.dispatch() > 0 {}
            }
            if self.open.load(Ordering::Relaxed) == 0 {
                break;
            }
            self.bell.wait();
            self.queue.dispatch();
        }
    }

    /// Frees what is left, in whatever state, and the queue.
    fn close(self: Arc<Self>) {
        let left = std::mem::take(&mut *self.slots.lock().unwrap());
        drop(left);
        self.queue.close();
        self.bell.close();
        assert_eq!(self.queue.dispatch(), 0);
    }
}

/// A loop of its own thread with these streams, to their ends.
fn spawn_loop(
    setup: &Setup,
    notify: bool,
    chaos: bool,
    sketches: Vec<Sketch>,
    expect: Expect,
) -> thread::JoinHandle<()> {
    let (engine, host) = (Arc::clone(&setup.engine), setup.host.clone());
    thread::spawn(move || {
        let bell = Bell::new();
        host.completes_here(&bell);
        let lp = Loop::new(&engine, &bell, notify, chaos);
        for sketch in sketches {
            lp.begin(sketch, expect);
        }
        lp.run(notify, if chaos && chance(2) { pick(6) } else { usize::MAX });
        lp.close();
    })
}

/// An owner without a queue, who waits.
fn spawn_waiter(setup: &Setup, sketch: Sketch, expect: Expect) -> thread::JoinHandle<()> {
    let engine = Arc::clone(&setup.engine);
    thread::spawn(move || {
        let options = sketch.options();
        match Client::begin(&engine, sketch, options) {
            Ok(client) => wait_to_end(client, expect),
            Err(Status::Shutdown) => assert!(expect == Expect::WholeOrShutdown),
            Err(status) => assert_eq!(status, Status::Limit),
        }
    })
}

fn wait_to_end(mut client: Client, expect: Expect) {
    loop {
        match client.step() {
            Step::Waiting => {
                client.wait();
            }
            step => return check_end(&client, &step, expect),
        }
    }
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("owner");
    }
}

/// Owners of every kind on a host that takes tasks as `post` says. With `notify` loops are told;
/// without, there is one loop, which hears of its tasks' ends.
fn owners_reach_the_end(post: Post, notify: bool, loops: usize, waiters: usize) {
    let setup = setup(post, 1 + pick(2) as u32, 1 + pick(2), EngineOptions::default());
    let mut owners: Vec<_> = (0..loops)
        .map(|_| {
            let sketches = (0..1 + pick(2)).map(|_| Sketch::random()).collect();
            spawn_loop(&setup, notify, false, sketches, Expect::Whole)
        })
        .collect();
    owners.extend((0..waiters).map(|_| spawn_waiter(&setup, Sketch::random(), Expect::Whole)));
    join(owners);
    setup.finish();
}

const POSTS: [Post; 6] = [
    Post::Takes,
    Post::RefusesAll,
    Post::RefusesEverySecond,
    Post::RefusesAtRandom,
    Post::RunsInside,
    Post::Continues,
];

#[test]
fn loops_end_whatever_is_refused() {
    for post in POSTS {
        let name = format!("loops, {post:?}");
        explore(&name, 1200, move || owners_reach_the_end(post, true, 1 + pick(2), 0));
    }
}

#[test]
fn a_loop_that_only_hears_of_its_tasks_ends() {
    for post in POSTS {
        let name = format!("loop without notify, {post:?}");
        explore(&name, 1200, move || owners_reach_the_end(post, false, 1, 0));
    }
}

#[test]
fn waiters_end_whatever_is_refused() {
    for post in POSTS {
        let name = format!("waiters, {post:?}");
        explore(&name, 1200, move || owners_reach_the_end(post, true, 0, 1 + pick(3)));
    }
}

#[test]
fn loops_and_waiters_end_together() {
    for post in POSTS {
        let name = format!("loops and waiters, {post:?}");
        explore(&name, 800, move || owners_reach_the_end(post, true, 1, 1 + pick(2)));
    }
}

/// A thread with a queue that waits for a stream without one does not dispatch meanwhile.
#[test]
fn a_waiter_needs_no_loop_to_come_by() {
    explore("a loop that waits", 3000, || {
        let setup = setup(Post::RefusesAtRandom, 1, 1, EngineOptions::default());
        let engine = Arc::clone(&setup.engine);
        let host = setup.host.clone();
        let owner = thread::spawn(move || {
            let bell = Bell::new();
            host.completes_here(&bell);
            let lp = Loop::new(&engine, &bell, true, false);
            lp.begin(Sketch::random(), Expect::Whole);
            let sketch = Sketch::random();
            let options = sketch.options();
            wait_to_end(Client::begin(&engine, sketch, options).expect("begin"), Expect::Whole);
            lp.run(true, usize::MAX);
            lp.close();
        });
        let other = spawn_waiter(&setup, Sketch::random(), Expect::Whole);
        join(vec![owner, other]);
        setup.finish();
    });
}

/// The host's thread does not run a second segment before more is fed, and the owner does not feed
/// before it is told: where room is told by nobody but the second segment, both wait for ever.
#[test]
fn a_waiter_is_told_of_room_while_a_segment_is_under_way() {
    explore("room", 3000, || {
        let host = Host::new(Post::Takes, 2);
        let engine = Engine::new(EngineOptions {
            workers: Workers::Host(Box::new(host.executor())),
            max_running: 2,
            ..EngineOptions::default()
        })
        .expect("engine");
        let (fed, may_run) = shuttle::sync::mpsc::channel();
        let worker = host.worker_when(may_run);
        let options = weft::stream::Options {
            segment_size: 4096,
            max_tasks: 2,
            inline_us: 0,
            ..weft::stream::Options::new(Kind::Stored)
        };
        let mut stream = Stream::begin(&engine, options).expect("begin");
        let piece = [b'r'; 2048];
        while stream.feed(&piece).expect("feed").1 == Flow::Ok {}
        fed.send(()).expect("worker");
        loop {
            while stream.poll(usize::MAX, &mut |_| ()).expect("poll").flow == Flow::Ok {}
            assert_eq!(stream.wait(None), Ok(Flow::Ok));
            if stream.feed(&piece[..1]).expect("feed").0 == 1 {
                break;
            }
        }
        fed.send(()).expect("worker");
        stream.finish().expect("finish");
        drop(fed);
        while stream.poll(usize::MAX, &mut |_| ()).expect("poll").flow != Flow::Done {
            stream.wait(None).expect("wait");
        }
        drop(stream);
        assert!(engine.shutdown(LONG));
        host.close();
        worker.join().expect("worker");
    });
}

/// Streams are freed, begun and dispatched from within callbacks, own ones and others; loops stop
/// half-way, and free everything while workers notify.
#[test]
fn callbacks_may_do_anything() {
    explore("chaos in callbacks", 8000, || {
        let post = POSTS[pick(POSTS.len())];
        let setup = setup(post, 1 + pick(2) as u32, 2, EngineOptions::default());
        let mut owners: Vec<_> = (0..1 + pick(2))
            .map(|_| {
                let sketches = (0..1 + pick(3)).map(|_| Sketch::random()).collect();
                spawn_loop(&setup, true, true, sketches, Expect::Whole)
            })
            .collect();
        if chance(2) {
            owners.push(spawn_waiter(&setup, Sketch::random(), Expect::Whole));
        }
        join(owners);
        setup.finish();
    });
}

/// Owners without a queue free their streams after any number of steps.
#[test]
fn cancel_in_any_state() {
    explore("cancel", 6000, || {
        let post = POSTS[pick(POSTS.len())];
        let setup = setup(post, 1 + pick(2) as u32, 1 + pick(2), EngineOptions::default());
        let engine = Arc::clone(&setup.engine);
        let canceller = thread::spawn(move || {
            for _ in 0..2 {
                let sketch = Sketch::random();
                let options = sketch.options();
                let mut client = Client::begin(&engine, sketch, options).expect("begin");
                let mut steps = pick(4);
                while steps > 0 && client.step() == Step::Waiting {
                    steps -= 1;
                    if steps > 0 || chance(2) {
                        client.wait();
                    }
                }
            }
        });
        let other = spawn_waiter(&setup, Sketch::random(), Expect::Whole);
        join(vec![canceller, other]);
        setup.finish();
    });
}

/// A segment that fails, fails its stream: the owner is told, the end never looks like an end, and
/// nobody else is touched.
#[test]
fn a_failing_segment_fails_its_stream_only() {
    explore("failing segments", 6000, || {
        let post = POSTS[pick(POSTS.len())];
        let setup = setup(post, 1 + pick(2) as u32, 1 + pick(2), EngineOptions::default());
        let notify = chance(2);
        let bad = vec![Sketch::random().that_fails(stored::FAILS)];
        let mut owners = vec![
            spawn_loop(&setup, true, false, bad, Expect::Failed),
            spawn_waiter(&setup, Sketch::random(), Expect::Whole),
        ];
        if notify {
            let bad = Sketch::random().that_fails(stored::FAILS);
            owners.push(spawn_waiter(&setup, bad, Expect::Failed));
        }
        join(owners);
        assert_eq!(setup.engine.stats().streams_failed, 1 + u64::from(notify));
        setup.finish();
    });
}

/// So little memory that tasks put their segments back.
#[test]
fn too_little_memory_for_two() {
    for (post, notify, loops, waiters) in [
        (Post::Takes, true, 2, 0),
        (Post::Takes, false, 1, 0),
        (Post::RefusesAtRandom, true, 1, 1),
        (Post::RefusesAtRandom, false, 1, 0),
        (Post::Continues, true, 1, 1),
        (Post::Takes, true, 0, 3),
        (Post::RefusesEverySecond, true, 0, 3),
    ] {
        let name = format!("little memory, {post:?}, {loops} loops, {waiters} waiters, {notify}");
        explore(&name, 1600, move || {
            let options = EngineOptions {
                max_memory: 13_000 + 4_000 * pick(4) as u64,
                retention: [Retention::All, Retention::Bounded, Retention::None][pick(3)],
                ..EngineOptions::default()
            };
            let setup = setup(post, 2 + pick(2) as u32, 3, options);
            let mut owners: Vec<_> = (0..loops)
                .map(|_| {
                    let sketches = (0..2 + pick(2)).map(|_| Sketch::random()).collect();
                    spawn_loop(&setup, notify, false, sketches, Expect::Whole)
                })
                .collect();
            owners.extend(
                (0..waiters).map(|_| spawn_waiter(&setup, Sketch::random(), Expect::Whole)),
            );
            join(owners);
            setup.finish();
        });
    }
}

/// Shutdown at any moment: what waits fails with `Shutdown`, its owners are woken, what runs ends.
#[test]
fn shutdown_at_any_moment() {
    for post in [Post::Takes, Post::RefusesAtRandom, Post::Continues, Post::RefusesAll] {
        explore(&format!("shutdown, {post:?}"), 3200, move || {
            let setup = setup(post, 1 + pick(2) as u32, 1 + pick(2), EngineOptions::default());
            let sketches = (0..1 + pick(2)).map(|_| Sketch::random()).collect();
            let owners = vec![
                spawn_loop(&setup, true, chance(3), sketches, Expect::WholeOrShutdown),
                spawn_waiter(&setup, Sketch::random(), Expect::WholeOrShutdown),
            ];
            for _ in 0..pick(40) {
                thread::yield_now();
            }
            assert!(setup.engine.shutdown(LONG));
            assert_eq!(setup.engine.stats().segments_queued, 0);
            join(owners);
            setup.finish();
        });
    }
}

/// Hosts that give tasks up: the last one fails what is queued, and wakes the owners.
#[test]
fn discarded_tasks_leave_nobody_waiting() {
    for post in [Post::Discards, Post::DiscardsSome] {
        explore(&format!("discard, {post:?}"), 4000, move || {
            let setup = setup(post, 1 + pick(3) as u32, 1 + pick(2), EngineOptions::default());
            let sketches = (0..1 + pick(2)).map(|_| Sketch::random()).collect();
            let mut owners =
                vec![spawn_loop(&setup, true, false, sketches, Expect::WholeOrShutdown)];
            if chance(2) {
                owners.push(spawn_waiter(&setup, Sketch::random(), Expect::WholeOrShutdown));
            }
            join(owners);
            setup.finish();
        });
    }
}
