//! The directory: names of the objects that a pool holds.
//!
//! An entry is published by its first word, which holds the object's offset and kind; the name is written before and
//! does not change as long as that word does not. Names of locks can be [removed](super::rename), all others with what
//! they stand for [dropped](super::dropping). Entries are made under a recoverable lock of their own; looking one up
//! takes none.
//!
//! A creator that dies before it has published leaves a free entry with a name, and the next one writes another name
//! there. If a thread dies alone, or a process whose host has others, that host's cache keeps the lines of the first
//! name, and nobody drops them: they were never anybody's memory. So names are read past the cache.

use super::rename::{self, is_named};
use crate::causes::Table;
use crate::error::{Error, Result};
use crate::memory::checked::{published, sync_word, unpublished, word_line};
use crate::memory::{LINE, Memory};

use crate::mutant::{self, Mutant};
use crate::pod::commit::publish::{Auxiliary, publish_auxiliary};
use crate::pod::format::entry::{DROPPED, KIND_MASK, offset_of};
use crate::pod::format::geometry::ENTRY_BYTES;
use crate::pod::format::superblock::{DIRECTORY_LOCK, DROPS};
use crate::pod::instance::crash::Point;
use crate::pod::instance::worker::Worker;
use crate::pod::lock;
use crate::pod::reclaim::room::with_room;

/// The longest name, in bytes.
pub const NAME_MAX: usize = 180;
/// The kind of a hash map.
pub const KIND_HASH: u64 = 1;
/// The kind of an ordered map.
pub const KIND_ORDERED: u64 = 2;
/// The kind of a lock.
pub const KIND_LOCK: u64 = 3;
/// The kind of a group.
pub const KIND_GROUP: u64 = 4;
/// The kind of a task list.
pub const KIND_TASKS: u64 = 5;
/// The kind of an array of locks.
pub const KIND_LOCKS: u64 = 6;
/// The kind of a directory lock.
pub const KIND_DIRECTORY_LOCK: u64 = 7;
/// The kind of an object store.
pub const KIND_OBJECTS: u64 = 8;
/// The kind of an index made for comparison: one extent, with all that it has.
pub const KIND_BASELINE: u64 = 15;

const NAME_AT: u64 = 64;

/// A named object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: u64,
    /// Where it is.
    pub offset: u64,
    /// Of a lock: how often its name was given and removed, an even number. 0 for other kinds.
    pub incarnation: u64,
    /// Where its entry is.
    pub entry: u64,
}

/// What an entry holds after its first word, as it is in memory now: the lines that its name needs. `None` as soon as
/// `is_still` is false; it is called after each line, so that a name being written is not read any further.
///
/// Cost: a line, two or three.
fn name_area<M: Memory>(
    mem: &M,
    at: u64,
    is_still: impl Fn() -> bool,
) -> Option<[u8; (ENTRY_BYTES - NAME_AT) as usize]> {
    let mut area = [0; (ENTRY_BYTES - NAME_AT) as usize];
    if mutant::is(Mutant::NameCached) {
        published(at + NAME_AT, ENTRY_BYTES - NAME_AT).copy_to(mem, &mut area);
        return is_still().then_some(area);
    }
    let mut needed = 8;
    for (line, bytes) in area.chunks_exact_mut(LINE as usize).enumerate() {
        let from = LINE * line as u64;
        if from >= needed {
            break;
        }
        let words = word_line(at + NAME_AT + from).fetch(mem);
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        if !is_still() {
            return None;
        }
        if line == 0 {
            needed = words[0].saturating_add(8);
        }
    }
    Some(area)
}

/// An entry's contents, of which only the name may be damaged.
pub struct Entry {
    /// Its index.
    pub index: u32,
    /// Where it is.
    pub at: u64,
    /// The kind of the object.
    pub kind: u64,
    /// The object's offset.
    pub offset: u64,
    /// Of a lock: its incarnation.
    pub incarnation: u64,
    /// The name.
    pub name: Result<String>,
}

