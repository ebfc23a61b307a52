//! How the downconvert thread of a process learns which of the process's directory locks other nodes ask for, however
//! many it has open.
//!
//! The process's entry in the pool has an event count, on which the downconvert thread sleeps, and a set of [`BITS`]
//! bits. A lock's offset says which bit is the lock's; several locks may share one.
//!
//! | who | when | does |
//! |---|---|---|
//! | the thread that changes a lock's entry | another node's process is asked for the lock now | sets the lock's bit, then notifies the event count |
//! | the downconvert thread | | prepares to wait, takes the set, which is empty then, and polls the locks whose bits it has; if there are none, it sleeps |
//!
//! The downconvert thread that has not found a bit has prepared to wait before the bit was set, so the notification
//! wakes it. **A crash** between the change and the notification leaves a lock of which the downconvert thread is not
//! told: it finds that by the scan of all locks that it makes now and then. A bit that says nothing, of another process
//! that had the entry before, say, costs a poll.

use super::layout::Layout;
use super::node::Node;
use crate::memory::{LINE, Memory};
use crate::mutant::{self, Mutant};
use crate::pod::format::record::ProcessRecord;
use crate::pod::instance::event_count;
use crate::pod::{Pod, Worker};

/// How many bits the set has.
pub const BITS: usize = 256;
const WORDS: usize = BITS / 64;

/// Some of the bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked([u64; WORDS]);

impl Asked {
    /// Which bits are set.
    pub fn bits(self) -> impl Iterator<Item = usize> {
        (0..BITS).filter(move |bit| self.0[bit / 64] & 1 << (bit % 64) != 0)
    }

    /// Whether none is set.
    pub fn is_empty(self) -> bool {
        self.0 == [0; WORDS]
    }
}

/// The bit of a lock.
pub fn bit(layout: Layout) -> usize {
    // Locks of one size lie at even distances: Fibonacci hashing spreads them.
    let spread = (layout.offset() / LINE).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - BITS.ilog2())) as usize
}

/// Notifies a node's process that it is asked for a lock. Its downconvert thread already sees that in the entry.
///
/// Cost: three round trips; an exchange and a system call more if the downconvert thread sleeps.
pub fn notify<M: Memory>(worker: &Worker<M>, layout: Layout, node: Node) {
    let mem = worker.mem();
    // If the node has left meanwhile, it is another one's bit, or nobody's.
    // PAIRS WITH: sync::directory::driver::claim
    let process = layout.process(node).load(mem);
    let place = u32::from(process as u16).checked_sub(1);
    let Some(place) = place.filter(|place| *place < worker.geometry().parameters.processes) else {
        return;
    };
    let (record, bit) = (ProcessRecord::new(worker.geometry(), place), bit(layout));
    if !mutant::is(Mutant::DirectoryAskedNotMarked) {
        // PAIRS WITH: sync::directory::asked::take
        record.asked_locks()[bit / 64].fetch_or(mem, 1 << (bit % 64));
    }
    event_count::notify_waiting(mem, record.lock_events());
}

/// The bits that were set since they were taken last, by the process's downconvert thread.
///
/// Cost: four round trips, and one for each word with a bit.
pub fn take<M: Memory>(worker: &Worker<M>) -> Asked {
    let mem = worker.mem();
    Asked(own(worker.pod()).asked_locks().map(|word| {
        // PAIRS WITH: sync::directory::asked::notify
        match word.load(mem) {
            0 => 0,
            // PAIRS WITH: sync::directory::asked::notify
            _ => word.swap(mem, 0),
        }
    }))
}

/// The process's downconvert thread is about to sleep: see [`event_count::prepare_wait`].
pub fn prepare_wait<M: Memory>(worker: &Worker<M>) -> (u64, u32) {
    event_count::prepare_wait(worker.mem(), own(worker.pod()).lock_events())
}

/// Wakes the process's own downconvert thread.
pub fn wake_downconvert_thread<M: Memory>(pod: &Pod<M>) {
    event_count::notify_waiting(pod.mem(), own(pod).lock_events());
}

fn own<M: Memory>(pod: &Pod<M>) -> ProcessRecord {
    ProcessRecord::new(pod.geometry(), pod.index())
}
