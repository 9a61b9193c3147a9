//! What the benches share: the clock, medians, arguments, and rows for people or, with `JSON=1`, for
//! programs: one object a line.

use nix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::time::Duration;

/// CPU time of the calling thread.
pub fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

/// A number from the environment.
#[allow(dead_code, reason = "not every bench takes one")]
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// The files named on the command line. cargo adds options of its own.
pub fn files() -> Vec<String> {
    std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect()
}

/// The middle one.
#[allow(dead_code, reason = "not every bench needs it")]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One field of a row for programs.
pub enum Field<'a> {
    /// A name.
    Text(&'a str),
    /// A figure.
    Number(f64),
    /// What each run gave.
    #[allow(dead_code, reason = "not every bench has runs to tell apart")]
    Runs(&'a [f64]),
}

fn json() -> bool {
    std::env::var("JSON").is_ok_and(|value| value == "1")
}

/// The head of a table; programs need none.
pub fn head(text: &str) {
    if !json() {
        println!("{text}");
    }
}

/// One row: `text` for people, `fields` for programs.
pub fn row(bench: &str, text: &str, fields: &[(&str, Field)]) {
    if !json() {
        println!("{text}");
        return;
    }
    let mut line = format!("{{\"bench\": \"{bench}\"");
    for (name, field) in fields {
        // Names of files and codecs need no escapes but these.
        let value = match field {
            Field::Text(text) => {
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            Field::Number(number) => number.to_string(),
            Field::Runs(runs) => format!("{runs:?}"),
        };
        write!(line, ", \"{name}\": {value}").expect("a string grows");
    }
    println!("{line}}}");
}
