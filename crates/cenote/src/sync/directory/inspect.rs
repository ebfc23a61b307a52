//! Who has a directory lock and who waits for it, for people to read.

use super::layout::Layout;
use super::node::Node;
use super::transition;
use crate::error::Result;
use crate::memory::Memory;
use crate::pod::Worker;
use crate::sync::Owner;
use crate::sync::inspect::{self, Holder, LockState};
use crate::sync::object::{LockKind, Object};

/// Reads the state of the lock at an offset. A process that keeps the lock is shown by its worker that asked for it
/// last.
///
/// Cost: three round trips, and two for each process that has the lock or waits for it; on coherent memory that of a
/// reader-writer lock.
pub fn inspect<M: Memory>(worker: &Worker<M>, at: u64) -> Result<LockState> {
    let layout = Layout::at(worker, at)?;
    if M::COHERENT {
        let seen = inspect::inspect(worker, Object::at(worker, layout.inner())?)?;
        return Ok(LockState {
            kind: LockKind::Directory,
            ..seen
        });
    }
    let mem = worker.mem();
    let state = transition::read(worker, layout)?.state;
    let holder = |node: Node| -> Result<Holder> {
        // PAIRS WITH: sync::directory::driver::ask
        let who = Owner::of(layout.asker(node).load(mem));
        let process = layout.process(node).load(mem);
        Ok(Holder {
            who,
            is_alive: !worker.pod().process_is_gone(process)?,
        })
    };
    let entry = &state.entry;
    let next = entry.holder().filter(|_| entry.owner().is_none());
    let waiting = next
        .into_iter()
        .chain(state.queue.requests().iter().map(|request| request.node));
    Ok(LockState {
        kind: LockKind::Directory,
        owner: entry.owner().map(holder).transpose()?,
        readers: entry.sharers().iter().map(holder).collect::<Result<_>>()?,
        waiting: waiting.map(holder).collect::<Result<_>>()?,
        note: layout.note().load(mem),
        transfers: Some(state.grants),
    })
}
