//! Which segment runs next, step by step: the executor here only collects tasks, and the test runs
//! them one by one.

#![cfg(not(weft_model))]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use weft::codec::{Kind, stored};
use weft::engine::{Engine, Options as EngineOptions, Workers};
use weft::error::Status;
use weft::executor::{Executor, Task};
use weft::notify::Queue;
use weft::retain::Retention;
use weft::stream::{Flow, Options, Stream};

const LONG: usize = 1 << 20;

#[derive(Default)]
struct Shelf {
    tasks: Mutex<VecDeque<Task>>,
    refuses: AtomicBool,
    /// Tasks that the next `notify` runs, on the worker that calls it and inside its unit.
    inside: AtomicUsize,
}

impl Shelf {
    fn tasks(&self) -> MutexGuard<'_, VecDeque<Task>> {
        self.tasks.lock().unwrap()
    }

    fn run_one(&self) -> bool {
        let task = self.tasks().pop_front();
        task.map(Task::run).is_some()
    }

    fn notified(&self) {
        while self.inside.load(Ordering::Relaxed) > 0 {
            self.inside.fetch_sub(1, Ordering::Relaxed);
            assert!(self.run_one(), "no task to run inside");
        }
    }
}

struct Collects(Arc<Shelf>);

impl Executor for Collects {
    fn post(&self, task: Task) -> Result<(), Task> {
        if self.0.refuses.load(Ordering::Relaxed) {
            return Err(task);
        }
        self.0.tasks().push_back(task);
        Ok(())
    }
}

struct Bench {
    engine: Arc<Engine>,
    queue: Arc<Queue>,
    shelf: Arc<Shelf>,
}

impl Bench {
    fn new(max_running: u32) -> Bench {
        Bench::with(EngineOptions { max_running, ..EngineOptions::default() })
    }

    fn with(options: EngineOptions) -> Bench {
        let shelf = Arc::new(Shelf::default());
        let workers = Workers::Host(Box::new(Collects(Arc::clone(&shelf))));
        let engine = Engine::new(EngineOptions { workers, ..options }).expect("engine");
        let ears = Arc::clone(&shelf);
        let queue = Queue::new(&engine, Some(Box::new(move || ears.notified())));
        Bench { engine, queue, shelf }
    }

    fn options(&self) -> Options {
        Options {
            queue: Some(Arc::clone(&self.queue)),
            inline_us: 0,
            segment_size: LONG as u64,
            max_output: 64 << 20,
            max_input: 64 << 20,
            ..Options::new(Kind::Stored)
        }
    }

    /// A body of one segment, complete and queued.
    fn whole(&self, len: usize) -> Stream {
        let options = Options { content_length: Some(len as u64), ..self.options() };
        let mut stream = Stream::begin(&self.engine, options).expect("begin");
        assert_eq!(stream.feed(&vec![b'x'; len]), Ok((len, Flow::Ok)));
        stream.finish().expect("finish");
        assert_eq!(stream.stats().segments_under_way, 1);
        stream
    }

    /// One task, and what a loop does after it.
    fn turn(&self) -> bool {
        let ran = self.shelf.run_one();
        self.queue.dispatch();
        ran
    }
}

fn is_made(stream: &Stream) -> bool {
    stream.stats().segments_under_way == 0
}

fn take_all(stream: &mut Stream) -> Result<Vec<u8>, Status> {
    let mut out = Vec::new();
    loop {
        let taken = stream.poll(usize::MAX, &mut |bytes| out.extend(bytes))?;
        match taken.flow {
            Flow::Done => return Ok(out),
            Flow::Again => panic!("not made yet"),
            Flow::Ok => {}
        }
    }
}

#[test]
fn a_short_body_is_next_not_ninth() {
    let bench = Bench::new(1);
    let long: Vec<Stream> = (0..8).map(|_| bench.whole(LONG)).collect();
    for made in 0..4 {
        let short = bench.whole(100 << 10);
        assert!(bench.turn());
        assert!(is_made(&short), "behind {} long ones", 8 - made);
        drop(short);
        assert!(bench.turn());
        assert_eq!(long.iter().filter(|stream| is_made(stream)).count(), made + 1);
    }
}

#[test]
fn what_an_owner_waits_for_goes_before_what_is_read_ahead() {
    let bench = Bench::new(8);
    let mut ahead = Stream::begin(&bench.engine, bench.options()).expect("begin");
    for _ in 0..4 {
        ahead.feed(&[b'a'; 5000]).expect("feed");
        ahead.flush().expect("flush");
    }
    // Tells its owner as soon as the first is made, while the unit is still under way.
    let taken = ahead.poll(usize::MAX, &mut |_| ()).expect("poll");
    assert_eq!(taken.flow, Flow::Again);
    assert_eq!(ahead.stats().segments_under_way, 4);
    let waited = bench.whole(LONG);
    bench.shelf.inside.store(1, Ordering::Relaxed);
    assert!(bench.shelf.run_one());
    assert_eq!(bench.shelf.inside.load(Ordering::Relaxed), 0, "one ran inside the other");
    assert!(is_made(&waited), "though it costs far more");
    assert_eq!(ahead.stats().segments_under_way, 3);
}

