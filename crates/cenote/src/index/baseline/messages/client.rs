//! The client: writes its request, claims a ticket, refers to the request in the ticket's slot, and polls for the
//! answer.
//!
//! The write-back of the request overlaps with the claim; a fence between claim and slot makes certain that a server
//! that sees the reference sees the request. A client that waits for long puts the reference into another slot, at most
//! twice as late each time: its slot was skipped, or its server has left and another one begins. It gives up if it
//! finds no living server at such a moment.

use std::cell::Cell;
use std::rc::Rc;

use super::queues::{Queues, Shape, part_of};
use super::request::{Answer, Request, Verb};
use crate::causes::Table;
use crate::error::{Error, Result};
use crate::index::baseline::WordMap;
use crate::index::baseline::back_off::BackOff;
use crate::index::common::guidelines::Guidelines;
use crate::index::common::outcome::Put;
use crate::memory::{Memory, SyncWord};
use crate::pod::{Worker, lock};

/// Polls for an answer before the reference is repeated for the first time.
const POLLS: u32 = 1 << 11;
/// Polls before a client that finds no server gives up.
const POLLS_WITHOUT_SERVER: u32 = 1 << 13;

/// A client's handle. Each thread has its own.
pub struct Client<M: Memory> {
    queues: Queues<M>,
    place: u32,
    /// Requests so far.
    count: Cell<u64>,
}

impl<M: Memory> Client<M> {
    /// Opens the queues of a name, or creates them with this shape, and takes a client's place.
    ///
    /// Cost: a fetch-add, and the search of the name.
    pub fn open(worker: Rc<Worker<M>>, name: &str, shape: Shape) -> Result<Self> {
        let queues = Queues::open_or_create(worker, name, shape)?;
        let limit = queues.shape().clients;
        let mem = queues.worker().mem();
        let taken = |place: u64| place >= u64::from(limit);
        let all_taken = Error::TooMany {
            what: Table::Clients,
            limit,
        };
        // Loaded first: the count must not grow without limit.
        if taken(queues.clients().load(mem)) {
            return Err(all_taken);
        }
        let place = queues.clients().fetch_add(mem, 1);
        if taken(place) {
            return Err(all_taken);
        }
        Ok(Self {
            place: place as u32,
            count: Cell::new(0),
            queues,
        })
    }

    /// The numbers of servers and clients.
    pub fn shape(&self) -> Shape {
        self.queues.shape()
    }

    /// Sends a request, and waits for the answer.
    ///
    /// Cost: on incoherent memory a write-back, a fetch-add and a sync store, then a round trip for each poll of the
    /// answer; the server's part is in between.
    fn ask(&self, verb: Verb, key: u64, value: u64) -> Result<Answer> {
        let (queues, worker) = (&self.queues, self.queues.worker());
        if worker.is_forked() {
            return Err(Error::Forked);
        }
        let mem = worker.mem();
        let server = part_of(key, queues.shape().servers);
        let count = self.count.get() + 1;
        self.count.set(count);
        let request = Request {
            count,
            server,
            verb,
            key,
            value,
        };
        request.write(mem, queues.request(self.place));
        self.refer(server);
        let line = queues.answer(server, self.place);
        let back_off = BackOff::default();
        let mut due = POLLS;
        loop {
            if let Some(answer) = Answer::read(mem, line, count)? {
                return Ok(answer);
            }
            let looks = back_off.lose(mem);
            if looks < due {
                continue;
            }
            due = due.saturating_mul(2);
            match lock::is_gone(worker, queues.identity(server).load(mem))? {
                true if looks >= POLLS_WITHOUT_SERVER => return Err(Error::Unanswered),
                true => {}
                false => self.refer(server),
            }
        }
    }

    /// Refers to the request line in a slot of a server.
    fn refer(&self, server: u32) {
        let (queues, mem) = (&self.queues, self.queues.worker().mem());
        let ticket = take_ticket(mem, queues.tail(server));
        if !M::COHERENT {
            mem.fence();
        }
        let reference = ticket.wrapping_add(1) << 16 | u64::from(self.place);
        queues.slot(server, ticket).store(mem, reference);
    }
}

/// The next number of a queue. By compare-exchange alone: the machine for which these queues were made has no other
/// exchange (pcc-indexes, section 2.3).
fn take_ticket<M: Memory>(mem: &M, tail: SyncWord) -> u64 {
    let mut seen = tail.load(mem);
    let back_off = BackOff::default();
    loop {
        match tail.compare_exchange(mem, seen, seen.wrapping_add(1)) {
            Ok(_) => return seen,
            Err(found) => seen = found,
        }
        back_off.lose(mem);
    }
}

impl<M: Memory> WordMap<M> for Client<M> {
    const NAME: &'static str = "messages";
    const IS_ORDERED: bool = false;

    /// Opens the queues of a name and takes a client's place. If there are none, creates them in the default shape.
    fn open_or_create(
        worker: Rc<Worker<M>>,
        name: &str,
        _guidelines: Guidelines,
        _records: u64,
    ) -> Result<Self> {
        Self::open(worker, name, Shape::default())
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        self.ask(Verb::Get, key, 0)?.value()
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        Ok(match self.ask(Verb::Put, key, value)?.is_present()? {
            true => Put::Replaced,
            false => Put::Inserted,
        })
    }

    fn insert_u64(&self, key: u64, value: u64) -> Result<bool> {
        Ok(!self.ask(Verb::Insert, key, value)?.is_present()?)
    }

    fn remove_u64(&self, key: u64) -> Result<bool> {
        self.ask(Verb::Remove, key, 0)?.is_present()
    }

    fn scan_u64(&self, _from: u64, _each: impl FnMut(u64, u64) -> bool) -> Result<()> {
        Ok(())
    }
}
