//! Trimming: gives a pool's free memory back to the file system, on demand or by the background thread.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::pool::Pool;
use crate::error::{Error, Result};
use crate::memory::{MappingError, Memory};
use crate::pod::Worker;
use crate::pod::alloc::holes;
use crate::pod::alloc::orphans::reclaim_empty_blocks;
use crate::pod::format::geometry::FRAME;
use crate::pod::reclaim::collect::collect_all;

/// Attempts to punch holes that readers may be reading, before the rest is left to a later trim.
const ATTEMPTS: u32 = 100;
/// The pause between two attempts, after the first few.
const PAUSE: Duration = Duration::from_millis(1);
/// Pieces that the background thread gives back in one pass.
const PIECES_A_PASS: usize = 16;
/// The longest time between two passes of the background thread.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The result of a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TrimReport {
    /// Bytes that this trim gave back.
    pub newly_given_back_bytes: u64,
    /// Bytes that are set aside for a later trim, because of readers that read for long.
    pub waiting_bytes: u64,
    /// All bytes of the pool that have been given back, or wait for it.
    pub given_back_bytes: u64,
    /// Bytes for data that are still reserved.
    pub committed_bytes: u64,
    /// Bytes that the file takes on its file system.
    pub file_bytes: Option<u64>,
}

impl<M: Memory> Pool<M> {
    /// Gives free memory back to the file system, in pieces of 2 MiB; smaller free pieces stay. The memory is reserved
    /// again before it is used; if the file system has no room then, the pool is full. Waits a moment for readers.
    ///
    /// It is an error on incoherent memory, and where the file system cannot punch holes.
    ///
    /// Cost: as of [`Pool::collect`], a load for each block and free piece, and for each hole a transaction under the
    /// allocator's lock and a system call.
    pub fn trim(&self) -> Result<TrimReport> {
        let worker = self.worker()?;
        holes::check_support::<M>()?;
        collect_all(&worker)?;
        reclaim_empty_blocks(&worker, worker.actor())?;
        holes::mark_all(&worker, worker.limits().trim_order)?;
        let mut newly_given_back_bytes = 0;
        let mut waiting_bytes = 0;
        for attempt in 0..ATTEMPTS {
            let trimmed = match holes::punch_reclaimable(&worker, usize::MAX) {
                Err(error @ Error::Mapping(MappingError::Unsupported(_))) => {
                    // The holes still have their bytes.
                    for hole in holes::list(&worker)? {
                        holes::fill(&worker, hole.frame)?;
                    }
                    return Err(error);
                }
                other => other?,
            };
            newly_given_back_bytes += trimmed.given_back;
            waiting_bytes = trimmed.waiting;
            if waiting_bytes == 0 {
                break;
            }
            if attempt > 2 {
                worker.mem().rest(PAUSE);
            }
        }
        let given_back_bytes = holes::frames_in_holes(worker.mem()) * FRAME;
        Ok(TrimReport {
            newly_given_back_bytes,
            waiting_bytes,
            given_back_bytes,
            committed_bytes: (worker.committed_frames()? * FRAME).saturating_sub(given_back_bytes),
            file_bytes: self.file_bytes(),
        })
    }

    /// Bytes that the pool's file takes on its file system; `None` if it has lost its name.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        let file = std::fs::metadata(self.pod().path()).ok()?;
        Some(file.blocks() * 512)
    }
}

/// What the background thread remembers of free pieces.
#[derive(Debug, Default)]
pub(super) struct Trimmer {
    looked: Option<Instant>,
    free_since: BTreeMap<u64, Instant>,
}

impl Trimmer {
    /// The time between two passes.
    pub(super) fn interval(after: Duration) -> Duration {
        (after / 4).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
    }

    /// Gives back pieces that were free at every pass for so long, a few at a time.
    pub(super) fn tick<M: Memory>(&mut self, worker: &Worker<M>, after: Duration) -> Result<()> {
        let now = Instant::now();
        if self
            .looked
            .is_some_and(|at| now.duration_since(at) < Self::interval(after))
        {
            return Ok(());
        }
        self.looked = Some(now);
        let free = holes::free_pieces(worker, worker.limits().trim_order)?;
        self.free_since
            .retain(|frame, _| free.binary_search(frame).is_ok());
        for frame in free {
            self.free_since.entry(frame).or_insert(now);
        }
        let is_due = |(_, since): &(&u64, &Instant)| now.duration_since(**since) >= after;
        let due = self.free_since.iter().filter(is_due).map(|(&frame, _)| frame);
        let due: Vec<u64> = due.take(PIECES_A_PASS).collect();
        for frame in due {
            self.free_since.remove(&frame);
            holes::mark(worker, frame, worker.limits().trim_order)?;
        }
        holes::punch_reclaimable(worker, PIECES_A_PASS).map(drop)
    }
}