#[test]
fn nothing_starves() {
    // However many short ones keep coming: a long one waits for work of its own size from each.
    let bench = Bench::new(1);
    let long = bench.whole(LONG);
    let mut passed = 0;
    while !is_made(&long) {
        let short = bench.whole(4000);
        assert!(bench.turn());
        passed += 1;
        drop(short);
        assert!(passed <= 2 * LONG / 4000 + 10, "a long body starves");
    }
    assert!(passed > 100, "a short body waited for a long one");
    // And a stream that was served much waits for others that come, but not for ever.
    let served: Vec<Stream> = (0..3).map(|_| bench.whole(LONG)).collect();
    let mut turns = 0;
    while !served.iter().all(is_made) {
        let other = bench.whole(LONG / 4);
        assert!(bench.turn());
        turns += 1;
        drop(other);
        assert!(turns < 40, "long bodies starve behind middling ones");
    }
}

#[test]
fn long_streams_share() {
    let bench = Bench::new(1);
    let mut streams: Vec<Stream> =
        (0..3).map(|_| Stream::begin(&bench.engine, bench.options()).expect("begin")).collect();
    let mut made = [0_u64; 3];
    for _ in 0..60 {
        for stream in &mut streams {
            while stream.stats().segments_under_way == 0 {
                stream.feed(&[b's'; 200_000]).expect("feed");
            }
        }
        assert!(bench.turn());
        for (stream, made) in streams.iter_mut().zip(&mut made) {
            *made += stream.poll(usize::MAX, &mut |_| ()).expect("poll").produced as u64;
        }
    }
    let (least, most) = (made.iter().min().unwrap(), made.iter().max().unwrap());
    assert!(most - least <= 2 * LONG as u64, "{made:?}");
}

#[test]
fn cancel_takes_queued_segments_away_at_once() {
    let bench = Bench::new(2);
    let doomed: Vec<Stream> = (0..5).map(|_| bench.whole(LONG)).collect();
    let kept = bench.whole(LONG);
    assert_eq!(bench.engine.stats().segments_queued, 6);
    drop(doomed);
    let stats = bench.engine.stats();
    assert_eq!((stats.segments_queued, stats.streams_cancelled), (1, 5));
    // Tasks are not the streams': one that was posted for a dead one does the living one's unit.
    assert_eq!(bench.shelf.tasks().len(), 2);
    assert!(bench.shelf.run_one());
    assert!(is_made(&kept));
    assert!(bench.shelf.run_one(), "the other finds nothing, which is no fault");
    assert_eq!(bench.engine.stats().tasks_outstanding, 0);
    drop(kept);
    bench.engine.trim();
    assert_eq!(bench.engine.stats().memory, 0);
}

#[test]
fn tasks_run_in_any_order() {
    let bench = Bench::new(3);
    let long = bench.whole(LONG);
    let short: Vec<Stream> = (0..2).map(|_| bench.whole(1000)).collect();
    bench.shelf.tasks().make_contiguous().reverse();
    assert!(bench.shelf.run_one() && bench.shelf.run_one());
    assert!(short.iter().all(is_made) && !is_made(&long));
    assert!(bench.shelf.run_one() && is_made(&long));
}

#[test]
fn a_stream_has_so_many_tasks_and_no_more() {
    for max_tasks in 1..5 {
        let bench = Bench::new(16);
        let options = Options { max_tasks, segment_size: 8192, ..bench.options() };
        let mut stream = Stream::begin(&bench.engine, options).expect("begin");
        let (taken, flow) = stream.feed(&[b'm'; 1 << 20]).expect("feed");
        assert!(flow == Flow::Again && taken < 1 << 20);
        assert_eq!(stream.stats().segments_under_way, max_tasks);
        assert!(bench.shelf.run_one());
        // One ended, so one more may start.
        stream.feed(&[b'm'; 1 << 20]).expect("feed");
        assert_eq!(stream.stats().segments_under_way, max_tasks);
    }
}

#[test]
fn outstanding_tasks_are_bounded() {
    let bench = Bench::new(3);
    let streams: Vec<Stream> = (0..10).map(|_| bench.whole(10_000)).collect();
    let mut turns = 0;
    while !streams.iter().all(is_made) {
        assert_eq!(bench.shelf.tasks().len(), 3.min(10 - turns));
        assert!(bench.turn());
        turns += 1;
    }
    assert_eq!(turns, 10);
    assert_eq!(bench.engine.stats().tasks_peak, 3);
}

