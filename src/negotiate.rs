//! Which content coding a client gets: RFC 9110, section 12.5.3.

use crate::codec::Kind;

/// The names of the codings on the wire. `x-gzip` is the older name of gzip (section 8.4.1.3).
const CODINGS: [(&[u8], Kind); 4] =
    [(b"zstd", Kind::Zstd), (b"br", Kind::Brotli), (b"gzip", Kind::Gzip), (b"x-gzip", Kind::Gzip)];

/// A weight in thousandths, 0 to 1000; `None` for a name that the client did not list.
type Weight = Option<u16>;

/// Chooses among `preference`, which is in the host's order, for a client that sent `value` as its
/// Accept-Encoding. `None` is identity, also where the client refuses even that: the host then
/// sends the body as it is, which section 12.5.3 allows.
///
/// Where a client lists one coding twice, which the RFC leaves open, the lowest weight counts:
/// identity is always readable, a coding that was refused somewhere in the field may not be, and
/// the answer does not depend on the order in which lines were joined.
///
/// One pass, no allocation: the value comes from the network, and may be as long as the host
/// accepts.
pub fn negotiate(value: &[u8], preference: &[Kind]) -> Option<Kind> {
    let mut listed: [Weight; CODINGS.len()] = [None; CODINGS.len()];
    let mut identity: Weight = None;
    let mut others: Weight = None;

    // The grammar has no quoted strings, so each comma separates.
    for element in value.split(|byte| *byte == b',') {
        let mut parts = element.split(|byte| *byte == b';');
        let name = trim(parts.next().unwrap_or_default());
        let slot = if name == b"*" {
            &mut others
        } else if name.eq_ignore_ascii_case(b"identity") {
            &mut identity
        } else if let Some(index) =
            CODINGS.iter().position(|(token, _)| name.eq_ignore_ascii_case(token))
        {
            &mut listed[index]
        } else {
            continue;
        };
        if let Some(weight) = element_weight(parts) {
            *slot = lower(*slot, weight);
        }
    }

    let mut best: Option<(Kind, u16)> = None;
    for &kind in preference {
        let mut names = CODINGS.iter().zip(listed).filter(|((_, of), _)| *of == kind).peekable();
        if names.peek().is_none() {
            continue; // has no name on the wire, so `*` does not mean it either
        }
        let own = names.fold(None, |sum, (_, weight)| weight.map_or(sum, |w| lower(sum, w)));
        let weight = own.or(others).unwrap_or(0);
        if weight > best.map_or(0, |(_, highest)| highest) {
            best = Some((kind, weight));
        }
    }
    // A client that lists codings wants them, so identity counts only where it is listed, too.
    best.filter(|(_, weight)| identity.is_none_or(|identity| identity <= *weight))
        .map(|(kind, _)| kind)
}

fn lower(known: Weight, weight: u16) -> Weight {
    Some(known.map_or(weight, |known| known.min(weight)))
}

/// The weight among an element's parameters, 1000 where there is none. `None`: a bad one.
fn element_weight<'a>(parameters: impl Iterator<Item = &'a [u8]>) -> Weight {
    let mut found = None;
    for parameter in parameters.map(trim) {
        let [b'q' | b'Q', rest @ ..] = parameter else {
            continue;
        };
        match rest {
            [b'=', value @ ..] => found = lower(found, qvalue(value)?),
            // `q` alone or `q =0`: meant as a weight, but none.
            [] | [b' ' | b'\t', ..] => return None,
            _ => {} // a parameter whose name begins with q
        }
    }
    Some(found.unwrap_or(1000))
}

