//! Dropping what a name stands for: a map, an object store, a task list or a group goes, while others have handles on
//! it.
//!
//! **Words.** [`DROPS`] counts drops. The first word of an entry has [`DROPPED`] set from the moment of the drop on,
//! and is [`GONE`] when the header has been retired. Its second word names the worker that takes the dropped structure
//! apart. A header says how many drops there had been when it was made: so a structure in the place of another is
//! another.
//!
//! | step | who | word | a crash leaves |
//! |---|---|---|---|
//! | mark | any worker, one of them wins | entry: structure to structure, dropped | a structure that handles still use (`drop.marked`) |
//! | tell | the same, and each claimant | `DROPS` + 1 | a structure that nobody can reach any more, with all its memory |
//! | claim | one of those who come by | entry's second word: 0, or a dead worker, to it (`drop.claimed`) | the claim of a dead worker, which counts for nothing |
//! | wait | the claimant | none | the same |
//! | take apart | the claimant, by the structure's own operations | the structure's | a smaller structure |
//! | unlink | the claimant | entry: structure, dropped, to gone, the header retired (`drop.unlinked`) | an entry that names nothing |
//! | free | the claimant, or the next one | entry: gone to 0; second word: to 0 | nothing |
//!
//! **Handles.** Before an operation relies on the structure it is pinned, and then compares `DROPS` with what its
//! handle has seen. If another structure was dropped, it looks at its own entry. On incoherent memory a check holds for
//! as long as the announcement under which it was made.
//!
//! **Why nobody uses it any more.** The claimant reads the epoch after the count was increased, and waits until what is
//! tagged with that would be reclaimable: then no worker is left that had announced before, and one that has announced
//! later sees the new count, by the argument that holds for all that is unlinked
//! ([`epoch`](super::super::instance::epoch)). What dead workers had begun in it is finished or undone before, as their
//! announcements are withdrawn only then.
//!
//! **Why the header is another's only later.** It is retired, and a check reads it under a pin. A structure that is
//! made in its place is made after the count has grown, and says so.

use std::cell::Cell;
use std::time::Duration;

use super::directory::{self, Entry, KIND_GROUP, KIND_TASKS, Named};
use crate::error::{Error, Result};
use crate::memory::checked::{published, sync_word, unpublished};
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::commit::publish::{Change, publish};
use crate::pod::commit::recovery;
use crate::pod::format::entry::{DROPPED, GONE, KIND_MASK, offset_of};
use crate::pod::format::record::{Phase, State, WorkerRecord, operation};
use crate::pod::format::superblock::{DIRECTORY_LOCK, DROPS, EPOCH};
use crate::pod::instance::advance::{advance, reclaimable_below};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::worker::Worker;
use crate::pod::lock::{self, is_gone};
use crate::pod::reclaim::collect;

/// Where a header says how many drops there had been when it was made.
const CREATED_AT: u64 = 120;
/// The same in a task list, which has a word for all workers in that line.
const CREATED_AT_OF_TASKS: u64 = 48;
/// The same in a group, whose words are used past the cache once it is published.
const CREATED_AT_OF_GROUPS: u64 = 216;
/// Where an entry names the worker that takes its structure apart.
const CLAIMANT_AT: u64 = 8;
/// How long a claimant waits for readers before it gives the claim back: a tenth of a second.
pub const MOMENTS: u32 = 200;
/// The same for what others have dropped.
pub const MOMENTS_OF_OTHERS: u32 = 20;
const WAIT: Duration = Duration::from_micros(500);

/// Notes in the header of a structure that is being made how many drops there have been.
pub fn write_created<M: Memory>(worker: &Worker<M>, header: u64, kind: u64) {
    unpublished(created_at(header, kind), 8).write_word(worker.mem(), DROPS.load(worker.mem()));
}

