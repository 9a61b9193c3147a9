//! The allocator of the brotli encoder: it keeps what is freed and hands it out again for the next
//! segment, so that nothing is mapped, cleared or faulted in anew. Part of the encoder, so that the
//! engine's store keeps, charges and trims it with the encoder.
//!
//! What is handed out is initialised memory, but it may hold what an earlier segment left. Where
//! that could be seen in the output it is cleared first ([`Clear`]).

use crate::error::Status;
use brotli::enc::cluster::HistogramPair;
use brotli::enc::command::Command;
use brotli::enc::entropy_encode::HuffmanTree;
use brotli::enc::histogram::{ContextType, HistogramCommand, HistogramDistance, HistogramLiteral};
use brotli::enc::{BrotliAlloc, PDF, StaticCommand, ZopfliNode, floatX, s16, v8};
use brotli::{Allocator, SliceWrapper, SliceWrapperMut};
use bytemuck::Pod;
use memmap2::MmapMut;

/// From here on a block is mapped on its own, as in `buffer.rs`.
const MAPPED: usize = 128 << 10;

/// From here on a block may be of pages of 2 MiB.
#[cfg(target_os = "linux")]
const HUGE: usize = 8 << 20;

/// A block that so many segments in a row had no use for is given back.
pub const STALE: u32 = 16;

/// Which blocks are cleared before they are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clear {
    /// All: qualities 10 and 11 read what they did not write.
    All,
    /// Those of words too: the hash tables of qualities 2 to 4 are positions and nothing else, and a
    /// position that an earlier segment left would be tried as a match.
    Words,
    /// Only those of half words: from quality 5 on those count the positions in each bucket of the
    /// large table, which is not read beyond the count. Qualities 0 and 1 clear their tables.
    Counts,
}

/// Memory of one element type.
pub enum Cell<T> {
    /// From malloc.
    Heap(Vec<T>, usize),
    /// Mapped, `usize` elements of it in use.
    Mapped(MmapMut, usize),
}

impl<T> Default for Cell<T> {
    fn default() -> Cell<T> {
        Cell::Heap(Vec::new(), 0)
    }
}

/// How elements of a type are found in memory. Mapped blocks are bytes, so only plain numbers can
/// live there.
pub trait Element: Clone + Default {
    /// A block of at least `count` elements.
    fn cell(count: usize) -> Cell<Self> {
        let mut elements = Vec::new();
        if elements.try_reserve_exact(count).is_err() {
            no_memory();
        }
        elements.resize(count, Self::default());
        Cell::Heap(elements, count)
    }

    /// A mapped block's elements.
    fn of(_: &MmapMut) -> &[Self] {
        &[]
    }

    /// The same, to write.
    fn of_mut(_: &mut MmapMut) -> &mut [Self] {
        &mut []
    }
}

/// The encoder cannot be told that there is no memory; the engine can.
fn no_memory() -> ! {
    std::panic::resume_unwind(Box::new(Status::NoMemory))
}

fn number_cell<T: Pod + Default>(count: usize) -> Cell<T> {
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes < MAPPED {
        let mut elements = Vec::new();
        if elements.try_reserve_exact(count).is_err() {
            no_memory();
        }
        elements.resize(count, T::default());
        return Cell::Heap(elements, count);
    }
    let Ok(map) = MmapMut::map_anon(bytes) else { no_memory() };
    #[cfg(target_os = "linux")]
    if bytes >= HUGE {
        // A hash table of 32 MiB is read all over: with pages of 4 KiB each look-up is two. A system
        // that has no large ones says no, and nothing is lost.
        let _ = map.advise(memmap2::Advice::HugePage);
    }
    Cell::Mapped(map, count)
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Element for $number {
            fn cell(count: usize) -> Cell<$number> {
                number_cell(count)
            }
            fn of(map: &MmapMut) -> &[$number] {
                bytemuck::cast_slice(map)
            }
            fn of_mut(map: &mut MmapMut) -> &mut [$number] {
                bytemuck::cast_slice_mut(map)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, i32, f32);

impl<T: Element> Cell<T> {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match self {
            Cell::Heap(elements, _) => elements.len() * size_of::<T>(),
            Cell::Mapped(map, _) => map.len(),
        }
    }

    /// Elements that it has room for.
    pub fn room(&self) -> usize {
        self.bytes() / size_of::<T>()
    }

    fn with_len(self, len: usize) -> Cell<T> {
        match self {
            Cell::Heap(elements, _) => Cell::Heap(elements, len),
            Cell::Mapped(map, _) => Cell::Mapped(map, len),
        }
    }
}

impl<T: Element> SliceWrapper<T> for Cell<T> {
    fn slice(&self) -> &[T] {
        match self {
            Cell::Heap(elements, len) => &elements[..*len],
            Cell::Mapped(map, len) => &T::of(map)[..*len],
        }
    }
}

impl<T: Element> SliceWrapperMut<T> for Cell<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        match self {
            Cell::Heap(elements, len) => &mut elements[..*len],
            Cell::Mapped(map, len) => &mut T::of_mut(map)[..*len],
        }
    }
}

