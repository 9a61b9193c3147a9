//! What must hold for brotli and deflate in segments (src/codec/brotli.rs, src/codec/deflate.rs).
//! What zstd needs stands in zstd_conditions.rs.

mod support;

#[allow(dead_code, reason = "the fuzzer uses all of it")]
#[path = "../fuzz/src/reader.rs"]
mod reader;
#[allow(dead_code, reason = "the fuzzer uses all of it")]
#[path = "../fuzz/src/script.rs"]
mod script;

use script::Script;
use std::process::Command;
use std::sync::Arc;
#[cfg(feature = "c-deflate")]
use std::time::Duration;
use support::*;
use weft::codec::{self, Kind, Params, Request, Window};
use weft::engine::{Engine, Options as EngineOptions};
use weft::retain::Retention;
use weft::stream::{Flow, Options, Stream};

fn keep(retention: Retention) -> Arc<Engine> {
    Engine::new(EngineOptions { retention, ..EngineOptions::default() }).expect("engine")
}

/// Bytes of few kinds in short repetitions: matches end everywhere, at the end of history too.
fn hostile(len: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let mut body: Vec<u8> = Vec::with_capacity(len + 64);
    while body.len() < len {
        if body.len() > 40 && numbers.below(3) > 0 {
            let back = 1 + numbers.below(body.len().min(4000) as u64) as usize;
            let start = body.len() - back;
            let count = (2 + numbers.below(12) as usize).min(back);
            body.extend_from_within(start..start + count);
        } else {
            body.extend((0..1 + numbers.below(3)).map(|_| numbers.below(4) as u8 + b'a'));
        }
    }
    body.truncate(len);
    body
}

/// Inputs of the fuzzer at which the crate `brotli` panics, from quality 2 to 9.
const THAT_PANIC: [&[u8]; 8] = [
    include_bytes!("../fuzz/seeds/brotli/panic-2"),
    include_bytes!("../fuzz/seeds/brotli/panic-3"),
    include_bytes!("../fuzz/seeds/brotli/panic-4"),
    include_bytes!("../fuzz/seeds/brotli/panic-5"),
    include_bytes!("../fuzz/seeds/brotli/panic-6"),
    include_bytes!("../fuzz/seeds/brotli/panic-7"),
    include_bytes!("../fuzz/seeds/brotli/panic-8"),
    include_bytes!("../fuzz/seeds/brotli/panic-9"),
];

fn that_panics(quality: usize) -> Script {
    let script = Script::read(&[Kind::Brotli], THAT_PANIC[quality - 2]);
    assert_eq!(script.level, quality as i32, "the fuzzer's scripts have changed their form");
    script
}

#[test]
fn a_panic_of_the_encoder_loses_nothing() {
    for quality in 2..=9 {
        let script = that_panics(quality);
        let (body, marks) = (&script.body, &script.marks);
        let once = keep(Retention::Bounded);
        let (bytes, _) = run(&once, script.options(), body, marks, 100_000);
        assert!(once.stats().segments_again > 0, "quality {quality}: the input must panic");
        assert!(decode(Kind::Brotli, &bytes).expect("decodes") == *body, "quality {quality}");
        let (others, _) = run(&engine(2), script.options(), body, marks, 9_999);
        assert!(others == bytes, "quality {quality}");
    }
}

#[test]
fn a_panic_that_is_dealt_with_is_silent() {
    const CHILD: &str = "WEFT_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let script = that_panics(2);
        let engine = keep(Retention::Bounded);
        run(&engine, script.options(), &script.body, &script.marks, 100_000);
        assert!(engine.stats().segments_again > 0);
        return;
    }
    let child = Command::new(std::env::current_exe().expect("path"))
        .args(["--exact", "a_panic_that_is_dealt_with_is_silent", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("runs");
    assert!(child.status.success());
    let words = String::from_utf8_lossy(&child.stderr);
    assert!(!words.contains("panicked"), "{words}");
}

// Google's, where weft is built with it: src/ffi/libbrotli.rs.
#[cfg(not(feature = "c-brotli"))]
#[test]
fn a_body_of_one_segment_is_the_plain_encoders() {
    use brotli::enc::BrotliEncoderParams;
    for level in 0..=11 {
        for (len, window_log) in [(1, 0), (500, 0), (3_000, 0), (100_000, 0), (200_000, 16)] {
            let body = json(len, len as u64);
            let options = Options {
                content_length: Some(len as u64),
                segment_size: 1 << 20,
                window_log,
                ..of(Kind::Brotli, level)
            };
            let (bytes, _) = run(&engine(0), options, &body, &[], 7_000);
            let mut lgwin = ((len + 16) as f64).log2().ceil() as i32;
            lgwin = lgwin.max(if (5..=8).contains(&level) { 17 } else { 13 });
            if window_log != 0 {
                lgwin = lgwin.min(window_log as i32);
            }
            let params = BrotliEncoderParams {
                quality: level,
                lgwin,
                size_hint: len,
                ..BrotliEncoderParams::default()
            };
            assert!(plain(&params, &body) == bytes, "{len} bytes at {level}");
            if level > 1 {
                let mut piecewise = Vec::new();
                brotli::BrotliCompress(&mut &body[..], &mut piecewise, &params).expect("plain");
                assert!(piecewise == bytes, "{len} bytes at {level}");
            }
        }
    }
}

/// The whole body in one call: at qualities 0 and 1 what it gives depends on the calls.
#[cfg(not(feature = "c-brotli"))]
fn plain(params: &brotli::enc::BrotliEncoderParams, body: &[u8]) -> Vec<u8> {
    use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderStateStruct};
    let mut state = BrotliEncoderStateStruct::new(brotli::enc::StandardAlloc::default());
    state.params = params.clone();
    let mut out = vec![0; body.len() + 1024];
    let (mut left, mut room, mut written) = (body.len(), out.len(), 0);
    assert!(state.compress_stream(
        BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        &mut left,
        body,
        &mut 0,
        &mut room,
        &mut out,
        &mut written,
        &mut None,
        &mut |_, _, _, _| (),
    ));
    assert!(state.is_finished());
    out.truncate(written);
    out
}