fn created_at(header: u64, kind: u64) -> u64 {
    header
        + match kind {
            KIND_TASKS => CREATED_AT_OF_TASKS,
            KIND_GROUP => CREATED_AT_OF_GROUPS,
            _ => CREATED_AT,
        }
}

/// Which structure a handle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its entry; 0 for a handle that is not to be checked.
    entry: u64,
    /// What the entry holds.
    word: u64,
    /// What its header says of its creation.
    created: u64,
}

impl Identity {
    /// No structure's. A handle with it is for those who know that nobody frees what they look at.
    pub const UNCHECKED: Self = Self {
        entry: 0,
        word: 0,
        created: 0,
    };

    /// That of what a name stands for, if it still does. The worker is pinned.
    pub fn of<M: Memory>(worker: &Worker<M>, named: &Named) -> Option<Self> {
        let word = named.offset | named.kind;
        let is_there = sync_word(named.entry).load(worker.mem()) == word;
        is_there.then(|| Self {
            entry: named.entry,
            word,
            created: created(worker, word),
        })
    }

    /// Where its header is.
    pub fn header(&self) -> u64 {
        offset_of(self.word)
    }

    /// Whether the structure is still there. The worker is pinned, and the structure stays in place until that ends.
    ///
    /// Cost: a sync load, and a line.
    pub fn is_there<M: Memory>(&self, worker: &Worker<M>) -> bool {
        // PAIRS WITH: pod::names::dropping::mark
        self.entry == 0
            || sync_word(self.entry).load(worker.mem()) == self.word
                && (created(worker, self.word) == self.created || mutant::is(Mutant::DropCreationUnasked))
    }
}

fn created<M: Memory>(worker: &Worker<M>, word: u64) -> u64 {
    let kind = word & KIND_MASK;
    let at = created_at(offset_of(word), kind);
    match worker.check("a header", at, 8) {
        Ok(()) if kind == KIND_GROUP => sync_word(at).load(worker.mem()),
        Ok(()) => published(at, 8).read_word(worker.mem()),
        Err(_) => u64::MAX,
    }
}

/// What a handle knows of whether its structure is still there.
#[derive(Debug)]
pub struct Check {
    identity: Identity,
    /// Drops that it has seen.
    drops: Cell<u64>,
    /// The worker's stamp at the last check, on incoherent memory.
    stamp: Cell<u64>,
}

impl Check {
    /// For a structure of which nothing has been seen yet.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            drops: Cell::new(u64::MAX),
            stamp: Cell::new(0),
        }
    }

    /// Which structure it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether nothing was dropped since the last look. The worker has announced itself.
    ///
    /// Cost: a load; on incoherent memory none.
    #[inline(always)]
    pub fn is_fresh<M: Memory>(&self, worker: &Worker<M>) -> bool {
        if mutant::is(Mutant::DropsUnseen) {
            return true;
        }
        match M::COHERENT {
            // PAIRS WITH: pod::names::dropping::tell
            true => DROPS.load(worker.mem()) == self.drops.get(),
            false => self.stamp.get() == worker.stamp(),
        }
    }

    /// Fails if the structure was dropped. The worker is pinned.
    ///
    /// Cost: that of [`Check::is_fresh`]; when something was dropped, a sync load or two, and a line.
    #[inline(always)]
    pub fn confirm<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        match self.is_fresh(worker) {
            true => Ok(()),
            false => self.look(worker),
        }
    }

    /// The same, for a thread that is about to wait: also on incoherent memory it sees what was dropped just now. It
    /// looks at the entry, whatever the count says: who has marked it may have died, or be stopped, before it told.
    ///
    /// Cost: two sync loads, and a line.
    pub fn confirm_now<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        if mutant::is(Mutant::DropsUnseen) {
            return Ok(());
        }
        self.drops.set(u64::MAX);
        self.look(worker)
    }

    #[cold]
    fn look<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        // Before the entry is looked at: a later drop shows at the next look.
        // PAIRS WITH: pod::names::dropping::tell
        let drops = DROPS.load(worker.mem());
        if drops != self.drops.get() {
            if !self.identity.is_there(worker) {
                return Err(Error::Dropped);
            }
            self.drops.set(drops);
        }
        self.stamp.set(worker.stamp());
        Ok(())
    }
}

