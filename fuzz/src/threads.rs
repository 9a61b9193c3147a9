//! Threads of weft's own are counted out before the system has ended them. LeakSanitizer, which looks
//! after an input, would take what a dying one has not yet freed for a leak.

use std::time::{Duration, Instant};

/// Threads of this process.
pub fn count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Waits until the system has ended all but so many.
pub fn wait_for(most: usize) {
    let start = Instant::now();
    while count() > most {
        assert!(start.elapsed() < Duration::from_secs(20), "threads stay");
        std::thread::sleep(Duration::from_micros(50));
    }
}
