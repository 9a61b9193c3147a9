//! What the tests of the crate share: bodies, decoders, and a way to drive a stream.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use weft::codec::Kind;
use weft::engine::{Engine, Options as EngineOptions, Workers};
use weft::stream::{Flow, Options, Stream};

/// Numbers that look random and are the same in each run.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

pub fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    (0..len).map(|_| (numbers.next() >> 32) as u8).collect()
}

/// Words in sentences, with a skewed distribution.
pub fn text(len: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let words: Vec<String> = (0..2000)
        .map(|_| {
            let length = 2 + numbers.below(9);
            (0..length).map(|_| (b'a' + numbers.below(26) as u8) as char).collect()
        })
        .collect();
    let mut body = Vec::with_capacity(len + 16);
    while body.len() < len {
        let pick = numbers.below(2000).min(numbers.below(2000)).min(numbers.below(2000));
        body.extend(words[pick as usize].as_bytes());
        body.push(if numbers.below(12) == 0 { b'\n' } else { b' ' });
    }
    body.truncate(len);
    body
}

pub fn json(len: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers::new(seed);
    let words = text(1 << 16, numbers.next());
    let words = String::from_utf8_lossy(&words).replace('\n', " ");
    let mut body = b"[".to_vec();
    while body.len() < len {
        let (id, flag) = (numbers.below(1 << 40), numbers.below(2) == 0);
        let start = numbers.below((1 << 16) - 12) as usize;
        let name = &words[start..start + 12];
        body.extend(
            format!(
                "{{\"id\":{id},\"name\":\"{name}\",\"active\":{flag},\"score\":{}}},",
                id % 977
            )
            .as_bytes(),
        );
    }
    body.truncate(len);
    body
}

/// Decodes with the `zstd` tool: another version of libzstd, streaming, with small buffers.
pub fn zstd_tool(bytes: &[u8]) -> Result<Vec<u8>, String> {
    pipe("zstd", &["-dcq", "-M8MB", "-"], bytes)
}

/// What a frame that is not complete gives to a decoder that streams with a small buffer. (The `zstd`
/// tool drops what it has decoded last when the frame ends too soon.)
pub fn zstd_prefix(bytes: &[u8]) -> Vec<u8> {
    use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};
    let mut decoder = Decoder::new().expect("a decoder");
    decoder.set_parameter(DParameter::WindowLogMax(23)).expect("a window of 8 MiB");
    let (mut source, mut body) = (InBuffer::around(bytes), Vec::new());
    loop {
        let mut room = [0; 1000];
        let mut out = OutBuffer::around(&mut room[..]);
        decoder.run(&mut source, &mut out).expect("sound so far");
        let count = out.pos();
        body.extend(&room[..count]);
        if count < room.len() && source.pos() == bytes.len() {
            return body;
        }
    }
}

/// Runs a tool over `bytes`; it must succeed.
pub fn pipe(tool: &str, arguments: &[&str], bytes: &[u8]) -> Result<Vec<u8>, String> {
    let (out, errors) = run_tool(tool, arguments, bytes)?;
    errors.map_or(Ok(out), Err)
}

/// Runs a tool over `bytes`: its output, and its words if it failed.
fn run_tool(
    tool: &str,
    arguments: &[&str],
    bytes: &[u8],
) -> Result<(Vec<u8>, Option<String>), String> {
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{tool}: {error}; `make test` installs it"))?;
    let mut input = child.stdin.take().ok_or("no stdin")?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = input.write_all(bytes);
        });
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output.stdout, (!output.status.success()).then_some(words)))
    })
}

/// Decodes with two decoders that know nothing of the encoder; both must give the same, and find one
/// stream and nothing after it.
pub fn decode(kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let body = library(kind, bytes)?;
    let again = match kind {
        Kind::Zstd => zstd_tool(bytes)?,
        Kind::Brotli => pipe("brotli", &["-dc"], bytes)?,
        Kind::Gzip => pipe("gzip", &["-dcq"], bytes)?,
        _ => return Ok(body),
    };
    if body == again { Ok(body) } else { Err("two decoders, two bodies".into()) }
}

/// What can be decoded of a stream that is not complete.
pub fn prefix(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    if kind == Kind::Zstd {
        return zstd_prefix(bytes);
    }
    let mut body = Vec::new();
    let _ = read_all(kind, &mut &bytes[..], &mut body);
    body
}

