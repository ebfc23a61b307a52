//! `fsck` of a pool that others may be writing to. While others write, a pass may report their changes as damage.
//! `fsck` therefore repeats it. A finding is certain if two passes in a row agree and nobody was seen to write.
//!
//! **Alone.** `fsck` compares counts only if no other process and no other thread of this one had the pool open from
//! the beginning of the pass to its end; generations of entries show those that came and left. A repair makes certain
//! of that ([`repair`]).
//!
//! **Stopped.** A process that is stopped in the middle of something is not seen to write, and two passes find the
//! same. So the audit accepts what the protocols allow in the middle of something; and while the allocator's lock is
//! held, or a redo log is committed, nothing is certain.

use std::rc::Rc;
use std::time::Duration;

use super::fsck::{FsckReport, audit};
use super::pool::Pool;
use crate::error::Result;
use crate::memory::Memory;
use crate::pod::Worker;
use crate::pod::format::class::CLASSES;
use crate::pod::format::record::{Phase, State, WorkerRecord};
use crate::pod::format::superblock::{COMMITTED, EPOCH, HEAP_LOCK, HOLES};
use crate::pod::instance::repair;
use crate::pod::lock::{self, redo};
use crate::pod::reclaim::collect;

/// The most passes of `fsck` over a pool that others have open.
const PASSES_MAX: u32 = 5;
/// Milliseconds for which a repair waits for recoveries.
const RECOVERY_POLLS: u32 = 1000;

impl<M: Memory> Pool<M> {
    /// Checks the pool, and changes nothing of what it finds.
    ///
    /// What others write during a pass may look like damage. A pass that finds something wrong while others have the
    /// pool open is repeated, up to five passes, until nothing is wrong, or two passes in a row, during which no writes
    /// are seen, find the same. Else the report is [uncertain](FsckReport::is_uncertain). What depends on counts, as a
    /// map's length, is checked only while nobody else is there.
    ///
    /// Cost: it reads all of the pool that is in use, once for each pass.
    ///
    /// Errors: [`Error::Repairing`](crate::Error::Repairing).
    pub fn fsck(&self) -> Result<FsckReport> {
        self.check(false)
    }

    /// Checks the pool as [`Pool::fsck`] does, replaces damaged names, clears damaged words of vacant records, and
    /// frees what is leaked, unless there are other problems: then what seems leaked may belong to what cannot be read.
    /// Repairs only while no other process has the pool open, and no other thread of this one uses it. Until it is
    /// done, nobody can open the pool or use it in another thread: that is
    /// [`Error::Repairing`](crate::Error::Repairing).
    ///
    /// Cost: as of [`Pool::fsck`].
    ///
    /// Errors: [`Error::RepairRefused`](crate::Error::RepairRefused) if it cannot have the pool alone,
    /// [`Error::Repairing`](crate::Error::Repairing).
    pub fn fsck_and_repair(&self) -> Result<FsckReport> {
        self.check(true)
    }

    fn check(&self, repair: bool) -> Result<FsckReport> {
        let worker = self.worker()?;
        worker.pod().forget_failures();
        let _alone = repair.then(|| repair::begin(&worker)).transpose()?;
        collect::collect_all(&worker)?;
        if repair {
            await_recoveries(&worker);
        }
        let mut passes = Passes::default();
        loop {
            let Pass {
                mut report,
                was_alone,
            } = pass(&worker, repair)?;
            if passes.are_enough(&mut report, was_alone) {
                return Ok(report);
            }
        }
    }
}

/// Waits until the background thread has recovered the dead that it has begun to recover: it may have claimed one after
/// the caller had counted who is there, and what it frees is not leaked. Not for ever, as a damaged pool may keep it
/// from coming to an end.
fn await_recoveries<M: Memory>(worker: &Worker<M>) {
    let is_recovering = |(_, state): &(u32, State)| state.phase == Phase::Recovering;
    for _ in 0..RECOVERY_POLLS {
        if !worker.pod().attached_workers().iter().any(is_recovering) {
            return;
        }
        worker.mem().rest(Duration::from_millis(1));
    }
}

/// Passes over a pool that others write to. Not all writes show in [`written`]: an object may be put, retired and
/// recycled in between.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// How many passes there were.
    count: u32,
    /// What the last pass found wrong.
    last: Option<(Vec<String>, Vec<u64>, u64)>,
}

