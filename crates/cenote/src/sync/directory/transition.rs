//! Changes of a directory lock's entry in a pool.
//!
//! There are two copies of the entry, and a number that says which is valid. A change is made under the entry's own
//! lock, one of [`pod::lock`](crate::pod::lock), which survives its owner: the copy that is not valid is written, then
//! the number counted on. So **a crash** at any step leaves the entry as it was or as it is to be; the next worker that
//! takes the lock from the dead one has nothing to finish. Readers take no lock: they read the number, the copy, and
//! the number again.
//!
//! Threads whose node has got something, or is asked for something, are notified after the change. A worker that dies
//! before that leaves sleepers: they read the entry again by themselves.

use super::asked;
use super::layout::Layout;
use super::node::Nodes;
use super::state::State;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::instance::event_count;
use crate::pod::{Worker, lock};

/// An entry and the number of its changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRead {
    /// How often it had been changed.
    pub number: u64,
    /// The entry.
    pub state: State,
}

/// The entry as it is.
///
/// Cost: three round trips, more while others change it.
pub fn read<M: Memory>(worker: &Worker<M>, layout: Layout) -> Result<EntryRead> {
    let mem = worker.mem();
    // PAIRS WITH: sync::directory::transition::change
    let mut number = layout.number().load(mem);
    loop {
        let words = layout.copy(number).fetch(mem);
        // PAIRS WITH: sync::directory::transition::change
        let now = layout.number().load(mem);
        if now == number || mutant::is(Mutant::DirectoryEntryNotReread) {
            return decode(layout, number, words);
        }
        number = now;
    }
}

fn decode(layout: Layout, number: u64, words: [u64; 8]) -> Result<EntryRead> {
    let is_of_lock = |state: &State| state.nodes().iter().all(|node| node.number() < layout.nodes());
    match State::decode(words).filter(is_of_lock) {
        Some(state) => Ok(EntryRead { number, state }),
        None => Err(Error::corrupt(
            "the entry of a directory lock",
            layout.copy_at(number),
        )),
    }
}

/// Changes the entry by a function, and notifies the nodes that the change concerns. Returns the entry as it is then,
/// and what the function returned.
///
/// Cost: eight round trips, and three if another node is asked for the lock; two less if nothing changes. The wait for
/// who changes the entry now.
pub fn change<M: Memory, R>(
    worker: &Worker<M>,
    layout: Layout,
    with: impl FnOnce(&mut State) -> Result<R>,
) -> Result<(EntryRead, R)> {
    let mem = worker.mem();
    let held = lock::acquire(worker, layout.lock())?;
    let before = read(worker, layout)?;
    let mut state = before.state.clone();
    let result = with(&mut state)?;
    if state == before.state {
        return Ok((before, result));
    }
    let number = before.number.wrapping_add(1);
    crash_point(Point::DirectoryDecided);
    let copy = match mutant::is(Mutant::DirectoryEntryInPlace) {
        true => layout.copy(before.number),
        false => layout.copy(number),
    };
    // PAIRS WITH: sync::directory::transition::read
    copy.store_line(mem, state.encode());
    crash_point(Point::DirectoryWritten);
    // PAIRS WITH: sync::directory::transition::read, sync::directory::driver::poll, sync::directory::node_handle::sleep
    layout.number().store(mem, number);
    crash_point(Point::DirectoryChanged);
    drop(held);
    crash_point(Point::DirectoryNotNotified);
    for node in concerned(&before.state, &state).iter() {
        if state.is_asked(node) {
            asked::notify(worker, layout, node);
        }
        event_count::notify_waiting(mem, layout.event_count(node));
    }
    Ok((EntryRead { number, state }, result))
}

/// The nodes that have got something by a change, or are asked for something.
fn concerned(before: &State, after: &State) -> Nodes {
    let nodes = after.nodes().iter();
    let is_concerned = |node: &super::node::Node| {
        before.entry.permission(*node) != after.entry.permission(*node)
            || before.is_asked(*node) != after.is_asked(*node)
    };
    nodes.filter(is_concerned).collect()
}
