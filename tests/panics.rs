//! Panics where none should be, and tasks that are lost: the engine gets its counts back, the stream
//! concerned fails, and everything else goes on.

#![cfg(not(weft_model))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use weft::codec::{Kind, stored};
use weft::engine::{Engine, Options as EngineOptions, Workers};
use weft::error::Status;
use weft::executor::{Executor, Task};
use weft::notify::Queue;
use weft::stream::{Flow, Options, Stream};

#[derive(Clone, Default)]
struct Shelf {
    tasks: Arc<Mutex<Vec<Task>>>,
    panics: Arc<AtomicBool>,
}

impl Executor for Shelf {
    fn post(&self, task: Task) -> Result<(), Task> {
        assert!(!self.panics.load(Ordering::Relaxed), "a post that panics");
        self.tasks.lock().unwrap().push(task);
        Ok(())
    }
}

impl Shelf {
    fn engine(&self) -> Arc<Engine> {
        let workers = Workers::Host(Box::new(self.clone()));
        Engine::new(EngineOptions { workers, ..EngineOptions::default() }).expect("engine")
    }

    fn take(&self) -> Option<Task> {
        self.tasks.lock().unwrap().pop()
    }

    fn run_all(&self) {
        while let Some(task) = self.take() {
            task.run();
        }
    }
}

fn options(inline_us: u32) -> Options {
    Options { inline_us, ..Options::new(Kind::Stored) }
}

fn begin(engine: &Arc<Engine>, options: Options, body: &[u8]) -> Stream {
    let mut stream = Stream::begin(engine, options).expect("begin");
    assert_eq!(stream.feed(body), Ok((body.len(), Flow::Ok)));
    stream.finish().expect("finish");
    stream
}

fn end(stream: &mut Stream) -> Result<Flow, Status> {
    loop {
        match stream.poll(usize::MAX, &mut |_| ())?.flow {
            Flow::Ok => {}
            flow => return Ok(flow),
        }
    }
}

/// Nothing is left over: the one task there may be can be posted again.
fn is_as_new(engine: &Arc<Engine>, shelf: &Shelf) {
    let mut stream = begin(engine, options(0), b"afterwards");
    assert_eq!(engine.stats().tasks_outstanding, 1);
    shelf.run_all();
    assert_eq!(end(&mut stream), Ok(Flow::Done));
    drop(stream);
    engine.trim();
    let stats = engine.stats();
    assert_eq!((stats.tasks_outstanding, stats.segments_queued), (0, 0));
    assert_eq!((stats.encoders_running, stats.memory, stats.streams_live), (0, 0, 0));
}

#[test]
fn a_panic_outside_the_encoder_fails_its_stream_and_nothing_else() {
    for inline_us in [0, u32::MAX] {
        let shelf = Shelf::default();
        let engine = shelf.engine();
        let mut stream = begin(&engine, options(inline_us), stored::PANICS_LATER);
        shelf.run_all();
        assert_eq!(stream.stats().segments_under_way, 0, "it is under way for ever");
        assert_eq!(end(&mut stream), Err(Status::Panic));
        assert!(stream.error().is_some());
        assert_eq!(engine.stats().streams_failed, 1);
        drop(stream);
        is_as_new(&engine, &shelf);
    }
}

#[test]
fn a_task_that_is_dropped_is_discarded() {
    let shelf = Shelf::default();
    let engine = shelf.engine();
    let mut stream = begin(&engine, options(0), b"never run");
    drop(shelf.take().expect("a task"));
    assert_eq!(engine.stats().tasks_outstanding, 0, "it holds the place of a task for ever");
    assert_eq!(end(&mut stream), Err(Status::Shutdown));
    drop(stream);
    is_as_new(&engine, &shelf);
}

#[test]
fn a_post_that_panics_is_a_task_that_is_lost() {
    let shelf = Shelf::default();
    let engine = shelf.engine();
    shelf.panics.store(true, Ordering::Relaxed);
    let mut stream = Stream::begin(&engine, options(0)).expect("begin");
    stream.feed(b"bytes").expect("feed");
    assert!(catch_unwind(AssertUnwindSafe(|| stream.finish())).is_err());
    shelf.panics.store(false, Ordering::Relaxed);
    assert_eq!(engine.stats().tasks_outstanding, 0);
    assert_eq!(end(&mut stream), Err(Status::Shutdown));
    drop(stream);
    is_as_new(&engine, &shelf);
}

#[test]
fn a_callback_that_panics_does_not_stop_its_queue() {
    let shelf = Shelf::default();
    let engine = shelf.engine();
    let (rung, called) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let ring = Arc::clone(&rung);
    let notify = move || {
        ring.fetch_add(1, Ordering::Relaxed);
    };
    let queue = Queue::new(&engine, Some(Box::new(notify)));
    let mut streams: Vec<Stream> = (0..3)
        .map(|index| {
            let called = Arc::clone(&called);
            let on_ready = move || {
                called.fetch_add(1, Ordering::Relaxed);
                assert!(index != 0, "a callback that panics");
            };
            let options = Options {
                queue: Some(Arc::clone(&queue)),
                on_ready: Some(Box::new(on_ready)),
                ..options(0)
            };
            let mut stream = begin(&engine, options, b"bytes");
            assert_eq!(end(&mut stream), Ok(Flow::Again));
            stream
        })
        .collect();
    while engine.stats().segments_queued > 0 {
        shelf.run_all();
        engine_comes_by(&engine);
    }
    assert_eq!(rung.swap(0, Ordering::Relaxed), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| queue.dispatch())).is_err());
    assert_eq!(called.load(Ordering::Relaxed), 1);
    assert_eq!(rung.load(Ordering::Relaxed), 1, "nobody comes by for the others");
    assert_eq!(queue.dispatch(), 2, "it is dispatching for ever");
    for stream in &mut streams {
        assert_eq!(end(stream), Ok(Flow::Done));
    }
    drop(streams);
    queue.close();
    drop(queue);
    is_as_new(&engine, &shelf);
}

/// Posts what waits, without a dispatch.
fn engine_comes_by(engine: &Arc<Engine>) {
    drop(Stream::begin(engine, options(0)).expect("begin"));
}

#[test]
fn a_notify_that_panics_leaves_no_task_behind() {
    let shelf = Shelf::default();
    let engine = shelf.engine();
    let queue = Queue::new(&engine, Some(Box::new(|| panic!("a notify that panics"))));
    let options = Options { queue: Some(Arc::clone(&queue)), ..options(0) };
    let mut stream = begin(&engine, options, b"bytes");
    assert_eq!(end(&mut stream), Ok(Flow::Again));
    let task = shelf.take().expect("a task");
    assert!(catch_unwind(AssertUnwindSafe(|| task.run())).is_err());
    assert_eq!(engine.stats().tasks_outstanding, 0);
    assert_eq!(end(&mut stream), Ok(Flow::Done));
    drop(stream);
    // Waits for a notify in progress.
    queue.close();
    drop(queue);
    is_as_new(&engine, &shelf);
}
