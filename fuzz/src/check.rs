//! Gives the body of a script to a stream, and what comes out to a decoder that knows nothing of
//! weft.

use crate::decoders::Decoder;
use crate::reader::Reader;
use crate::script::Script;
use crate::threads;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft::codec::Kind;
use weft::engine::{Engine, Options as EngineOptions, Workers};
use weft::error::Status;
use weft::stream::{Flow, Stream};

/// Segments that were encoded a second time, since the process began.
pub static SEGMENTS_AGAIN: AtomicU64 = AtomicU64::new(0);

/// Bodies that came back whole, since the process began.
pub static BODIES: AtomicU64 = AtomicU64::new(0);

/// Runs an input of one of these codecs; panics where something is wrong.
pub fn run(kinds: &[Kind], input: &[u8]) {
    let script = Script::read(kinds, input);
    // A fresh engine, so that an input means the same whatever ran before.
    let inline = engine(Workers::Inline);
    let bytes = whole(&inline, &script, 0);
    if script.again {
        assert!(whole(&inline, &script, 1) == bytes, "used encoders gave other bytes");
    }
    if script.threads {
        let before = threads::count();
        let pool = engine(Workers::Threads(2));
        assert!(whole(&pool, &script, 1) == bytes, "threads gave other bytes");
        assert!(whole(&pool, &script, 2) == bytes, "threads gave other bytes the second time");
        drop(pool);
        threads::wait_for(before);
    }
    SEGMENTS_AGAIN.fetch_add(inline.stats().segments_again, Ordering::Relaxed);
}

fn engine(workers: Workers) -> Arc<Engine> {
    Engine::new(EngineOptions { workers, ..EngineOptions::default() }).expect("an engine")
}

/// What the stream has given, and what the decoder makes of it.
struct Taken<'a> {
    script: &'a Script,
    decoder: Decoder,
    bytes: Vec<u8>,
    marks: usize,
}

impl Taken<'_> {
    /// Takes all that is ready.
    fn drain(&mut self, stream: &mut Stream) -> Flow {
        loop {
            let asked = stream.query().expect("query");
            let start = self.bytes.len();
            let taken = stream
                .poll(self.script.cap, &mut |bytes| self.bytes.extend(bytes))
                .unwrap_or_else(|status| panic!("{status}: {:?}", stream.error()));
            let new = &self.bytes[start..];
            assert!(new.len() == taken.produced && new.len() <= self.script.cap, "bytes produced");
            assert!(new.len() >= asked.produced.min(self.script.cap), "less than was promised");
            self.decoder.push(new, self.script.room).expect("it decodes");
            if taken.flushed {
                let mark = self.script.marks[self.marks];
                self.marks += 1;
                assert!(self.decoder.body.len() == mark, "all before the mark, and no more");
            }
            match taken.flow {
                Flow::Ok => assert!(taken.produced > 0 || taken.flushed, "neither bytes nor AGAIN"),
                flow => return flow,
            }
        }
    }
}

/// Runs the whole stream, with other feeds each `round`; gives its output.
fn whole(engine: &Arc<Engine>, script: &Script, round: usize) -> Vec<u8> {
    let mut stream = Stream::begin(engine, script.options()).expect("begin");
    let window_log = stream.stats().window_log;
    let decoder = Decoder::new(script.kind, window_log);
    let mut taken = Taken { script, decoder, bytes: Vec::new(), marks: 0 };
    feed(&mut stream, &mut taken, round);
    stream.finish().expect("finish");
    assert!(stream.finish() == Err(Status::State), "a second finish");
    assert!(stream.feed(b"more").err() == Some(Status::State), "a feed after finish");
    while taken.drain(&mut stream) != Flow::Done {
        stream.wait(None).expect("wait");
    }
    assert!(taken.drain(&mut stream) == Flow::Done, "done stays done");

    let Taken { decoder, bytes, marks, .. } = taken;
    assert!(decoder.ended(), "the end is missing");
    assert!(decoder.body == script.body, "another body came out");
    assert!(marks == script.marks.len(), "one event for each mark");
    let stats = stream.stats();
    assert!(stats.bytes_in == script.body.len() as u64, "bytes_in");
    assert!(stats.bytes_out == bytes.len() as u64, "bytes_out");
    assert!(stats.segments_under_way == 0 && stats.output_ready == 0, "nothing left");
    let most = script.body.len() + script.body.len() / 1_000 + 64;
    let most = most + 16 * (stats.segments as usize + script.marks.len());
    assert!(bytes.len() <= most, "{} bytes became {}", script.body.len(), bytes.len());
    BODIES.fetch_add(1, Ordering::Relaxed);
    drop(stream);
    assert!(engine.stats().streams_live == 0, "a stream is left");
    bytes
}

/// Gives the body, with the marks where they belong.
fn feed(stream: &mut Stream, taken: &mut Taken<'_>, round: usize) {
    let script = taken.script;
    let mut marks = script.marks.iter().copied().peekable();
    let mut pieces = script.pieces.iter().cycle().skip(round);
    let mut offset = 0;
    loop {
        while marks.next_if_eq(&offset).is_some() {
            stream.flush().expect("flush");
        }
        if offset == script.body.len() {
            return;
        }
        // At other places each time, since bytes may not depend on that.
        let piece = pieces.next().map_or(1, |piece| piece / (1 + round) + 1);
        let end = marks.peek().copied().unwrap_or(script.body.len()).min(offset + piece);
        let (count, flow) = stream.feed(&script.body[offset..end]).expect("feed");
        offset += count;
        match flow {
            Flow::Again => {
                taken.drain(stream);
                if count == 0 {
                    stream.wait(None).expect("wait");
                }
            }
            _ => assert!(offset == end, "accepted in part without AGAIN"),
        }
    }
}

/// Negotiation against the plain implementation of the tests.
pub fn negotiation(input: &[u8]) {
    const KINDS: [Kind; 6] =
        [Kind::Zstd, Kind::Brotli, Kind::Gzip, Kind::Zlib, Kind::Deflate, Kind::Stored];
    let mut reader = Reader::new(input);
    let count = reader.below(5);
    let preference: Vec<Kind> = (0..count).map(|_| reader.pick(&KINDS)).collect();
    let value = reader.bytes(usize::MAX);
    let chosen = weft::negotiate::negotiate(value, &preference);
    let plainly = crate::plain_negotiation::plainly(value, &preference);
    assert!(chosen == plainly, "{chosen:?}, plainly {plainly:?}: {preference:?}");
}
