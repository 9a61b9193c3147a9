//! What each target shows of itself before it begins: that its judges are others than the judged,
//! and that they find faults.

use crate::check::{BODIES, SEGMENTS_AGAIN};
use crate::decoders::{Decoder, versions};
use std::sync::atomic::{AtomicU64, Ordering};
use weft::codec::{self, Kind, Params, Request, Window};

/// For the targets of the codecs.
pub fn of_decoders(kinds: &[Kind]) {
    let (zstd, brotli, zlib) = versions();
    // SAFETY: a function without arguments and state.
    let own = unsafe { zstd_sys::ZSTD_versionNumber() };
    eprintln!("decoders: zstd {zstd} (weft's is {own}), brotli {brotli:#x}, zlib {zlib}");
    for kind in kinds {
        let bytes = encoded(*kind);
        assert!(decoded(*kind, &bytes).expect("a sound stream") == BODY);
        // A decoder that would take anything is none.
        assert!(decoded(*kind, &bytes[..bytes.len() - 1]).is_err(), "{kind:?}: without its end");
        assert!(decoded(*kind, &[&bytes[..], &[0]].concat()).is_err(), "{kind:?}: and a byte");
        let wrong = (0..bytes.len()).filter(|at| {
            let mut bytes = bytes.clone();
            bytes[*at] ^= 0x10;
            decoded(*kind, &bytes).is_ok_and(|body| body == BODY)
        });
        // Some bits of a header mean nothing to a decoder.
        assert!(wrong.count() < bytes.len() / 2, "{kind:?}: faults are not seen");
    }
    // SAFETY: a function that may run when the process ends.
    unsafe { libc::atexit(say_counts) };
}

extern "C" fn say_counts() {
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    eprintln!("bodies: {}, segments again: {}", count(&BODIES), count(&SEGMENTS_AGAIN));
}

const BODY: &[u8] = b"A body, a body, and one more body of no great length.";

fn encoded(kind: Kind) -> Vec<u8> {
    let params = Params::settle(&Request {
        kind,
        level: codec::bounds(kind).default,
        window_log: 0,
        content_length: None,
        history: 0,
        segment: BODY.len(),
    })
    .expect("params");
    let mut out = vec![0; params.output_bound(BODY.len())];
    let window = Window::new(BODY, 0, true, true);
    let range = params.new_encoder(true).expect("an encoder").encode(&params, &window, &mut out);
    let mut bytes = out[range.expect("encodes")].to_vec();
    let (trailer, len) = params.trailer(params.digest(BODY));
    bytes.extend(&trailer[..len]);
    bytes
}

fn decoded(kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut decoder = Decoder::new(kind, 23);
    decoder.push(bytes, 10)?;
    if decoder.ended() { Ok(std::mem::take(&mut decoder.body)) } else { Err("no end".into()) }
}
