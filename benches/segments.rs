//! Size and CPU of a body in segments against the same body in one piece.
//!
//! `cargo bench --bench segments -- FILE...` prints the table for the default segments of each level;
//! `CODEC=brotli` (or gzip, zstd) and `SEGMENT=bytes HISTORY=bytes LEVELS=3,9 RUNS=5` try others.
//! One piece is the plain encoder of the same crate, with an allocation of its own for each body where
//! the crate has no other way, and with the checksum that gzip's trailer needs. `JSON=1` for programs.

mod support;

use support::{Field, cpu, median, number};
use weft::codec::Kind;
use weft::engine::{Engine, Options as EngineOptions};
use weft::stream::{Flow, Options, Stream};
use zlib_rs::{Deflate, DeflateFlush};

fn main() {
    let files = support::files();
    let chosen = std::env::var("CODEC").unwrap_or_default();
    let runs = number("RUNS").unwrap_or(5) as usize;
    support::head("| file | codec and level | one piece | segments | size | CPU |");
    support::head("|---|---|---|---|---|---|");
    let codecs = [
        ("gzip", Kind::Gzip, "2,6,9"),
        ("brotli", Kind::Brotli, "4,5,6,9,11"),
        ("zstd", Kind::Zstd, "1,3,6,9,12,15,19"),
    ];
    for (name, kind, usual) in codecs {
        if !chosen.is_empty() && chosen != name {
            continue;
        }
        let levels = std::env::var("LEVELS").unwrap_or_else(|_| usual.into());
        for file in &files {
            for level in levels.split(',').filter_map(|level| level.parse().ok()) {
                row(file, name, kind, level, runs);
            }
        }
    }
}

/// Encodes a body and says how long the result is.
type OnePiece = Box<dyn FnMut(&[u8]) -> usize>;

/// One body in one piece, each time anew.
fn one_piece(kind: Kind, level: i32) -> OnePiece {
    match kind {
        Kind::Zstd => {
            let mut one = zstd::bulk::Compressor::new(level).expect("libzstd");
            Box::new(move |body| one.compress(body).expect("libzstd").len())
        }
        Kind::Brotli => Box::new(move |body| {
            let params = brotli::enc::BrotliEncoderParams {
                quality: level,
                lgwin: 22,
                size_hint: body.len(),
                ..brotli::enc::BrotliEncoderParams::default()
            };
            let (mut out, mut room) = (Vec::with_capacity(body.len()), vec![0; 1 << 16]);
            let mut source = body;
            let alloc = brotli::enc::StandardAlloc::default();
            brotli::enc::BrotliCompressCustomAlloc(
                &mut source,
                &mut out,
                &mut vec![0; 1 << 16],
                &mut room,
                &params,
                alloc,
            )
            .expect("brotli");
            out.len()
        }),
        _ => {
            let mut one = Deflate::new(level.max(2), false, 15);
            let mut out = Vec::new();
            Box::new(move |body| {
                out.resize(body.len() + 1024, 0);
                one.reset();
                one.compress(body, &mut out, DeflateFlush::Finish).expect("deflate");
                std::hint::black_box(zlib_rs::crc32::crc32(0, body));
                one.total_out() as usize + 18
            })
        }
    }
}

fn row(file: &str, name: &str, kind: Kind, level: i32, runs: usize) {
    let body = std::fs::read(file).expect("a file to read");
    let engine = Engine::new(EngineOptions::default()).expect("engine");
    let mut one = one_piece(kind, level);
    let mut bytes = (0, 0);
    let (mut whole, mut ratios) = (Vec::new(), Vec::new());
    // In turn, so that a slow spell of the machine meets both. The first round warms up.
    for round in 0..=runs {
        let start = cpu();
        bytes.0 = one(&body);
        let middle = cpu();
        bytes.1 = in_segments(&engine, &body, kind, level);
        let end = cpu();
        if round > 0 {
            whole.push((middle - start).as_secs_f64());
            ratios.push((end - middle).as_secs_f64() / (middle - start).as_secs_f64());
        }
    }
    let file = file.rsplit('/').next().unwrap_or(file);
    let growth = (bytes.1 as f64 / bytes.0 as f64 - 1.0) * 100.0;
    let text = format!(
        "| {file} | {name} {level} | {} B, {:.1} ms | {} B | {growth:+.2} % | x{:.2} |",
        bytes.0,
        median(whole.clone()) * 1e3,
        bytes.1,
        median(ratios.clone()),
    );
    let fields = [
        ("file", Field::Text(file)),
        ("length", Field::Number(body.len() as f64)),
        ("codec", Field::Text(name)),
        ("level", Field::Number(level.into())),
        ("whole_bytes", Field::Number(bytes.0 as f64)),
        ("bytes", Field::Number(bytes.1 as f64)),
        ("whole_seconds", Field::Runs(&whole)),
        ("ratios", Field::Runs(&ratios)),
    ];
    support::row("segments", &text, &fields);
}

fn in_segments(engine: &std::sync::Arc<Engine>, body: &[u8], kind: Kind, level: i32) -> usize {
    let options = Options {
        level: Some(level),
        content_length: number("UNKNOWN").is_none().then_some(body.len() as u64),
        segment_size: number("SEGMENT").unwrap_or(0),
        history_size: number("HISTORY"),
        ..Options::new(kind)
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
