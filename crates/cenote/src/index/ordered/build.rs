//! Building pages: in private memory first, then written to the pool once.

use super::key::head_of;
use super::page::{INNER_MAX, LEAF_MAX, LINE_ENTRIES, LINE_WORDS, LOWERING, Meta, Page, second_at, stride};
use crate::causes::Shortage;
use crate::error::{Error, Result};
use crate::memory::checked::unpublished;
use crate::memory::{LINE, Memory};
use crate::mutant::{self, Mutant};
use crate::pod::format::class;

/// What a page says besides its entries.
#[derive(Clone, Copy, Debug)]
pub struct Fences<'a> {
    /// The node behind it, or 0.
    pub next: u64,
    /// The low fence.
    pub low: &'a [u8],
    /// The high fence; empty in the last node of a level.
    pub high: &'a [u8],
}

impl<'a> Fences<'a> {
    /// The fences of a page.
    pub fn of(page: &Page<'a>) -> Result<Self> {
        let (low, high) = page.fences()?;
        Ok(Self {
            next: page.next(),
            low,
            high,
        })
    }
}

/// The second word of an entry of a leaf.
#[derive(Clone, Copy)]
pub enum Second {
    /// The value, of a key of eight bytes.
    Value(u64),
    /// The offset of the record that holds key and value.
    Record(u64),
}

impl Second {
    #[inline]
    fn word(self) -> u64 {
        match self {
            Self::Value(word) | Self::Record(word) => word,
        }
    }

    #[inline]
    fn is_record(self) -> bool {
        matches!(self, Self::Record(_))
    }
}

/// A leaf that is being built.
#[derive(Debug, Default)]
pub struct Leaf {
    /// Head and value or record, 16 bytes an entry.
    entries: Vec<u8>,
    records: u32,
}

impl Leaf {
    /// The entries of a page, in memory that was used before.
    pub fn all_of(page: &Page<'_>, mut entries: Vec<u8>) -> Self {
        entries.clear();
        entries.reserve(16 * LEAF_MAX);
        entries.extend_from_slice(page.entries());
        Self {
            entries,
            records: page.meta.records(),
        }
    }

    /// The memory, to be used again.
    pub fn into_memory(self) -> Vec<u8> {
        self.entries
    }

    /// The entries `from..to` of a page.
    pub fn part(page: &Page<'_>, from: usize, to: usize) -> Self {
        let below = |n: usize| (1u64 << n) - 1;
        Self {
            entries: page.entries()[16 * from..16 * to].to_vec(),
            records: (u64::from(page.meta.records()) & below(to)) as u32 >> from,
        }
    }

    /// Adds an entry in front of entry `n`.
    pub fn insert(&mut self, n: usize, head: u64, second: Second) {
        let (at, len) = (16 * n, self.entries.len());
        self.entries.extend_from_slice(&[0; 16]);
        self.entries.copy_within(at..len, at + 16);
        let below = (1u32 << n) - 1;
        self.records = self.records & below | (self.records & !below) << 1;
        self.set(n, head, second);
    }

    /// Changes entry `n`.
    fn set(&mut self, n: usize, head: u64, second: Second) {
        let entry = &mut self.entries[16 * n..16 * n + 16];
        entry[..8].copy_from_slice(&head.to_le_bytes());
        entry[8..].copy_from_slice(&second.word().to_le_bytes());
        self.records = self.records & !(1 << n) | u32::from(second.is_record()) << n;
    }

    /// Removes entry `n`.
    pub fn remove(&mut self, n: usize) {
        self.entries.drain(16 * n..16 * n + 16);
        let below = (1u32 << n) - 1;
        self.records = self.records & below | self.records >> 1 & !below;
    }

    /// Appends the entries of a page; there must be room.
    pub fn append(&mut self, page: &Page<'_>) {
        self.records |= page.meta.records() << (self.entries.len() / 16);
        self.entries.extend_from_slice(page.entries());
    }

    /// The page's bytes.
    pub fn finish(&self, fences: &Fences<'_>) -> Result<Vec<u8>> {
        self.finish_in(fences, Vec::new())
    }

