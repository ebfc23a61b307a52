//! Room: what an operation does when it finds the pool full. It has published nothing: it gives back what it has
//! allocated, ends its pin, so that what was retired lately can become reclaimable, collects its own and others'
//! garbage, and tries again.
//!
//! It waits for others only while garbage waits that [would make room](super::would_fit), together with what is free:
//! for readers to end, a guard of the caller's own among them, and for hosts to flush. It waits a bounded number of
//! times, on incoherent memory for more of them as long as it sees epochs and flush rounds move on: there each process
//! drops all lines of what waits from its cache, which takes long for some hundred MiB where processors are few.

use std::time::Duration;

use super::{collect, flush, takeover, would_fit};
use crate::causes::Shortage;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::alloc::orphans::reclaim_empty_blocks;
use crate::pod::instance::worker::Worker;

/// Attempts of one operation after the first, at most: what each of them frees, others may take.
const ATTEMPTS_MAX: u32 = 256;
/// Attempts that freed nothing while nothing moved on, at most: in all a second, plus the attempts' own time; on
/// incoherent memory two, as the first check of progress has nothing to compare with and counts as progress.
const WAITS_MAX: u32 = 64;
/// Attempts that freed nothing, at most, whatever moves on: in all four seconds.
const WAITS_OF_ALL_MAX: u32 = 160;
/// Scans in a row that must find too little garbage before the operation stops waiting: a list that moves during a scan
/// is not counted.
const SCANS_MAX: u32 = 3;
/// Attempts that freed no object but gave empty blocks back before that counts for no more than one attempt: the
/// attempts themselves may take and leave these blocks.
const BLOCKS_MAX: u32 = 32;
/// Attempts that freed only what idle workers had reserved before that counts as nothing: they may reserve it again
/// between two writes.
const WITHDRAWALS_MAX: u32 = 4;
/// The wait between two attempts that freed nothing: about half of what a background thread sleeps between flush
/// rounds.
const MOMENT: Duration = Duration::from_micros(500);
/// The wait after [`SHORT_WAITS`]: a worker that holds memory may wait for a processor.
const LONG_MOMENT: Duration = Duration::from_millis(30);
/// Waits of a short moment.
const SHORT_WAITS: u32 = 32;
/// Waits after each of which all blocks, and what waits in them, are scanned; later waits scan only now and then: a
/// scan costs a round trip or two a block.
const WATCHFUL_WAITS: u32 = 4;
/// Of the later waits, one in this many scans all blocks, and so does the last.
const WALK_EVERY: u32 = 8;

/// The attempts of one operation.
pub struct Room<'w, M: Memory> {
    worker: &'w Worker<M>,
    attempts: u32,
    waits: u32,
    /// Waits since something moved on.
    waits_in_vain: u32,
    /// What was reached at the last check.
    reached: u64,
    /// The last scans in a row that found that what waits would not be enough.
    vain_scans: u32,
    /// Attempts for which cells reserved by idle workers counted as room.
    withdrawals: u32,
    /// Whether the last scan of all blocks found empty ones.
    had_blocks: bool,
}

/// Tries an operation until it succeeds, as long as room can be made for it. An attempt that fails gives back what it
/// had allocated.
pub fn with_room<M: Memory, T>(worker: &Worker<M>, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut room = Room::new(worker);
    loop {
        match attempt() {
            Err(error) => room.make_after(error)?,
            done => return done,
        }
    }
}

impl<'w, M: Memory> Room<'w, M> {
    /// Before the first attempt.
    #[inline(always)]
    pub fn new(worker: &'w Worker<M>) -> Self {
        Self {
            worker,
            attempts: 0,
            waits: 0,
            waits_in_vain: 0,
            reached: 0,
            vain_scans: 0,
            withdrawals: 0,
            had_blocks: false,
        }
    }

