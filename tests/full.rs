//! The long version of `roundtrip.rs`: 10 MB and 100 MB at every level of every coding. It takes
//! hours on two cores: `cargo test --release --test full -- --ignored --nocapture`. For a part of it:
//! `CODEC=brotli LEVELS=5,9 SIZES=10000000 THREADS=2`.

mod support;

use std::process::Command;
use support::*;
use weft::codec::Kind;

/// The numbers of an environment variable, or those of `usual`.
fn numbers(name: &str, usual: &[i32]) -> Vec<i32> {
    let Ok(words) = std::env::var(name) else { return usual.to_vec() };
    words.split(',').map(|word| word.parse().expect("numbers with commas between")).collect()
}

#[test]
#[ignore = "takes hours"]
fn large_bodies_at_every_level() {
    let chosen = std::env::var("CODEC").unwrap_or_default();
    let codecs = [("zstd", Kind::Zstd), ("brotli", Kind::Brotli), ("gzip", Kind::Gzip)];
    let mut seen = 0;
    for size in numbers("SIZES", &[10_000_000, 100_000_000]) {
        let size = size as usize;
        for (kind, body) in
            [("text", text(size, 1)), ("json", json(size, 2)), ("random", random(size, 3))]
        {
            for (name, codec) in codecs {
                if !chosen.is_empty() && chosen != name {
                    continue;
                }
                for level in numbers("LEVELS", &levels(codec)) {
                    one(codec, level, &body, &format!("{kind} of {size}, {name} {level}"));
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 0, "no codec {chosen}");
}

fn one(codec: Kind, level: i32, body: &[u8], what: &str) {
    let (bytes, _) = run(&engine(0), of(codec, level), body, &[], 1 << 20);
    assert!(decode(codec, &bytes).expect(what) == body, "{what}: other bytes");
    let window = match codec {
        Kind::Zstd => {
            let (frames, window) = listed(&bytes);
            assert_eq!(frames, 1, "{what}");
            window
        }
        Kind::Brotli => 1 << brotli_window(bytes[0]),
        _ => 1 << 15,
    };
    assert!(window <= 8 << 20, "{what}: window of {window}");
    for threads in numbers("THREADS", &[1, 2, 8]) {
        let (others, _) = run(&engine(threads as u32), of(codec, level), body, &[], 1 << 18);
        assert!(others == bytes, "{what} with {threads} threads");
    }
    println!("{what}: {} bytes, window {window}", bytes.len());
}

/// Frames and window as `zstd -lv` tells them.
fn listed(bytes: &[u8]) -> (u64, u64) {
    let name = format!("full-{}.zst", std::process::id());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, bytes).expect("room on the disk");
    let out = Command::new("zstd").arg("-lv").arg(&file).output().expect("zstd tool");
    let _ = std::fs::remove_file(&file);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let after = |name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).expect("a line");
        line.split(':').nth(1).expect("a value").trim().to_string()
    };
    let frames = after("# Zstandard Frames").parse().expect("a number");
    // "Window Size: 2.00 MiB (2097152 B)"
    let window = after("Window Size");
    let exact = window.split('(').nth(1).and_then(|rest| rest.split(' ').next());
    (frames, exact.expect("bytes").parse().expect("a number"))
}
