//! The bytes that a stream holds on their way in: the segment being filled, and the history before
//! it.
//!
//! A stream of small pieces goes on in one buffer, `[history|input]`, that slides; its tasks get
//! copies. A large segment takes its buffer along to the task, and the buffer becomes `past`: no
//! large copy is made on the owner's thread.

use crate::buffer::{Buffer, Piece};
use crate::codec::Window;
use crate::error::Status;
use crate::retain::Retain;
use crate::segment::{History, Segment};
use std::collections::VecDeque;
use std::sync::Arc;

/// Up to so many bytes of history and input are copied for a task. Larger ones are handed over.
pub(crate) const SMALL: usize = 64 << 10;

/// The first room that a stream makes when it does not know how much will come.
const ROOM_LEAST: usize = 4 << 10;

/// See the module.
pub(crate) struct Inlet {
    store: Arc<Retain>,
    history: History,
    /// Bytes that were cut before, then bytes of the segment being filled.
    open: Option<Buffer>,
    open_past: usize,
    /// What came before `open`, oldest first; no more than history needs.
    past: VecDeque<Piece>,
    past_len: usize,
}

/// History and input in one buffer, where they were not.
pub(crate) struct Joined(Option<Buffer>);

impl Inlet {
    pub(crate) fn new(history: usize, store: &Arc<Retain>) -> Inlet {
        Inlet {
            store: Arc::clone(store),
            history: History::new(history),
            open: None,
            open_past: 0,
            past: VecDeque::new(),
            past_len: 0,
        }
    }

    /// Bytes of the segment being filled.
    pub(crate) fn filled(&self) -> usize {
        self.open.as_ref().map_or(0, Buffer::len) - self.open_past
    }

    /// Bytes of history that a segment of `input` bytes gets.
    pub(crate) fn history_for(&self, input: usize) -> usize {
        if input == 0 { 0 } else { self.history.for_segment(input) }
    }

    /// Appends bytes to the segment being filled. `sure` bytes of it are sure to come, and at most
    /// `target`. With `spare`, no more memory is taken than must be.
    pub(crate) fn append(
        &mut self,
        bytes: &[u8],
        sure: usize,
        target: usize,
        spare: bool,
    ) -> Result<(), Status> {
        let filled = self.filled();
        let wanted = filled + bytes.len();
        // History that this buffer must keep in front: what `past` does not have.
        let keep = self.open_past.min(self.history.available());
        let fits = |buffer: &Buffer, front: usize| front + wanted <= buffer.capacity();
        match &mut self.open {
            Some(buffer) if fits(buffer, self.open_past) => {}
            Some(buffer) if fits(buffer, keep) => {
                buffer.keep_last(keep + filled);
                self.open_past = keep;
            }
            _ => {
                // Halves of the target, so that growing to it never holds twice as much.
                let mut room = target;
                while room / 2 >= wanted.max(sure).max(ROOM_LEAST) {
                    room = room.div_ceil(2);
                }
                // All of history in front, or it would have to be joined in yet another buffer.
                let keep = if spare { self.history.available() } else { keep };
                let larger = Buffer::new(keep + room, &self.store)?;
                let larger = self.join(larger, keep);
                if spare {
                    self.past.clear();
                    self.past_len = 0;
                }
                self.open = Some(larger);
                self.open_past = keep;
            }
        }
        if let Some(buffer) = &mut self.open {
            buffer.append(bytes);
        }
        Ok(())
    }

    /// Brings history and the segment together, if they are not; `None`: not within the memory limit.
    pub(crate) fn join_when_needed(
        &self,
        history: usize,
        force: bool,
    ) -> Result<Option<Joined>, Status> {
        if history <= self.open_past {
            return Ok(Some(Joined(None)));
        }
        let room = Buffer::within_limit(history + self.filled(), &self.store, force)?;
        Ok(room.map(|room| Joined(Some(self.join(room, history)))))
    }