#[test]
fn overload_is_refused_or_answered_with_another_level_at_begin() {
    let bench =
        Bench::with(EngineOptions { max_running: 1, overload_ms: 1, ..EngineOptions::default() });
    // A megabyte of the stored codec is thought to cost an eighth of a millisecond.
    let queued: Vec<Stream> = (0..8).map(|_| bench.whole(LONG)).collect();
    let begin = |overload_level| {
        let options = Options { level: Some(9), overload_level, ..bench.options() };
        Stream::begin(&bench.engine, options)
    };
    assert_eq!(begin(None).err(), Some(Status::Overload));
    let lowered = begin(Some(1)).expect("begins at another level");
    assert_eq!(lowered.stats().level, 1);
    let stats = bench.engine.stats();
    assert_eq!((stats.refused_overload, stats.overload_lowered), (1, 1));
    drop(queued);
    let normal = begin(Some(1)).expect("begin");
    assert_eq!(normal.stats().level, 9);
    assert_eq!(lowered.stats().level, 1, "decided once");
}

#[test]
fn above_a_second_mark_another_level_does_not_help() {
    let bench = Bench::with(EngineOptions {
        max_running: 1,
        overload_ms: 1,
        overload_refuse_ms: 2,
        ..EngineOptions::default()
    });
    let begin = || {
        let options = Options {
            level: Some(9),
            overload_level: Some(1),
            content_length: Some(LONG as u64),
            ..bench.options()
        };
        Stream::begin(&bench.engine, options)
    };
    let _queued: Vec<Stream> = (0..8).map(|_| bench.whole(LONG)).collect();
    let mut lowered = Vec::new();
    let refused = loop {
        match begin() {
            Ok(mut stream) => {
                assert_eq!(stream.stats().level, 1);
                stream.feed(&vec![b'x'; LONG]).expect("feed");
                stream.finish().expect("finish");
                lowered.push(stream);
            }
            Err(status) => break status,
        }
        assert!(lowered.len() < 20);
    };
    assert_eq!(refused, Status::Overload);
    let stats = bench.engine.stats();
    assert_eq!((stats.refused_overload, stats.overload_lowered), (1, lowered.len() as u64));
    assert!(lowered.len() > 1);
}

#[test]
fn so_many_encoders_are_kept_idle_and_no_more() {
    for (most, kept) in [(u32::MAX, 3), (2, 2), (0, 0)] {
        let bench = Bench::with(EngineOptions {
            max_running: 3,
            retention: Retention::All,
            idle_encoders: most,
            ..EngineOptions::default()
        });
        // An encoder serves its codec only.
        for kind in [Kind::Zstd, Kind::Brotli, Kind::Gzip] {
            let options = Options { kind, ..bench.options() };
            let mut stream = Stream::begin(&bench.engine, options).expect("begin");
            assert_eq!(stream.feed(&[b'x'; 10_000]), Ok((10_000, Flow::Ok)));
            stream.finish().expect("finish");
            assert!(bench.turn() && is_made(&stream));
        }
        assert_eq!(bench.engine.stats().encoders_idle, kept);
    }
}

#[test]
fn memory_is_admitted_at_begin() {
    let bench = Bench::with(EngineOptions {
        max_running: 2,
        max_memory: 8 << 20,
        ..EngineOptions::default()
    });
    let options = || Options { content_length: Some(LONG as u64), ..bench.options() };
    let mut live = Vec::new();
    let refused = loop {
        match Stream::begin(&bench.engine, options()) {
            Ok(stream) => live.push(stream),
            Err(status) => break status,
        }
        assert!(live.len() < 10);
    };
    assert!(refused == Status::Limit && !live.is_empty());
    assert!(bench.engine.stats().memory <= 8 << 20);
    assert_eq!(bench.engine.stats().refused_memory, 1);
    // Every one that began can end, and afterwards there is room again.
    for stream in &mut live {
        let mut offset = 0;
        while offset < LONG {
            offset += stream.feed(&[b'r'; LONG][offset..]).expect("feed").0;
        }
        stream.finish().expect("finish");
    }
    while bench.turn() {}
    for stream in &mut live {
        let (body, ended) = stored::decode(&take_all(stream).expect("whole")).expect("decodes");
        assert!(ended && body.len() == LONG);
    }
    drop(live);
    assert!(Stream::begin(&bench.engine, options()).is_ok());
}