impl Passes {
    /// Whether no further pass is needed. What no two passes in a row have found is uncertain, unless nobody else was
    /// there.
    pub(super) fn are_enough(&mut self, report: &mut FsckReport, is_alone: bool) -> bool {
        self.count += 1;
        let found = (
            report.problems.clone(),
            report.leaked.clone(),
            report.leaked_bytes,
        );
        let is_same = is_alone || self.last.replace(found.clone()) == Some(found);
        let is_certain = is_same && !report.is_uncertain;
        report.is_uncertain |= !is_same && !report.is_clean();
        report.is_clean() || is_certain || self.count == PASSES_MAX
    }
}

/// Who else has the pool open, or died in it: the states of their entries. A place that changes hands has another
/// generation.
#[derive(PartialEq, Eq)]
struct Company {
    processes: Vec<(u32, State)>,
    threads: Vec<(u32, State)>,
}

impl Company {
    fn of<M: Memory>(worker: &Worker<M>) -> Self {
        let pod = worker.pod();
        let others = pod.other_threads(worker);
        let threads = pod.attached_workers().into_iter();
        Self {
            // Those that are free, too: somebody may come and go between.
            processes: pod.entries().filter(|&(index, _)| index != pod.index()).collect(),
            threads: threads.filter(|(index, _)| others.contains(index)).collect(),
        }
    }

    /// How many processes there are.
    fn others(&self) -> u32 {
        let is_taken = |(_, entry): &&(u32, State)| entry.phase != Phase::Free;
        self.processes.iter().filter(is_taken).count() as u32
    }
}

/// What one pass has found.
pub(super) struct Pass {
    pub(super) report: FsckReport,
    /// Whether nobody else was there at any time.
    pub(super) was_alone: bool,
}

/// Looks at the pool once.
pub(super) fn pass<M: Memory>(worker: &Rc<Worker<M>>, repair: bool) -> Result<Pass> {
    if repair {
        // A process that comes meanwhile shows for a moment, and is refused.
        let mut report = audit(worker, true, true)?;
        report.is_uncertain = false;
        return Ok(Pass {
            report,
            was_alone: true,
        });
    }
    let before = Company::of(worker);
    let is_alone = before.others() == 0 && before.threads.is_empty();
    let mut report = audit(worker, is_alone, false)?;
    let after = Company::of(worker);
    report.other_processes = after.others();
    let is_as_before = after == before;
    // A process that came meanwhile was not counted.
    report.is_uncertain |= is_alone && !is_as_before;
    Ok(Pass {
        report,
        was_alone: is_alone && is_as_before,
    })
}

/// What changes in the records of other workers while they write: what they have reserved, retired, and named, and what
/// they did last: which slot, what it was to hold, the count. All of it may be the same again only once what they have
/// retired is free, for which the epoch moves.
pub(super) fn written<M: Memory>(worker: &Worker<M>) -> Vec<u64> {
    let mem = worker.mem();
    let records = (0..worker.pod().workers_high()).map(|index| WorkerRecord::new(worker.geometry(), index));
    let others = records.filter(|record| *record != worker.record());
    others
        .flat_map(|record| {
            let reserves = (0..CLASSES).map(move |class| record.reserve(class));
            // An object of a magazine is in no reserve: of who puts one that is new in a map these alone tell.
            let operation = [
                record.operation(),
                record.slot(),
                record.expected(),
                record.counter(),
                record.count(),
                record.new_object(),
                record.old_object(),
            ];
            let named = [
                record.head(),
                record.freeing(),
                record.freeing_which(),
                record.tail(),
                record.spare(),
                record.retiring(),
                record.root(),
                record.root_level(),
                record.aux_object(),
            ];
            let further = record.secondaries().into_iter().chain(record.old_secondaries());
            operation.into_iter().chain(named).chain(further).chain(reserves)
        })
        .map(|word| word.peek_speculative(mem))
        .chain([EPOCH, COMMITTED, HOLES].map(|word| word.load(mem)))
        .collect()
}

/// Whether somebody else is changing what the allocator's lock guards, or has died at it: by the lock, and by redo
/// logs, of which who is stopped may have applied a part.
pub(super) fn is_changing<M: Memory>(worker: &Worker<M>) -> bool {
    let mem = worker.mem();
    let owner = HEAP_LOCK.load(mem);
    // A word that names nobody is damaged, and keeps nobody.
    let is_held =
        owner != 0 && owner != worker.identity() && matches!(lock::is_gone(worker, owner), Ok(false));
    let mut records =
        (0..worker.pod().workers_high()).map(|index| WorkerRecord::new(worker.geometry(), index));
    is_held || records.any(|record| redo::is_committed(mem, record))
}