    /// The segment as an encoder sees it.
    pub(crate) fn window<'a>(
        &'a self,
        joined: &'a Joined,
        history: usize,
        first: bool,
        last: bool,
    ) -> Window<'a> {
        let bytes = match (&joined.0, &self.open) {
            (Some(joined), _) => joined.bytes(),
            (None, Some(open)) => &open.bytes()[self.open_past - history..],
            (None, None) => &[],
        };
        Window::new(bytes, history, first, last)
    }

    /// Makes the segment a task's.
    pub(crate) fn hand_over(
        &mut self,
        history: usize,
        first: bool,
        last: bool,
    ) -> Result<Segment, Status> {
        let input = self.filled();
        if history + input <= SMALL {
            let room = Buffer::new(history + input, &self.store)?;
            let joined = Arc::new(self.join(room, history));
            let before = Piece::new(Arc::clone(&joined), 0..history);
            return Ok(Segment {
                history: if history == 0 { Vec::new() } else { vec![before] },
                input: Piece::new(joined, history..history + input),
                first,
                last,
            });
        }
        let Some(open) = self.open.take() else {
            return Err(Status::State);
        };
        let (past_of_open, len) = (std::mem::take(&mut self.open_past), open.len());
        let open = Arc::new(open);
        let near = history.min(past_of_open);
        let mut pieces = self.last_of_past(history - near);
        if near > 0 {
            pieces.push(Piece::new(Arc::clone(&open), past_of_open - near..past_of_open));
        }
        self.past.push_back(Piece::new(Arc::clone(&open), 0..len));
        self.past_len += len;
        Ok(Segment { history: pieces, input: Piece::new(open, past_of_open..len), first, last })
    }

    /// A segment of `input` bytes was cut: they are history now.
    pub(crate) fn cut(&mut self, input: usize) {
        if let Some(open) = &self.open {
            self.open_past = open.len();
        }
        self.history.grow(input);
        self.forget_old();
    }

    /// At a flush mark: the stream may be idle from now on, and must not hold more than it needs.
    pub(crate) fn settle_down(&mut self) -> Result<(), Status> {
        self.history.flush();
        self.forget_old();
        let room = self.open.as_ref().map_or(0, Buffer::capacity);
        if !self.past.is_empty() || room > 2 * (self.history.available() + ROOM_LEAST) {
            self.compact()?;
        }
        Ok(())
    }

    /// Above the memory limit: a stream holds its history in a buffer of that size before it fills
    /// another segment, not in the whole segments it came with.
    pub(crate) fn compact_when_empty(&mut self) -> Result<(), Status> {
        if self.filled() == 0 && !self.past.is_empty() { self.compact() } else { Ok(()) }
    }

    /// Nothing more will come.
    pub(crate) fn close(&mut self) {
        self.past.clear();
        self.past_len = 0;
        self.open = None;
        self.open_past = 0;
    }

    /// The last `history` bytes before the segment, and the segment, in one buffer.
    fn join(&self, mut room: Buffer, history: usize) -> Buffer {
        let from_past = history.saturating_sub(self.open_past);
        for piece in self.last_of_past(from_past) {
            room.append(piece.bytes());
        }
        if let Some(open) = &self.open {
            room.append(&open.bytes()[self.open_past - (history - from_past)..]);
        }
        room
    }

    /// The last `count` bytes of `past`, as pieces.
    fn last_of_past(&self, count: usize) -> Vec<Piece> {
        let mut skip = self.past_len - count;
        let mut pieces = Vec::new();
        for piece in &self.past {
            if skip >= piece.len() {
                skip -= piece.len();
            } else {
                pieces.push(piece.skip(skip));
                skip = 0;
            }
        }
        pieces
    }

    /// Lets go of what history does not reach any more.
    fn forget_old(&mut self) {
        let need = self.history.available().saturating_sub(self.open_past);
        while let Some(oldest) = self.past.front()
            && self.past_len - oldest.len() >= need
        {
            self.past_len -= oldest.len();
            self.past.pop_front();
        }
    }

    /// Brings history into one buffer of its size. Nothing is being filled.
    fn compact(&mut self) -> Result<(), Status> {
        let available = self.history.available();
        let room = Buffer::new(available.max(1), &self.store)?;
        let joined = self.join(room, available);
        self.past.clear();
        self.past_len = 0;
        self.open_past = joined.len();
        self.open = (available > 0).then_some(joined);
        Ok(())
    }
}