impl Entry {
    fn named(self) -> Result<Named> {
        Ok(Named {
            name: self.name?,
            kind: self.kind,
            offset: self.offset,
            incarnation: self.incarnation,
            entry: self.at,
        })
    }

    /// What it names, without the name.
    pub fn unnamed(&self) -> Named {
        Named {
            name: String::new(),
            kind: self.kind,
            offset: self.offset,
            incarnation: self.incarnation,
            entry: self.at,
        }
    }

    /// The same entry, without the name.
    pub fn again(&self) -> Self {
        Self {
            name: Ok(String::new()),
            ..*self
        }
    }

    /// Whether it names nothing any more, and is not to be used again yet.
    pub fn is_gone(&self) -> bool {
        self.offset == 0
    }
}

/// An entry's contents, if it names something. Begins anew if the name is a lock's and is removed meanwhile. Of what is
/// dropped meanwhile, the name may be made of two: callers ask whether anything was ([`unless_dropped`]).
///
/// Cost: a load, and a line to three for the name; of a lock a load more, and one for each line.
fn read<M: Memory>(worker: &Worker<M>, index: u32) -> Option<Entry> {
    let mem = worker.mem();
    let at = worker.geometry().entry(index);
    loop {
        // PAIRS WITH: pod::commit::publish::publish_auxiliary, pod::names::rename::make, pod::names::dropping::mark
        let word = sync_word(at).load(mem);
        let (kind, offset) = (word & KIND_MASK, offset_of(word));
        let entry = |incarnation, name| Entry {
            index,
            at,
            kind,
            offset,
            incarnation,
            name,
        };
        if word == 0 || word & DROPPED != 0 {
            return None;
        }
        if kind != KIND_LOCK {
            // Once it is dropped another name may be written there: a search begins anew then.
            return read_name(mem, at, || true).map(|name| entry(0, name));
        }
        let count = match rename::count_of(worker, offset) {
            Ok(count) => count,
            Err(damage) => return Some(entry(0, Err(damage))),
        };
        // PAIRS WITH: pod::names::rename::make, pod::names::rename::remove
        let incarnation = count.load(mem);
        if !is_named(incarnation) {
            return None;
        }
        // A worker that writes a name has incremented the count before.
        let is_still = || count.load(mem) == incarnation || mutant::is(Mutant::NameNotReread);
        if let Some(name) = read_name(mem, at, is_still) {
            return Some(entry(incarnation, name));
        }
    }
}

/// The name of an entry; `None` if the entry has changed meanwhile.
fn read_name<M: Memory>(mem: &M, at: u64, is_still: impl Fn() -> bool) -> Option<Result<String>> {
    Some(decode(at, &name_area(mem, at, is_still)?))
}

fn decode(at: u64, bytes: &[u8]) -> Result<String> {
    let (len, name) = bytes.split_at(8);
    let len = len.iter().rev().fold(0, |len, byte| len << 8 | u64::from(*byte));
    if len == 0 || len > NAME_MAX as u64 {
        return Err(Error::corrupt("a name's length", at + NAME_AT));
    }
    match std::str::from_utf8(&name[..len as usize]) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(Error::corrupt("a name", at + NAME_AT + 8)),
    }
}

/// An entry whose structure was dropped.
pub(super) fn read_dropped<M: Memory>(worker: &Worker<M>, index: u32) -> Option<Entry> {
    let at = worker.geometry().entry(index);
    // PAIRS WITH: pod::names::dropping::mark
    let word = sync_word(at).load(worker.mem());
    (word & DROPPED != 0).then(|| Entry {
        index,
        at,
        kind: word & KIND_MASK,
        offset: offset_of(word),
        incarnation: 0,
        name: Ok(String::new()),
    })
}

/// All entries whose structures were dropped and are not gone yet, and those that are about to be free.
///
/// Cost: a load for each entry of the directory.
pub fn dropped<M: Memory>(worker: &Worker<M>) -> impl Iterator<Item = Entry> {
    (0..worker.geometry().parameters.entries).filter_map(|index| read_dropped(worker, index))
}

