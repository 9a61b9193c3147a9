//! The account of bytes: leases that are given back when they are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that one engine holds. Atomics suffice: a limit that is passed by a hair because two
/// threads lease at once is within the documented bound, and nothing else is guarded by the sums.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    peak: AtomicU64,
    limit: u64,
}

impl Budget {
    /// An account with a limit in bytes; 0 is none.
    pub fn new(limit: u64) -> Arc<Budget> {
        let limit = if limit == 0 { u64::MAX } else { limit };
        Arc::new(Budget { used: AtomicU64::new(0), peak: AtomicU64::new(0), limit })
    }

    /// Bytes held.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes ever held.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// The limit.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether more is held than should be.
    pub fn is_over(&self) -> bool {
        self.used() > self.limit
    }

    /// Leases `bytes` whether or not they fit: for what a running stream may always hold.
    pub fn lease(self: &Arc<Self>, bytes: usize) -> Lease {
        let used = self.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.peak.fetch_max(used, Ordering::Relaxed);
        Lease { budget: Arc::clone(self), bytes }
    }

    /// Leases `bytes` if they fit.
    pub fn try_lease(self: &Arc<Self>, bytes: usize) -> Option<Lease> {
        let fits = |used: u64| used.checked_add(bytes as u64).filter(|sum| *sum <= self.limit);
        let before = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        self.peak.fetch_max(before + bytes as u64, Ordering::Relaxed);
        Some(Lease { budget: Arc::clone(self), bytes })
    }
}

/// Bytes charged to an account, until dropped.
#[derive(Debug)]
pub struct Lease {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Lease {
    /// Bytes leased.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the lease to what is really held.
    pub fn resize(&mut self, bytes: usize) {
        if bytes > self.bytes {
            let mut more = self.budget.lease(bytes - self.bytes);
            // The bytes move into this lease, so that dropping `more` gives nothing back.
            more.bytes = 0;
        } else {
            self.budget.used.fetch_sub((self.bytes - bytes) as u64, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes as u64, Ordering::Relaxed);
    }
}