/// libdeflate takes whole bodies only, and is worth a longer segment.
#[cfg(feature = "c-deflate")]
#[test]
fn a_gzip_body_of_known_length_is_one_segment_where_that_is_quick() {
    for (level, len, segments) in [
        (6, 1_500_000, 1),
        (6, 2 << 20, 1),
        (6, (2 << 20) + 1, 5),
        (9, 1_500_000, 3),
        (0, 600_000, 3),
    ] {
        let body = json(len, 5);
        let engine = engine(2);
        let known = Options { content_length: Some(len as u64), ..of(Kind::Gzip, level) };
        let (bytes, _) = run(&engine, known, &body, &[], 64_000);
        engine.shutdown(Duration::MAX);
        let stats = engine.stats();
        assert_eq!(stats.segments_inline + stats.segments_tasks, segments, "{len} at {level}");
        assert!(decode(Kind::Gzip, &bytes).expect("decodes") == body);
        // One that turns out longer than was said.
        let wrong = Options { content_length: Some(1000), ..of(Kind::Gzip, level) };
        let (bytes, _) = run(&keep(Retention::All), wrong, &body, &[], 64_000);
        assert!(decode(Kind::Gzip, &bytes).expect("decodes") == body);
    }
}

#[test]
fn used_encoders_give_what_fresh_ones_give() {
    for kind in [Kind::Brotli, Kind::Gzip, Kind::Zlib] {
        let used = keep(Retention::All);
        let mut numbers = Numbers::new(11);
        for round in 0..600 {
            let all = levels(kind);
            let level = all[numbers.below(all.len() as u64) as usize];
            let len = match numbers.below(4) {
                0 => numbers.below(300),
                1 => numbers.below(5_000),
                2 => numbers.below(30_000),
                _ => numbers.below(if level > 9 { 20_000 } else { 100_000 }),
            } as usize;
            let body = match numbers.below(4) {
                0 => text(len, round),
                1 => json(len, round),
                2 => hostile(len, round),
                _ => random(len, round),
            };
            let mark = numbers.below(len as u64 + 1) as usize;
            let near = (mark + numbers.below(4) as usize).min(len);
            let options = || Options {
                segment_size: 4096 + (round % 7) * 5000,
                history_size: Some((round % 5) * 10_000),
                content_length: (round % 3 == 0).then_some(len as u64),
                ..of(kind, level)
            };
            let (dirty, _) = run(&used, options(), &body, &[mark, near], 1 << 20);
            let clean = keep(Retention::None);
            let (fresh, _) = run(&clean, options(), &body, &[mark, near], 1 << 20);
            assert!(dirty == fresh, "{kind:?} round {round}: level {level}, {len} bytes");
        }
        // Bodies of one segment may have another encoder; each panic of brotli's costs one.
        let two = match kind {
            Kind::Brotli => cfg!(feature = "c-brotli"),
            _ => cfg!(feature = "c-deflate"),
        };
        let breeds = 1 + u64::from(two);
        let stats = used.stats();
        assert!(
            stats.encoders_made <= breeds + stats.segments_again,
            "the test must reuse encoders"
        );
    }
}

#[test]
fn every_flush_is_decodable_at_once() {
    for (kind, levels) in [
        (Kind::Brotli, &[0, 1, 2, 4, 5, 9, 11][..]),
        (Kind::Gzip, &[0, 1, 6, 9]),
        (Kind::Zlib, &[6]),
        (Kind::Deflate, &[6]),
    ] {
        for level in levels {
            let body = text(60_000, 8);
            let marks: Vec<usize> = (1..30).map(|mark| mark * 1999).collect();
            let (bytes, reached) = run(&engine(2), of(kind, *level), &body, &marks, 700);
            for (mark, end) in marks.iter().zip(&reached) {
                let seen = prefix(kind, &bytes[..*end]);
                assert!(seen == body[..*mark], "{kind:?} {level}: not all before {mark}");
            }
            assert!(decode(kind, &bytes).expect("decodes") == body, "{kind:?} {level}");
        }
    }
}

