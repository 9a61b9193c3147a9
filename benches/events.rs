//! What small flushed pieces cost, and what is saved by keeping the encoder's memory: the figures of
//! `cargo bench --bench events`. CPU of the calling thread. `JSON=1` for programs.

mod support;

use nix::sys::resource::{UsageWho, getrusage};
use std::sync::Arc;
use support::{Field, cpu, median};
use weft::codec::Kind;
use weft::engine::{Engine, Options as EngineOptions};
use weft::stream::{Flow, Options, Stream};
use zlib_rs::{Deflate, DeflateFlush};

fn faults() -> i64 {
    getrusage(UsageWho::RUSAGE_SELF).map(|usage| usage.minor_page_faults()).unwrap_or(0)
}

fn engine() -> Arc<Engine> {
    Engine::new(EngineOptions::default()).expect("engine")
}

fn text(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut body = Vec::with_capacity(len + 80);
    while body.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (a, b) = (state % 100_000, state >> 40 & 1023);
        body.extend(
            format!("{{\"id\":{a},\"user\":\"name{b}\",\"on\":true,\"x\":{}}},\n", a * b).bytes(),
        );
    }
    body.truncate(len);
    body
}

/// Feeds pieces of `piece` bytes with a mark behind each; seconds, bytes.
fn flushed(
    engine: &Arc<Engine>,
    kind: Kind,
    level: i32,
    body: &[u8],
    piece: usize,
) -> (f64, usize) {
    let options = Options {
        level: Some(level),
        content_length: (piece >= body.len()).then_some(body.len() as u64),
        ..Options::new(kind)
    };
    let mut stream = Stream::begin(engine, options).expect("begin");
    let mut out = 0;
    let mut take = |stream: &mut Stream| loop {
        let taken = stream.poll(1 << 20, &mut |bytes| out += bytes.len()).expect("poll");
        if taken.flow != Flow::Ok {
            break;
        }
    };
    let start = cpu();
    for part in body.chunks(piece) {
        let mut rest = part;
        while !rest.is_empty() {
            rest = &rest[stream.feed(rest).expect("feed").0..];
            take(&mut stream);
        }
        if piece < body.len() {
            stream.flush().expect("flush");
        }
        take(&mut stream);
    }
    stream.finish().expect("finish");
    take(&mut stream);
    ((cpu() - start).as_secs_f64(), out)
}

/// The same with an encoder that is kept.
fn kept(kind: Kind, level: i32, body: &[u8], piece: usize) -> (f64, usize) {
    let start = cpu();
    let mut out = vec![0; piece + 4096];
    let mut bytes = 0;
    match kind {
        Kind::Zstd => {
            use std::io::Write;
            let mut sink = zstd::stream::Encoder::new(Vec::new(), level).expect("libzstd");
            for part in body.chunks(piece) {
                sink.write_all(part).and_then(|()| sink.flush()).expect("libzstd");
            }
            bytes = sink.finish().expect("libzstd").len();
        }
        Kind::Brotli => {
            use std::io::Write;
            let mut sink = brotli::CompressorWriter::new(Vec::new(), 4096, level as u32, 18);
            for part in body.chunks(piece) {
                sink.write_all(part).and_then(|()| sink.flush()).expect("brotli");
            }
            bytes = sink.into_inner().len();
        }
        _ => {
            let mut one = Deflate::new(level, false, 15);
            for part in body.chunks(piece) {
                let before = one.total_out();
                one.compress(part, &mut out, DeflateFlush::SyncFlush).expect("deflate");
                bytes += (one.total_out() - before) as usize;
            }
        }
    }
    ((cpu() - start).as_secs_f64(), bytes)
}

fn least(mut measure: impl FnMut() -> (f64, usize)) -> (f64, usize) {
    (0..5).map(|_| measure()).min_by(|a, b| a.0.total_cmp(&b.0)).expect("runs")
}

