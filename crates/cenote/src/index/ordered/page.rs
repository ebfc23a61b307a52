//! Pages: what a node holds, written once. A change of a node is a new page.
//!
//! ```text
//!      word 0    entries (8 bits), level (8), length / 64 (20), in a leaf which entries are records (28), else the child
//!                that is being merged into the one before it, or 0
//!      word 1    the next node of the level, or 0
//! leaf word 2    the heads of entries 4, 8, …, 24
//!      at 64     entries: head, and the value or the offset of the record
//! else word 2    heads of the separators 8, 16, …, 112
//!      at 128    heads of the separators; children; separators (offset in the page, length): one of each an entry, each
//!                array of whole lines, filled up with ones
//! then           length of the low fence, of the high fence (4 bytes each), the fences, the separators
//! ```
//!
//! A leaf has level 0. It holds the keys from its low fence on, below its high fence; an inner node has the nodes for
//! such keys below it. The last node of a level has no high fence. A leaf's entry is a *record* unless key and value
//! have 8 bytes: an object of its own with both. The separator before a child is the child's low fence. Its first 8
//! bytes are its head; a separator of no more than 8 bytes is only there.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use super::key::{Target, compare, head_of};
use crate::error::{Error, Result};
use crate::index::common::pair::{self, Pair};
use crate::memory::checked::published;
use crate::memory::{LINE, Memory, read_once};
use crate::pod::Worker;

/// The most entries of a leaf.
pub const LEAF_MAX: usize = 28;
/// The most entries of an inner node.
pub const INNER_MAX: usize = 120;
/// Entries of a leaf that share a line.
pub const LINE_ENTRIES: usize = 4;
/// The highest possible level; far more than there ever are.
pub const LEVEL_MAX: u8 = 32;
/// Where a leaf's entries begin.
const ENTRIES_AT: usize = 64;
/// Words of a line.
pub const LINE_WORDS: usize = LINE as usize / 8;
/// Where the heads of an inner node begin.
pub const HEADS_AT: usize = 128;

/// What a root's page says, instead of a child that is being merged, while its only child is to take its place.
pub const LOWERING: u32 = 0xfff;

/// Words of each array of an inner node's page.
#[inline(always)]
pub fn stride(count: usize) -> usize {
    count.next_multiple_of(LINE_WORDS)
}

/// Where the second word of a leaf's entry is: its value, or the offset of its record.
#[inline(always)]
pub fn second_at(n: usize) -> usize {
    ENTRIES_AT + 16 * n + 8
}

/// A page's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta(pub u64);

impl Meta {
    /// A first word.
    pub fn new(count: usize, level: u8, len: usize, records_or_merging: u32) -> Self {
        Self(
            count as u64
                | u64::from(level) << 8
                | ((len as u64 / LINE) & 0xf_ffff) << 16
                | u64::from(records_or_merging) << 36,
        )
    }

    /// The same for a page that is longer than it needs to be.
    pub fn with_len(self, len: u64) -> Self {
        Self(self.0 & !(0xf_ffff << 16) | ((len / LINE) & 0xf_ffff) << 16)
    }

    /// The same for a leaf whose entry `n` is a record, or is not.
    #[inline(always)]
    pub fn with_record(self, n: usize, is_record: bool) -> Self {
        Self(self.0 & !(1 << (36 + n)) | u64::from(is_record) << (36 + n))
    }

    /// The number of entries.
    #[inline(always)]
    pub fn count(self) -> usize {
        (self.0 & 0xff) as usize
    }

