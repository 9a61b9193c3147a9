//! An owner of one stream, who stops at AGAIN and does nothing until told to go on.

use crate::host::{chance, pick};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use weft::codec::{Kind, stored};
use weft::engine::{Engine, Options as EngineOptions};
use weft::error::Status;
use weft::stream::{Flow, Options, Stream};

/// What a stream shall carry, and how.
#[derive(Clone)]
pub struct Sketch {
    body: Vec<u8>,
    marks: Vec<usize>,
    piece: usize,
    max_tasks: u32,
    max_output: u64,
    max_input: u64,
    inline_us: u32,
    key: (usize, usize, bool),
}

impl Sketch {
    pub fn random() -> Sketch {
        let (size, marked) = (pick(4), pick(3));
        let len = [0, 400, 2500, 7000][size];
        let marks = match marked {
            0 => vec![],
            1 => vec![0, len / 3, len / 3, len],
            _ => (1..4).map(|part| len * part / 5).collect(),
        };
        Sketch {
            body: (0..len).map(|at| (at * 7 + at / 251) as u8 | 1).collect(),
            marks,
            piece: [200, 1000, 10_000][pick(3)],
            max_tasks: 1 + pick(3) as u32,
            max_output: [0, 1, 600][pick(3)],
            max_input: [0, 1, 600][pick(3)],
            inline_us: [0, 0, 0, u32::MAX][pick(4)],
            key: (size, marked, false),
        }
    }

    /// The same, with a segment that the codec refuses.
    pub fn that_fails(mut self, how: &[u8]) -> Sketch {
        let starts: Vec<usize> = [0].into_iter().chain(self.marks.iter().copied()).collect();
        let at = starts[pick(starts.len())];
        self.body.splice(at..at, how.iter().copied());
        for mark in &mut self.marks {
            if *mark > at {
                *mark += how.len();
            }
        }
        self.key.2 = true;
        self
    }

    pub fn options(&self) -> Options {
        Options {
            segment_size: 4096,
            history_size: Some(1500),
            max_tasks: self.max_tasks,
            max_output: self.max_output,
            max_input: self.max_input,
            inline_us: self.inline_us,
            ..Options::new(Kind::Stored)
        }
    }
}

#[derive(Debug, PartialEq)]
pub enum Step {
    /// Something answered AGAIN last.
    Waiting,
    Done,
    Failed(Status),
}

pub struct Client {
    stream: Stream,
    sketch: Sketch,
    offset: usize,
    marked: usize,
    finished: bool,
    give_first: bool,
    out: Vec<u8>,
    reached: Vec<usize>,
}

impl Client {
    pub fn begin(engine: &Arc<Engine>, sketch: Sketch, options: Options) -> Result<Client, Status> {
        let stream = Stream::begin(engine, options)?;
        Ok(Client {
            stream,
            sketch,
            offset: 0,
            marked: 0,
            finished: false,
            give_first: true,
            out: Vec::new(),
            reached: Vec::new(),
        })
    }

    /// Goes on until something answers AGAIN. Feeds first and takes first by turns.
    pub fn step(&mut self) -> Step {
        self.give_first = !self.give_first;
        self.try_step().unwrap_or_else(Step::Failed)
    }

    fn try_step(&mut self) -> Result<Step, Status> {
        if !self.give_first && !self.give()? {
            return Ok(Step::Waiting);
        }
        let cap = [100, 1 << 20][pick(2)];
        loop {
            let taken = self.stream.poll(cap, &mut |bytes| self.out.extend(bytes))?;
            if taken.flushed {
                self.reached.push(self.out.len());
            }
            match taken.flow {
                Flow::Ok => assert!(taken.produced > 0 || taken.flushed, "neither bytes nor AGAIN"),
                Flow::Done => return Ok(Step::Done),
                Flow::Again => break,
            }
        }
        if self.finished {
            return Ok(Step::Waiting);
        }
        // Poll is armed; giving more may well answer AGAIN, or not.
        self.give()?;
        Ok(Step::Waiting)
    }

    /// Gives what is accepted; true when all was.
    fn give(&mut self) -> Result<bool, Status> {
        while !self.finished {
            if self.sketch.marks.get(self.marked) == Some(&self.offset) {
                self.stream.flush()?;
                self.marked += 1;
                continue;
            }
            if self.offset == self.sketch.body.len() {
                self.stream.finish()?;
                self.finished = true;
                break;
            }
            let next = self.sketch.marks.get(self.marked).copied();
            let end = next.unwrap_or(self.sketch.body.len()).min(self.offset + self.sketch.piece);
            let (count, flow) = self.stream.feed(&self.sketch.body[self.offset..end])?;
            self.offset += count;
            match flow {
                Flow::Again => return Ok(false),
                _ => assert_eq!(self.offset, end, "accepted in part without AGAIN"),
            }
        }
        Ok(true)
    }

    /// For a stream without a queue: the AGAIN of the last step is over.
    pub fn wait(&mut self) {
        match self.stream.wait(None) {
            Ok(Flow::Ok) => {}
            other => panic!("wait answered {other:?}"),
        }
    }

    /// The stream has ended well: the same bytes and marks as in the loop of one thread.
    pub fn check_whole(&self) {
        let (body, ended) = stored::decode(&self.out).expect("decodes");
        assert!(ended && body == self.sketch.body, "{} bytes came out", body.len());
        assert_eq!(self.reached.len(), self.sketch.marks.len(), "one event for each mark");
        if chance(4) {
            let (out, reached) = alone(&self.sketch);
            assert!(out == self.out, "other bytes than without threads");
            assert!(reached == self.reached, "other marks than without threads");
        }
    }

    /// The stream has failed: what came out is a beginning of it, and has no end.
    pub fn check_part(&self) {
        let mut whole = 0;
        // Cut at any byte, so only whole frames decode.
        while let Some(length) = self.out.get(whole + 9..whole + 13) {
            let next = whole + 13 + u32::from_le_bytes(length.try_into().unwrap()) as usize;
            if next > self.out.len() {
                break;
            }
            whole = next;
        }
        let (body, ended) = stored::decode(&self.out[..whole]).expect("decodes");
        assert!(!ended, "a stream that failed has an end");
        assert!(self.sketch.body.starts_with(&body));
    }
}

/// What the sketch gives in an engine without threads. Bytes depend on its key only.
fn alone(sketch: &Sketch) -> (Vec<u8>, Vec<usize>) {
    type Outcomes = HashMap<(usize, usize, bool), (Vec<u8>, Vec<usize>)>;
    static KNOWN: Mutex<Option<Outcomes>> = Mutex::new(None);
    let known = KNOWN.lock().unwrap().get_or_insert_default().get(&sketch.key).cloned();
    if let Some(known) = known {
        return known;
    }
    let engine = Engine::new(EngineOptions::default()).expect("engine");
    let sketch = Sketch { max_tasks: 1, max_output: 0, max_input: 0, ..sketch.clone() };
    let options = sketch.options();
    let mut client = Client::begin(&engine, sketch, options).expect("begin");
    while client.step() == Step::Waiting {}
    let outcome = (client.out.clone(), client.reached.clone());
    KNOWN.lock().unwrap().get_or_insert_default().insert(client.sketch.key, outcome.clone());
    outcome
}
