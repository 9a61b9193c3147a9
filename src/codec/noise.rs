//! Recognises bytes that no encoder will make smaller, from a sample.

/// Fewer bytes say too little.
const LEAST: usize = 4 << 10;

/// Runs of the sample, and bytes of each.
const RUNS: usize = 128;
const RUN: usize = 64;

/// Whether `bytes` look like noise: compressed, encrypted or random. Says nothing of repetitions, so
/// that what is chosen for noise must still find long matches.
///
/// Counts how often two bytes of the sample are equal. For noise that is one pair in 256; up to an
/// eighth more is allowed, which is more than chance and less than any text, image or code gives.
/// Whole numbers only: the answer, and with it the output, is the same on any host.
pub fn is_noise(bytes: &[u8]) -> bool {
    if bytes.len() < LEAST {
        return false;
    }
    let mut counts = [0_u64; 256];
    let mut count = |run: &[u8]| run.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let sampled = if bytes.len() <= RUNS * RUN {
        count(bytes);
        bytes.len()
    } else {
        let step = bytes.len() / RUNS;
        (0..RUNS).for_each(|run| count(&bytes[run * step..run * step + RUN]));
        RUNS * RUN
    } as u64;
    let equal: u64 = counts.iter().map(|count| count * count.saturating_sub(1)).sum();
    equal * 256 * 8 <= sampled * (sampled - 1) * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        (0..len)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect()
    }

    #[test]
    fn noise_is_recognised_and_nothing_else() {
        for len in [4096, 5000, 8192, 100_000, 1 << 20] {
            let bytes = noise(len);
            assert!(is_noise(&bytes), "{len} bytes");
            // Text in base 64, hexadecimal, numbers that count, a half of zeros.
            assert!(!is_noise(&bytes.iter().map(|b| b % 64 + 32).collect::<Vec<_>>()));
            assert!(!is_noise(&bytes.iter().map(|b| b % 200).collect::<Vec<_>>()));
            let counting: Vec<u8> = (0..len as u32 / 4).flat_map(u32::to_le_bytes).collect();
            assert!(!is_noise(&counting));
            let mut half = bytes.clone();
            half[len / 2..].fill(0);
            assert!(!is_noise(&half));
        }
        assert!(!is_noise(&noise(4095)));
    }
}
