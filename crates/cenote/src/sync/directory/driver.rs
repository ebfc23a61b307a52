//! Acting for a node of a directory lock: asking for the lock, learning what became of that, and giving the lock up
//! when another node asks.
//!
//! | step | the node | in the pool | a crash after it |
//! |---|---|---|---|
//! | ask | has less than a thread wants | the request stands in the queue, or the node is the next writer | the node is dead: those that wait take it out |
//! | learn | reads the entry; drops the regions' lines; its threads may enter | | as above |
//! | yield | no thread may enter any more; writes the regions back | the next nodes have the lock | they have it, and find it by themselves |
//!
//! A thread that waits checks now and then whether the nodes in front of its own are alive. If one is not, the thread
//! takes it out of the entry; if that one could write, its successor is told.

use super::cohort::{Cohort, Step};
use super::layout::Layout;
use super::node::{Node, Nodes};
use super::queue::Permission;
use super::state::State;
use super::transition::{self, EntryRead};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::instance::event_count;
use crate::pod::lock::{self, is_gone};

/// Regions up to this length are fetched when the lock is granted; of larger ones, lines are fetched when they are
/// used.
const FETCHED_AT_ONCE: u64 = 4096;

/// How much a driver does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// What is known to be due.
    Due,
    /// It reads the entry, if that has changed.
    Poll,
    /// It searches for the dead as well.
    Search,
}

impl Cohort {
    /// Does what is to be done for the node, unless another thread does.
    ///
    /// Cost: nothing if nothing is due; one round trip for a poll; see [`transition`] for the rest.
    pub fn drive<M: Memory>(&self, worker: &Worker<M>, effort: Effort) -> Result<()> {
        if effort == Effort::Search {
            self.reap_threads(worker)?;
        }
        {
            let mut local = self.local();
            if local.driver != 0 {
                local.is_poll_due |= effort == Effort::Search;
                return Ok(());
            }
            if local.next_step(effort > Effort::Due) == Step::Nothing {
                return Ok(());
            }
            local.driver = worker.identity();
        }
        let outcome = self.step_until_done(worker, effort);
        if outcome.is_err() {
            self.local().driver = 0;
        }
        self.wake(worker);
        outcome
    }

    fn step_until_done<M: Memory>(&self, worker: &Worker<M>, effort: Effort) -> Result<()> {
        let mut polls = effort > Effort::Due;
        loop {
            let (step, node) = {
                let mut local = self.local();
                // Who wanted that may know of a change that this thread has not seen.
                polls |= std::mem::take(&mut local.is_poll_due);
                let step = local.next_step(polls);
                if step == Step::Nothing {
                    local.driver = 0;
                }
                // From here on no thread of the node enters, and if this one dies, another one does the same.
                local.is_yielding |= matches!(step, Step::Yield(_) | Step::Request(_));
                local.is_pending |= matches!(step, Step::Request(_));
                (step, local.node)
            };
            match (step, node) {
                (Step::Nothing, _) => return Ok(()),
                (Step::Request(wants), node) => self.request(worker, node, wants)?,
                (Step::Yield(has), Some(node)) => self.give(worker, node, has)?,
                (Step::Poll, Some(node)) => {
                    polls = false;
                    self.poll(worker, node, effort)?;
                }
                // A thread that asked has died, or the node has nothing.
                (Step::Yield(_) | Step::Poll, None) => {
                    polls = false;
                    self.find_number(worker)?;
                }
            }
        }
    }

    fn request<M: Memory>(&self, worker: &Worker<M>, node: Option<Node>, wants: Permission) -> Result<()> {
        let changed = self.ask(worker, node, wants);
        let mut local = self.local();
        local.is_yielding = false;
        let (seen, node) = match changed {
            Ok(changed) => changed,
            Err(error) => {
                // Nothing was changed.
                local.is_pending = false;
                return Err(error);
            }
        };
        // A reader that asks to write reads no more.
        (local.has, local.node) = (None, Some(node));
        drop(local);
        self.learn(worker, node, &seen)
    }

    /// Puts a request into the entry, of a node that has a number or gets one.
    fn ask<M: Memory>(
        &self,
        worker: &Worker<M>,
        node: Option<Node>,
        wants: Permission,
    ) -> Result<(EntryRead, Node)> {
        let layout = self.layout;
        loop {
            let (seen, node) = transition::change(worker, layout, |state| {
                let node = match node {
                    Some(node) => Some(node),
                    None => claim(worker, layout, state)?,
                };
                if let Some(node) = node {
                    // PAIRS WITH: sync::directory::driver::lose, sync::directory::inspect::inspect
                    layout.asker(node).store(worker.mem(), worker.identity());
                    state.request(node, wants);
                }
                Ok(node)
            })?;
            if let Some(node) = node {
                return Ok((seen, node));
            }
        }
    }

