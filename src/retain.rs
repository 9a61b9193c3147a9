//! Idle encoders and buffers: what is kept, by which policy, and how it is found again.

use crate::budget::{Budget, Lease};
use crate::buffer::Block;
use crate::codec::{Breed, Encoder, Extent, Params};
use crate::error::Status;
use crate::sync::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is kept when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Everything.
    All,
    /// Up to so many bytes, the least recently used going first.
    Bounded,
    /// Nothing.
    None,
}

impl Retention {
    /// The number that C calls it by.
    pub const fn to_c(self) -> u32 {
        match self {
            Retention::All => 0,
            Retention::Bounded => 1,
            Retention::None => 2,
        }
    }

    /// The policy that C calls by this number.
    pub fn from_c(number: u32) -> Result<Retention, Status> {
        match number {
            0 => Ok(Retention::All),
            1 => Ok(Retention::Bounded),
            2 => Ok(Retention::None),
            _ => Err(Status::Invalid),
        }
    }
}

/// Smaller blocks are malloc's business.
const SMALLEST: usize = 16 << 10;

/// An encoder lent out, with its charge. Given back, or dropped when it may be in any state.
pub struct Loan {
    /// The encoder.
    pub encoder: Box<dyn Encoder>,
    breed: Breed,
    lease: Lease,
    // While it is lent out.
    running: Option<Running>,
}

/// Counts an encoder as lent out, until dropped.
struct Running(Arc<AtomicU64>);

impl Running {
    fn new(count: &Arc<AtomicU64>) -> Running {
        count.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(count))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct IdleEncoder {
    loan: Loan,
    used: u64,
}

struct IdleBlock {
    block: Block,
    used: u64,
}

#[derive(Default)]
struct Idle {
    encoders: Vec<IdleEncoder>,
    // By capacity, of which there are few; each in order of use.
    blocks: BTreeMap<usize, VecDeque<IdleBlock>>,
    encoder_bytes: usize,
    block_bytes: usize,
    // Counts uses, to know the least recent.
    clock: u64,
}

/// The store of one engine.
pub struct Retain {
    policy: Retention,
    limit: usize,
    encoders: usize,
    budget: Arc<Budget>,
    idle: Mutex<Idle>,
    running: Arc<AtomicU64>,
    made: AtomicU64,
}

/// What the store holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holding {
    /// Bytes of idle encoders.
    pub encoder_bytes: u64,
    /// Bytes of idle blocks.
    pub block_bytes: u64,
    /// Idle encoders.
    pub encoders_idle: u64,
    /// Encoders lent out.
    pub encoders_running: u64,
    /// Encoders made so far.
    pub encoders_made: u64,
    /// Bytes of the largest idle encoder.
    pub largest_idle: usize,
}

impl Retain {
    /// A store with a policy; `limit` is for `Bounded`, `encoders` of them are kept at most.
    pub fn new(policy: Retention, limit: u64, encoders: u32, budget: Arc<Budget>) -> Arc<Retain> {
        let limit = match policy {
            Retention::All => usize::MAX,
            Retention::Bounded => usize::try_from(limit).unwrap_or(usize::MAX),
            Retention::None => 0,
        };
        Arc::new(Retain {
            policy,
            limit,
            encoders: encoders as usize,
            budget,
            idle: Mutex::new(Idle::default()),
            running: Arc::default(),
            made: AtomicU64::new(0),
        })
    }

    /// The account that everything here is charged to.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Lends an encoder for such a segment. Without `force`, only within the memory limit: `None` says
    /// that it would be passed even with nothing left idle.
    pub fn take_encoder(
        &self,
        params: &Params,
        extent: Extent,
        force: bool,
    ) -> Result<Option<Loan>, Status> {
        let need = params.encoder_memory(extent);
        let breed = params.breed(extent.whole);
        let found = {
            let mut idle = self.idle.lock();
            let index = best_encoder(&idle.encoders, breed, need);
            index.map(|index| idle.take_encoder(index))
        };
        if let Some(mut loan) = found {
            // One that is too small will grow; the charge comes first.
            let more = need.saturating_sub(loan.lease.bytes());
            if more == 0 || force || self.reserve(more).is_some() {
                loan.lease.resize(need.max(loan.lease.bytes()));
                loan.running = Some(Running::new(&self.running));
                return Ok(Some(loan));
            }
            drop(loan);
        }
        let lease = match self.reserve(need) {
            Some(lease) => lease,
            None if force => self.budget.lease(need),
            None => return Ok(None),
        };
        let encoder = params.new_encoder(extent.whole)?;
        self.made.fetch_add(1, Ordering::Relaxed);
        let running = Some(Running::new(&self.running));
        Ok(Some(Loan { encoder, breed, lease, running }))
    }

