//! Threads visit locks, and what they must find there.

use cenote::sync::directory::messages::client::LeaseState;
use cenote::sync::directory::messages::message::LockId;
use cenote::sync::directory::messages::threads::{Asked, Held, Misuse, Unlock};

use super::peers::{Doing, Op, clock_at};
use super::world::{Fault, World, count_in};

impl World {
    /// A thread asks for a lock.
    pub fn start(&mut self, n: usize, t: usize) -> Result<(), Fault> {
        let now = self.now;
        let Some(peer) = self.peers[n].as_mut() else {
            return Ok(());
        };
        let Some((lock, op)) = peer.threads[t].script.pop_front() else {
            return Ok(());
        };
        match peer
            .node
            .ask(lock, t as u64 + 1, op.wants(), clock_at(peer.clock, now))
        {
            Ok(Asked::Got(held)) => self.enter(n, t, lock, op, held),
            Ok(Asked::Waits(messages)) => {
                peer.threads[t].doing = Doing::Waits(lock, op);
                self.send(messages);
                self.go_on(n)
            }
            Err(Misuse::Closing) => {
                peer.threads[t].script.clear();
                Ok(())
            }
            Err(Misuse::Deadlock) => Err(format!("thread {t} of node {n} would wait for itself")),
        }
    }

    /// A thread has got a lock.
    fn enter(&mut self, n: usize, t: usize, lock: LockId, op: Op, held: Held) -> Result<(), Fault> {
        let truth = &self.truths[lock as usize - 1];
        let session = self.peers[n].as_ref().map(|peer| peer.node.client().session());
        if session.is_some_and(|session| !self.directory.is_current(session)) {
            return Err(format!(
                "node {n} was declared dead, and a thread of it gets a lock"
            ));
        }
        let (found, current) = (count_in(&held.data), truth.current);
        if found != [current, current & !1] {
            return Err(format!(
                "node {n} finds {found:?}, and {current} was written last"
            ));
        }
        if held.former.map(|former| former.session) != truth.former {
            return Err(format!(
                "node {n} is told of {:?}, not of {:?}",
                held.former, truth.former
            ));
        }
        if let Some(former) = held.former
            && !truth.notes.contains(&former.note)
        {
            return Err(format!(
                "node {n} is told the note {}, not one of {:?}",
                former.note, truth.notes
            ));
        }
        for (m, peer) in self.peers.iter().enumerate() {
            let Some(peer) = peer
                .as_ref()
                .filter(|peer| self.directory.is_current(peer.node.client().session()))
            else {
                continue;
            };
            for thread in &peer.threads {
                if let Doing::Holds(of, has, _) = thread.doing
                    && of == lock
                    && (op != Op::Read || has != Op::Read)
                {
                    return Err(format!("node {n} is to {op:?} while node {m} is to {has:?}"));
                }
            }
        }
        let Some(peer) = self.peers[n].as_mut() else {
            return Ok(());
        };
        peer.threads[t].doing = Doing::Holds(lock, op, held);
        if op == Op::WriteNoted {
            peer.notes += 1;
            let note = (peer.notes << 8) | (n as u64 + 1);
            let messages = peer.node.client_mut().set_note(lock, note);
            self.truths[lock as usize - 1].notes.push(note);
            self.send(messages);
        }
        Ok(())
    }