    /// The page's bytes, in memory that was used before.
    pub fn finish_in(&self, fences: &Fences<'_>, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        let count = self.entries.len() / 16;
        bytes.clear();
        bytes.reserve(64 + self.entries.len() + 136);
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&fences.next.to_le_bytes());
        for n in (LINE_ENTRIES..LEAF_MAX).step_by(LINE_ENTRIES) {
            let head = self.entries.get(16 * n..16 * n + 8).unwrap_or(&[0xff; 8]);
            bytes.extend_from_slice(head);
        }
        bytes.extend_from_slice(&self.entries);
        write_fences(&mut bytes, fences);
        finish(bytes, count, 0, self.records)
    }
}

/// An inner node's page that is being built: separators and children in order; the first separator is meaningless.
#[derive(Debug, Default)]
pub struct Inner {
    entries: Vec<(Vec<u8>, u64)>,
    merging: u32,
}

impl Inner {
    /// The entries `from..to` of a page.
    pub fn part(page: &Page<'_>, from: usize, to: usize) -> Result<Self> {
        (from..to)
            .map(|n| Ok((page.separator(n)?.1.bytes().to_vec(), page.child(n))))
            .collect::<Result<_>>()
            .map(|entries| Self { entries, merging: 0 })
    }

    /// A node with one child.
    pub fn over(child: u64) -> Self {
        Self {
            entries: vec![(Vec::new(), child)],
            merging: 0,
        }
    }

    /// Adds a child in front of entry `n`.
    pub fn insert(&mut self, n: usize, separator: &[u8], child: u64) {
        self.entries.insert(n, (separator.to_vec(), child));
    }

    /// Removes child `n`.
    pub fn remove(&mut self, n: usize) {
        self.entries.remove(n);
    }

    /// Says that child `n` is being merged into the one before it.
    pub fn merge(&mut self, n: usize) {
        self.merging = n as u32;
    }

    /// Says that the only child is to take the place of this root.
    pub fn lower(&mut self) {
        self.merging = LOWERING;
    }

    /// Appends the entries of a page; the page's low fence separates them.
    pub fn append(&mut self, page: &Page<'_>) -> Result<()> {
        let mut other = Self::part(page, 0, page.count())?;
        other.entries[0].0 = page.fences()?.0.to_vec();
        self.entries.append(&mut other.entries);
        Ok(())
    }

    /// The page's bytes.
    pub fn finish(&self, level: u8, fences: &Fences<'_>) -> Result<Vec<u8>> {
        let (count, stride) = (self.entries.len(), stride(self.entries.len()));
        let mut bytes = Vec::with_capacity(24 * stride + 384);
        let add = |bytes: &mut Vec<u8>, word: u64| bytes.extend_from_slice(&word.to_le_bytes());
        let fill = |bytes: &mut Vec<u8>| (count..stride).for_each(|_| add(bytes, u64::MAX));
        // The first separator is meaningless, and below every key.
        let head = |n: usize| match n {
            0 => 0,
            n if n < count => head_of(&self.entries[n].0),
            _ => u64::MAX,
        };
        add(&mut bytes, 0);
        add(&mut bytes, fences.next);
        (LINE_WORDS..INNER_MAX)
            .step_by(LINE_WORDS)
            .for_each(|n| add(&mut bytes, head(n)));
        (0..stride).for_each(|n| add(&mut bytes, head(n)));
        self.entries.iter().for_each(|(_, child)| add(&mut bytes, *child));
        fill(&mut bytes);
        let mut at = bytes.len() + 8 * stride + 8 + fences.low.len() + fences.high.len();
        for (separator, _) in &self.entries {
            let len = separator.len();
            add(&mut bytes, at as u64 | (len as u64) << 32);
            at += if len > 8 { len } else { 0 };
        }
        fill(&mut bytes);
        write_fences(&mut bytes, fences);
        for (separator, _) in self.entries.iter().filter(|(separator, _)| separator.len() > 8) {
            bytes.extend_from_slice(separator);
        }
        finish(bytes, self.entries.len(), level, self.merging)
    }
}

/// A page with the entries of another, and these fences.
pub fn copy(page: &Page<'_>, fences: &Fences<'_>) -> Result<Vec<u8>> {
    match page.level() {
        0 => Leaf::part(page, 0, page.count()).finish(fences),
        level => Inner::part(page, 0, page.count())?.finish(level, fences),
    }
}