#[test]
fn noise_does_not_grow() {
    let body = random(1 << 20, 9);
    for kind in KINDS {
        for level in levels(kind) {
            let (whole, _) = run(&engine(0), of(kind, level), &body, &[], 1 << 20);
            let most = body.len() + body.len() / 1000 + 64;
            assert!(whole.len() <= most, "{kind:?} {level}: {}", whole.len() - body.len());
            let marks: Vec<usize> = (1..100).map(|mark| mark * 10_007).collect();
            let (flushed, _) = run(&engine(0), of(kind, level), &body, &marks, 1 << 20);
            let most = most + 16 * marks.len();
            assert!(flushed.len() <= most, "{kind:?} {level}: {}", flushed.len() - body.len());
            if kind == Kind::Zstd || level < 3 {
                assert!(decode(kind, &flushed).expect("decodes") == body, "{kind:?} {level}");
            }
        }
    }
}

#[test]
fn the_best_levels_do_not_spend_their_time_on_noise() {
    let (noise, words) = (random(1 << 20, 9), text(1 << 20, 9));
    for (kind, level) in [(Kind::Zstd, 19), (Kind::Brotli, 11)] {
        // The slow ways have large tables, and time would depend on the machine.
        let tables = |body: &[u8]| {
            let engine = keep(Retention::All);
            run(&engine, of(kind, level), body, &[], 1 << 20);
            engine.stats().memory_idle_encoders
        };
        let (noise, words) = (tables(&noise), tables(&words));
        assert!(noise * 4 < words * 3, "{kind:?} {level}: {noise} bytes, text {words} bytes");
    }
}

#[test]
fn noise_that_repeats_is_found_all_the_same() {
    let body = random(20_000, 4).repeat(8);
    for kind in KINDS {
        let least = if kind == Kind::Zstd { 1 } else { 2 };
        for level in levels(kind).into_iter().filter(|level| *level >= least) {
            let options =
                Options { segment_size: 15_000, history_size: Some(100_000), ..of(kind, level) };
            let (bytes, _) = run(&engine(0), options, &body, &[], 1 << 20);
            assert!(bytes.len() < 30_000, "{kind:?} {level}: {}", bytes.len());
            assert!(decode(kind, &bytes).expect("decodes") == body, "{kind:?} {level}");
        }
    }
}

#[test]
fn nearly_equal_events_cost_little() {
    let mut event = json(4_000, 3);
    for (kind, level) in [(Kind::Zstd, 3), (Kind::Brotli, 5), (Kind::Gzip, 6)] {
        let (mut body, mut marks) = (Vec::new(), Vec::new());
        for number in 0..100 {
            event[20..30].copy_from_slice(format!("{:010}", number * 7_919).as_bytes());
            body.extend(&event);
            marks.push(body.len());
        }
        let (bytes, _) = run(&engine(0), of(kind, level), &body, &marks, 1 << 20);
        eprintln!("{kind:?} {level}: {} bytes for 100 events", bytes.len());
        assert!(bytes.len() < 8_192, "{kind:?} {level}: {} bytes", bytes.len());
        assert!(decode(kind, &bytes).expect("decodes") == body);
    }
}

/// An event stream ends with nothing left to say, and a whole encoder was made for it.
#[test]
fn closing_an_empty_last_segment_takes_no_encoder() {
    for kind in [Kind::Zstd, Kind::Brotli, Kind::Gzip, Kind::Deflate, Kind::Zlib] {
        for level in [codec::bounds(kind).min, codec::bounds(kind).max] {
            let engine = keep(Retention::None);
            let mut stream = Stream::begin(&engine, of(kind, level)).expect("begin");
            let mut out = Vec::new();
            stream.feed(b"an event").expect("feed");
            stream.flush().expect("flush");
            while stream.poll(100, &mut |bytes| out.extend(bytes)).expect("poll").flow == Flow::Ok {
            }
            let before = out.len();
            assert_eq!(engine.stats().encoders_made, 1);
            stream.finish().expect("finish");
            while stream.poll(100, &mut |bytes| out.extend(bytes)).expect("poll").flow == Flow::Ok {
            }
            assert_eq!(engine.stats().encoders_made, 1, "{kind:?} {level}");
            assert_eq!(engine.stats().bytes_out, out.len() as u64);
            assert_eq!(decode(kind, &out).expect("decodes"), b"an event");
            // What an encoder would have written.
            let params = Params::settle(&Request {
                kind,
                level,
                window_log: 0,
                content_length: None,
                history: 1000,
                segment: 1000,
            })
            .expect("in bounds");
            let mut room = [0; 200];
            let window = Window::new(&[], 0, false, true);
            let mut encoder = params.new_encoder(false).expect("encoder");
            let range = encoder.encode(&params, &window, &mut room).expect("encodes");
            assert!(out[before..].starts_with(&room[range]), "{kind:?} {level}");
        }
    }
}
