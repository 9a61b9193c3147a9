//! The long version of `roundtrip.rs`: 10 MB and 100 MB at every level. It takes most of an hour on
//! two cores: `cargo test --release --test full -- --ignored`.

mod support;

use std::process::Command;
use support::*;

#[test]
#[ignore = "takes most of an hour"]
fn large_bodies_at_every_level() {
    let levels = std::env::var("LEVELS").unwrap_or_else(|_| "-5,1,3,6,9,12,15,19,22".into());
    let sizes = std::env::var("SIZES").unwrap_or_else(|_| "10000000,100000000".into());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("full.zst");
    for size in sizes.split(',').filter_map(|size| size.parse().ok()) {
        for (kind, body) in
            [("text", text(size, 1)), ("json", json(size, 2)), ("random", random(size, 3))]
        {
            for level in levels.split(',').filter_map(|level| level.parse().ok()) {
                let (bytes, _) = run(&engine(0), zstd(level), &body, &[], 1 << 20);
                assert!(zstd_tool(&bytes).expect("decodes") == body, "{kind} {level}");
                std::fs::write(&file, &bytes).expect("room on the disk");
                let (frames, window) = listed(&file);
                assert_eq!(frames, 1, "{kind} {level}");
                assert!(window <= 8 << 20, "{kind} {level}: window of {window}");
                for threads in [1, 2, 8] {
                    let (others, _) = run(&engine(threads), zstd(level), &body, &[], 1 << 18);
                    assert!(others == bytes, "{kind} {level} with {threads} threads");
                }
                println!("{kind} of {size} at {level}: {} bytes, window {window}", bytes.len());
            }
        }
    }
}

/// Frames and window as `zstd -lv` tells them.
fn listed(file: &std::path::Path) -> (u64, u64) {
    let out = Command::new("zstd").arg("-lv").arg(file).output().expect("zstd tool");
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
