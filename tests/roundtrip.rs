//! Every codec at every level, many sizes, with and without flush marks: decoded by others, and the
//! same bytes for any number of threads.

mod support;

use std::sync::Arc;
use support::*;
use weft::codec::Kind;
use weft::engine::Engine;
use weft::stream::Options;

fn marks_for(len: usize, seed: u64) -> Vec<usize> {
    let mut numbers = Numbers::new(seed);
    let mut marks: Vec<usize> = (0..6).map(|_| numbers.below(len as u64 + 1) as usize).collect();
    // Two at one place, and one at the very end.
    marks.push(marks[0]);
    marks.push(len);
    marks.sort_unstable();
    marks
}

/// Engines with so many threads, used for one body after another.
struct Engines([(u32, Arc<Engine>); 4]);

impl Engines {
    fn new() -> Engines {
        Engines([0, 1, 2, 8].map(|threads| (threads, engine(threads))))
    }
}

fn check(
    engines: &Engines,
    body: &[u8],
    kind: Kind,
    level: i32,
    marks: &[usize],
    options: fn(Kind, i32) -> Options,
) {
    let what = format!("{} bytes, {kind:?} {level}, {} marks", body.len(), marks.len());
    let [(_, inline), pools @ ..] = &engines.0;
    let (bytes, reached) = run(inline, options(kind, level), body, marks, 50_000);
    assert_eq!(reached.len(), marks.len(), "{what}: one event for each mark");
    if kind == Kind::Zstd {
        assert_eq!(bytes[..5], [0x28, 0xB5, 0x2F, 0xFD, 0x00], "{what}: header");
        assert!(bytes[5] >> 3 <= 13 && bytes[5] & 7 == 0, "{what}: window above 8 MiB");
        assert!(zstd_tool(&bytes).expect(&what) == body, "{what}: zstd tool");
    } else {
        assert!(decode(kind, &bytes).expect(&what) == body, "{what}: decoded");
    }
    for (count, pool) in pools {
        let slow = kind == Kind::Brotli && level >= 10 || body.len() > 1 << 20;
        if slow && *count != 2 {
            continue;
        }
        let piece = 7_001 * *count as usize;
        let (others, _) = run(pool, options(kind, level), body, marks, piece);
        assert!(others == bytes, "{what}: other bytes with {count} threads");
    }
}

fn small_sizes(kind: Kind) {
    let engines = Engines::new();
    for level in levels(kind) {
        for len in [0, 1, 2, 3, 100, 65_535, 131_071, 131_072, 131_073] {
            let body = text(len, 7);
            check(&engines, &body, kind, level, &[], of);
            check(&engines, &body, kind, level, &marks_for(len, len as u64), of);
        }
    }
}

#[test]
fn small_sizes_zstd() {
    small_sizes(Kind::Zstd);
}

#[test]
fn small_sizes_brotli() {
    small_sizes(Kind::Brotli);
}

#[test]
fn small_sizes_gzip() {
    small_sizes(Kind::Gzip);
}

#[test]
fn small_sizes_deflate_and_zlib() {
    let engines = Engines::new();
    for kind in [Kind::Deflate, Kind::Zlib] {
        for level in [0, 1, 6, 9] {
            for len in [0, 1, 3, 100, 65_535, 300_000] {
                let body = json(len, 7);
                check(&engines, &body, kind, level, &[], of);
                check(&engines, &body, kind, level, &marks_for(len, len as u64), of);
            }
        }
    }
}

fn around_the_segment_size(kind: Kind) {
    let engines = Engines::new();
    fn small_segments(kind: Kind, level: i32) -> Options {
        Options { segment_size: 1 << 17, history_size: Some(1 << 16), ..of(kind, level) }
    }
    let full: usize = 1 << 17;
    for level in levels(kind) {
        for len in [full - 1, full, full + 1, 2 * full - 1, 2 * full, 2 * full + 1, 5 * full] {
            check(&engines, &json(len, 3), kind, level, &[], small_segments);
        }
        check(&engines, &json(5 * full, 4), kind, level, &marks_for(5 * full, 9), small_segments);
    }
}

#[test]
fn around_the_segment_size_zstd() {
    around_the_segment_size(Kind::Zstd);
}

#[test]
fn around_the_segment_size_brotli() {
    around_the_segment_size(Kind::Brotli);
}

#[test]
fn around_the_segment_size_gzip() {
    around_the_segment_size(Kind::Gzip);
}

