//! What waits for readers: which workers hold reclamation back, since when, and how much waits.
//!
//! The epoch is advanced only if all workers that read have announced it, so it is at most one ahead of a worker that
//! reads for long, and does not tell for how long. So the first worker that wants to advance an epoch and cannot writes
//! down when that was (`HELD_BACK`: seconds since 1970 in the high half, the low half of that epoch below). The note is
//! about the present epoch, or says nothing: nobody has to clear it. It is for people; nothing depends on it. A crash
//! leaves it or not.

use super::retire;
use crate::error::Result;
use crate::memory::Memory;
use crate::pod::alloc::slab::locate;
use crate::pod::format::record::{IDLE, Phase, State, WorkerRecord};
use crate::pod::format::superblock::{EPOCH, HELD_BACK};
use crate::pod::instance::advance::{advance, least};
use crate::pod::instance::worker::Worker;

/// A worker that has been reading since before the present epoch.
#[derive(Clone, Copy, Debug)]
pub struct Laggard {
    /// Its place.
    pub index: u32,
    /// The state of its record.
    pub state: State,
}

/// Objects, and the bytes that they occupy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Amount {
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Retired objects that are not free.
#[derive(Clone, Debug, Default)]
pub struct Backlog {
    /// Workers that hold the epoch back.
    pub laggards: Vec<Laggard>,
    /// When that was noticed first, in seconds since 1970; `None` if no worker does.
    pub since: Option<u64>,
    /// All that is retired.
    pub retired: Amount,
    /// What of it is not reclaimable: readers may hold it.
    pub unreclaimable: Amount,
}

/// Scans all workers. Advances the epoch as far as possible, so that the workers that hold it back show.
pub fn inspect<M: Memory>(worker: &Worker<M>) -> Result<Backlog> {
    let mem = worker.mem();
    let least = match worker.pod().is_reader() {
        // This advances nothing: a worker that began to read lately is at most one behind.
        true => least(worker),
        // After the first, a worker that reads now is at most one behind; the second finds out.
        false => {
            advance(worker);
            advance(worker)
        }
    };
    let now = EPOCH.load(mem) >> 1;
    let mut backlog = Backlog::default();
    for (index, state) in worker.pod().attached_workers() {
        let announced = WorkerRecord::new(worker.geometry(), index).announced().load(mem);
        if state.phase == Phase::Alive && announced != IDLE && announced < now {
            backlog.laggards.push(Laggard { index, state });
        }
    }
    let noted = HELD_BACK.load(mem);
    if !backlog.laggards.is_empty() && noted as u32 == now as u32 {
        backlog.since = Some(noted >> 32);
    }
    // Chunks that leave lists meanwhile stay intact while this reads.
    let _pin = worker.pin()?;
    for index in 0..worker.pod().workers_high() {
        let record = WorkerRecord::new(worker.geometry(), index);
        let (mut retired, mut unreclaimable) = (Amount::default(), Amount::default());
        let walked = retire::pending_tagged(worker, record, |object, tag| {
            // An entry of a moment ago, whose object has another owner by now, is counted as what it is now.
            let bytes = locate(worker, object).map_or(0, |place| place.capacity());
            let mut amounts = vec![&mut retired];
            if tag.peek_speculative(mem) >= least.saturating_sub(1) {
                amounts.push(&mut unreclaimable);
            }
            for amount in amounts {
                amount.objects += 1;
                amount.bytes += bytes;
            }
        });
        // A list that its owner changes meanwhile may look odd; its figures are then left out.
        if walked.is_ok() {
            backlog.retired.add(retired);
            backlog.unreclaimable.add(unreclaimable);
        }
    }
    Ok(backlog)
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}
