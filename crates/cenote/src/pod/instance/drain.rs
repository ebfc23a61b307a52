//! Draining: what a dead process has left in its host's cache reaches memory before anybody acts on its death.
//!
//! Only on incoherent memory. A process that is killed leaves lines in its host's cache that it had written and not written
//! back. While the host goes on they may be written back at any time later, over what others have made of that memory since: a redo
//! log that was replayed is committed again, a record that was taken over says what it said, a name or an object that was
//! given to somebody else is overwritten. What a host writes back is all that it has; which lines those are, nobody knows. So the
//! whole pool is written back and dropped, as by a process that joins: it costs what opening the pool costs, once a death.
//!
//! | who died | who drains | when |
//! |---|---|---|
//! | a process of this host, or of a machine on its own | whoever finds it dead by the kernel's lock, the host's agent at the latest | before the death counts for anything |
//! | a thread alone | who recovers it, of the same process | before it claims the record |
//! | a whole host | nobody: its cache is lost before its generation moves | |
//! | all processes of a host that is being fenced, says its kernel | the agent that ends the generation by itself | before it does |
//!
//! **Who writes.** `declared` in the entry of the dead: the generation of the place of which nothing can be written back any more.
//! Whoever has drained, by compare-exchange, and only to a later generation. Other hosts take a process for dead when it stands
//! there, and not before.
//!
//! **What a crash leaves** (`recover.drained`): lines that are in memory, and nobody who says so. The next one does it again.

use super::crash::{Point, crash_point};
use super::process::Pod;
use crate::error::Result;
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::format::geometry::Geometry;
use crate::pod::format::host;
use crate::pod::format::record::{Phase, ProcessRecord, State};
use crate::pod::format::superblock::COMMITTED;

/// Has all of a pool that this host's cache holds reach memory, and leave the cache.
///
/// Cost: a flush of every committed line.
pub(in crate::pod) fn drop_cached<M: Memory>(mem: &M, geometry: &Geometry) {
    if !M::COHERENT {
        let committed = COMMITTED.load(mem).min(geometry.parameters.max_frames);
        // A damaged number has nothing of the data dropped: what the file does not have must not be touched.
        let is_backed = mem.is_backed(geometry.frame_offset(committed));
        for (at, len) in geometry.ranges(if is_backed { committed } else { 0 }) {
            mem.invalidate(at, len);
        }
        mem.fence();
    }
}

/// Drains what the process of an entry has left, which was just seen to be dead, unless that is done; then the death may be acted on.
///
/// Cost: one round trip, for a process of this host; the first time a flush of every committed line.
pub(in crate::pod) fn drain<M: Memory>(pod: &Pod<M>, index: u32, entry: State) -> Result<()> {
    if M::COHERENT || entry.phase == Phase::Free || !pod.is_judged_by_lock(entry) {
        return Ok(());
    }
    let mem = pod.mem();
    let declared = ProcessRecord::new(pod.geometry(), index).declared();
    let before = declared.load(mem);
    let declaration = host::declaration(entry.generation);
    if before == declaration {
        return Ok(());
    }
    // Asked after the death was seen: then that came before the fence, if there is to be one.
    let may_declare = pod.may_recover()?;
    if !mutant::is(Mutant::DeadNotDrained) {
        drop_cached(mem, pod.geometry());
    }
    crash_point(Point::RecoverDrained);
    let is_later = before == 0 || (entry.generation.wrapping_sub(before as u32) as i32) > 0;
    if may_declare && is_later {
        // All is in memory: the fence has waited for it.
        // PAIRS WITH: pod::format::host::is_declared
        let _ = declared.compare_exchange_acquire(mem, before, declaration);
        crash_point(Point::Declared);
    }
    Ok(())
}
