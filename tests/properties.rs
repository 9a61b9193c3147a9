//! Bodies and scripts that are hard on segments, the same in each run: tiny pieces, segments larger
//! than the window, thousands of flush marks, empty last segments. `make fuzz` looks for others.

mod support;

use std::sync::Arc;
use support::*;
use weft::codec::Kind;
use weft::engine::Engine;
use weft::stream::{Options, Stream};

fn body(numbers: &mut Numbers, len: usize) -> Vec<u8> {
    let seed = numbers.next();
    match numbers.below(5) {
        0 => text(len, seed),
        1 => json(len, seed),
        2 => random(len, seed),
        3 => vec![seed as u8; len],
        // Short repetitions of few letters: matches end everywhere.
        _ => {
            let mut body: Vec<u8> = Vec::with_capacity(len + 16);
            while body.len() < len {
                if body.len() > 20 && numbers.below(4) > 0 {
                    let back = 1 + numbers.below(body.len().min(3000) as u64) as usize;
                    let start = body.len() - back;
                    let count = back.min(2 + numbers.below(10) as usize);
                    body.extend_from_within(start..start + count);
                } else {
                    body.push(b'a' + numbers.below(5) as u8);
                }
            }
            body.truncate(len);
            body
        }
    }
}

fn marks(numbers: &mut Numbers, len: usize, style: u64) -> Vec<usize> {
    let mut marks = Vec::new();
    let mut at = 0;
    loop {
        at += match style {
            // Pieces of 0 to 3 bytes.
            0 => numbers.below(4) as usize,
            1 => numbers.below(300) as usize,
            2 => numbers.below(9_000) as usize,
            _ => return marks,
        };
        if at > len || marks.len() == 3_000 {
            // With a mark at the very end the last segment is empty.
            marks.push(len);
            return marks;
        }
        marks.push(at);
    }
}

fn scripts(kind: Kind, rounds: u64) {
    let (inline, pool) = (engine(0), engine(2));
    let mut numbers = Numbers::new(kind.to_c().into());
    let mut seen = Seen::default();
    for round in 0..rounds {
        let style = round % 4;
        let all = levels(kind);
        let level = all[numbers.below(all.len() as u64) as usize];
        let len = numbers.below([4_000, 100_000, 200_000, 400_000][style as usize]) as usize;
        // The best levels take their time.
        let slow = level > if kind == Kind::Zstd { 12 } else { 9 };
        let len = if slow { len / 8 } else { len };
        let body = body(&mut numbers, len);
        let marks = marks(&mut numbers, len, style);
        let window_log = [0, 0, 10, 13, 16][numbers.below(5) as usize];
        let segment_size = [0, 4_096, 20_000, 90_000][numbers.below(4) as usize];
        let history = [None, Some(0), Some(1), Some(3_000), Some(60_000)];
        let history_size = history[numbers.below(5) as usize];
        let said = [None, Some(len as u64), Some(numbers.below(200_000))];
        let content_length = said[numbers.below(3) as usize];
        let options = || Options {
            window_log,
            segment_size,
            history_size,
            content_length,
            ..of(kind, level)
        };
        let what = format!(
            "{kind:?} {level}, round {round}: {len} bytes, {} marks, window {window_log}, segment \
             {segment_size}, history {history_size:?}, said {content_length:?}",
            marks.len()
        );
        seen.note(&inline, options(), &body, &marks);
        let piece = 1 + numbers.below(30_000) as usize;
        let (bytes, reached) = run(&inline, options(), &body, &marks, piece);
        assert!(decode(kind, &bytes).expect(&what) == body, "{what}");
        assert!(
            bytes.len() <= len + len / 1000 + 64 + 16 * (reached.len() + len / 4_096),
            "{what}"
        );
        let (others, _) = run(&pool, options(), &body, &marks, 1 + piece / 3);
        assert!(others == bytes, "{what}: other bytes with threads");
        // One mark, anywhere: all before it can be decoded.
        if !marks.is_empty() {
            let pick = numbers.below(marks.len() as u64) as usize;
            let before = prefix(kind, &bytes[..reached[pick]]);
            assert!(before == body[..marks[pick]], "{what}: mark {pick}");
        }
    }
    let Seen { tiny, beyond_window, thousands, empty_last } = seen;
    let rare = tiny.min(beyond_window).min(thousands).min(empty_last);
    assert!(rare >= 5, "{kind:?}: the scripts are worth little: {seen:?}");
}

/// How many scripts have what is hard.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    tiny: u32,
    beyond_window: u32,
    thousands: u32,
    empty_last: u32,
}

impl Seen {
    fn note(&mut self, engine: &Arc<Engine>, options: Options, body: &[u8], marks: &[usize]) {
        let segment = options.segment_size as usize;
        let window = 1 << Stream::begin(engine, options).expect("begin").stats().window_log;
        let ends = || marks.iter().copied().chain([body.len()]);
        let gaps = ends().zip([0].into_iter().chain(ends())).map(|(end, start)| end - start);
        let tiny = (0..4).all(|size| gaps.clone().any(|gap| gap == size));
        let longest = gaps.max().unwrap_or(0).min(segment);
        self.tiny += u32::from(tiny);
        self.beyond_window += u32::from(longest > window);
        self.thousands += u32::from(marks.len() >= 2_000);
        self.empty_last += u32::from(marks.last() == Some(&body.len()));
    }
}

/// At every level: at some the scripts above seldom get there, and brotli's lowest qualities have a
/// window of 256 KiB at least.
#[test]
fn segments_larger_than_the_window() {
    for kind in KINDS {
        for level in levels(kind) {
            let large = kind == Kind::Brotli && level < 2;
            let (segment_size, window) = if large { (600_000, 1 << 18) } else { (90_000, 1 << 15) };
            let mut body = random(window / 2 - 500, 3);
            body.extend(text(window, 5));
            // From half a window, a window and more than that before.
            while body.len() < 3 * segment_size {
                let back = [window / 2, window - 16, window, window + 1, 3 * window / 2]
                    [body.len() / 1_000 % 5];
                let start = body.len() - back.min(body.len());
                body.extend_from_within(start..start + 999.min(back));
            }
            let options = || Options {
                window_log: 10,
                segment_size: segment_size as u64,
                content_length: Some(body.len() as u64),
                history_size: Some(8 << 20),
                ..of(kind, level)
            };
            let marks = [segment_size + 1, body.len()];
            let mut seen = Seen::default();
            seen.note(&engine(0), options(), &body, &marks);
            assert!(seen.beyond_window == 1, "{kind:?} {level}: no segment is so large");
            let (bytes, _) = run(&engine(0), options(), &body, &marks, 50_000);
            assert!(decode(kind, &bytes).expect("decodes") == body, "{kind:?} {level}");
            let (others, _) = run(&engine(2), options(), &body, &marks, 7_000);
            assert!(others == bytes, "{kind:?} {level}: other bytes with threads");
        }
    }
}

#[test]
fn scripts_zstd() {
    scripts(Kind::Zstd, 160);
}

#[test]
fn scripts_brotli() {
    scripts(Kind::Brotli, 240);
}

#[test]
fn scripts_gzip() {
    scripts(Kind::Gzip, 160);
}

#[test]
fn scripts_deflate_and_zlib() {
    scripts(Kind::Deflate, 160);
    scripts(Kind::Zlib, 160);
}