    /// The level: 0 for a leaf.
    #[inline(always)]
    pub fn level(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Bytes of the page.
    #[inline(always)]
    pub fn len(self) -> u64 {
        (self.0 >> 16 & 0xf_ffff) * LINE
    }

    /// Which entries of a leaf are records.
    #[inline(always)]
    pub fn records(self) -> u32 {
        (self.0 >> 36) as u32
    }

    /// The child of an inner node that is being merged into the one before it, if there is one.
    #[inline(always)]
    pub fn merging(self) -> Option<usize> {
        (self.is_changing() && !self.is_lowering()).then_some(self.records() as usize)
    }

    /// Whether it is a root whose only child is to take its place.
    #[inline(always)]
    pub fn is_lowering(self) -> bool {
        self.level() != 0 && self.records() == LOWERING
    }

    /// Whether the page says that a change is under way which has to be finished before any other.
    #[inline(always)]
    pub fn is_changing(self) -> bool {
        self.level() != 0 && self.records() != 0
    }

    /// Where the fences are.
    #[inline(always)]
    fn fences_at(self) -> usize {
        match self.level() {
            0 => ENTRIES_AT + 16 * self.count(),
            _ => HEADS_AT + 24 * stride(self.count()),
        }
    }

    /// Whether it is a valid first word.
    #[inline(always)]
    fn is_right(self) -> bool {
        let most = if self.level() == 0 { LEAF_MAX } else { INNER_MAX };
        let least = usize::from(self.level() != 0);
        self.level() <= LEVEL_MAX
            && (least..=most).contains(&self.count())
            && self.merging().is_none_or(|child| child < self.count())
            && (!self.is_lowering() || self.count() == 1)
            && self.fences_at() as u64 + 8 <= self.len()
    }
}

/// A page that is published.
#[derive(Clone, Copy, Debug)]
pub struct Page<'m> {
    /// Where it is.
    pub at: u64,
    /// Its first word.
    pub meta: Meta,
    bytes: &'m [u8],
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Where a key is in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// It is the entry of this number.
    At(usize),
    /// It is not there, and would lie in front of the entry of this number.
    Before(usize),
}

impl Position {
    /// The number of smaller keys.
    #[inline]
    pub fn smaller(self) -> usize {
        match self {
            Self::At(n) | Self::Before(n) => n,
        }
    }

    /// Whether the key is there.
    #[inline]
    pub fn is_there(self) -> bool {
        matches!(self, Self::At(_))
    }
}

impl<'m> Page<'m> {
    /// The page at an offset, checked as far as its arrays. The caller may read all of it.
    #[inline]
    pub fn open<M: Memory>(worker: &'m Worker<M>, at: u64) -> Result<Self> {
        let page = Self::open_to_search(worker, at)?;
        worker.mem().reads(at, page.meta.len());
        Ok(page)
    }

    /// The same for a caller that only searches a child with [`child_for`](Self::child_for), which reads some lines.
    #[inline]
    pub fn open_to_search<M: Memory>(worker: &'m Worker<M>, at: u64) -> Result<Self> {
        let damaged = || Error::corrupt("a page of an ordered map", at);
        if at & (LINE - 1) != 0 {
            return Err(damaged());
        }
        worker.check("a page of an ordered map", at, LINE)?;
        let meta = Meta(published(at, 8).read_word(worker.mem()));
        if !meta.is_right() {
            return Err(damaged());
        }
        worker.check("a page of an ordered map", at, meta.len())?;
        Ok(Self {
            at,
            meta,
            bytes: published(at, meta.len()).bytes_in_part(worker.mem()),
        })
    }

    /// Its level.
    #[inline(always)]
    pub fn level(&self) -> u8 {
        self.meta.level()
    }