/// All entries that name something.
pub fn entries<M: Memory>(worker: &Worker<M>) -> Vec<Entry> {
    unless_dropped(worker, || each_entry(worker).collect())
}

/// Each entry that names something. One that is dropped meanwhile may be read with parts of two names.
fn each_entry<M: Memory>(worker: &Worker<M>) -> impl Iterator<Item = Entry> {
    (0..worker.geometry().parameters.entries).filter_map(|index| read(worker, index))
}

/// All names.
pub fn list<M: Memory>(worker: &Worker<M>) -> Result<Vec<Named>> {
    entries(worker).into_iter().map(Entry::named).collect()
}

/// What `look` finds in the directory while nothing is dropped: an entry of what was dropped may have got another name
/// while it was read.
fn unless_dropped<M: Memory, T>(worker: &Worker<M>, look: impl Fn() -> T) -> T {
    loop {
        let drops = DROPS.load(worker.mem());
        let found = look();
        if DROPS.load(worker.mem()) == drops {
            return found;
        }
    }
}

/// Finds a name. The cost grows with the number of names: keep what it finds.
///
/// # Errors
///
/// If the name is not found and another is damaged: that may have been the name.
pub fn find<M: Memory>(worker: &Worker<M>, name: &str) -> Result<Option<Named>> {
    unless_dropped(worker, || find_once(worker, name))
}

fn find_once<M: Memory>(worker: &Worker<M>, name: &str) -> Result<Option<Named>> {
    let mut damaged = None;
    for entry in each_entry(worker) {
        match entry.named() {
            Ok(named) if named.name == name => return Ok(Some(named)),
            Ok(_) => {}
            Err(error) => damaged = damaged.or(Some(error)),
        }
    }
    damaged.map_or(Ok(None), Err)
}

/// The offsets of the objects of a kind. Costs one load for each entry of the directory.
pub fn of_kind<M: Memory>(worker: &Worker<M>, kind: u64) -> Vec<u64> {
    let all = unnamed_of_kind(worker, kind).into_iter();
    all.map(|named| named.offset).collect()
}

/// The same, with their entries and without their names.
pub fn unnamed_of_kind<M: Memory>(worker: &Worker<M>, kind: u64) -> Vec<Named> {
    let entries = 0..worker.geometry().parameters.entries;
    let words = entries.map(|index| {
        let entry = worker.geometry().entry(index);
        (entry, sync_word(entry).load(worker.mem()))
    });
    words
        .filter(|(_, word)| *word != 0 && word & (KIND_MASK | DROPPED) == kind)
        .map(|(entry, word)| Named {
            name: String::new(),
            kind,
            offset: offset_of(word),
            incarnation: 0,
            entry,
        })
        .collect()
}

/// Finds a name, or makes it for the object that `build` allocates as the worker's auxiliary object. If `build` fails
/// because the pool is full, it has allocated nothing, or has given it back.
pub fn find_or_create<M: Memory>(
    worker: &Worker<M>,
    name: &str,
    kind: u64,
    mut build: impl FnMut() -> Result<u64>,
) -> Result<Named> {
    check_name(name)?;
    if let Some(named) = find(worker, name)? {
        return Ok(named);
    }
    with_room(worker, || create(worker, name, kind, &mut build))
}

/// Whether a name is allowed.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(Error::InvalidName {
            name: name.to_owned(),
            max: NAME_MAX,
        });
    }
    Ok(())
}