#[test]
fn a_length_that_was_a_lie_is_coded_right() {
    for kind in KINDS {
        for said in [0, 1, 100, 99_999, 100_001, 10_000_000] {
            let body = text(100_000, 5);
            for segment_size in [0, 4096, 30_000] {
                let options =
                    || Options { content_length: Some(said), segment_size, ..of(kind, 6) };
                let (bytes, _) = run(&engine(0), options(), &body, &[], 9_000);
                assert!(decode(kind, &bytes).expect("decodes") == body, "{kind:?}: said {said}");
                let (others, _) = run(&engine(2), options(), &body, &[], 1_000);
                assert!(others == bytes, "{kind:?}: said {said}");
            }
        }
    }
}

#[test]
fn large_bodies_of_three_kinds() {
    let engines = Engines::new();
    for (name, body) in [
        ("text", text(10_000_000, 1)),
        ("json", json(10_000_000, 2)),
        ("random", random(10_000_000, 3)),
    ] {
        for (kind, levels) in
            [(Kind::Zstd, [1, 3, 9]), (Kind::Brotli, [0, 4, 5]), (Kind::Gzip, [1, 6, 9])]
        {
            for level in levels {
                check(&engines, &body, kind, level, &[], of);
            }
            let marks = marks_for(body.len(), 1);
            let (bytes, _) = run(&engine(2), of(kind, 3), &body, &marks, 100_000);
            assert!(decode(kind, &bytes).expect("decodes") == body, "{name}");
            assert!(bytes.len() <= body.len() + body.len() / 1000 + 64 + 16 * 10, "{name} grew");
        }
    }
}

#[test]
fn a_window_as_small_as_asked() {
    for window_log in [10, 13, 17, 23] {
        let body = json(1_000_000, 8);
        let options = |kind, level| Options {
            window_log,
            segment_size: 70_000,
            history_size: Some(1 << 18),
            ..of(kind, level)
        };
        let marks = [10, 20_000, 300_000];
        let (bytes, _) = run(&engine(2), options(Kind::Zstd, 9), &body, &marks, 64_000);
        assert_eq!(u32::from(bytes[5] >> 3) + 10, window_log.clamp(13, 19));
        assert!(decode(Kind::Zstd, &bytes).expect("decodes") == body);
        for level in levels(Kind::Brotli).into_iter().filter(|level| *level < 10) {
            let (bytes, _) = run(&engine(2), options(Kind::Brotli, level), &body, &marks, 64_000);
            let least = if level < 2 { 18 } else { 13 };
            let declared = brotli_window(bytes[0]);
            assert!(
                declared >= least && declared <= window_log.max(least),
                "{declared} at {level}"
            );
            assert!(decode(Kind::Brotli, &bytes).expect("decodes") == body);
        }
        let (bytes, _) = run(&engine(2), options(Kind::Gzip, 9), &body, &marks, 64_000);
        assert!(decode(Kind::Gzip, &bytes).expect("decodes") == body);
    }
}

#[test]
fn windows_that_brotli_has_and_browsers_need_not() {
    let body = json(30_000_000, 8);
    let options = Options { window_log: 24, history_size: Some(8 << 20), ..of(Kind::Brotli, 1) };
    let (bytes, _) = run(&engine(2), options, &body, &[], 1 << 20);
    assert!(brotli_window(bytes[0]) <= 23);
    assert!(decode(Kind::Brotli, &bytes).expect("decodes") == body);
}

#[test]
fn one_member_and_no_unused_data() {
    // C zlib's opinion, by way of Python.
    let script = "
import sys, zlib
bits = int(sys.argv[1])
decoder = zlib.decompressobj(bits)
data = sys.stdin.buffer.read()
body = b''.join(decoder.decompress(data[at:at + 997]) for at in range(0, len(data), 997))
sys.exit('unused or missing data' if not decoder.eof or decoder.unused_data else None) \\
    if not decoder.eof or decoder.unused_data else sys.stdout.buffer.write(body)
";
    for (kind, bits) in [(Kind::Gzip, "31"), (Kind::Zlib, "15"), (Kind::Deflate, "-15")] {
        for level in levels(kind) {
            let body = json(700_000, level as u64);
            let marks = marks_for(body.len(), 3);
            let (bytes, _) = run(&engine(2), of(kind, level), &body, &marks, 30_000);
            let decoded = pipe("python3", &["-c", script, bits], &bytes).expect("one member");
            assert!(decoded == body, "{kind:?} {level}");
        }
    }
}