#[test]
fn refused_posts_are_done_by_the_owner_when_no_task_is_left() {
    let bench = Bench::new(2);
    let long = bench.whole(LONG);
    bench.shelf.refuses.store(true, Ordering::Relaxed);
    let waiting = bench.whole(1000);
    assert!(!is_made(&waiting), "a task is outstanding and will come to it");
    let task = bench.shelf.tasks().pop_front().expect("posted for the long one");
    task.run();
    assert!(is_made(&waiting) && !is_made(&long), "the most urgent, not the one it was posted for");
    bench.queue.dispatch();
    assert!(is_made(&long), "nobody else would ever run it");
    let stats = bench.engine.stats();
    assert_eq!((stats.segments_tasks, stats.segments_refused), (1, 1));
    assert_eq!(stats.tasks_outstanding, 0);
}

/// A loop without `notify` comes by when a task has ended, and then perhaps never again.
#[test]
fn without_notify_one_dispatch_leaves_nothing_stranded() {
    let mut bench = Bench::new(1);
    bench.queue = Queue::new(&bench.engine, None);
    let streams: Vec<Stream> = (0..4).map(|_| bench.whole(1000)).collect();
    bench.shelf.refuses.store(true, Ordering::Relaxed);
    assert!(bench.turn());
    assert!(streams.iter().all(is_made), "nobody will come by for the rest");
}

/// Room for a feed was made, then poll answered AGAIN, and the next segment's end was waited for: the
/// thread that could have had more to do had nothing.
#[test]
fn room_is_news_though_poll_has_answered_again_since() {
    let bench = Bench::new(2);
    let options =
        Options { queue: None, segment_size: 4096, max_tasks: 2, max_output: 0, ..bench.options() };
    let mut stream = Stream::begin(&bench.engine, options).expect("begin");
    let piece = vec![b'r'; 2048];
    while stream.feed(&piece).expect("feed").1 == Flow::Ok {}
    let now = Some(Duration::ZERO);
    assert_eq!(stream.wait(now), Ok(Flow::Again), "nothing was made yet");
    assert_eq!(stream.feed(&piece), Ok((0, Flow::Again)));
    assert!(bench.shelf.run_one());
    while stream.poll(usize::MAX, &mut |_| ()).expect("poll").flow == Flow::Ok {}
    assert_eq!(stream.stats().segments_under_way, 1);
    assert_eq!(stream.wait(now), Ok(Flow::Ok), "a feed has become possible");
    assert_eq!(stream.feed(&piece[..1]).expect("feed"), (1, Flow::Ok));
    // And it is told once.
    assert_eq!(stream.poll(usize::MAX, &mut |_| ()).expect("poll").flow, Flow::Again);
    assert_eq!(stream.wait(now), Ok(Flow::Again));
}

/// A failed last segment must not leave an end of stream behind it.
#[test]
fn a_fault_never_looks_like_an_end() {
    for (how, status) in [(stored::FAILS, Status::Codec), (stored::PANICS, Status::Panic)] {
        for inline_us in [0, u32::MAX] {
            let bench = Bench::new(1);
            bench.shelf.refuses.store(true, Ordering::Relaxed);
            let options = Options { inline_us, ..bench.options() };
            let mut stream = Stream::begin(&bench.engine, options).expect("begin");
            stream.feed(b"what came before").expect("feed");
            stream.flush().expect("flush");
            stream.feed(how).expect("feed");
            stream.finish().expect("the fault is told by poll");
            let mut out = Vec::new();
            let mut flushed = 0;
            let end = loop {
                match stream.poll(usize::MAX, &mut |bytes| out.extend(bytes)) {
                    Ok(taken) if taken.flow == Flow::Ok => flushed += usize::from(taken.flushed),
                    other => break other.map(|taken| taken.flow),
                }
            };
            assert_eq!((end, flushed), (Err(status), 1));
            assert_eq!(stored::decode(&out), Ok((b"what came before".to_vec(), false)));
            assert!(stream.error().is_some());
            assert_eq!(stream.stats().output_ready, 0);
            let stats = bench.engine.stats();
            assert_eq!((stats.streams_failed, stats.encoders_running), (1, 0));
        }
    }
}

#[test]
fn no_threads_is_inline() {
    let options = EngineOptions { workers: Workers::Threads(0), ..EngineOptions::default() };
    let engine = Engine::new(options).expect("engine");
    let options = Options { inline_us: 0, ..Options::new(Kind::Stored) };
    let mut stream = Stream::begin(&engine, options).expect("begin");
    stream.feed(b"bytes").expect("feed");
    stream.finish().expect("finish");
    assert!(take_all(&mut stream).is_ok());
}

#[test]
fn a_shutdown_may_take_as_long_as_can_be_said() {
    let engine =
        Engine::new(EngineOptions { workers: Workers::Threads(1), ..EngineOptions::default() })
            .expect("engine");
    let options = Options { inline_us: 0, ..Options::new(Kind::Stored) };
    let mut stream = Stream::begin(&engine, options).expect("begin");
    stream.feed(b"bytes").expect("feed");
    stream.finish().expect("finish");
    assert!(engine.shutdown(Duration::MAX));
}
