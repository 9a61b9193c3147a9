//! A second implementation of `weft::negotiate`, for the tests of that module and for the fuzzer: both
//! take it in by path, where `crate::codec` is the library's.

use crate::codec::Kind;

/// Negotiation once more, from the text of the RFC, with strings and lists and no thought of cost.
pub fn plainly(value: &[u8], preference: &[Kind]) -> Option<Kind> {
    let text: String = value.iter().map(|byte| char::from(*byte)).collect();
    let space: &[char] = &[' ', '\t'];
    let mut elements: Vec<(String, f64)> = Vec::new();
    for element in text.split(',') {
        let fields: Vec<&str> = element.split(';').map(|field| field.trim_matches(space)).collect();
        let mut weights = vec![1.0];
        let mut bad = false;
        for field in &fields[1..] {
            let (name, value) = match field.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (*field, None),
            };
            let first_word = name.split(space).next().unwrap_or("");
            if !first_word.eq_ignore_ascii_case("q") {
                continue;
            }
            match value {
                Some(value) if name.len() == 1 && is_qvalue(value) => {
                    weights.push(value.parse().unwrap());
                }
                _ => bad = true,
            }
        }
        if !bad {
            let lowest = weights.into_iter().fold(1.0, f64::min);
            let name = fields[0].to_ascii_lowercase().replace("x-gzip", "gzip");
            elements.push((name, lowest));
        }
    }
    let weight_of = |name: &str| {
        let own = elements.iter().filter(|(of, _)| of == name).map(|(_, weight)| *weight);
        own.reduce(f64::min)
    };
    let mut ranked: Vec<(Kind, f64)> = Vec::new();
    for kind in preference {
        let name = match kind {
            Kind::Zstd => "zstd",
            Kind::Brotli => "br",
            Kind::Gzip => "gzip",
            Kind::Deflate | Kind::Zlib | Kind::Stored => continue,
        };
        ranked.push((*kind, weight_of(name).or_else(|| weight_of("*")).unwrap_or(0.0)));
    }
    ranked.retain(|(_, weight)| *weight > 0.0 && *weight >= weight_of("identity").unwrap_or(0.0));
    // A stable sort keeps the host's order among equals.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked.first().map(|(kind, _)| *kind)
}

fn is_qvalue(text: &str) -> bool {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = decimals.chars().all(|c| c.is_ascii_digit()) && decimals.len() <= 3;
    match whole {
        "0" => digits,
        "1" => digits && decimals.chars().all(|c| c == '0'),
        _ => false,
    }
}
