//! The pool's retired lists when a write was refused for which there was room: their owners, and whether they are
//! reclaimable.

use cenote::memory::Memory;
use cenote::pod::alloc::slab::locate;
use cenote::pod::format::record::{IDLE, State, WorkerRecord};
use cenote::pod::format::superblock::EPOCH;
use cenote::pod::instance::advance::least;
use cenote::pod::{Worker, reclaim::retire};
use serde::{Deserialize, Serialize};

/// A place in the worker table whose list is not empty, or which holds reclamation back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct List {
    /// The number of the place.
    pub place: u32,
    /// Its state: free, alive or recovering; and the process.
    pub state: String,
    /// Whether its worker was in an operation that writes.
    pub is_busy: bool,
    /// Epochs that its announcement is behind; none if it reads nothing.
    pub behind: Option<u64>,
    /// Bytes that wait.
    pub bytes: u64,
    /// Those that no reader can hold.
    pub reclaimable_bytes: u64,
    /// Whether the list begins with such.
    pub begins_reclaimable: bool,
}

/// All that wait or are waited for, as they are found one after the other.
pub fn all<M: Memory>(worker: &Worker<M>) -> cenote::Result<Vec<List>> {
    let mem = worker.mem();
    let _pin = worker.pin()?;
    let (now, least) = (EPOCH.load(mem) >> 1, least(worker));
    let mut found = Vec::new();
    for place in 0..worker.pod().workers_high() {
        let record = WorkerRecord::new(worker.geometry(), place);
        let announced = record.announced().load(mem);
        let mut list = List {
            place,
            state: format!("{:?}", State::decode(record.state().load(mem))),
            is_busy: record.busy().load(mem) != 0,
            behind: (announced != IDLE).then(|| now.saturating_sub(announced)),
            bytes: 0,
            reclaimable_bytes: 0,
            begins_reclaimable: false,
        };
        // A list that changes meanwhile may look odd.
        let _ = retire::pending_tagged(worker, record, |object, tag| {
            let size = locate(worker, object).map_or(0, |place| place.capacity());
            let is_reclaimable = tag.peek(mem) + 1 < least;
            list.begins_reclaimable |= list.bytes == 0 && is_reclaimable;
            list.bytes += size;
            list.reclaimable_bytes += if is_reclaimable { size } else { 0 };
        });
        if list.bytes > 0 || list.behind.is_some_and(|epochs| epochs > 1) {
            found.push(list);
        }
    }
    Ok(found)
}