    /// A thread unlocks.
    pub fn finish(&mut self, n: usize, t: usize) -> Result<(), Fault> {
        let Some(peer) = self.peers[n].as_mut() else {
            return Ok(());
        };
        let Doing::Holds(lock, op, held) = std::mem::replace(&mut peer.threads[t].doing, Doing::Nothing)
        else {
            return Ok(());
        };
        let session = peer.node.client().session();
        let thread = t as u64 + 1;
        if op == Op::Read {
            let messages = peer.node.leave_read(lock, thread);
            self.send(messages);
            return self.go_on(n);
        }
        let (mut data, epoch) = (held.data, held.epoch);
        let count = count_in(&data)[0] + 1;
        for (region, value) in [(0, count), (1, count)] {
            if region == 0 || count.is_multiple_of(2) {
                let data = std::sync::Arc::make_mut(&mut data);
                let bytes = data.region_mut(region).ok_or("a lock has lost a region")?;
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        }
        let unlock = match op {
            Op::Commit => Unlock::HandedOver,
            Op::Panic => Unlock::Poisoned,
            _ => Unlock::Kept,
        };
        let note = peer.node.client().copy(lock).map_or(0, |copy| copy.note());
        let messages = peer.node.leave_written(lock, thread, data, unlock);
        if op == Op::Commit {
            peer.threads[t].doing = Doing::Commits(lock, epoch, count);
        }
        if self.directory.is_current(session) {
            let truth = &mut self.truths[lock as usize - 1];
            truth.current = count;
            truth.former = (op == Op::Panic).then_some(session);
            if op != Op::Panic && note != 0 {
                truth.notes.push(0);
            }
        }
        self.send(messages);
        self.go_on(n)
    }

    /// What a node's threads do by themselves: who waits gets its lock, or goes on.
    pub(super) fn go_on(&mut self, n: usize) -> Result<(), Fault> {
        self.learn_notes(n);
        let threads = self.peers[n].as_ref().map_or(0, |peer| peer.threads.len());
        for t in (0..threads).chain(0..threads) {
            let Some(peer) = self.peers[n].as_mut() else {
                return Ok(());
            };
            let now = clock_at(peer.clock, self.now);
            match peer.threads[t].doing {
                Doing::Waits(lock, op) => {
                    if let Some(held) = peer.node.enter(lock, t as u64 + 1, op.wants(), now) {
                        self.enter(n, t, lock, op, held)?;
                    } else if peer.node.client().lease_state(now) == LeaseState::Ended
                        || peer.node.is_closing()
                    {
                        peer.threads[t].doing = Doing::Nothing;
                        peer.threads[t].script.clear();
                        let messages = peer.node.withdraw(lock, t as u64 + 1);
                        self.send(messages);
                    }
                }
                Doing::Commits(lock, epoch, count) => {
                    if peer.node.client().lease_state(now) == LeaseState::Ended {
                        // Nobody knows what has become of it.
                        peer.threads[t].doing = Doing::Nothing;
                    } else if peer.node.is_committed(lock, epoch) {
                        peer.threads[t].doing = Doing::Nothing;
                        let kept = self.truths[lock as usize - 1].written_back;
                        if kept < count {
                            return Err(format!(
                                "node {n} has committed {count}, and the directory has {kept}"
                            ));
                        }
                    }
                }
                Doing::Nothing | Doing::Holds(..) => {}
            }
        }
        self.leave_if_ready(n);
        Ok(())
    }

    /// A writer whose last note has arrived knows that no earlier one counts.
    fn learn_notes(&mut self, n: usize) {
        let Some(peer) = self.peers[n].as_ref() else {
            return;
        };
        for (lock, truth) in (1..).zip(&mut self.truths) {
            if let Some(copy) = peer.node.client().copy(lock)
                && self.directory.is_current(peer.node.client().session())
                && copy.notes() > 0
                && copy.is_noted()
            {
                let last = truth.notes.len() - 1;
                truth.notes.drain(..last);
            }
        }
    }

    /// A node begins to leave: its threads get no lock any more.
    pub fn close(&mut self, n: usize) -> Result<(), Fault> {
        if let Some(peer) = self.peers[n].as_mut()
            && !peer.node.is_closing()
        {
            let messages = peer.node.close();
            self.send(messages);
        }
        self.go_on(n)
    }

    fn leave_if_ready(&mut self, n: usize) {
        let Some(peer) = self.peers[n].as_mut() else {
            return;
        };
        let has_nothing = !peer.node.is_handing_over() && peer.node.first_held().is_none();
        if peer.node.is_closing() && !peer.is_leaving && has_nothing {
            peer.is_leaving = true;
            let leave = peer.node.client_mut().leave();
            self.send(vec![leave]);
        }
    }
}