/// Idle blocks of one type.
struct Shelf<T> {
    idle: Vec<(Cell<T>, u32)>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf { idle: Vec::new() }
    }
}

impl<T: Element> Shelf<T> {
    fn take(&mut self, len: usize, clear: bool) -> Cell<T> {
        if len == 0 {
            return Cell::default();
        }
        let fitting = self.idle.iter().enumerate().filter(|(_, (cell, _))| cell.room() >= len);
        let best = fitting.min_by_key(|(_, (cell, _))| cell.room()).map(|(index, _)| index);
        match best {
            Some(index) => {
                let mut cell = self.idle.swap_remove(index).0.with_len(len);
                if clear {
                    cell.slice_mut().fill(T::default());
                }
                cell
            }
            None => {
                // The encoder lets blocks grow by a new one and a copy. What has become too small
                // goes, or one of each size would stay.
                let sizes = self.idle.iter().enumerate();
                if let Some((index, _)) = sizes.max_by_key(|(_, (cell, _))| cell.room()) {
                    self.idle.swap_remove(index);
                }
                // In steps, so that it fits again.
                let step = (len.next_power_of_two() / 16).max(64);
                T::cell(len.next_multiple_of(step)).with_len(len)
            }
        }
    }

    fn give(&mut self, cell: Cell<T>) {
        if cell.bytes() > 0 {
            self.idle.push((cell, 0));
        }
    }

    /// Lets go of what has not been used for long, and says what is left.
    fn age(&mut self) -> usize {
        self.idle.retain_mut(|(_, age)| {
            *age += 1;
            *age <= STALE
        });
        self.idle.iter().map(|(cell, _)| cell.bytes()).sum()
    }

    #[cfg(test)]
    fn poison(&mut self, with: T) {
        for (cell, _) in &mut self.idle {
            match cell {
                Cell::Heap(elements, _) => elements.fill(with.clone()),
                Cell::Mapped(map, _) => T::of_mut(map).fill(with.clone()),
            }
        }
    }
}

macro_rules! shelves {
    ($($name:ident: $element:ty, $clear:expr;)*) => {
        /// See the module.
        #[derive(Default)]
        pub struct Blocks {
            clear: Option<Clear>,
            $($name: Shelf<$element>,)*
        }

        $(impl Allocator<$element> for Blocks {
            type AllocatedMemory = Cell<$element>;

            fn alloc_cell(&mut self, len: usize) -> Cell<$element> {
                let clear: fn(Clear) -> bool = $clear;
                self.$name.take(len, self.clear.is_none_or(clear))
            }

            fn free_cell(&mut self, cell: Cell<$element>) {
                self.$name.give(cell);
            }
        })*

        impl Blocks {
            /// What to clear from now on.
            pub fn set_clear(&mut self, clear: Clear) {
                self.clear = Some(clear);
            }

            /// A segment is done. Lets go of what has long been of no use; the bytes still held.
            pub fn settle(&mut self) -> usize {
                0 $(+ self.$name.age())*
            }
        }
    };
}

const fn never(clear: Clear) -> bool {
    matches!(clear, Clear::All)
}

shelves! {
    bytes: u8, never;
    halves: u16, |_| true;
    words: u32, |clear| clear != Clear::Counts;
    signed: i32, never;
    longs: u64, never;
    commands: Command, never;
    floats: floatX, never;
    vectors: v8, never;
    shorts: s16, never;
    pdfs: PDF, never;
    statics: StaticCommand, never;
    literals: HistogramLiteral, never;
    lengths: HistogramCommand, never;
    distances: HistogramDistance, never;
    pairs: HistogramPair, never;
    contexts: ContextType, never;
    trees: HuffmanTree, never;
    nodes: ZopfliNode, never;
}

macro_rules! plain {
    ($($element:ty),*) => {$(impl Element for $element {})*};
}

plain!(
    Command,
    v8,
    s16,
    PDF,
    StaticCommand,
    HistogramLiteral,
    HistogramCommand,
    HistogramDistance,
    HistogramPair,
    ContextType,
    HuffmanTree,
    ZopfliNode
);

impl BrotliAlloc for Blocks {}

#[cfg(test)]
impl Blocks {
    /// Fills what is idle with bytes that no segment left there.
    pub fn poison(&mut self) {
        self.bytes.poison(0x5A);
        self.halves.poison(0x5A5A);
        self.words.poison(0x5A5A_5A5A);
        self.signed.poison(0x5A5A_5A5A);
        self.floats.poison(1e30);
        let odd = 0x005A_5A5A;
        self.commands.poison(Command {
            insert_len_: odd,
            copy_len_: odd,
            dist_extra_: odd,
            cmd_prefix_: 0x5A5A,
            dist_prefix_: 0x5A5A,
        });
    }
}
