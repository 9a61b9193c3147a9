//! A body, and how it is given to a stream, from the bytes of an input.
//!
//! The first bytes are options. The others are commands that write the body and set marks: literal
//! bytes, but above all repetitions, since what goes wrong between segments are matches that begin
//! or end at their borders, at the ends of history, or a window away.

use crate::reader::{Numbers, Reader};
use weft::codec::{self, Kind};
use weft::stream::Options;

/// The most marks of a script: each costs a loading of history. tests/properties.rs sets more.
const MARKS: usize = 1_000;

/// What a stream is to carry, and how.
pub struct Script {
    /// The codec.
    pub kind: Kind,
    /// The level.
    pub level: i32,
    window_log: u32,
    segment_size: u64,
    history_size: Option<u64>,
    content_length: Option<u64>,
    max_tasks: u32,
    max_input: u64,
    max_output: u64,
    /// The body.
    pub body: Vec<u8>,
    /// Offsets behind which a flush mark stands, in order.
    pub marks: Vec<usize>,
    /// Bytes for each feed, over and over.
    pub pieces: Vec<usize>,
    /// Bytes taken with each poll.
    pub cap: usize,
    /// Room of the decoder.
    pub room: usize,
    /// Give the body a second time, to encoders that were used.
    pub again: bool,
    /// Give it to threads, too.
    pub threads: bool,
}

/// How long a body may be: what an input costs is to be about the same for all levels.
fn longest(kind: Kind, level: i32) -> usize {
    match (kind, level) {
        (Kind::Brotli, 10..) | (Kind::Zstd, 16..) => 24 << 10,
        (Kind::Brotli, 9) | (Kind::Zstd, 10..) => 64 << 10,
        _ => 160 << 10,
    }
}

impl Script {
    /// Reads a script for one of these codecs.
    pub fn read(kinds: &[Kind], input: &[u8]) -> Script {
        let mut reader = Reader::new(input);
        let kind = reader.pick(kinds);
        let bounds = codec::bounds(kind);
        let level = match reader.byte() {
            // Of zstd's 131,072 negative levels some.
            byte if byte >= 0xE0 && kind == Kind::Zstd => -(1 << (byte & 15)),
            byte => {
                let least = bounds.min.max(0);
                least + i32::from(byte) % (bounds.max - least + 1)
            }
        };
        let window_log = reader.pick(&[0, 0, 0, 10, 13, 14, 15, 16, 17, 18, 23]);
        let segment_size = reader.pick(&[0, 4096, 4097, 5000, 8192, 9_999, 16_384, 40_000]);
        let history_size = reader.pick(&[
            None,
            None,
            Some(0),
            Some(1),
            Some(7),
            Some(100),
            Some(1_000),
            Some(4_096),
            Some(8_192),
            Some(20_000),
            Some(32_768),
            Some(60_000),
            Some(8 << 20),
        ]);
        let length = reader.byte();
        let (max_tasks, limits, how) = (reader.below(5), reader.byte(), reader.byte());
        let cap = reader.pick(&[40_000, 4_096, 1_000, 100, 7, 1]);
        let mut script = Script {
            kind,
            level,
            window_log,
            segment_size,
            history_size,
            content_length: None,
            max_tasks: max_tasks as u32,
            max_input: [0, 0, 1, 5_000][usize::from(limits & 3)],
            max_output: [0, 0, 1, 600][usize::from(limits >> 2 & 3)],
            body: Vec::new(),
            marks: Vec::new(),
            pieces: Vec::new(),
            cap,
            room: [4_096, 1_000, 100, 13][usize::from(how & 3)],
            again: how & 0x1C == 0x04,
            threads: how & 0x1C == 0x08,
        };
        script.write(&mut reader);
        let len = script.body.len() as u64;
        script.content_length = match length % 8 {
            0..=2 => None,
            3..=5 => Some(len),
            6 => Some(len.saturating_add_signed(i64::from(length / 8) - 16)),
            _ => Some(u64::from(length) << (length / 4)),
        };
        script
    }

