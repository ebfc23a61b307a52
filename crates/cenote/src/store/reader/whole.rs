//! Reads of the whole pool: its figures, and `fsck`. Both take longer than an epoch may last, so they go on when it
//! moves, and report that.

use super::super::fsck::FsckReport;
use super::super::fsck_passes::{Pass, Passes, pass};
use super::super::stat::{Stat, stat};
use super::{Manner, Reader};
use crate::error::{Error, Result};
use crate::memory::{Memory, Snapshot};
use crate::pod::Worker;
use crate::pod::format::record::Phase;

/// The most passes over a pool that others write to.
const PASSES_MAX: u32 = 5;

/// Processes that have the pool open, and those that died and were not recovered.
fn processes<M: Memory>(worker: &Worker<Snapshot<M>>) -> (u32, u32) {
    let (mut living, mut dead) = (0, 0);
    for (index, state) in worker.pod().entries() {
        // A process whose state is unknown may live.
        let is_dead = || matches!(worker.pod().process_lives(index), Ok(false));
        match state.phase {
            Phase::Free => {}
            _ if is_dead() => dead += 1,
            _ => living += 1,
        }
    }
    (living, dead)
}

impl<M: Memory> Reader<M> {
    /// Reads the pool's figures, as [`Pool::stat`](crate::Pool::stat), without those that only a process with a place
    /// can know. Of a pool in use they may not fit together.
    pub fn stat(&self) -> Result<Stat> {
        let mut passes = 0;
        loop {
            let (figures, snapshot) =
                self.attempt(Manner::Whole, |worker| stat(worker, self.file_bytes()))?;
            passes += 1;
            match figures {
                Ok(figures) => {
                    return Ok(Stat {
                        without_place: true,
                        ..figures
                    });
                }
                Err(error) if passes == PASSES_MAX || snapshot.holds() => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Checks the pool as it is: as [`Pool::fsck`](crate::Pool::fsck), but recovers and frees nothing first. What dead
    /// workers had begun counts as held by them.
    ///
    /// A pass that finds something wrong while others have the pool open is repeated, as by
    /// [`Pool::fsck`](crate::Pool::fsck). It takes more memory than that: also for the keys and the pages of ordered
    /// maps.
    pub fn fsck(&self) -> Result<FsckReport> {
        let (mut passes, mut failed) = (Passes::default(), 0);
        loop {
            let (looked, snapshot) = self.attempt(Manner::Whole, |worker| {
                Ok::<_, Error>((pass(worker, false)?, processes(worker)))
            })?;
            let is_uncertain = !snapshot.holds();
            // What others change may have no end either, for once.
            if snapshot.is_exhausted() && (!snapshot.has_moved() || failed == PASSES_MAX) {
                return Err(self.endless());
            }
            match looked {
                Ok(_) if snapshot.is_exhausted() => failed += 1,
                Ok((Pass { report, was_alone }, (living, dead))) => {
                    let mut report = FsckReport {
                        other_processes: living,
                        unrecovered_processes: dead,
                        is_uncertain: is_uncertain || report.is_uncertain,
                        without_place: true,
                        ..report
                    };
                    if passes.are_enough(&mut report, was_alone) {
                        return Ok(report);
                    }
                }
                Err(error) if !is_uncertain || failed == PASSES_MAX => return Err(error),
                Err(_) => failed += 1,
            }
        }
    }
}