/// A leaf's page with another second word of entry `n`, in memory that was used before. All else stays the same and is
/// copied.
pub fn replaced(page: &Page<'_>, n: usize, second: Second, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    // Without padding.
    let len = page.built_len()?;
    bytes.clear();
    bytes.extend_from_slice(&page.bytes()[..len]);
    let at = second_at(n);
    bytes[at..at + 8].copy_from_slice(&second.word().to_le_bytes());
    let meta = page.meta.with_record(n, second.is_record()).with_len(len as u64);
    bytes[..8].copy_from_slice(&meta.0.to_le_bytes());
    Ok(bytes)
}

fn write_fences(bytes: &mut Vec<u8>, fences: &Fences<'_>) {
    let lens = fences.low.len() as u64 | (fences.high.len() as u64) << 32;
    bytes.extend_from_slice(&lens.to_le_bytes());
    bytes.extend_from_slice(fences.low);
    bytes.extend_from_slice(fences.high);
}

fn finish(mut bytes: Vec<u8>, count: usize, level: u8, records_or_merging: u32) -> Result<Vec<u8>> {
    let len = bytes.len().next_multiple_of(LINE as usize);
    bytes.resize(len, 0);
    let meta = Meta::new(count, level, len, records_or_merging);
    if meta.len() != len as u64 {
        return Err(Error::Full {
            needed: len as u64,
            why: Shortage::Page,
            largest: None,
        });
    }
    bytes[..8].copy_from_slice(&meta.0.to_le_bytes());
    Ok(bytes)
}

/// Calls `place` with a page; while there is no room for it, again with the page padded to the next larger size.
pub fn at_any_size<R>(page: &[u8], mut place: impl FnMut(&[u8]) -> Result<R>) -> Result<R> {
    let mut padded: Vec<u8> = Vec::new();
    class::at_any_size(page.len() as u64, |len| {
        if len == page.len() as u64 {
            return place(page);
        }
        padded.clear();
        padded.extend_from_slice(page);
        pad(&mut padded, len);
        place(&padded)
    })
}

/// Pads a page to a length.
fn pad(bytes: &mut Vec<u8>, len: u64) {
    if let Some(first) = bytes.first_chunk() {
        let meta = Meta(u64::from_le_bytes(*first)).with_len(len);
        bytes.resize(len as usize, 0);
        bytes[..8].copy_from_slice(&meta.0.to_le_bytes());
    }
}

/// Whether a page is as it is built from its entries and fences: they determine all but the first word, and nothing
/// follows but padding.
pub fn is_as_built(page: &Page<'_>) -> Result<bool> {
    let built = copy(page, &Fences::of(page)?)?;
    let Some((found, padding)) = page.bytes().split_at_checked(built.len()) else {
        return Ok(false);
    };
    Ok(page.built_len()? == built.len()
        && found.get(8..) == built.get(8..)
        && padding.iter().all(|&byte| byte == 0))
}

/// Bytes for a leaf's page on incoherent memory: those of a full page with short fences. So a page that is replaced can
/// be recycled for any leaf's next page: to free it, and to allocate another, costs some round trips there.
const LEAF_ROOM: u64 = (64 + 16 * LEAF_MAX as u64 + 64).next_multiple_of(LINE);

/// Allocates memory for a page, and writes it there.
pub fn place<M: Memory>(mem: &M, page: &[u8], allocate: impl Fn(u64) -> Result<u64>) -> Result<u64> {
    let len = page.len() as u64;
    let is_leaf = page
        .first_chunk()
        .is_some_and(|first| Meta(u64::from_le_bytes(*first)).level() == 0);
    let at = match allocate(if !M::COHERENT && is_leaf {
        len.max(LEAF_ROOM)
    } else {
        len
    }) {
        Err(Error::Full { .. }) => allocate(len)?,
        other => other?,
    };
    write(mem, at, page);
    Ok(at)
}

/// Writes a page to unpublished memory, and begins its write-back: complete with the fence of `pod::commit::publish`.
fn write<M: Memory>(mem: &M, at: u64, bytes: &[u8]) {
    unpublished(at, bytes.len() as u64).write(mem, bytes);
    if !M::COHERENT && !mutant::is(Mutant::PageNotWrittenBack) {
        mem.write_back(at, bytes.len() as u64);
    }
}