    fn give<M: Memory>(&self, worker: &Worker<M>, node: Node, has: Permission) -> Result<()> {
        let mem = worker.mem();
        if has == Permission::Exclusive {
            self.write_back(mem);
        }
        let former = self.local().former;
        let (seen, ()) = transition::change(worker, self.layout, |state| {
            // If this was done already, by a thread that has died since, nothing changes.
            match has {
                Permission::Shared => state.give_up(node),
                Permission::Exclusive => {
                    if state.hand_over(node) {
                        state.former = former;
                    }
                }
            }
            Ok(())
        })?;
        {
            let mut local = self.local();
            (local.has, local.is_yielding) = (None, false);
        }
        self.learn(worker, node, &seen)
    }

    /// Finds the number that a thread of this process has claimed, and died.
    fn find_number<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        let mine = worker.pod().process_identity();
        let mut numbers = (0..self.layout.nodes()).filter_map(Node::new);
        // PAIRS WITH: sync::directory::driver::claim
        let found = numbers.find(|node| self.layout.process(*node).load(worker.mem()) == mine);
        let mut local = self.local();
        (local.node, local.is_yielding) = (found, false);
        local.is_pending &= found.is_some();
        if found.is_none() {
            // The thread that closed the lock came to its end with that: the entry says it.
            local.kept = 0;
        }
        local.reread();
        Ok(())
    }

    fn poll<M: Memory>(&self, worker: &Worker<M>, node: Node, effort: Effort) -> Result<()> {
        let (known, waits) = {
            let local = self.local();
            (local.number, local.is_pending)
        };
        // PAIRS WITH: sync::directory::transition::change
        if self.layout.number().load(worker.mem()) != known {
            let seen = transition::read(worker, self.layout)?;
            self.learn(worker, node, &seen)?;
        }
        match waits && effort == Effort::Search {
            true => self.remove_dead(worker, node),
            false => Ok(()),
        }
    }

    /// Takes over what the entry says of the node.
    fn learn<M: Memory>(&self, worker: &Worker<M>, node: Node, seen: &EntryRead) -> Result<()> {
        let state = &seen.state;
        let (permission, has) = (state.entry.permission(node), self.local().has);
        match (has, permission) {
            (None, Some(_)) => self.drop_lines(worker.mem()),
            (Some(has), permission) if permission != Some(has) => return Err(self.taken_away()),
            _ => {}
        }
        let mut local = self.local();
        if let (None, Some(permission)) = (has, permission) {
            local.granted(permission, state.former);
        }
        local.number = seen.number;
        local.is_asked = state.is_asked(node);
        local.is_pending = local.has.is_none() && state.nodes().contains(node);
        Ok(())
    }

    /// Writes the regions back, and waits for that.
    fn write_back<M: Memory>(&self, mem: &M) {
        if !mutant::is(Mutant::DirectoryNotWrittenBack) {
            for region in &self.regions {
                mem.write_back(region.offset, region.len);
            }
        }
        mem.fence();
        for region in &self.regions {
            mem.must_be_in_memory(region.offset, region.len);
        }
    }

    /// Drops what this host's cache has of the regions, and fetches small ones.
    fn drop_lines<M: Memory>(&self, mem: &M) {
        if mutant::is(Mutant::DirectoryNotDropped) {
            return;
        }
        for region in &self.regions {
            mem.invalidate(region.offset, region.len);
        }
        mem.fence();
        for region in self.regions.iter().filter(|region| region.len <= FETCHED_AT_ONCE) {
            for at in (0..region.len).step_by(crate::memory::LINE as usize) {
                mem.prefetch(region.offset + at);
            }
        }
    }

    fn taken_away(&self) -> Error {
        Error::corrupt(
            "a directory lock that a living process lost, seen",
            self.layout.offset(),
        )
    }

    /// Takes nodes out of the entry whose processes are gone.
    fn remove_dead<M: Memory>(&self, worker: &Worker<M>, node: Node) -> Result<()> {
        let layout = self.layout;
        let seen = transition::read(worker, layout)?;
        if dead_among(worker, layout, &seen.state, node)?.is_empty() {
            return Ok(());
        }
        let (seen, ()) = transition::change(worker, layout, |state| {
            for dead in dead_among(worker, layout, state, node)?.iter() {
                lose(worker, layout, state, dead);
            }
            Ok(())
        })?;
        self.learn(worker, node, &seen)
    }

    /// Forgets threads of this process that have died alone.
    fn reap_threads<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        let known = match mutant::is(Mutant::DirectoryLoneDeathIgnored) {
            true => Vec::new(),
            false => self.local().identities(),
        };
        for identity in known {
            if identity == worker.identity() || !is_gone(worker, identity)? {
                continue;
            }
            if self.local().driver == identity {
                // It may have died with the entry's lock. To other processes it lives, on incoherent memory, so none of
                // them takes it. Before the cohort forgets it: if this thread dies alone as well, the next one finds it
                // still.
                drop(lock::acquire(worker, self.layout.lock())?);
            }
            self.local().lose(identity);
        }
        Ok(())
    }

    /// Wakes the threads of this process that wait for the lock.
    pub fn wake<M: Memory>(&self, worker: &Worker<M>) {
        // Their node's other threads wait for what this one has stored in memory of the process.
        worker.mem().tells_own_process();
        let node = {
            let local = self.local();
            local.node.filter(|_| local.is_wanted())
        };
        if let Some(node) = node {
            event_count::notify_waiting(worker.mem(), self.layout.event_count(node));
        }
    }

    /// A handle is closed. With the last one the node gives up whatever it has, and its number.
    pub fn close<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        self.local().handles -= 1;
        let (node, has, former) = loop {
            self.reap_threads(worker)?;
            let mut local = self.local();
            if local.handles > 0 {
                return Ok(());
            }
            if local.driver == 0 {
                local.driver = worker.identity();
                break match mutant::is(Mutant::DirectoryOpenWhileClosing) {
                    true => (local.node, local.has, local.former),
                    false => local.close(),
                };
            }
            drop(local);
            worker.mem().pause();
        };
        let outcome = node.map_or(Ok(()), |node| self.leave(worker, node, has, former));
        let mut local = self.local();
        match outcome {
            Ok(()) => local.closed(),
            // The entry was not changed: who comes next finds what the node has.
            Err(_) => local.driver = 0,
        }
        outcome
    }

    fn leave<M: Memory>(
        &self,
        worker: &Worker<M>,
        node: Node,
        has: Option<Permission>,
        former: u64,
    ) -> Result<()> {
        let layout = self.layout;
        if has == Some(Permission::Exclusive) {
            self.write_back(worker.mem());
        }
        transition::change(worker, layout, |state| {
            // A request that was granted meanwhile ends as well.
            if !state.hand_over(node) {
                state.lose(node);
            } else if has == Some(Permission::Exclusive) {
                state.former = former;
            }
            // PAIRS WITH: sync::directory::driver::claim
            layout.process(node).store(worker.mem(), 0);
            Ok(())
        })?;
        Ok(())
    }
}