fn create<M: Memory>(
    worker: &Worker<M>,
    name: &str,
    kind: u64,
    build: &mut impl FnMut() -> Result<u64>,
) -> Result<Named> {
    let mem = worker.mem();
    // Before the list is held: a waiting worker leaves what it has retired to others.
    let _held = lock::acquire(worker, DIRECTORY_LOCK)?;
    // Before it allocates: the first hold brings the record into order, and forgets what that names.
    let _hold = worker.hold_list()?;
    if let Some(named) = find(worker, name)? {
        return Ok(named);
    }
    let (at, before) = free_entry(worker)?;
    let offset = build()?;
    write_name(mem, at, name);
    let points = [Point::NameIntent, Point::NameDone];
    // Until this is over, or recovered: a structure that is dropped at once is not taken apart before.
    let _pin = match mutant::is(Mutant::CreatedUnpinned) {
        true => None,
        false => Some(worker.pin()?),
    };
    if publish_auxiliary(worker, sync_word(at), before, offset | kind, offset, points)? == Auxiliary::Freed {
        return Err(Error::corrupt(
            "a directory entry that changed under its lock, seen",
            at,
        ));
    }
    Ok(Named {
        name: name.to_owned(),
        kind,
        offset,
        incarnation: 0,
        entry: at,
    })
}

/// An entry that names nothing, and its first word: preferably one that was never used. The caller has the directory's
/// lock.
fn free_entry<M: Memory>(worker: &Worker<M>) -> Result<(u64, u64)> {
    let mut unnamed = None;
    for at in (0..worker.geometry().parameters.entries).map(|index| worker.geometry().entry(index)) {
        // PAIRS WITH: pod::names::dropping::Claim::finish
        let word = sync_word(at).load(worker.mem());
        if word == 0 && !rename::has_objects(worker, at) {
            return Ok((at, word));
        }
        if unnamed.is_none() && is_unnamed(worker, word) {
            unnamed = Some((at, word));
        }
    }
    unnamed.ok_or_else(|| all_in_use(worker))
}

/// Whether an entry with this first word names nothing. The caller has the directory's lock.
pub(in crate::pod) fn is_unnamed<M: Memory>(worker: &Worker<M>, word: u64) -> bool {
    let is_removed = || {
        let count = rename::count_of(worker, offset_of(word));
        count.is_ok_and(|count| !is_named(count.load(worker.mem())))
    };
    word == 0 || word & (KIND_MASK | DROPPED) == KIND_LOCK && is_removed()
}

/// The error when no entry is free.
pub(in crate::pod) fn all_in_use<M: Memory>(worker: &Worker<M>) -> Error {
    Error::TooMany {
        what: Table::Names,
        limit: worker.geometry().parameters.entries,
    }
}

pub(in crate::pod) fn write_name<M: Memory>(mem: &M, at: u64, name: &str) {
    let mut area = [0; (ENTRY_BYTES - NAME_AT) as usize];
    let (len, bytes) = area.split_at_mut(8);
    len.copy_from_slice(&(name.len() as u64).to_le_bytes());
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    // Whole lines: this host's cache may have what was there before another host wrote a longer name.
    unpublished(at + NAME_AT, ENTRY_BYTES - NAME_AT).write(mem, &area);
    // Complete before the entry is published, together with the object that it names.
    mem.write_back(at + NAME_AT, ENTRY_BYTES - NAME_AT);
}

/// `fsck --repair`: gives an object with a damaged name another one, `recovered-` and a number. No other process has
/// the pool open. A crash meanwhile leaves a damaged name.
pub fn rename_damaged<M: Memory>(worker: &Worker<M>, index: u32) -> Result<String> {
    let _held = lock::acquire(worker, DIRECTORY_LOCK)?;
    let used: Vec<String> = entries(worker)
        .into_iter()
        .filter_map(|entry| entry.name.ok())
        .collect();
    // Among one more than there are names one is free.
    let name = (0..=used.len())
        .map(|more| format!("recovered-{}", u64::from(index) + more as u64))
        .find(|name| !used.contains(name))
        .unwrap_or_default();
    write_name(worker.mem(), worker.geometry().entry(index), &name);
    worker.mem().fence();
    Ok(name)
}

/// Leaves what a creator that dies before it has published leaves, once it is recovered. For tests.
#[doc(hidden)]
pub fn leave_half_made<M: Memory>(worker: &Worker<M>, name: &str) -> Result<()> {
    let _held = lock::acquire(worker, DIRECTORY_LOCK)?;
    write_name(worker.mem(), free_entry(worker)?.0, name);
    // Recovery would have.
    worker.mem().fence();
    Ok(())
}
