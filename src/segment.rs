//! What a segment is, where a body is cut, and how much history a segment gets.
//!
//! All of it is a function of the bytes, the flush marks, the options and the length known at begin,
//! so that the output never depends on timing, load or threads.

use crate::buffer::{Buffer, Piece};
use crate::codec::{Extent, Window};

/// History that a small segment gets at least.
const HISTORY_LEAST: usize = 8 << 10;

/// History that a stream keeps at a flush at least.
const KEEP_LEAST: usize = 32 << 10;

/// A body of known length starts with small segments only when it is longer than so many full ones.
const LONG: u64 = 2;

/// How much longer than all before it a segment may be, where they grow. Each cut costs a loading of
/// history, so growing is done in few steps; in too few the client waits long for its second piece.
const GROWTH: u64 = 3;

/// Segments grow from so small a part of a full one only where a full one is slow.
const SLOW: u64 = 16;

/// Where a body is cut.
#[derive(Clone, Copy, Debug)]
pub struct Cutter {
    segment: u64,
    first: u64,
    content_length: Option<u64>,
}

impl Cutter {
    /// Cuts into segments of at most `segment` bytes. Where they grow, they start with `first`.
    pub fn new(segment: usize, first: usize, content_length: Option<u64>) -> Cutter {
        Cutter { segment: segment as u64, first: first.clamp(1, segment) as u64, content_length }
    }

    /// How long the segment that starts at `offset` becomes, if no mark ends it before.
    pub fn target(&self, offset: u64) -> usize {
        let full = self.segment;
        // first, 3 first, 12 first, up to full ones.
        let growing = full.min((GROWTH * offset).max(self.first));
        let target = match self.content_length {
            Some(length) if offset < length => {
                // Small ones at the start let the first byte leave early; each costs a loading of
                // history, so where a full segment takes no time they are not worth it.
                let starts_small = length > LONG * full && self.first <= full / SLOW;
                if starts_small && growing < full {
                    growing
                } else {
                    // Evenly, so that no crumb is left at the end.
                    let rest = length - offset;
                    rest.div_ceil(rest.div_ceil(full))
                }
            }
            _ => growing,
        };
        target as usize
    }

    /// The longest segment of the body.
    pub fn longest(&self) -> usize {
        self.content_length.map_or(self.segment, |length| length.clamp(1, self.segment)) as usize
    }

    /// Whether the length of the body was given.
    pub fn knows_length(&self) -> bool {
        self.content_length.is_some()
    }

    /// Whether so many bytes are more than the body was said to have.
    pub fn is_beyond(&self, accepted: u64) -> bool {
        self.content_length.is_some_and(|length| accepted > length)
    }

    /// Whether a segment up to `end` is known to be the last one.
    pub fn ends_at(&self, end: u64) -> bool {
        self.content_length == Some(end)
    }
}

/// How much history there is, and how much of it a segment gets.
#[derive(Clone, Copy, Debug)]
pub struct History {
    most: usize,
    available: usize,
    recent: usize,
}

impl History {
    /// At most `most` bytes.
    pub fn new(most: usize) -> History {
        History { most, available: 0, recent: 0 }
    }

    /// Bytes that must still be at hand.
    pub fn available(&self) -> usize {
        self.available
    }

    /// What a segment of `input` bytes is given. Loading history costs time, so a small piece does
    /// not get a large one.
    pub fn for_segment(&self, input: usize) -> usize {
        self.available.min(HISTORY_LEAST.max(input.saturating_mul(4)))
    }

    /// A segment of `input` bytes was cut.
    pub fn grow(&mut self, input: usize) {
        self.available = self.most.min(self.available + input);
        // A large segment counts for a while, then the small ones after it do.
        self.recent = input.max(self.recent - self.recent / 8);
    }

    /// A flush mark was set: the stream may now be idle for long, and keeps only so much.
    pub fn flush(&mut self) {
        self.available = self.available.min(KEEP_LEAST.max(self.recent.saturating_mul(4)));
    }
}