/// Marks what a name stands for as dropped, if it is of a kind that can be. Returns its entry; `None` if there is no
/// such name.
///
/// Under the directory's lock: what has the name now is what is marked, whatever was dropped and made before.
pub fn mark<M: Memory>(
    worker: &Worker<M>,
    name: &str,
    can_be: impl FnOnce(&Named) -> Result<()>,
) -> Result<Option<u64>> {
    let _held = lock::acquire(worker, DIRECTORY_LOCK)?;
    let Some(named) = directory::find(worker, name)? else {
        return Ok(None);
    };
    can_be(&named)?;
    let (word, at) = (named.offset | named.kind, sync_word(named.entry));
    // PAIRS WITH: pod::names::directory::read, pod::names::directory::read_dropped, pod::names::dropping::Identity::is_there
    let marked = at.compare_exchange_acquire(worker.mem(), word, word | DROPPED);
    marked.map_err(|_| Error::corrupt("a directory entry that changed under its lock, seen", named.entry))?;
    crash_point(Point::DropMarked);
    tell(worker);
    Ok(Some(named.entry))
}

/// How many structures were dropped.
///
/// Cost: a sync load.
pub fn count<M: Memory>(worker: &Worker<M>) -> u64 {
    DROPS.load(worker.mem())
}

/// Has all handles look whether theirs is the structure that was dropped.
fn tell<M: Memory>(worker: &Worker<M>) {
    if !mutant::is(Mutant::DropsUncounted) {
        // PAIRS WITH: pod::names::dropping::Check::is_fresh, pod::names::dropping::Check::look
        DROPS.fetch_add(worker.mem(), 1);
    }
}

/// The right to take a dropped structure apart.
pub struct Claim<'w, M: Memory> {
    worker: &'w Worker<M>,
    entry: Entry,
}

fn claimant(entry: u64) -> SyncWord {
    sync_word(entry + CLAIMANT_AT)
}

/// What a claim was asked for.
pub enum Claimed<'w, M: Memory> {
    /// A dropped structure. Others may use it still.
    Structure(Claim<'w, M>),
    /// One that another worker has claimed, which lives.
    ByAnother,
    /// An entry whose structure is gone, or that names another one by now.
    Over,
}

/// Claims a dropped structure.
///
/// Cost: two round trips; if the last claimant is dead, those of [`recovery::recover_dead`].
pub fn claim<'w, M: Memory>(worker: &'w Worker<M>, entry: &Entry) -> Result<Claimed<'w, M>> {
    let (mem, word) = (worker.mem(), claimant(entry.at));
    // PAIRS WITH: pod::names::dropping::claim, pod::names::dropping::Claim::drop
    let found = word.load(mem);
    if found != 0 && !is_over(worker, found)? {
        return Ok(Claimed::ByAnother);
    }
    // What the last claimant has done is complete, as each of its steps is an exchange that others rely on.
    // PAIRS WITH: pod::names::dropping::claim
    if word
        .compare_exchange_acquire(mem, found, worker.identity())
        .is_err()
    {
        return Ok(Claimed::ByAnother);
    }
    crash_point(Point::DropClaimed);
    let claim = Claim {
        worker,
        entry: entry.again(),
    };
    // The last claimant may have finished before. From here on nobody else changes the word.
    Ok(match directory::read_dropped(worker, entry.index) {
        Some(now) if now.offset == entry.offset && now.kind == entry.kind => Claimed::Structure(claim),
        Some(_) | None if mutant::is(Mutant::DropSeenBefore) => Claimed::Structure(claim),
        Some(_) | None => Claimed::Over,
    })
}