/// `0[.ddd]` or `1[.000]` with up to three decimals (section 12.4.2), in thousandths.
fn qvalue(text: &[u8]) -> Weight {
    let (&first, rest) = text.split_first()?;
    let decimals = match rest {
        [] => rest,
        [b'.', decimals @ ..] if decimals.len() <= 3 => decimals,
        _ => return None,
    };
    let mut weight = match first {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    let mut place = 100;
    for digit in decimals {
        if !digit.is_ascii_digit() {
            return None;
        }
        weight += u16::from(digit - b'0') * place;
        place /= 10;
    }
    (weight <= 1000).then_some(weight)
}

/// Without optional whitespace, which is spaces and tabs (section 5.6.3).
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The fuzzer's, too.
#[cfg(test)]
#[path = "../tests/support/plain_negotiation.rs"]
mod plain_negotiation;

#[cfg(test)]
mod tests {
    use super::plain_negotiation::plainly;
    use super::*;

    const Z: Option<Kind> = Some(Kind::Zstd);
    const B: Option<Kind> = Some(Kind::Brotli);
    const G: Option<Kind> = Some(Kind::Gzip);
    const NONE: Option<Kind> = None;
    const ALL: &[Kind] = &[Kind::Zstd, Kind::Brotli, Kind::Gzip];
    const GZIP_FIRST: &[Kind] = &[Kind::Gzip, Kind::Brotli, Kind::Zstd];
    const ONLY_BR: &[Kind] = &[Kind::Brotli];
    const NAMELESS: &[Kind] = &[Kind::Zlib, Kind::Deflate, Kind::Stored];

    #[test]
    fn table() {
        let cases: &[(&str, &[Kind], Option<Kind>)] = &[
            // nothing said, or nothing known
            ("", ALL, NONE),
            (" \t ", ALL, NONE),
            (",", ALL, NONE),
            (", ,\t,,", ALL, NONE),
            (";q=1", ALL, NONE),
            ("deflate, compress", ALL, NONE),
            ("zstdx", ALL, NONE),
            ("xzstd", ALL, NONE),
            ("zst", ALL, NONE),
            ("b", ALL, NONE),
            ("x-br", ALL, NONE),
            ("zstd br", ALL, NONE),
            ("br q=1", ALL, NONE),
            ("\"zstd\"", ALL, NONE),
            ("zstd\r", ALL, NONE),
            ("**", ALL, NONE),
            ("z\u{17f}td", ALL, NONE),
            // one name, whatever its case and the space round it
            ("zstd", ALL, Z),
            ("br", ALL, B),
            ("gzip", ALL, G),
            ("x-gzip", ALL, G),
            ("ZSTD", ALL, Z),
            ("Br", ALL, B),
            ("X-GZip", ALL, G),
            ("  gzip  ", ALL, G),
            ("\tgzip\t", ALL, G),
            (",,gzip,,", ALL, G),
            // the host's order breaks ties
            ("gzip, br, zstd", ALL, Z),
            ("gzip, br, zstd", GZIP_FIRST, G),
            ("gzip,deflate,br", ALL, B),
            ("gzip, deflate, br, zstd", ONLY_BR, B),
            ("gzip, zstd", ONLY_BR, NONE),
            ("gzip;q=0.5, br;q=0.5", GZIP_FIRST, G),
            ("gzip, br", &[], NONE),
            ("br", &[Kind::Brotli, Kind::Brotli], B),
            // the highest weight wins over the host's order
            ("zstd;q=0.5, br;q=0.8, gzip;q=0.7", ALL, B),
            ("zstd;q=0.999, gzip", ALL, G),
            ("zstd;q=0.001, gzip;q=0.002", ALL, G),
            ("zstd;q=0.09, gzip;q=0.1", ALL, G),
            ("zstd;q=0.5, gzip;q=0.50", ALL, Z),
            // weights: all that are
            ("br;q=1", ALL, B),
            ("br;q=1.", ALL, B),
            ("br;q=1.0", ALL, B),
            ("br;q=1.00", ALL, B),
            ("br;q=1.000", ALL, B),
            ("br;q=0.1", ALL, B),
            ("br;q=0.001", ALL, B),
            ("br;Q=0.5", ALL, B),
            ("br;Q=0", ALL, NONE),
            ("br ; q=0.5", ALL, B),
            ("br\t;\tq=0.5\t", ALL, B),
            ("br;q=0.5\t,gzip\t;\tq=0.6", ALL, G),
            // refused, in every spelling
            ("br;q=0", ALL, NONE),
            ("br;q=0.", ALL, NONE),
            ("br;q=0.0", ALL, NONE),
            ("br;q=0.00", ALL, NONE),
            ("br;q=0.000", ALL, NONE),
            ("BR;Q=0", ALL, NONE),
            ("br; q=0", ALL, NONE),
            ("br\t;\tq=0", ALL, NONE),
            ("zstd;q=0, gzip", ALL, G),
            // weights that are none: the element does not count
            ("br;q=1.5", ALL, NONE),
            ("br;q=1.001", ALL, NONE),
            ("br;q=2", ALL, NONE),
            ("br;q=abc", ALL, NONE),
            ("br;q=", ALL, NONE),
            ("br;q", ALL, NONE),
            ("br;q=.5", ALL, NONE),
            ("br;q=0.0001", ALL, NONE),
            ("br;q=1.0000", ALL, NONE),
            ("br;q=00", ALL, NONE),
            ("br;q=01", ALL, NONE),
            ("br;q=10", ALL, NONE),
            ("br;q=-1", ALL, NONE),
            ("br;q=+1", ALL, NONE),
            ("br;q=0,5", ALL, NONE),
            ("br;q=0.5x", ALL, NONE),
            ("br;q=0.5 0.5", ALL, NONE),
            ("br;q=\"1\"", ALL, NONE),
            ("br;q= 1", ALL, NONE),
            ("br;q =1", ALL, NONE),
            ("br;q=1e0", ALL, NONE),
            ("br;q=1:0", ALL, NONE),
            ("br;q=0./", ALL, NONE),
            ("br;q=nan", ALL, NONE),
            ("br;q=1.5, gzip", ALL, G),
            ("br;q=abc, *", ONLY_BR, B),
            // other parameters: the weight is found
            ("br;foo=bar", ALL, B),
            ("br;foo=bar;q=0", ALL, NONE),
            ("br;q=0;foo=bar", ALL, NONE),
            ("br;foo=bar;q=0.1, gzip;q=0.2", ALL, G),
            ("br;;q=0", ALL, NONE),
            ("br;", ALL, B),
            ("br;qq=0", ALL, B),
            ("br;quality=0", ALL, B),
            ("br;q=0.5;q=0", ALL, NONE),
            ("br;q=0.5;q=x", ALL, NONE),
            // `*` is what is not listed
            ("*", ALL, Z),
            ("*", GZIP_FIRST, G),
            (" * ; q=0.1 ", ALL, Z),
            ("*;q=0", ALL, NONE),
            ("*;q=0.0", ALL, NONE),
            ("*;q=x", ALL, NONE),
            ("gzip;q=0, *", ALL, Z),
            ("*, gzip;q=0", GZIP_FIRST, B),
            ("zstd;q=0, br;q=0, gzip;q=0, *", ALL, NONE),
            ("x-gzip;q=0, *", GZIP_FIRST, B),
            ("*;q=0, gzip", ALL, G),
            ("gzip, *;q=0", ALL, G),
            ("*;q=0.5, zstd;q=0.1", ALL, B),
            ("zstd;q=0.1, *", &[Kind::Zstd], Z),
            ("gzip;q=1.0, *;q=0.5", ALL, G),
            // what has no name that is safe on the wire is never chosen
            ("*", NAMELESS, NONE),
            ("deflate, zlib, stored, *;q=0.5", NAMELESS, NONE),
            ("*", &[Kind::Zlib, Kind::Gzip], G),
            // identity counts where it is listed
            ("identity", ALL, NONE),
            ("identity;q=0", ALL, NONE),
            ("identity;q=0, *;q=0", ALL, NONE),
            ("identity;q=0, br", ALL, B),
            ("identity;q=0, *", ALL, Z),
            ("identity, br", ALL, B),
            ("identity;q=0.5, br;q=0.4", ALL, NONE),
            ("IDENTITY;q=0.5, br;q=0.4", ALL, NONE),
            ("br;q=0.5, identity;q=0.5", ALL, B),
            ("identity;q=0.5, br;q=0.4, gzip;q=0.6", ALL, G),
            ("identity, *;q=0.5", ALL, NONE),
            ("identity;q=2, br;q=0.4", ALL, B),
            ("br;q=0.5, *;q=1", ONLY_BR, B),
            // listed twice: the lowest
            ("br, br;q=0", ALL, NONE),
            ("br;q=0, br", ALL, NONE),
            ("gzip, x-gzip;q=0", ALL, NONE),
            ("br;q=0.9, gzip;q=0.8, br;q=0.7", ALL, G),
            ("br, br;q=x", ALL, B),
            ("*, *;q=0", ALL, NONE),
            ("identity, identity;q=0.1, br;q=0.5", ALL, B),
            // what clients send
            ("gzip, deflate, br, zstd", ALL, Z),
            ("gzip, deflate, br", ALL, B),
            ("gzip;q=1.0, deflate;q=0.6, identity;q=0.3", ALL, G),
            ("deflate, gzip, x-gzip, identity, *;q=0", ALL, G),
            ("br;q=1.0, gzip;q=0.8, *;q=0.1", ALL, B),
            ("compress;q=0.5, gzip;q=1.0", ALL, G),
            ("gzip; q=1.0, identity; q=0.5, *;q=0", ALL, G),
            // several lines, joined
            ("gzip,br;q=0.5,zstd;q=0.2", ALL, G),
            ("gzip, , br", ALL, B),
        ];
        for (value, preference, expected) in cases {
            let chosen = negotiate(value.as_bytes(), preference);
            assert_eq!(chosen, *expected, "{value:?} among {preference:?}");
            assert_eq!(chosen, plainly(value.as_bytes(), preference), "{value:?} plainly");
        }
    }

    /// A quadratic pass would take minutes.
    #[test]
    fn long_values_take_linear_time() {
        for unit in [",", ";", "br;", " ", "\t,", "q=0,", "br;q=0;", "*,", "br,gzip,", "x", "\u{0}"]
        {
            let count = (1 << 20) / unit.len();
            let value = unit.repeat(count);
            negotiate(value.as_bytes(), ALL);
            let value = format!("br;q=0.5, gzip;q=0.6,{value}");
            negotiate(value.as_bytes(), ALL);
        }
        let commas = ",".repeat(64 << 10);
        assert_eq!(negotiate(commas.as_bytes(), ALL), None);
        assert_eq!(negotiate(format!("{commas}br{commas}").as_bytes(), ALL), B);
    }

    #[test]
    fn any_bytes_are_taken() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                negotiate(&[a, b], ALL);
                assert_eq!(
                    negotiate(&[b'b', b'r', b';', b'q', b'=', a, b'.', b], ALL),
                    plainly(&[b'b', b'r', b';', b'q', b'=', a, b'.', b], ALL)
                );
            }
        }
    }

    #[test]
    fn agrees_with_a_plain_implementation() {
        const PIECES: [&str; 44] = [
            "zstd", "br", "gzip", "x-gzip", "ZSTD", "Br", "identity", "*", "deflate", ",", ",",
            ",", ",", ", ", "\t,", ";", ";", "; ", "\t;\t", ";q=", ";q=", ";q=", "; Q=", ";q",
            ";q =", "q", "=", "0", "1", "0.", "1.", "0.5", "0.50", "0.001", "1.000", "1.001",
            "0.0001", ".5", "2", "abc", " ", "\t", ";foo=bar", "\u{e9}",
        ];
        const WEIGHTS: [&str; 8] = ["0", "1", "0.5", "0.4", "0.500", "1.0", "0.001", "1.5"];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % limit
        };
        let mut chosen_at_all = 0;
        for round in 0..200_000 {
            let mut value = String::new();
            for _ in 0..below(12) {
                if round % 2 == 0 {
                    value.push_str(PIECES[below(PIECES.len())]);
                } else {
                    value.push_str(PIECES[below(9)]); // the names
                    if below(3) > 0 {
                        value.push_str(";q=");
                        value.push_str(WEIGHTS[below(WEIGHTS.len())]);
                    }
                    value.push(',');
                }
            }
            let mut preference = [Kind::Zstd, Kind::Brotli, Kind::Gzip];
            preference.swap(0, below(3));
            preference.swap(1, below(3));
            let preference = &preference[..1 + below(3)];
            let chosen = negotiate(value.as_bytes(), preference);
            assert_eq!(
                chosen,
                plainly(value.as_bytes(), preference),
                "{value:?} among {preference:?}"
            );
            chosen_at_all += usize::from(chosen.is_some());
        }
        assert!(chosen_at_all > 20_000, "the inputs are worth something: {chosen_at_all}");
    }
}