    /// The number of its entries.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.meta.count()
    }

    /// All its bytes.
    pub fn bytes(&self) -> &'m [u8] {
        self.bytes
    }

    /// The node behind its node, or 0.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        word(self.bytes, 8)
    }

    fn damaged(&self) -> Error {
        Error::corrupt("a page of an ordered map", self.at)
    }

    /// The low and the high fence. The latter is meaningless in the last node of a level.
    #[inline]
    pub fn fences(&self) -> Result<(&'m [u8], &'m [u8])> {
        let at = self.meta.fences_at();
        let lens = read_once(self.bytes, at);
        let low = at + 8 + (lens & 0xffff_ffff) as usize;
        let high = low + (lens >> 32) as usize;
        match (self.bytes.get(at + 8..low), self.bytes.get(low..high)) {
            (Some(low), Some(high)) => Ok((low, high)),
            _ => Err(self.damaged()),
        }
    }

    /// Its length without padding.
    pub fn built_len(&self) -> Result<usize> {
        let (low, high) = self.fences()?;
        let fences_end = self.meta.fences_at() + 8 + low.len() + high.len();
        let end = match self.level() {
            0 => fences_end,
            // Long separators follow, the last child's as the last.
            _ => match self.place_of_separator(self.count() - 1) {
                (at, 0..=8) => at,
                (at, len) => at + len,
            },
        };
        match end.next_multiple_of(LINE as usize) {
            len if len <= self.bytes.len() => Ok(len),
            _ => Err(self.damaged()),
        }
    }

    /// The high fence; `None` if it is the last node of its level.
    #[inline]
    pub fn high(&self) -> Result<Option<&'m [u8]>> {
        match self.next() {
            0 => Ok(None),
            _ => self.fences().map(|(_, high)| Some(high)),
        }
    }

    /// [`is_beyond`](Self::is_beyond) for a search that has come to the last child.
    #[inline]
    pub fn is_beyond_its_last<M: Memory>(&self, mem: &M, target: Target<'_>) -> Result<bool> {
        if self.next() != 0 {
            let fences_at = self.meta.fences_at() as u64;
            mem.reads(self.at + fences_at, self.meta.len() - fences_at);
        }
        self.is_beyond(target)
    }

    /// Whether a place is beyond what the node holds.
    #[inline]
    pub fn is_beyond(&self, target: Target<'_>) -> Result<bool> {
        let Some(high) = self.high()? else {
            return Ok(false);
        };
        Ok(match target {
            Target::At(key, _) => compare(key, high).is_ge(),
            Target::Before(key, _) => compare(key, high).is_gt(),
            Target::Last => true,
        })
    }

    // ------------------------------------------------------------------------------------------- leaves

    /// An entry of a leaf: its head, and its value or record.
    #[inline(always)]
    pub fn entry(&self, n: usize) -> (u64, u64) {
        let at = ENTRIES_AT + 16 * n;
        (word(self.bytes, at), word(self.bytes, at + 8))
    }

    /// The entries of a leaf as bytes.
    pub fn entries(&self) -> &'m [u8] {
        &self.bytes[ENTRIES_AT..ENTRIES_AT + 16 * self.count()]
    }

    /// Whether an entry of a leaf is a record.
    #[inline(always)]
    pub fn is_record(&self, n: usize) -> bool {
        self.meta.records() >> n & 1 != 0
    }

    /// The record of an entry, if it is one.
    #[inline]
    pub fn record<M: Memory>(&self, worker: &'m Worker<M>, n: usize) -> Result<Option<Pair<'m>>> {
        match self.is_record(n) {
            true => pair::read_at(worker, self.entry(n).1).map(Some),
            false => Ok(None),
        }
    }

    /// Whether all entries of a leaf have their keys and values in the page.
    #[inline(always)]
    pub fn is_small(&self) -> bool {
        self.meta.records() == 0
    }

    /// Calls `with` for the keys and values of some entries of a leaf, until it returns `false`. Returns whether it
    /// never did.
    #[inline]
    pub fn with_pairs<M: Memory>(
        &self,
        worker: &'m Worker<M>,
        from: usize,
        to: usize,
        mut with: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        if self.is_small() {
            let (words, _) = self.entries().as_chunks::<8>();
            let (pairs, _) = words.as_chunks::<2>();
            let pairs = pairs.get(from..to).unwrap_or_default();
            return Ok(pairs.iter().all(|[head, value]| {
                let key = u64::from_le_bytes(*head).to_be_bytes();
                with(&key, value)
            }));
        }
        for n in from..to {
            if !self.with_pair(worker, n, &mut with)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Calls `with` for the key and the value of an entry of a leaf.
    #[inline]
    pub fn with_pair<M: Memory, R>(
        &self,
        worker: &'m Worker<M>,
        n: usize,
        with: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<R> {
        match self.record(worker, n)? {
            Some(pair) => Ok(with(pair.key, pair.value)),
            None => Ok(with(&self.entry(n).0.to_be_bytes(), self.small_value(n))),
        }
    }

    /// A copy of the key of an entry of a leaf. Does not read the value.
    pub fn key_alone<M: Memory>(&self, worker: &'m Worker<M>, n: usize) -> Result<Vec<u8>> {
        match self.is_record(n) {
            true => pair::key_at(worker, self.entry(n).1).map(<[u8]>::to_vec),
            false => Ok(self.entry(n).0.to_be_bytes().to_vec()),
        }
    }

    /// The value of an entry that is no record.
    #[inline(always)]
    pub fn small_value(&self, n: usize) -> &'m [u8] {
        let at = second_at(n);
        &self.bytes[at..at + 8]
    }

    /// The value of an entry.
    pub fn value<M: Memory>(&self, worker: &'m Worker<M>, n: usize) -> Result<&'m [u8]> {
        Ok(self
            .record(worker, n)?
            .map_or_else(|| self.small_value(n), |pair| pair.value))
    }

    /// A copy of the value of an entry; no reference to its bytes is made.
    pub fn copy_value<M: Memory>(&self, worker: &Worker<M>, n: usize) -> Result<Vec<u8>> {
        match self.is_record(n) {
            true => pair::copy_value(worker, self.entry(n).1),
            false => Ok(published(self.at + second_at(n) as u64, 8).copied(worker.mem())),
        }
    }

    /// How an entry's key compares with a key.
    #[inline(always)]
    fn compare<M: Memory>(&self, worker: &'m Worker<M>, n: usize, key: &[u8], head: u64) -> Result<Ordering> {
        let (own, _) = self.entry(n);
        if own != head {
            return Ok(own.cmp(&head));
        }
        Ok(match self.is_record(n) {
            true => pair::key_at(worker, self.entry(n).1)?.cmp(key),
            false => own.to_be_bytes()[..].cmp(key),
        })
    }

    /// The position of a key in a leaf: the number of smaller keys.
    #[inline]
    pub fn place_of<M: Memory>(&self, worker: &'m Worker<M>, key: &[u8]) -> Result<usize> {
        let head = head_of(key);
        if !self.is_small() || key.len() != 8 {
            return self.search(worker, key, head).map(Position::smaller);
        }
        // The first line has the head of every fourth entry.
        let (words, _) = self.bytes.as_chunks::<8>();
        let heads = words.get(2..8).unwrap_or_default();
        let (entries, _) = self.entries().as_chunks::<16>();
        let mut line = 0;
        for (n, word) in heads.iter().enumerate() {
            let is_from = (n + 1) * LINE_ENTRIES < self.count() && u64::from_le_bytes(*word) <= head;
            line = select_unpredictable(is_from, n + 1, line);
        }
        let entries = entries.get(line * LINE_ENTRIES..).unwrap_or_default();
        let is_smaller = |entry: &&[u8; 16]| word(*entry, 0) < head;
        let smaller = entries.iter().take(LINE_ENTRIES).filter(is_smaller).count();
        Ok(line * LINE_ENTRIES + smaller)
    }

    /// Where a key is in a leaf.
    #[inline]
    pub fn search<M: Memory>(&self, worker: &'m Worker<M>, key: &[u8], head: u64) -> Result<Position> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            match self.compare(worker, middle, key, head)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Position::At(middle)),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Position::Before(low))
    }

    // -------------------------------------------------------------------------------------- other nodes

    #[inline(always)]
    fn head(&self, n: usize) -> u64 {
        word(self.bytes, HEADS_AT + 8 * n)
    }

    /// A child: the offset of its word.
    #[inline(always)]
    pub fn child(&self, n: usize) -> u64 {
        word(self.bytes, HEADS_AT + 8 * (stride(self.count()) + n))
    }

    /// The place of a separator of more than eight bytes, else the place where the next such separator would be; and
    /// its length.
    #[inline]
    fn place_of_separator(&self, n: usize) -> (usize, usize) {
        let place = read_once(self.bytes, HEADS_AT + 8 * (2 * stride(self.count()) + n));
        ((place & 0xffff_ffff) as usize, (place >> 32) as usize)
    }

    /// The separator before a child that is not the first: its head, and its bytes.
    #[inline]
    pub fn separator(&self, n: usize) -> Result<(u64, Separator<'m>)> {
        let (at, len) = self.place_of_separator(n);
        let head = self.head(n);
        let bytes = match len {
            0..=8 => Separator::Short(head.to_be_bytes(), len),
            _ => Separator::Long(self.bytes.get(at..at + len).ok_or_else(|| self.damaged())?),
        };
        Ok((head, bytes))
    }

    /// The child below which a place is.
    #[inline(always)]
    pub fn child_for<M: Memory>(&self, mem: &M, target: Target<'_>) -> Result<usize> {
        if let Target::At(_, own) | Target::Before(_, own) = target
            && let Some(child) = self.child_by_head(mem, own)
        {
            return Ok(child);
        }
        mem.reads(self.at, self.meta.len());
        self.child_by_key(target)
    }

    /// The last child whose separator's head is not above `own`; `None` if it equals that. The first lines say which
    /// line of the heads decides; the line of the children is prefetched meanwhile.
    #[inline(always)]
    fn child_by_head<M: Memory>(&self, mem: &M, own: u64) -> Option<usize> {
        let up_to_own =
            |from: usize, to: usize| (from..to).filter(|at| word(self.bytes, 8 * at) <= own).count();
        mem.reads(self.at, HEADS_AT as u64);
        let line = up_to_own(2, HEADS_AT / 8);
        if LINE_WORDS * line >= self.count() {
            return None;
        }
        let first = HEADS_AT / 8 + LINE_WORDS * line;
        let children_at = self.at + 8 * (first + stride(self.count())) as u64;
        if M::COHERENT {
            mem.prefetch(children_at);
        }
        mem.reads(self.at + 8 * first as u64, LINE);
        mem.reads(children_at, LINE);
        let child = (LINE_WORDS * line + up_to_own(first, first + LINE_WORDS)).checked_sub(1)?;
        let is_sure = child < self.count() && (child == 0 || self.head(child) != own);
        is_sure.then_some(child)
    }

    fn child_by_key(&self, target: Target<'_>) -> Result<usize> {
        let (mut low, mut high) = (1, self.count());
        while low < high {
            let middle = (low + high) / 2;
            let head = self.head(middle);
            let is_from = match target {
                Target::At(_, own) | Target::Before(_, own) if own != head => own > head,
                Target::At(key, _) => key >= self.separator(middle)?.1.bytes(),
                Target::Before(key, _) => key > self.separator(middle)?.1.bytes(),
                Target::Last => true,
            };
            match is_from {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low - 1)
    }
}

/// A separator's bytes.
#[derive(Clone, Copy, Debug)]
pub enum Separator<'m> {
    /// At most eight bytes, and how many.
    Short([u8; 8], usize),
    /// In the page.
    Long(&'m [u8]),
}

impl Separator<'_> {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes, len) => &bytes[..*len],
            Self::Long(bytes) => bytes,
        }
    }
}

const _: () = assert!(LEAF_MAX <= 28, "there are 28 bits for records");
const _: () = assert!(
    2 + LEAF_MAX / LINE_ENTRIES - 1 <= 8,
    "the heads of a leaf's lines share its first line"
);
const _: () = assert!(
    HEADS_AT == 8 * (2 + INNER_MAX.div_ceil(LINE_WORDS) - 1),
    "the heads of the lines of heads fill the first two lines"
);
