//! Sessions end, and time passes: by a death, by silence, by what the directory is told. What must hold then.

use cenote::sync::directory::messages::client::LeaseState;
use cenote::sync::directory::messages::message::{LockId, NO_LOCK, Session};
use cenote::sync::directory::node::Node;
use cenote::sync::directory::queue::Request;

use super::peers::clock_at;
use super::world::{Fault, Known, LEASE, World};

/// The directory checks for silent nodes so often in the time of a lease, while it is awake.
const CHECKS: u64 = 8;

impl World {
    /// Nobody is granted what it has asked for while somebody waits whose request was accepted earlier.
    pub(super) fn check_order(&self, lock: LockId, waited: &[Request]) -> Result<(), Fault> {
        let Some(locked) = self.lock(lock) else {
            return Ok(());
        };
        let waits = locked.waiting();
        let first = waited.iter().position(|request| waits.contains(request));
        for request in &waited[first.unwrap_or(waited.len())..] {
            if !waits.contains(request) && locked.entry().permission(request.node).is_some() {
                return Err(format!("{request:?} has overtaken somebody"));
            }
        }
        Ok(())
    }

    /// The directory is told that a session's node is dead.
    pub fn cut(&mut self, session: Session) -> Result<(), Fault> {
        if !self.directory.is_current(session) {
            return Ok(());
        }
        self.told_of_death(session);
        let waited = self.all_waiting();
        let sent = self.directory.lose(session);
        self.send_to_nodes(sent);
        self.forget(session);
        self.check_all_orders(&waited)?;
        self.check_sessions()
    }

    pub(super) fn all_waiting(&self) -> Vec<Vec<Request>> {
        (1..=self.truths.len() as LockId)
            .map(|lock| self.waiting(lock))
            .collect()
    }

    pub(super) fn check_all_orders(&self, waited: &[Vec<Request>]) -> Result<(), Fault> {
        (1..)
            .zip(waited)
            .try_for_each(|(lock, waited)| self.check_order(lock, waited))
    }

    pub(super) fn owned_by(&self, session: Session) -> Vec<LockId> {
        let locks = 1..=self.truths.len() as LockId;
        locks
            .filter(|lock| self.owner(*lock) == Some(session.node()))
            .collect()
    }

    /// A session is about to end by a death: what its node has not handed over is lost.
    pub(super) fn told_of_death(&mut self, session: Session) {
        if self.directory.is_current(session) {
            for lock in self.owned_by(session) {
                self.told_of_death_of_owner(session, lock, Some(session.node()));
            }
        }
    }

    pub(super) fn told_of_death_of_owner(&mut self, session: Session, lock: LockId, owner: Option<Node>) {
        if lock != NO_LOCK && owner == Some(session.node()) {
            let truth = &mut self.truths[lock as usize - 1];
            (truth.current, truth.former) = (truth.written_back, Some(session));
        }
    }

    pub(super) fn forget(&mut self, session: Session) {
        self.known.retain(|known| known.session != session);
    }

    /// Sessions end for a reason.
    pub(super) fn check_sessions(&self) -> Result<(), Fault> {
        for known in &self.known {
            if !self.directory.is_current(known.session) {
                return Err(format!(
                    "{:?} is declared dead, and nobody knows why",
                    known.session
                ));
            }
        }
        self.check_leases()
    }

    /// A node whose lease has not run out has not been declared dead.
    pub(super) fn check_leases(&self) -> Result<(), Fault> {
        for (n, peer) in self.peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            let lease_state = peer.node.client().lease_state(clock_at(peer.clock, self.now));
            if lease_state == LeaseState::Confirmed
                && !self.directory.is_current(peer.node.client().session())
            {
                return Err(format!("node {n} counts on its lease, and was declared dead"));
            }
        }
        Ok(())
    }

    /// A node dies. Returns its session, which goes on until the directory is told, or notices.
    pub fn crash(&mut self, n: usize) -> Option<Session> {
        Some(self.peers[n].take()?.node.client().session())
    }

    /// A node dies, and the directory is told at once; if it is cut off instead, it goes on for a moment: what it sends
    /// then must not be heard.
    pub fn kill(&mut self, n: usize, is_cut_off: bool) -> Result<(), Fault> {
        let Some(mut peer) = self.peers[n].take() else {
            return Ok(());
        };
        let session = peer.node.client().session();
        self.cut(session)?;
        if is_cut_off {
            let locks: Vec<LockId> = peer.node.client().locks().collect();
            for lock in locks {
                let mut late = peer.node.client().again(lock);
                late.extend(peer.node.client_mut().give_up(lock));
                self.send(late);
            }
        }
        Ok(())
    }

    /// So many microseconds pass by the directory's clock, in which it checks for silent nodes.
    pub fn pass(&mut self, micros: u64) -> Result<(), Fault> {
        let step = LEASE / CHECKS;
        let mut left = micros;
        while left > 0 {
            let now = left.min(step);
            left -= now;
            self.now = self.now.after(now);
            self.check_leases()?;
            self.check_silence()?;
        }
        for n in 0..self.peers.len() {
            self.go_on(n)?;
        }
        Ok(())
    }

    /// So many microseconds, and more than a part of a lease, pass in which the directory does nothing.
    pub fn stop_directory(&mut self, micros: u64) -> Result<(), Fault> {
        self.now = self.now.after(LEASE / 2 + micros);
        self.awake = self.now;
        self.check_leases()?;
        self.check_silence()
    }

    pub(super) fn check_silence(&mut self) -> Result<(), Fault> {
        let waited = self.all_waiting();
        let before = self.clone_of_owners();
        let sent = self.directory.check_silence(self.now);
        self.send_to_nodes(sent);
        let ended: Vec<Known> = self
            .known
            .extract_if(.., |known| !self.directory.is_current(known.session))
            .collect();
        for Known { session, heard, .. } in ended {
            let silent = self.now.since(heard.max(self.awake));
            if silent < LEASE {
                return Err(format!(
                    "{session:?} is declared dead after {silent} µs, with a lease of {LEASE}"
                ));
            }
            for (lock, owner) in &before {
                self.told_of_death_of_owner(session, *lock, *owner);
            }
        }
        self.check_all_orders(&waited)?;
        self.check_sessions()
    }

    pub(super) fn clone_of_owners(&self) -> Vec<(LockId, Option<Node>)> {
        (1..=self.truths.len() as LockId)
            .map(|lock| (lock, self.owner(lock)))
            .collect()
    }
}
