//! What a segment costs against what weft thinks it costs: `cargo bench --bench cost -- FILE` checks
//! the tables behind `Params::cost_ns`, which decide what runs inside the caller's call and which
//! segment is the next. `CODEC=brotli LEVELS=4,5 RUNS=9` for some.
//!
//! Ten segments of each size from all over the file, the median of several rounds over them, on an
//! encoder that has been used before. CPU of the calling thread.

mod support;

use support::{Field, cpu, median};
use weft::codec::{Extent, Kind, Params, Request, Window};

/// Segments of each kind, in each round.
const PLACES: usize = 10;

fn main() {
    let body = std::fs::read(&support::files()[0]).expect("a file to read");
    let chosen = std::env::var("CODEC").unwrap_or_default();
    let runs = support::number("RUNS").unwrap_or(5) as usize;
    support::head(
        "| codec and level | history | segment | measured | estimate | estimate / measured |",
    );
    support::head("|---|---|---|---|---|---|");
    let codecs = [
        ("zstd", Kind::Zstd, "-5,1,3,6,9,12,15,19,22"),
        ("brotli", Kind::Brotli, "0,1,2,3,4,5,6,7,8,9,10,11"),
        ("gzip", Kind::Gzip, "0,2,3,4,5,6,7,8,9"),
    ];
    for (name, kind, usual) in codecs {
        if !chosen.is_empty() && chosen != name {
            continue;
        }
        let levels = std::env::var("LEVELS").unwrap_or_else(|_| usual.into());
        for level in levels.split(',').filter_map(|level| level.parse().ok()) {
            for (history, input) in [
                (0, 300),
                (8 << 10, 300),
                (0, 1900),
                (0, 8 << 10),
                (32 << 10, 8 << 10),
                (0, 85 << 10),
                (0, 256 << 10),
                (256 << 10, 256 << 10),
            ] {
                row(&body, name, (kind, level), (history, input), runs);
            }
        }
    }
}

fn row(
    body: &[u8],
    name: &str,
    (kind, level): (Kind, i32),
    (history, input): (usize, usize),
    runs: usize,
) {
    // A body alone is the common case for the sizes without history; it has a known length.
    let alone = history == 0;
    let request = Request {
        kind,
        level,
        window_log: 0,
        content_length: alone.then_some(input as u64),
        history: Params::shape(kind, level).history,
        segment: if alone { input } else { Params::shape(kind, level).segment },
    };
    let params = Params::settle(&request).expect("in bounds");
    let mut encoder = params.new_encoder(alone).expect("an encoder");
    let mut out = vec![0; params.output_bound(input)];
    let step = (body.len() - history - input) / PLACES;
    let mut times = Vec::new();
    for round in 0..=runs {
        let mut lost = 0;
        let start = cpu();
        for place in 0..PLACES {
            let bytes = &body[place * step..][..history + input];
            let window = Window::new(bytes, history, alone, alone);
            // The few that the crate `brotli` panics on are not what is asked here.
            let encode = || encoder.encode(&params, &window, &mut out).is_ok();
            lost += usize::from(
                !std::panic::catch_unwind(std::panic::AssertUnwindSafe(encode)).unwrap_or(false),
            );
        }
        if round > 0 {
            times.push((cpu() - start).as_secs_f64() * 1e6 / (PLACES - lost).max(1) as f64);
        }
    }
    let (measured, estimate) =
        (median(times), params.cost_ns(Extent { history, input, whole: alone }) as f64 / 1e3);
    let text = format!(
        "| {name} {level} | {history} | {input} | {measured:.0} us | {estimate:.0} us | {:.2} |",
        estimate / measured
    );
    let fields = [
        ("codec", Field::Text(name)),
        ("level", Field::Number(level.into())),
        ("history", Field::Number(history as f64)),
        ("input", Field::Number(input as f64)),
        ("measured_us", Field::Number(measured)),
        ("estimate_us", Field::Number(estimate)),
    ];
    support::row("cost", &text, &fields);
}