/// The decoder of a library: no C, and not the encoder's.
fn library(kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, String> {
    if kind == Kind::Zstd {
        return ruzstd(bytes);
    }
    let (mut source, mut body) = (bytes, Vec::new());
    read_all(kind, &mut source, &mut body).map_err(|error| format!("{kind:?}: {error}"))?;
    if source.is_empty() { Ok(body) } else { Err(format!("{kind:?}: bytes after the stream")) }
}

fn read_all(kind: Kind, source: &mut &[u8], body: &mut Vec<u8>) -> std::io::Result<()> {
    let mut read = |reader: &mut dyn Read| -> std::io::Result<()> {
        let mut piece = [0; 4096];
        loop {
            match reader.read(&mut piece)? {
                0 => return Ok(()),
                count => body.extend(&piece[..count]),
            }
        }
    };
    match kind {
        // With one byte at a time it takes no more than it needs.
        Kind::Brotli => read(&mut brotli_decompressor::Decompressor::new(source, 1)),
        Kind::Gzip => read(&mut flate2::bufread::GzDecoder::new(source)),
        Kind::Zlib => read(&mut flate2::bufread::ZlibDecoder::new(source)),
        Kind::Deflate => read(&mut flate2::bufread::DeflateDecoder::new(source)),
        Kind::Zstd | Kind::Stored => Ok(()),
    }
}

/// All levels of a codec; of zstd those where something changes.
pub fn levels(kind: Kind) -> Vec<i32> {
    match kind {
        Kind::Zstd => vec![-5, 1, 3, 6, 9, 12, 15, 19, 22],
        Kind::Brotli => (0..=11).collect(),
        _ => (0..=9).collect(),
    }
}

/// Every codec that has a name in C.
pub const KINDS: [Kind; 5] = [Kind::Zstd, Kind::Brotli, Kind::Gzip, Kind::Deflate, Kind::Zlib];

pub fn of(kind: Kind, level: i32) -> Options {
    Options { level: Some(level), ..Options::new(kind) }
}

/// Decodes with ruzstd; exactly one frame, nothing after it.
pub fn ruzstd(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut source = bytes;
    let mut body = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(&mut source)
        .map_err(|error| error.to_string())?
        .read_to_end(&mut body)
        .map_err(|error| error.to_string())?;
    if source.is_empty() { Ok(body) } else { Err("bytes after the frame".into()) }
}

pub fn engine(threads: u32) -> Arc<Engine> {
    let workers = if threads == 0 { Workers::Inline } else { Workers::Threads(threads) };
    Engine::new(EngineOptions { workers, ..EngineOptions::default() }).expect("engine")
}

pub fn zstd(level: i32) -> Options {
    of(Kind::Zstd, level)
}

/// Feeds `body` in pieces and takes all output. `marks` are offsets with a flush mark behind them,
/// in order. Returns the output, and how much of it there was at each mark.
pub fn run(
    engine: &Arc<Engine>,
    options: Options,
    body: &[u8],
    marks: &[usize],
    piece: usize,
) -> (Vec<u8>, Vec<usize>) {
    let mut stream = Stream::begin(engine, options).expect("begin");
    let (mut out, mut reached) = (Vec::new(), Vec::new());
    let mut marks = marks.iter().copied().filter(|mark| *mark <= body.len()).peekable();
    let mut offset = 0;
    loop {
        while marks.peek() == Some(&offset) {
            marks.next();
            stream.flush().expect("flush");
        }
        if offset == body.len() {
            break;
        }
        let end = marks.peek().copied().unwrap_or(body.len()).min(offset + piece);
        let (taken, flow) = stream.feed(&body[offset..end]).expect("feed");
        offset += taken;
        if flow == Flow::Again {
            drain(&mut stream, &mut out, &mut reached);
            if taken == 0 && offset < end {
                let _ = stream.wait(None);
            }
        }
    }
    stream.finish().expect("finish");
    while drain(&mut stream, &mut out, &mut reached) != Flow::Done {
        stream.wait(None).expect("wait");
    }
    (out, reached)
}

/// Takes all output that is ready.
pub fn drain(stream: &mut Stream, out: &mut Vec<u8>, reached: &mut Vec<usize>) -> Flow {
    loop {
        let taken = stream.poll(40_000, &mut |bytes| out.extend(bytes)).expect("poll");
        if taken.flushed {
            reached.push(out.len());
        }
        if taken.flow != Flow::Ok {
            return taken.flow;
        }
    }
}

/// The window that a brotli stream declares (RFC 7932, section 9.1).
pub fn brotli_window(first: u8) -> u32 {
    let first = u32::from(first);
    match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, _, _) => 16,
        (_, 0, 0) => 17,
        (_, 0, low) => 8 + low,
        (_, high, _) => 17 + high,
    }
}