/// Whether the worker of an identity is dead, and all that it had begun is finished or undone.
fn is_over<M: Memory>(worker: &Worker<M>, identity: u64) -> Result<bool> {
    if !is_gone(worker, identity)? {
        return Ok(false);
    }
    if mutant::is(Mutant::DropDeadTrusted) {
        return Ok(true);
    }
    recovery::recover_dead(worker)?;
    let Some(index) = (identity as u32)
        .checked_sub(1)
        .filter(|&index| index < worker.geometry().parameters.workers)
    else {
        return Ok(true);
    };
    let state = State::decode(
        WorkerRecord::new(worker.geometry(), index)
            .state()
            .load(worker.mem()),
    );
    Ok(state.phase == Phase::Free || state.generation != (identity >> 32) as u32)
}

impl<M: Memory> Claim<'_, M> {
    /// The entry.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// What tells the structure from others that are dropped by this entry.
    pub fn number(&self) -> u64 {
        created(self.worker, self.entry.offset | self.entry.kind)
    }

    /// What nobody uses any more once it is [past](Claim::is_unused_since).
    pub fn epoch(&self) -> u64 {
        // The one that has marked it may have died before it told.
        tell(self.worker);
        EPOCH.load(self.worker.mem()) >> 1
    }

    /// Whether nobody uses the structure any more that has since an epoch when it was dropped already. Moves the epoch
    /// on, if it can be.
    ///
    /// Cost: a load for each worker, some round trips, and the recovery of the dead.
    pub fn is_unused_since(&self, epoch: u64) -> Result<bool> {
        let worker = self.worker;
        if self.entry.is_gone() || mutant::is(Mutant::DropUnwaited) {
            return Ok(true);
        }
        // Announcements of the dead are withdrawn when they are recovered, and the own one when it is made anew.
        recovery::recover_dead(worker)?;
        worker.announce_anew()?;
        let least = advance(worker);
        Ok(epoch + 1 < reclaimable_below(worker, least))
    }

    /// Waits until nobody uses the structure any more that has since an epoch when it was dropped already. `false` if
    /// somebody may do so after so many moments.
    pub fn wait_for_users(&self, epoch: u64, moments: u32) -> Result<bool> {
        for _ in 0..moments {
            if self.is_unused_since(epoch)? {
                return Ok(true);
            }
            self.worker.mem().rest(WAIT);
        }
        Ok(false)
    }

    /// Unlinks the structure, of which nothing but its header is left, and frees the entry.
    pub fn finish(self) -> Result<()> {
        let (worker, mem, at) = (self.worker, self.worker.mem(), sync_word(self.entry.at));
        let word = self.entry.offset | self.entry.kind | DROPPED;
        if !self.entry.is_gone() && at.load(mem) == word {
            let _hold = collect::begin_write(worker)?;
            let _pin = worker.pin()?;
            // Nobody else changes the word until the claim is over, or this worker is recovered: so it says whether
            // this has happened.
            let change = Change {
                slot: at,
                current: word,
                next: if mutant::is(Mutant::DropGoneAtOnce) {
                    0
                } else {
                    GONE
                },
                operation: operation::REMOVE,
                old: self.entry.offset,
                count: None,
            };
            if !publish(worker, &change)?.is_made() {
                return Err(Error::corrupt(
                    "a dropped entry that changed, seen",
                    self.entry.at,
                ));
            }
            crash_point(Point::DropUnlinked);
        }
        // PAIRS WITH: pod::names::directory::free_entry
        let _ = at.compare_exchange_acquire(mem, GONE, 0);
        Ok(())
    }
}

impl<M: Memory> Drop for Claim<'_, M> {
    fn drop(&mut self) {
        if !self.worker.is_forked() {
            // PAIRS WITH: pod::names::dropping::claim
            let _ = claimant(self.entry.at).compare_exchange_acquire(
                self.worker.mem(),
                self.worker.identity(),
                0,
            );
        }
    }
}
