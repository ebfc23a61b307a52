//! Draining: what a dead process has left in its host's cache reaches memory before anybody acts on its death.
//!
//! Only on incoherent memory. A killed process leaves lines in its host's cache that it had written and not written
//! back. While the host goes on they may be written back at any later time, over what others have made of that memory
//! since: a replayed redo log is committed again, a record that was taken over has its old words, a name or an object
//! that has another owner is overwritten. Nobody knows which lines these are; the host writes back all that it has. So
//! the whole pool is written back and dropped, as by a process that joins: each death costs what opening the pool
//! costs.
//!
//! | who died | who drains | when |
//! |---|---|---|
//! | a process of this host, or of a machine on its own | any process that finds it dead by the kernel's lock, the host's agent at the latest | before the death is acted on |
//! | a thread alone | its recoverer, of the same process | before it claims the record |
//! | a whole host | nobody: its cache is lost before its generation moves | |
//! | all processes of a host that is being fenced, says its kernel | the agent that ends the generation by itself | before it does |
//!
//! **Who writes.** `declared` in the entry of the dead process holds the last generation of the place of which nothing
//! can be written back any more. A process that has drained writes it by compare-exchange, and only to a later
//! generation. Other hosts count a process as dead only when it stands there.
//!
//! **What a crash leaves** (`recover.drained`): lines that are in memory, and no declaration. The next process does it
//! again.

use super::crash::{Point, crash_point};
use super::process::Pod;
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::Geometry;
use crate::pod::format::host_entry;
use crate::pod::format::record::{Phase, ProcessRecord, State};
use crate::pod::format::superblock::COMMITTED;

/// Writes all of a pool that this host's cache holds back to memory, and drops it from the cache.
///
/// Cost: a flush of every committed line.
pub(in crate::pod) fn drop_cached<M: Memory>(mem: &M, geometry: &Geometry) {
    if !M::COHERENT {
        let committed = COMMITTED.load(mem).min(geometry.parameters.max_frames);
        // If the number is damaged, nothing of the data is dropped: bytes that the file does not have must not be
        // touched.
        let is_backed = mem.is_backed(geometry.frame_offset(committed));
        for (at, len) in geometry.ranges(if is_backed { committed } else { 0 }) {
            mem.invalidate(at, len);
        }
        mem.fence();
    }
}

/// Drains what the process of an entry, which was just seen to be dead, has left, unless that is done; then the death
/// may be acted on.
///
/// Cost: one round trip, for a process of this host; the first time a flush of every committed line.
pub(in crate::pod) fn drain<M: Memory>(pod: &Pod<M>, index: u32, entry: State) -> Result<()> {
    if M::COHERENT || entry.phase == Phase::Free || !pod.is_judged_by_lock(entry) {
        return Ok(());
    }
    let mem = pod.mem();
    let declared = ProcessRecord::new(pod.geometry(), index).declared();
    let before = declared.load(mem);
    let declaration = host_entry::declaration(entry.generation);
    if before == declaration {
        return Ok(());
    }
    // Checked after the death was seen: so the death came before the fence, if there is to be one.
    let may_declare = pod.may_recover()?;
    if !mutant::is(Mutant::DeadNotDrained) {
        drop_cached(mem, pod.geometry());
    }
    crash_point(Point::RecoverDrained);
    let is_later = before == 0 || (entry.generation.wrapping_sub(before as u32) as i32) > 0;
    if may_declare && is_later {
        // All is in memory: the fence waited for it.
        // PAIRS WITH: pod::format::host_entry::is_declared
        let _ = declared.compare_exchange_acquire(mem, before, declaration);
        crash_point(Point::Declared);
    }
    Ok(())
}
