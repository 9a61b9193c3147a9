//! The conditions under which one frame in segments is sound (src/codec/zstd.rs), each broken once in
//! a scratch copy to see its test fail:
//!
//! | broken | test that fails |
//! |---|---|
//! | libzstd's header kept for the first segment | `small_first_segments_and_large_later_ones` |
//! | history in another buffer than the input | `history_reaches_back_over_segments` |
//! | no `ZSTD_invalidateRepCodes` | `a_segment_that_starts_with_equal_bytes` |
//! | parameters left to libzstd | `parameters_are_pinned_whatever_the_segment` (src/codec/zstd.rs) |
//! | no reset of the context | `used_encoders_give_what_fresh_ones_give` |
//! | segments not ended with a flush | `every_flush_is_decodable_at_once` |

mod support;

use std::sync::Arc;
use support::*;
use weft::engine::{Engine, Options as EngineOptions, Workers};
use weft::retain::Retention;
use weft::stream::Options;

const LEVELS: [i32; 12] = [-50, -1, 1, 3, 4, 5, 7, 9, 12, 15, 19, 22];

fn both(bytes: &[u8], body: &[u8], what: &str) {
    assert!(zstd_tool(bytes).unwrap_or_else(|error| panic!("{what}: {error}")) == body, "{what}");
    assert!(ruzstd(bytes).unwrap_or_else(|error| panic!("{what}: {error}")) == body, "{what}");
}

#[test]
fn small_first_segments_and_large_later_ones() {
    // Matches that reach further back than a window made for 200 bytes.
    let mut body = text(200, 1);
    body.extend(random(3000, 2));
    for _ in 0..40 {
        let again = body[..3200].to_vec();
        body.extend(again);
    }
    for level in LEVELS {
        let (bytes, _) = run(&engine(0), zstd(level), &body, &[200, 400, 5000], 1 << 20);
        both(&bytes, &body, &format!("level {level}"));
    }
}

#[test]
fn history_reaches_back_over_segments() {
    // Nothing repeats within a segment; all repeats within the history.
    let body = random(45_000, 4).repeat(12);
    for level in LEVELS {
        let with =
            |history| Options { segment_size: 30_000, history_size: Some(history), ..zstd(level) };
        let (bytes, _) = run(&engine(2), with(200_000), &body, &[], 50_000);
        both(&bytes, &body, &format!("level {level}"));
        let (without, _) = run(&engine(2), with(0), &body, &[], 50_000);
        both(&without, &body, &format!("level {level} without history"));
        assert!(bytes.len() * 4 < without.len(), "level {level}: {} bytes", bytes.len());
    }
}

#[test]
fn a_segment_that_starts_with_equal_bytes() {
    // A fresh encoder takes its repeat offsets to be 1, 4, 8; the decoder's are what the segment
    // before left. Equal bytes at the start are coded as a match at offset 1.
    for level in LEVELS {
        for byte in [b'=', 0] {
            let mut body = json(50_000, 6);
            let mark = body.len();
            body.extend(vec![byte; 800]);
            body.extend(text(2000, 7));
            for history_size in [0, 4096, 100_000] {
                let options = Options { history_size: Some(history_size), ..zstd(level) };
                let (bytes, _) = run(&engine(0), options, &body, &[mark], 1 << 20);
                both(&bytes, &body, &format!("level {level}, history {history_size}"));
            }
        }
    }
}

#[test]
fn every_flush_is_decodable_at_once() {
    for level in [1, 3, 9, 19] {
        let body = text(400_000, 8);
        let mut marks: Vec<usize> = (1..20).map(|mark| mark * 1999).collect();
        // Longer than a block of 128 KiB: without a flush its end stays in the encoder.
        marks.extend([240_000, 390_001]);
        let (bytes, reached) = run(&engine(2), zstd(level), &body, &marks, 700);
        for (mark, end) in marks.iter().zip(&reached) {
            let seen = zstd_prefix(&bytes[..*end]);
            assert!(
                seen == body[..*mark],
                "level {level}: {} of {mark} bytes decodable",
                seen.len()
            );
        }
        both(&bytes, &body, "whole");
    }
}

#[test]
fn used_encoders_give_what_fresh_ones_give() {
    let keep = |retention| {
        let options = EngineOptions { retention, ..EngineOptions::default() };
        Engine::new(options).expect("engine")
    };
    let used = keep(Retention::All);
    let mut numbers = Numbers::new(11);
    for round in 0..600 {
        let level = LEVELS[numbers.below(12) as usize];
        let len = match numbers.below(4) {
            0 => numbers.below(300),
            1 => numbers.below(5_000),
            2 => numbers.below(60_000),
            _ => numbers.below(if level > 12 { 60_000 } else { 300_000 }),
        } as usize;
        let body = match numbers.below(3) {
            0 => text(len, round),
            1 => json(len, round),
            _ => random(len, round),
        };
        let mark = numbers.below(len as u64 + 1) as usize;
        let options = || Options {
            segment_size: 4096 + (round % 7) * 9000,
            history_size: Some((round % 5) * 20_000),
            content_length: (round % 3 == 0).then_some(len as u64),
            ..zstd(level)
        };
        let (dirty, _) = run(&used, options(), &body, &[mark], 1 << 20);
        let (fresh, _) = run(&keep(Retention::None), options(), &body, &[mark], 1 << 20);
        assert!(dirty == fresh, "round {round}: level {level}, {len} bytes");
    }
    assert!(used.stats().encoders_made < 5, "the test must reuse encoders");
}

#[test]
fn a_failed_or_cancelled_stream_leaves_no_trace_in_the_encoders() {
    let shared = Engine::new(EngineOptions {
        workers: Workers::Threads(2),
        retention: Retention::All,
        ..EngineOptions::default()
    })
    .expect("engine");
    let body = json(400_000, 12);
    let options = || Options { segment_size: 50_000, inline_us: 0, ..zstd(9) };
    let (expected, _) = run(&engine(0), options(), &body, &[], 1 << 20);
    for round in 0..40 {
        let other = Options { segment_size: 30_000, inline_us: 0, ..zstd(round % 15 + 1) };
        let mut stream = weft::stream::Stream::begin(&Arc::clone(&shared), other).expect("begin");
        let _ = stream.feed(&body[..100_000]).expect("feed");
        drop(stream);
        let (bytes, _) = run(&shared, options(), &body, &[], 1 << 20);
        assert!(bytes == expected, "round {round}");
    }
}