    /// Makes room after an attempt that failed with this error, if the pool was full and there may be room now: then
    /// the caller must try the operation again. Else returns the error. The caller has given back what it had
    /// allocated, and is in no pin of this operation.
    #[cold]
    pub fn make_after(&mut self, error: Error) -> Result<()> {
        match error {
            Error::Full { needed, why, .. }
                if self.make(
                    needed,
                    !matches!(why, Shortage::FileSystem | Shortage::FileSizeLimit),
                )? =>
            {
                Ok(())
            }
            error => Err(error),
        }
    }

    fn make(&mut self, needed: u64, may_grow: bool) -> Result<bool> {
        let had = self.attempts;
        self.attempts += 1;
        let has_waited = self.waits_in_vain >= WAITS_MAX || self.waits >= WAITS_OF_ALL_MAX;
        if had >= ATTEMPTS_MAX || has_waited || mutant::is(Mutant::FullAtOnce) {
            return Ok(false);
        }
        self.worker.alloc.is_thorough.set(true);
        let walks = self.walks();
        let made = make_some(self.worker, walks)?;
        if made.objects > 0 || had == 0 {
            return Ok(true);
        }
        if made.withdrawn > 0 && self.withdrawals < WITHDRAWALS_MAX {
            self.withdrawals += 1;
            return Ok(true);
        }
        if mutant::is(Mutant::FullUnwaited) {
            return Ok(false);
        }
        if walks {
            let is_last_scan = self.vain_scans + 1 == SCANS_MAX;
            self.vain_scans = match would_fit::would_fit(self.worker, needed, may_grow, is_last_scan)? {
                true => 0,
                false => self.vain_scans + 1,
            };
        }
        self.waits += 1;
        self.waits_in_vain += 1;
        if let Some(frames) = made.frames {
            self.had_blocks = frames > 0;
        }
        let has_blocks = self.had_blocks && (self.waits < BLOCKS_MAX || walks);
        let waits = self.vain_scans < SCANS_MAX || has_blocks;
        if waits {
            let is_late = self.waits > SHORT_WAITS;
            if is_late && !M::COHERENT {
                let reached = flush::reached(self.worker);
                if std::mem::replace(&mut self.reached, reached) != reached {
                    self.waits_in_vain = 0;
                }
            }
            self.worker.mem().rest(if is_late { LONG_MOMENT } else { MOMENT });
        }
        Ok(waits)
    }

    /// Whether the next attempt scans all blocks, even if it frees nothing.
    fn walks(&self) -> bool {
        let is_last = self.waits_in_vain + 1 == WAITS_MAX || self.waits + 1 == WAITS_OF_ALL_MAX;
        let is_regular = self.waits < WATCHFUL_WAITS || self.waits.is_multiple_of(WALK_EVERY);
        is_regular || is_last || self.vain_scans > 0
    }
}

impl<M: Memory> Drop for Room<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if self.attempts != 0 {
            self.worker.alloc.is_thorough.set(false);
        }
    }
}

/// What was freed.
struct Made {
    /// Objects that were freed.
    objects: u64,
    /// Idle workers whose reserves were given back.
    withdrawn: u32,
    /// Frames of empty blocks that were given back, if it searched for them.
    frames: Option<u64>,
}

/// Frees what can be freed, and gives empty blocks back.
pub(in crate::pod) fn make_room<M: Memory>(worker: &Worker<M>) -> Result<()> {
    make_some(worker, true).map(drop)
}

/// Frees what can be freed; searches for empty blocks if that was something, or if `walks`.
fn make_some<M: Memory>(worker: &Worker<M>, walks: bool) -> Result<Made> {
    let _hold = worker.hold_list()?;
    let objects = collect::free_all(worker)?;
    let withdrawn = match objects == 0 && walks {
        true => takeover::withdraw_reserves(worker)?,
        false => 0,
    };
    let frames = match objects > 0 || walks {
        true if mutant::is(Mutant::EmptyBlocksKept) => Some(0),
        true => Some(reclaim_empty_blocks(worker, worker.actor())?),
        false => None,
    };
    Ok(Made {
        objects,
        withdrawn,
        frames,
    })
}
