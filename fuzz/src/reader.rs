//! An input as numbers. At its end come zeros, so that every input means something.

/// Takes numbers off the front of an input.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the start.
    pub fn new(input: &'a [u8]) -> Reader<'a> {
        Reader(input)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// The next two.
    pub fn short(&mut self) -> usize {
        usize::from(self.byte()) | usize::from(self.byte()) << 8
    }

    /// A number below `limit`, which is at most 256.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The next `count` bytes, or what is left.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Numbers that look random, from a seed that an input gives.
pub struct Numbers(u64);

impl Numbers {
    /// The same for the same seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next.
    pub fn any(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next, below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.any() >> 16) as usize % limit.max(1)
    }
}