/// The nodes other than this one whose processes are gone.
fn dead_among<M: Memory>(worker: &Worker<M>, layout: Layout, state: &State, but: Node) -> Result<Nodes> {
    let mut dead = Nodes::NONE;
    if mutant::is(Mutant::DirectoryDeadAwaited) {
        return Ok(dead);
    }
    for node in state.nodes().iter().filter(|node| *node != but) {
        // PAIRS WITH: sync::directory::driver::claim
        if worker
            .pod()
            .process_is_gone(layout.process(node).load(worker.mem()))?
        {
            dead.insert(node);
        }
    }
    Ok(dead)
}

/// Takes a dead node out. Its successor is told of the worker that asked for it, if it could write.
fn lose<M: Memory>(worker: &Worker<M>, layout: Layout, state: &mut State, dead: Node) {
    if state.lose(dead) && !mutant::is(Mutant::DirectorySuccessorNotNotified) {
        // PAIRS WITH: sync::directory::driver::ask
        state.former = layout.asker(dead).load(worker.mem());
    }
}

/// A number among the nodes for this process, which the entry does not name; `None` if there is one once this change is
/// made, in which the dead are taken out.
///
/// A number is claimed at once, and what the entry says of it changes later: if the thread that claims it died in
/// between, the process would have what the dead one before it had.
fn claim<M: Memory>(worker: &Worker<M>, layout: Layout, state: &mut State) -> Result<Option<Node>> {
    let (mem, mine) = (worker.mem(), worker.pod().process_identity());
    let named = state.nodes();
    let (mut free, mut dead) = (None, Nodes::NONE);
    for node in (0..layout.nodes()).filter_map(Node::new) {
        // PAIRS WITH: sync::directory::driver::claim, sync::directory::driver::leave
        let process = layout.process(node).load(mem);
        if process == mine {
            return Ok(Some(node));
        }
        if free.is_some() || !worker.pod().process_is_gone(process)? {
            continue;
        }
        match named.contains(node) && !mutant::is(Mutant::DirectoryNumberNotCleared) {
            true => dead.insert(node),
            false => free = Some(node),
        }
    }
    if let Some(node) = free {
        // PAIRS WITH: sync::directory::driver::dead_among, sync::directory::driver::claim, sync::directory::driver::find_number, sync::directory::asked::notify
        layout.process(node).store(mem, mine);
        return Ok(Some(node));
    }
    if dead.is_empty() {
        let limit = layout.nodes();
        return Err(Error::TooManyNodes { limit });
    }
    dead.iter().for_each(|node| lose(worker, layout, state, node));
    Ok(None)
}
