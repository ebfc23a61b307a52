//! A client's or the master's way to one memory node: an endpoint of its own, so that what nobody waits for any more
//! goes away with it.
//!
//! An operation's memory stays here until the operation has completed, or the endpoint is closed; who waits for it may
//! have gone long before.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use cenote_replica::verbs::{Address, Completion, Verb};
use cenote_replica::view::Key;
use tokio::sync::{Notify, oneshot};

use super::Remote;
use super::endpoint::{Endpoint, Flight, Kind, Outcome, Place};

/// Operations that have not completed: more, and the node is taken for one that does not answer.
const FLIGHTS_MAX: usize = 4096;
/// The longest sleep.
const LONGEST: Duration = Duration::from_millis(20);
/// The same while an operation waits to begin: the library connects, or its queue is full.
const SHORT: Duration = Duration::from_millis(1);

type Waiting = oneshot::Sender<(Outcome, Flight)>;

/// An operation that has not begun.
struct Queued {
    kind: Kind,
    place: Place,
    flight: Flight,
    waiting: Waiting,
}

/// The way to a node. The endpoint is the first field: it is closed before the memory that it uses goes.
pub struct Link {
    endpoint: Endpoint,
    flights: RefCell<HashMap<usize, (Flight, Option<Waiting>)>>,
    queued: RefCell<VecDeque<Queued>>,
    more: Notify,
    peer: u64,
    remotes: RefCell<HashMap<u16, (Key, Remote)>>,
}

/// A verb that has been handed over, in pieces.
pub struct Posted {
    kind: Kind,
    pieces: Vec<oneshot::Receiver<(Outcome, Flight)>>,
}

impl Link {
    /// A way to the node whose endpoint has this address, at a host.
    pub async fn new(provider: &str, host: IpAddr, name: &[u8]) -> io::Result<Self> {
        let endpoint = Endpoint::reach(provider, &host.to_string()).await?;
        let peer = endpoint.peer(name)?;
        Ok(Self {
            endpoint,
            flights: RefCell::default(),
            queued: RefCell::default(),
            more: Notify::new(),
            peer,
            remotes: RefCell::default(),
        })
    }

    /// What is known of a region under a key.
    pub fn remote(&self, region: u16, key: Key) -> Option<Remote> {
        let remotes = self.remotes.borrow();
        remotes
            .get(&region)
            .filter(|(known, _)| *known == key)
            .map(|(_, remote)| *remote)
    }

    /// The node has said how a region is reached under a key.
    pub fn learn(&self, region: u16, key: Key, remote: Remote) {
        self.remotes.borrow_mut().insert(region, (key, remote));
    }

    /// A verb was refused: the node is to be asked again.
    pub fn forget(&self, region: u16, key: Key) {
        let mut remotes = self.remotes.borrow_mut();
        if remotes.get(&region).is_some_and(|(known, _)| *known == key) {
            remotes.remove(&region);
        }
    }

    /// Hands a verb over. `None`: it cannot be done anywhere.
    pub fn post(&self, remote: Remote, at: Address, verb: &Verb) -> Option<Posted> {
        let longest = self.endpoint.longest();
        let offset = u64::from(at.offset());
        let (kind, flights): (Kind, Vec<Flight>) = match verb {
            Verb::Read(len) => {
                let len = *len as usize;
                let pieces = (0..len.max(1)).step_by(longest);
                let read = |begin| Flight::read(longest.min(len - begin));
                (Kind::Read, pieces.map(read).collect())
            }
            Verb::Write(bytes) => (Kind::Write, bytes.chunks(longest).map(Flight::write).collect()),
            _ if !offset.is_multiple_of(8) => return None,
            Verb::CompareSwap { expected, new } => (Kind::Swap, vec![Flight::word(*new, *expected)]),
            Verb::FetchAdd(add) => (Kind::Add, vec![Flight::word(*add, 0)]),
        };
        let mut pieces = Vec::with_capacity(flights.len());
        for (n, flight) in (0_u64..).zip(flights) {
            let place = Place {
                peer: self.peer,
                key: remote.key,
                at: remote.base + offset + n * longest as u64,
            };
            let (waiting, piece) = oneshot::channel();
            pieces.push(piece);
            self.queued.borrow_mut().push_back(Queued {
                kind,
                place,
                flight,
                waiting,
            });
        }
        Some(Posted { kind, pieces })
    }

    /// Begins what was handed over, as far as that is possible now.
    pub fn begin(&self) {
        // The other task goes on with it, and meets the same error if there is one.
        if self.pump().is_err() || !self.queued.borrow().is_empty() || !self.endpoint.may_wait() {
            self.more.notify_one();
        }
    }

    /// Takes completions, and begins what is queued.
    fn pump(&self) -> io::Result<()> {
        while let Some((name, outcome)) = self.endpoint.poll()? {
            // A refusal may complete a second time, without a name.
            if let Some((flight, Some(waiting))) = self.flights.borrow_mut().remove(&name) {
                let _ = waiting.send((outcome, flight));
            }
        }
        let mut queued = self.queued.borrow_mut();
        while let Some(mut next) = queued.pop_front() {
            if next.waiting.is_closed() {
                // Nobody waits: it is not done at all.
                continue;
            }
            // SAFETY: it is kept until it completes, or the endpoint is closed.
            match unsafe { self.endpoint.begin(next.kind, next.place, &mut next.flight) } {
                Ok(true) => {
                    let entry = (next.flight, Some(next.waiting));
                    self.flights.borrow_mut().insert(entry.0.name(), entry);
                }
                Ok(false) => {
                    queued.push_front(next);
                    break;
                }
                // Nobody is there, and nobody will have done it; who waits learns that nothing is known.
                Err(_) => drop(next),
            }
        }
        match self.flights.borrow().len() > FLIGHTS_MAX {
            true => Err(io::Error::other("a memory node leaves too many operations open")),
            false => Ok(()),
        }
    }

    /// Does what there is to do, as long as this future is polled.
    pub async fn drive(&self) -> io::Result<()> {
        let readable = self.endpoint.readable()?;
        loop {
            self.pump()?;
            if !self.endpoint.may_wait() {
                tokio::task::yield_now().await;
                continue;
            }
            let longest = match self.queued.borrow().is_empty() {
                true => LONGEST,
                false => SHORT,
            };
            tokio::select! {
                ready = readable.readable() => ready?.clear_ready(),
                () = self.more.notified() => {}
                () = tokio::time::sleep(longest) => {}
            }
        }
    }

    /// Nothing is going to complete: who waits learns it.
    pub fn end(&self) {
        self.queued.borrow_mut().clear();
        for (_, waiting) in self.flights.borrow_mut().values_mut() {
            waiting.take();
        }
    }
}

impl Posted {
    /// Waits for all pieces.
    pub async fn completion(self) -> Completion {
        let (mut done, mut refused) = (Vec::with_capacity(self.pieces.len()), false);
        for piece in self.pieces {
            match piece.await {
                Ok((Outcome::Done, flight)) => done.push(flight),
                Ok((Outcome::Refused, _)) => refused = true,
                Ok((Outcome::Unknown, _)) | Err(_) => return Completion::Unknown,
            }
        }
        match self.kind {
            // A part of it was written.
            Kind::Write if refused && !done.is_empty() => Completion::Unknown,
            _ if refused => Completion::Refused,
            Kind::Read => Completion::Read(done.iter().flat_map(Flight::bytes).collect()),
            Kind::Write => Completion::Written,
            Kind::Swap | Kind::Add => done
                .first()
                .map_or(Completion::Unknown, |flight| Completion::Was(flight.was())),
        }
    }
}
