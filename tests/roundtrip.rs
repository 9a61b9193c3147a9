//! Every level, many sizes, with and without flush marks: decoded by others, and the same bytes for
//! any number of threads.

mod support;

use support::*;
use weft::stream::Options;

const LEVELS: [i32; 9] = [-5, 1, 3, 6, 9, 12, 15, 19, 22];

fn marks_for(len: usize, seed: u64) -> Vec<usize> {
    let mut numbers = Numbers::new(seed);
    let mut marks: Vec<usize> = (0..6).map(|_| numbers.below(len as u64 + 1) as usize).collect();
    // Two at one place, and one at the very end.
    marks.push(marks[0]);
    marks.push(len);
    marks.sort_unstable();
    marks
}

fn check(body: &[u8], level: i32, marks: &[usize], threads: &[u32], options: fn(i32) -> Options) {
    let what = format!("{} bytes at level {level}, {} marks", body.len(), marks.len());
    let (bytes, reached) = run(&engine(0), options(level), body, marks, 50_000);
    assert_eq!(reached.len(), marks.len(), "{what}: one event for each mark");
    assert_eq!(bytes[..5], [0x28, 0xB5, 0x2F, 0xFD, 0x00], "{what}: header");
    assert!(bytes[5] >> 3 <= 13 && bytes[5] & 7 == 0, "{what}: window above 8 MiB");
    assert!(zstd_tool(&bytes).expect(&what) == body, "{what}: zstd tool");
    for count in threads {
        let piece = 7_001 * *count as usize;
        let (others, _) = run(&engine(*count), options(level), body, marks, piece);
        assert!(others == bytes, "{what}: other bytes with {count} threads");
    }
}

#[test]
fn small_sizes_at_every_level() {
    for level in LEVELS {
        for len in [0, 1, 2, 3, 100, 65_535, 131_071, 131_072, 131_073] {
            let body = text(len, 7);
            check(&body, level, &[], &[1, 2, 8], zstd);
            check(&body, level, &marks_for(len, len as u64), &[2], zstd);
        }
    }
}

#[test]
fn around_the_segment_size() {
    fn small_segments(level: i32) -> Options {
        Options { segment_size: 1 << 17, history_size: Some(1 << 16), ..zstd(level) }
    }
    let full = 1 << 17;
    for level in LEVELS {
        for len in [full - 1, full, full + 1, 2 * full - 1, 2 * full, 2 * full + 1, 5 * full] {
            check(&json(len, 3), level, &[], &[2], small_segments);
        }
        check(&json(5 * full, 4), level, &marks_for(5 * full, 9), &[8], small_segments);
    }
}

#[test]
fn a_length_that_was_a_lie_is_coded_right() {
    for said in [0, 1, 100, 99_999, 100_001, 10_000_000] {
        let body = text(100_000, 5);
        for segment_size in [0, 4096, 30_000] {
            let options = || Options { content_length: Some(said), segment_size, ..zstd(6) };
            let (bytes, _) = run(&engine(0), options(), &body, &[], 9_000);
            assert!(zstd_tool(&bytes).expect("decodes") == body, "said {said}");
            assert!(ruzstd(&bytes).expect("decodes") == body, "said {said}");
            let (others, _) = run(&engine(2), options(), &body, &[], 1_000);
            assert!(others == bytes);
        }
    }
}

#[test]
fn large_bodies_of_three_kinds() {
    for (kind, body) in [
        ("text", text(10_000_000, 1)),
        ("json", json(10_000_000, 2)),
        ("random", random(10_000_000, 3)),
    ] {
        for level in [1, 3, 9] {
            check(&body, level, &[], &[2], zstd);
        }
        let (bytes, _) = run(&engine(2), zstd(3), &body, &marks_for(body.len(), 1), 100_000);
        assert!(ruzstd(&bytes).expect("decodes") == body, "{kind}");
        assert!(bytes.len() <= body.len() + body.len() / 1000 + 64 + 16 * 10, "{kind} grew");
    }
}

#[test]
fn a_window_as_small_as_asked() {
    for window_log in [10, 13, 17, 23] {
        let body = json(1_000_000, 8);
        let options =
            Options { window_log, segment_size: 70_000, history_size: Some(1 << 18), ..zstd(9) };
        let (bytes, _) = run(&engine(2), options, &body, &[10, 20_000, 300_000], 64_000);
        assert_eq!(u32::from(bytes[5] >> 3) + 10, window_log.clamp(13, 19));
        assert!(zstd_tool(&bytes).expect("decodes") == body);
        assert!(ruzstd(&bytes).expect("decodes") == body);
    }
}
