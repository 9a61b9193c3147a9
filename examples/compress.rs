//! compress: standard input to standard output, through the Rust library itself.
//!
//!     cargo run --release --example compress -- [zstd|br|gzip [LEVEL]] <FILE >FILE.zst
//!
//! Two threads of weft's compress; this one reads, writes and waits.

use std::env;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use weft::codec::Kind;
use weft::engine::{self, Engine, Workers};
use weft::stream::{self, Flow, Stream};

fn compress(kind: Kind, level: Option<i32>) -> Result<(), Box<dyn std::error::Error>> {
    let engine =
        Engine::new(engine::Options { workers: Workers::Threads(2), ..Default::default() })?;
    let mut stream =
        Stream::begin(&engine, stream::Options { level, ..stream::Options::new(kind) })?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut buffer = vec![0; 65536];
    // What was read and not yet taken by the stream; `ended`: there is no more.
    let (mut from, mut to, mut ended) = (0, 0, false);
    loop {
        if from == to && !ended {
            (from, to) = (0, input.read(&mut buffer)?);
            if to == 0 {
                ended = true;
                stream.finish()?;
            }
        }
        if from < to {
            from += stream.feed(&buffer[from..to])?.0;
        }
        let mut written = Ok(());
        let taken = stream.poll(65536, &mut |bytes| {
            if written.is_ok() {
                written = output.write_all(bytes);
            }
        })?;
        written?;
        match taken.flow {
            Flow::Done => break,
            // Refused input or ended: nothing to do until there is output.
            Flow::Again if from < to || ended => {
                stream.wait(None)?;
            }
            _ => {}
        }
    }
    output.flush()?;
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let kind = match words.first().map_or("zstd", String::as_str) {
        "zstd" => Kind::Zstd,
        "br" => Kind::Brotli,
        "gzip" => Kind::Gzip,
        other => {
            eprintln!("compress: no coding {other}; there are zstd, br and gzip");
            return ExitCode::from(2);
        }
    };
    let level = match words.get(1).map(|word| word.parse()).transpose() {
        Ok(level) => level,
        Err(_) => {
            eprintln!("compress: {} is no level", words[1]);
            return ExitCode::from(2);
        }
    };
    match compress(kind, level) {
        Ok(()) => ExitCode::SUCCESS,
        // Without a valid end: what was written does not pass for the whole.
        Err(error) => {
            eprintln!("compress: {error}");
            ExitCode::FAILURE
        }
    }
}