fn main() {
    let cases = [(Kind::Brotli, 5), (Kind::Gzip, 6), (Kind::Zstd, 3), (Kind::Zstd, 12)];
    support::head(
        "| 200-byte events | weft | encoder kept | size, weft | size, kept |\n|---|---|---|---|---|",
    );
    let body = text(200 * 2_000);
    for (kind, level) in cases {
        let engine = engine();
        let ours = least(|| flushed(&engine, kind, level, &body, 200));
        let theirs = least(|| kept(kind, level, &body, 200));
        let text = format!(
            "| {kind:?} {level} | {:.1} us | {:.1} us | {} B | {} B |",
            ours.0 * 1e6 / 2_000.0,
            theirs.0 * 1e6 / 2_000.0,
            ours.1 / 2_000,
            theirs.1 / 2_000
        );
        let fields = [
            ("codec", Field::Text(&format!("{kind:?}").to_lowercase())),
            ("level", Field::Number(level.into())),
            ("weft_us", Field::Number(ours.0 * 1e6 / 2_000.0)),
            ("kept_us", Field::Number(theirs.0 * 1e6 / 2_000.0)),
            ("weft_bytes", Field::Number(ours.1 as f64 / 2_000.0)),
            ("kept_bytes", Field::Number(theirs.1 as f64 / 2_000.0)),
        ];
        support::row("events", &text, &fields);
    }
    support::head(
        "\n| 3 MB, flushed every 8 KiB | one piece | flushed | CPU | size |\n|---|---|---|---|---|",
    );
    let body = support::files()
        .first()
        .and_then(|file| std::fs::read(file).ok())
        .unwrap_or_else(|| text(3 << 20));
    let body = &body[..body.len().min(3 << 20)];
    for (kind, level) in [(Kind::Brotli, 5), (Kind::Gzip, 6), (Kind::Zstd, 3)] {
        let engine = engine();
        let whole = least(|| flushed(&engine, kind, level, body, body.len()));
        let parts = least(|| flushed(&engine, kind, level, body, 8 << 10));
        let text = format!(
            "| {kind:?} {level} | {:.1} ms | {:.1} ms | x{:.2} | {:+.1} % |",
            whole.0 * 1e3,
            parts.0 * 1e3,
            parts.0 / whole.0,
            (parts.1 as f64 / whole.1 as f64 - 1.0) * 100.0
        );
        let fields = [
            ("codec", Field::Text(&format!("{kind:?}").to_lowercase())),
            ("level", Field::Number(level.into())),
            ("whole_ms", Field::Number(whole.0 * 1e3)),
            ("flushed_ms", Field::Number(parts.0 * 1e3)),
            ("whole_bytes", Field::Number(whole.1 as f64)),
            ("flushed_bytes", Field::Number(parts.1 as f64)),
        ];
        support::row("flushed", &text, &fields);
    }
    let body = &body[..body.len().min(85_000)];
    let ours = engine();
    flushed(&ours, Kind::Brotli, 9, body, body.len());
    let fresh = || {
        let params = brotli::enc::BrotliEncoderParams {
            quality: 9,
            ..brotli::enc::BrotliEncoderParams::default()
        };
        let mut source = body;
        brotli::BrotliCompress(&mut source, &mut Vec::new(), &params).expect("brotli");
    };
    let reused = || {
        flushed(&ours, Kind::Brotli, 9, body, body.len());
    };
    // In turn, 20 to 1, so that a slow spell of the machine meets both.
    let (mut kept, mut anew, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..50 {
        kept.push(each(20, reused));
        anew.push(each(1, fresh));
        ratios.push(anew[anew.len() - 1].0 / kept[kept.len() - 1].0);
    }
    support::head("\n| 85 KB at brotli 9 | page faults | ms each |\n|---|---|---|");
    for (name, all) in [("one engine", &kept), ("a fresh encoder each", &anew)] {
        let time = median(all.iter().map(|one| one.0).collect());
        let faults = all.iter().map(|one| one.1).sum::<f64>() / all.len() as f64;
        let fields = [
            ("engine", Field::Text(name)),
            ("faults", Field::Number(faults)),
            ("ms", Field::Number(time * 1e3)),
        ];
        let text = format!("| {name} | {faults:.2} | {:.2} |", time * 1e3);
        support::row("reuse", &text, &fields);
    }
    support::head(&format!("\nThroughput x{:.2}, the median of 50 pairs.", median(ratios)));
}

/// Seconds and page faults of one run, over `count` of them.
fn each(count: u32, mut work: impl FnMut()) -> (f64, f64) {
    let (start, before) = (cpu(), faults());
    (0..count).for_each(|_| work());
    let count = f64::from(count);
    ((cpu() - start).as_secs_f64() / count, (faults() - before) as f64 / count)
}
