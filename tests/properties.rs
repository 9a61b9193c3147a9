//! Bodies and scripts that are hard on segments, the same in each run: tiny pieces, segments larger
//! than the window, thousands of flush marks, empty last segments. `make fuzz` looks for others.

mod support;

use support::*;
use weft::codec::Kind;
use weft::stream::Options;

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
            let seen = prefix(kind, &bytes[..reached[pick]]);
            // The tool writes whole blocks, and tiny frames not at all.
            let least = if kind == Kind::Zstd { 0 } else { marks[pick] };
            assert!(seen.len() >= least, "{what}: mark {pick}");
            assert!(body.starts_with(&seen), "{what}: mark {pick}");
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
    scripts(Kind::Deflate, 60);
    scripts(Kind::Zlib, 60);
}