    fn write(&mut self, reader: &mut Reader<'_>) {
        let most = longest(self.kind, self.level);
        // Bytes between marks that come by themselves.
        let mut every = 0;
        while !reader.is_empty() && self.body.len() < most {
            let before = self.body.len();
            match reader.byte() % 20 {
                0..=2 => {
                    let count = 1 + reader.below(32);
                    self.body.extend_from_slice(reader.bytes(count));
                }
                3..=5 => self.copy(reader.short(), 2 + reader.below(16)),
                6 => self.copy(reader.short(), reader.short()),
                // Far away: where the window, or history, has its end.
                7 => {
                    let edge = match reader.below(4) {
                        0 => 1 << self.window_log.max(13),
                        1 => self.history_size.unwrap_or(8_192) as usize,
                        2 => self.segment_size.max(4_096) as usize,
                        _ => 8_192,
                    };
                    self.copy(edge.saturating_sub(16) + reader.below(32), 2 + reader.below(64));
                }
                // From before the last mark, across what is now the border.
                8 => {
                    let mark = self.marks.last().copied().unwrap_or(0);
                    let back = self.body.len() - mark + reader.below(16);
                    self.copy(back, 1 + reader.below(40));
                }
                9 => {
                    let (value, count) = (reader.byte(), reader.short() % 9_000);
                    self.body.resize(self.body.len() + count, value);
                }
                10 => {
                    let mut numbers = Numbers::new(reader.byte().into());
                    let count = reader.short() % 6_000;
                    self.body.extend((0..count).map(|_| (numbers.any() >> 32) as u8));
                }
                11 => self.hostile(reader),
                12 => self.words(reader),
                13 | 14 => self.mark(1),
                15 => self.mark(reader.below(4)),
                16 => every = reader.short() % 6_000,
                17 => every = reader.below(5),
                18 => self.pieces.push(1 + reader.short() % 20_000),
                _ => self.pieces.push(1 + reader.below(8)),
            }
            self.body.truncate(most);
            if every > 0 {
                let mut next = self.marks.last().copied().unwrap_or(0).max(before) + every;
                while next <= self.body.len() && self.marks.len() < MARKS {
                    self.marks.push(next);
                    next += every;
                }
            }
        }
        if self.pieces.is_empty() {
            self.pieces.push(30_000);
        }
    }

    fn mark(&mut self, count: usize) {
        if self.marks.len() + count <= MARKS {
            self.marks.resize(self.marks.len() + count, self.body.len());
        }
    }

    /// Repeats bytes, as a match would: also those that it writes itself.
    fn copy(&mut self, back: usize, count: usize) {
        let len = self.body.len();
        if len == 0 {
            return;
        }
        let start = len - (back % len).max(1);
        for at in start..start + count {
            self.body.push(self.body[at]);
        }
    }

    /// Short repetitions of few letters: matches end everywhere.
    fn hostile(&mut self, reader: &mut Reader<'_>) {
        let mut numbers = Numbers::new(reader.short() as u64);
        let (len, reach) = (self.body.len() + reader.short(), 1 + reader.short() % 9_000);
        let (letters, longest, often) =
            (1 + reader.below(8), 1 + reader.below(24), 1 + reader.below(4));
        while self.body.len() < len {
            let now = self.body.len();
            if now > 40 && numbers.below(1 + often) > 0 {
                let back = 1 + numbers.below(now.min(reach));
                let count = (2 + numbers.below(longest)).min(back);
                self.body.extend_from_within(now - back..now - back + count);
            } else {
                for _ in 0..1 + numbers.below(3) {
                    self.body.push(b'a' + numbers.below(letters) as u8);
                }
            }
        }
    }

    /// Words from a short list, with a skewed distribution.
    fn words(&mut self, reader: &mut Reader<'_>) {
        let mut numbers = Numbers::new(reader.byte().into());
        let (len, list) = (self.body.len() + reader.short() % 20_000, 2 + reader.below(200));
        while self.body.len() < len {
            let word = numbers.below(list).min(numbers.below(list));
            let mut letters = Numbers::new(word as u64);
            for _ in 0..2 + letters.below(8) {
                self.body.push(b'a' + letters.below(26) as u8);
            }
            self.body.push(b' ');
        }
    }

    /// The options of the stream.
    pub fn options(&self) -> Options {
        Options {
            level: Some(self.level),
            window_log: self.window_log,
            segment_size: self.segment_size,
            history_size: self.history_size,
            content_length: self.content_length,
            max_tasks: self.max_tasks,
            max_input: self.max_input,
            max_output: self.max_output,
            ..Options::new(self.kind)
        }
    }
}