    /// Takes an encoder back.
    pub fn give_encoder(&self, mut loan: Loan) {
        loan.running = None;
        loan.lease.resize(loan.encoder.memory());
        if !self.keeps(loan.lease.bytes()) {
            return;
        }
        let dropped = {
            let mut idle = self.idle.lock();
            idle.clock += 1;
            idle.encoder_bytes += loan.lease.bytes();
            let used = idle.clock;
            idle.encoders.push(IdleEncoder { loan, used });
            idle.shrink(self.limit, self.encoders)
        };
        drop(dropped);
    }

    /// A block of at least `capacity` bytes, kept or new. Without `force`, only within the memory
    /// limit.
    pub fn take_block(&self, capacity: usize, force: bool) -> Result<Option<Block>, Status> {
        let rounded = Block::round(capacity);
        if rounded >= SMALLEST {
            let mut idle = self.idle.lock();
            // The most recently used is the warmest.
            let size = idle.blocks.range(capacity..=rounded * 2).next().map(|(size, _)| *size);
            if let Some(block) = size.and_then(|size| idle.take_block(size, VecDeque::pop_back)) {
                return Ok(Some(block));
            }
        }
        let lease = match self.reserve(rounded) {
            Some(lease) => lease,
            None if force => self.budget.lease(rounded),
            None => return Ok(None),
        };
        Block::new(lease).map(Some)
    }

    /// Takes a block back.
    pub fn give_block(&self, block: Block) {
        if block.capacity() < SMALLEST || !self.keeps(block.capacity()) {
            return;
        }
        let dropped = {
            let mut idle = self.idle.lock();
            idle.clock += 1;
            let (used, size) = (idle.clock, block.capacity());
            idle.block_bytes += size;
            idle.blocks.entry(size).or_default().push_back(IdleBlock { block, used });
            idle.shrink(self.limit, self.encoders)
        };
        drop(dropped);
    }

    /// Gives everything idle back to the system.
    pub fn trim(&self) {
        let dropped = std::mem::take(&mut *self.idle.lock());
        drop(dropped);
    }

    /// What is held.
    pub fn holding(&self) -> Holding {
        let idle = self.idle.lock();
        Holding {
            encoder_bytes: idle.encoder_bytes as u64,
            block_bytes: idle.block_bytes as u64,
            encoders_idle: idle.encoders.len() as u64,
            encoders_running: self.running.load(Ordering::Relaxed),
            encoders_made: self.made.load(Ordering::Relaxed),
            largest_idle: idle.encoders.iter().map(|e| e.loan.lease.bytes()).max().unwrap_or(0),
        }
    }

    /// Leases within the limit, giving up what is idle where that is needed.
    fn reserve(&self, bytes: usize) -> Option<Lease> {
        self.budget.try_lease(bytes).or_else(|| {
            self.trim();
            self.budget.try_lease(bytes)
        })
    }

    /// Above the memory limit nothing is kept.
    fn keeps(&self, bytes: usize) -> bool {
        self.policy != Retention::None && bytes <= self.limit && !self.budget.is_over()
    }
}

/// The smallest that is large enough, or else the largest: it will grow.
fn best_encoder(encoders: &[IdleEncoder], breed: Breed, need: usize) -> Option<usize> {
    let sizes = encoders
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.loan.breed == breed)
        .map(|(index, entry)| (entry.loan.lease.bytes(), index));
    let enough = sizes.clone().filter(|(size, _)| *size >= need).min();
    enough.or_else(|| sizes.max()).map(|(_, index)| index)
}

impl Idle {
    fn take_encoder(&mut self, index: usize) -> Loan {
        let entry = self.encoders.remove(index);
        self.encoder_bytes -= entry.loan.lease.bytes();
        entry.loan
    }

    /// The block at one end of those of `size`.
    fn take_block(
        &mut self,
        size: usize,
        end: fn(&mut VecDeque<IdleBlock>) -> Option<IdleBlock>,
    ) -> Option<Block> {
        let class = self.blocks.get_mut(&size)?;
        let entry = end(class);
        if class.is_empty() {
            self.blocks.remove(&size);
        }
        self.block_bytes -= size;
        entry.map(|entry| entry.block)
    }

    /// Removes the least recently used until the rest fits; the caller drops them without the lock.
    fn shrink(&mut self, limit: usize, encoders: usize) -> (Vec<Loan>, Vec<Block>) {
        let (mut loans, mut blocks) = (Vec::new(), Vec::new());
        while self.encoders.len() > encoders {
            loans.push(self.take_encoder(0));
        }
        while self.encoder_bytes + self.block_bytes > limit {
            // All lists are in order of use.
            let encoder = self.encoders.first().map(|entry| entry.used);
            let oldest = self
                .blocks
                .iter()
                .filter_map(|(size, class)| class.front().map(|entry| (entry.used, *size)));
            match (encoder, oldest.min()) {
                (Some(e), b) if b.is_none_or(|(b, _)| e < b) => loans.push(self.take_encoder(0)),
                (_, Some((_, size))) => blocks.extend(self.take_block(size, VecDeque::pop_front)),
                _ => break,
            }
        }
        (loans, blocks)
    }
}
