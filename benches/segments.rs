//! Size and CPU of a body in segments against the same body in one piece.
//!
//! `cargo bench --bench segments -- FILE...` prints the table for the default segments of each level;
//! `SEGMENT=bytes HISTORY=bytes LEVELS=3,9 RUNS=5` try others.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use weft::codec::Kind;
use weft::engine::{Engine, Options as EngineOptions};
use weft::stream::{Flow, Options, Stream};

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let files: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let levels = std::env::var("LEVELS").unwrap_or_else(|_| "1,3,6,9,12,15,19".into());
    let levels: Vec<i32> = levels.split(',').filter_map(|level| level.parse().ok()).collect();
    let runs = number("RUNS").unwrap_or(5) as usize;
    println!("| file | level | one piece | segments | size | CPU |");
    println!("|---|---|---|---|---|---|");
    for file in files {
        let body = std::fs::read(&file).expect("a file to read");
        for level in &levels {
            let engine = Engine::new(EngineOptions::default()).expect("engine");
            let mut one = zstd::bulk::Compressor::new(*level).expect("libzstd");
            let mut bytes = (0, 0);
            let (mut whole, mut ratios) = (Vec::new(), Vec::new());
            // In turn, so that a slow spell of the machine meets both. The first round warms up.
            for round in 0..=runs {
                let start = cpu();
                bytes.0 = one.compress(&body).expect("libzstd").len();
                let middle = cpu();
                bytes.1 = in_segments(&engine, &body, *level);
                let end = cpu();
                if round > 0 {
                    whole.push((middle - start).as_secs_f64());
                    ratios.push((end - middle).as_secs_f64() / (middle - start).as_secs_f64());
                }
            }
            println!(
                "| {} | {level} | {} B, {:.1} ms | {} B | {:+.2} % | x{:.2} |",
                file.rsplit('/').next().unwrap_or(&file),
                bytes.0,
                median(whole) * 1e3,
                bytes.1,
                (bytes.1 as f64 / bytes.0 as f64 - 1.0) * 100.0,
                median(ratios),
            );
        }
    }
}

fn in_segments(engine: &std::sync::Arc<Engine>, body: &[u8], level: i32) -> usize {
    let options = Options {
        level: Some(level),
        content_length: number("UNKNOWN").is_none().then_some(body.len() as u64),
        segment_size: number("SEGMENT").unwrap_or(0),
        history_size: number("HISTORY"),
        ..Options::new(Kind::Zstd)
    };
    let mut stream = Stream::begin(engine, options).expect("begin");
    let (mut out, mut offset) = (0, 0);
    let mut finished = false;
    loop {
        if offset < body.len() {
            let end = body.len().min(offset + 65_536);
            offset += stream.feed(&body[offset..end]).expect("feed").0;
        } else if !finished {
            stream.finish().expect("finish");
            finished = true;
        }
        let taken = stream.poll(1 << 20, &mut |bytes| out += bytes.len()).expect("poll");
        if taken.flow == Flow::Done {
            return out;
        }
    }
}