/// A segment that was cut: the bytes, and the bytes before them.
pub struct Segment {
    /// In order, the last one ending where `input` starts.
    pub history: Vec<Piece>,
    /// What is to be encoded.
    pub input: Piece,
    /// The first of its stream.
    pub first: bool,
    /// The last of its stream.
    pub last: bool,
}

impl Segment {
    /// Bytes of history.
    pub fn history_len(&self) -> usize {
        self.history.iter().map(Piece::len).sum()
    }

    /// What is known of it.
    pub fn extent(&self) -> Extent {
        let whole = self.first && self.last;
        Extent { history: self.history_len(), input: self.input.len(), whole }
    }

    /// Bytes that must be copied to bring history and input together, so that the encoder sees them
    /// in one buffer; 0 where they are neighbours already.
    pub fn join_len(&self) -> usize {
        match &self.history[..] {
            [] => 0,
            [piece] if piece.joined(&self.input).is_some() => 0,
            _ => self.history_len() + self.input.len(),
        }
    }

    /// The one window of history and input. `room` has `join_len` bytes; the copy is made here, on
    /// the thread that encodes, not on the owner's.
    pub fn window<'a>(&'a self, room: &'a mut Option<Buffer>) -> Window<'a> {
        let history = self.history_len();
        let neighbours = match &self.history[..] {
            [] => Some(self.input.bytes()),
            [piece] => piece.joined(&self.input),
            _ => None,
        };
        if let Some(bytes) = neighbours {
            return Window::new(bytes, history, self.first, self.last);
        }
        let Some(room) = room else {
            unreachable!("a window that needs no joining has neighbours")
        };
        for piece in self.history.iter().chain([&self.input]) {
            room.append(piece.bytes());
        }
        Window::new(room.bytes(), history, self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(cutter: Cutter, total: u64) -> Vec<u64> {
        let (mut offset, mut sizes) = (0, Vec::new());
        while offset < total {
            let size = (cutter.target(offset) as u64).min(total - offset);
            assert!(size > 0);
            sizes.push(size);
            offset += size;
        }
        sizes
    }

    #[test]
    fn a_known_length_leaves_no_crumb() {
        let mib = 1 << 20;
        assert_eq!(cuts(Cutter::new(1 << 20, 1 << 17, Some(mib + 30_000)), mib + 30_000).len(), 2);
        for total in [1, 100, mib - 1, mib, mib + 1, 3 * mib + 1, 9 * mib + 12_345] {
            let sizes = cuts(Cutter::new(1 << 20, 1 << 17, Some(total)), total);
            let last = sizes[sizes.len() - 1];
            assert!(last == total || last >= mib / 2 - 1, "{total}: {sizes:?}");
            assert!(sizes.iter().all(|size| *size <= mib));
        }
    }

    #[test]
    fn only_slow_segments_of_long_bodies_start_small() {
        let full = 2 << 20;
        let first = |part, total| cuts(Cutter::new(full, part, Some(total)), total)[0];
        assert_eq!(first(full / 16, 9 << 20), full as u64 / 16);
        assert_eq!(first(full / 8, 9 << 20), (9_u64 << 20).div_ceil(5));
        assert_eq!(first(full / 16, 4 << 20), full as u64);
    }

    #[test]
    fn an_unknown_or_wrong_length_grows_to_full_segments() {
        let full = 1 << 20;
        let sizes = cuts(Cutter::new(full, full / 8, None), 5 << 20);
        assert_eq!(&sizes[..4], &[131_072, 393_216, 1 << 20, 1 << 20]);
        // Said 10 bytes, has 3 MiB: right all the same.
        assert_eq!(
            cuts(Cutter::new(full, full / 8, Some(10)), 3 << 20).iter().sum::<u64>(),
            3 << 20
        );
    }

    #[test]
    fn history_of_a_flushed_stream_stays_small() {
        let mut history = History::new(1 << 20);
        for _ in 0..1000 {
            history.grow(300);
            history.flush();
            assert!(history.available() <= KEEP_LEAST);
            assert!(history.for_segment(300) <= HISTORY_LEAST);
        }
    }
}
