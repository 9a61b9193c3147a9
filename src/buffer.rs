//! Buffers: initialised, of fixed capacity, charged to the budget, and kept for reuse.

use crate::budget::Lease;
use crate::error::Status;
use crate::retain::Retain;
use memmap2::MmapMut;
use std::ops::Range;
use std::sync::Arc;

/// From here on a block is mapped on its own: freed on whatever thread, it goes back to the system
/// at once, where malloc would keep it in an arena.
const MAPPED: usize = 128 << 10;

enum Memory {
    Heap(Vec<u8>),
    Mapped(MmapMut),
}

/// Memory of a fixed size, initialised throughout.
pub struct Block {
    memory: Memory,
    lease: Lease,
}

impl Block {
    /// A block of as many bytes as are leased.
    pub fn new(lease: Lease) -> Result<Block, Status> {
        let capacity = lease.bytes();
        let memory = if capacity >= MAPPED {
            Memory::Mapped(MmapMut::map_anon(capacity).map_err(|_| Status::NoMemory)?)
        } else {
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(capacity).map_err(|_| Status::NoMemory)?;
            bytes.resize(capacity, 0);
            Memory::Heap(bytes)
        };
        Ok(Block { memory, lease })
    }

    /// Capacities come in steps of a quarter of a power of two, so that kept blocks fit again.
    pub fn round(capacity: usize) -> usize {
        let step = (capacity.max(1).next_power_of_two() / 8).max(64);
        capacity.max(1).next_multiple_of(step)
    }

    /// Bytes it has room for.
    pub fn capacity(&self) -> usize {
        self.lease.bytes()
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Mapped(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::Mapped(bytes) => bytes,
        }
    }
}

/// A block and how much of it is filled. Goes back to its engine's store when dropped.
pub struct Buffer {
    block: Option<Block>,
    len: usize,
    home: Arc<Retain>,
}

impl Buffer {
    /// An empty buffer with room for at least `capacity` bytes, whatever the memory limit: for what a
    /// stream may always hold.
    pub fn new(capacity: usize, home: &Arc<Retain>) -> Result<Buffer, Status> {
        Buffer::within_limit(capacity, home, true)?.ok_or(Status::NoMemory)
    }

    /// The same, without `force` only within the memory limit.
    pub fn within_limit(
        capacity: usize,
        home: &Arc<Retain>,
        force: bool,
    ) -> Result<Option<Buffer>, Status> {
        let block = home.take_block(capacity, force)?;
        Ok(block.map(|block| Buffer { block: Some(block), len: 0, home: Arc::clone(home) }))
    }

    /// Bytes filled.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is filled.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes it has room for in all.
    pub fn capacity(&self) -> usize {
        self.block.as_ref().map_or(0, Block::capacity)
    }

    /// What is filled.
    pub fn bytes(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block.bytes()[..self.len])
    }

    /// All of the room, filled or not, for an encoder to write into; then `set_len`.
    pub fn room_mut(&mut self) -> &mut [u8] {
        self.block.as_mut().map_or(&mut [], Block::bytes_mut)
    }

    /// Says that the first `len` bytes are filled.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "filled beyond the block");
        self.len = len;
    }

    /// Appends bytes, for which there must be room.
    pub fn append(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.room_mut()[start..start + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Drops all but the last `keep` bytes, which move to the front.
    pub fn keep_last(&mut self, keep: usize) {
        let len = self.len;
        self.room_mut().copy_within(len - keep..len, 0);
        self.len = keep;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.home.give_block(block);
        }
    }
}

/// Part of a shared buffer that no one writes to any more.
#[derive(Clone)]
pub struct Piece {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

impl Piece {
    /// `range` of `buffer`.
    pub fn new(buffer: Arc<Buffer>, range: Range<usize>) -> Piece {
        assert!(range.start <= range.end && range.end <= buffer.len(), "piece of a buffer");
        Piece { buffer, range }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[self.range.clone()]
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Without its first `count` bytes.
    pub fn skip(&self, count: usize) -> Piece {
        Piece::new(Arc::clone(&self.buffer), self.range.start + count..self.range.end)
    }

    /// This piece and `next` as one slice, where they are neighbours in one buffer.
    pub fn joined<'a>(&'a self, next: &Piece) -> Option<&'a [u8]> {
        let neighbours =
            Arc::ptr_eq(&self.buffer, &next.buffer) && self.range.end == next.range.start;
        neighbours.then(|| &self.buffer.bytes()[self.range.start..next.range.end])
    }
}
