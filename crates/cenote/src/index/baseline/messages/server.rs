//! The server: takes the tickets of its queue one after another, and carries out the requests on its map.
//!
//! Only the server knows its next ticket; nothing in the pool says it. It skips a slot that is claimed and not filled
//! after so many polls: the claimer died, or will come again. It skips a slot with a later ticket at
//! once. A reference that comes twice, or was meant for another server, is recognised by the line that it leads to.
//!
//! A server that opens a place begins with the next ticket to be claimed. Clients repeat references that have no
//! answer, if the last server left between two requests. If it died, it may have carried out one of the requests: all
//! of them are answered with "not known".

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::queues::{Queues, Shape, part_name};
use super::request::{Answer, Request, Verb};
use crate::causes::Table;
use crate::error::{Error, Result};
use crate::index::baseline::WordMap;
use crate::index::baseline::back_off::BackOff;
use crate::index::common::guidelines::Guidelines;
use crate::memory::Memory;
use crate::memory::checked::word_line;
use crate::pod::{Worker, lock};

/// Polls of an empty slot between two polls of the tail.
const POLLS: u32 = 256;

/// A server's handle. One thread has it, with a worker of its own.
pub struct Server<M: Memory, W: WordMap<M>> {
    queues: Queues<M>,
    place: u32,
    map: W,
    /// The next ticket.
    next: Cell<u64>,
    /// The count of the last request of each client that was answered here.
    answered: RefCell<Vec<u64>>,
    back_off: BackOff,
    /// Whether the next slot was found claimed and not filled before.
    is_stuck: Cell<bool>,
}

impl<M: Memory, W: WordMap<M>> Server<M, W> {
    /// Opens the queues of a name, or creates them with this shape, takes the first place that has no server, and opens
    /// the map of its part, of about `records` records.
    ///
    /// Cost: a sync load for each place that is taken, a round trip for each client.
    pub fn open(
        worker: Rc<Worker<M>>,
        name: &str,
        shape: Shape,
        guidelines: Guidelines,
        records: u64,
    ) -> Result<Self> {
        let queues = Queues::open_or_create(worker.clone(), name, shape)?;
        let (place, is_after_death) = claim(&queues)?;
        let opened = W::open_or_create(worker, &part_name(name, place), guidelines, records);
        let map = opened.inspect_err(|_| release(&queues, place))?;
        let clients = queues.shape().clients as usize;
        let server = Self {
            map,
            place,
            next: Cell::new(0),
            answered: RefCell::new(vec![0; clients]),
            back_off: BackOff::default(),
            is_stuck: Cell::new(false),
            queues,
        };
        server.begin(is_after_death)?;
        Ok(server)
    }

    /// Its place in the queues, which is its part of the keys.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// The map of this part.
    pub fn map(&self) -> &W {
        &self.map
    }

    /// Finds out where to go on.
    fn begin(&self, is_after_death: bool) -> Result<()> {
        let (queues, mem) = (&self.queues, self.queues.worker().mem());
        self.next.set(queues.tail(self.place).load(mem));
        for client in 0..queues.shape().clients {
            let [count, ..] = word_line(queues.answer(self.place, client)).fetch(mem);
            self.note(client, count);
            if is_after_death && let Some(request) = self.request(client)? {
                self.answer(client, request.count, Answer::Unknown);
            }
        }
        Ok(())
    }

    /// Answers the requests in the queue, at most as many as it has slots. Returns how many.
    ///
    /// Cost: on incoherent memory a round trip for the empty slot that ends it; for each request one for the slot, one
    /// for the request, one for the answer, and what the map takes.
    ///
    /// # Errors
    ///
    /// The map's errors, except a full pool, which the client gets. The client has its answer before.
    pub fn serve_once(&self) -> Result<usize> {
        let mut answered = 0;
        for _ in 0..self.queues.shape().slots() {
            let Some(client) = self.next_client()? else {
                break;
            };
            if let Some(request) = self.request(client)? {
                let (answer, failure) = self.carry_out(request);
                self.answer(client, request.count, answer);
                failure?;
                answered += 1;
            }
        }
        Ok(answered)
    }

    /// Answers until `stop` returns true; calls it when the queue is empty, and after each round of the queue. Returns
    /// how many requests it answered.
    pub fn serve_until(&self, mut stop: impl FnMut() -> bool) -> Result<usize> {
        let mut answered = 0;
        while !stop() {
            answered += self.serve_once()?;
        }
        Ok(answered)
    }

    /// The client that the next slot refers to; `None` if the slot is not filled.
    fn next_client(&self) -> Result<Option<u32>> {
        let (queues, worker) = (&self.queues, self.queues.worker());
        if worker.is_forked() {
            return Err(Error::Forked);
        }
        let mem = worker.mem();
        let ticket = self.next.get();
        let slot = queues.slot(self.place, ticket);
        let found = slot.load(mem);
        let filled = found >> 16;
        if filled > ticket {
            self.pass();
            if filled > ticket + 1 {
                return Ok(None);
            }
            let client = (found & 0xffff) as u32;
            return match client < queues.shape().clients {
                true => Ok(Some(client)),
                false => Err(Error::corrupt("a slot of a queue", slot.offset())),
            };
        }
        if self.back_off.lose(mem).is_multiple_of(POLLS) {
            let is_claimed = queues.tail(self.place).load(mem) > ticket;
            if is_claimed && self.is_stuck.get() {
                self.pass();
            } else {
                self.is_stuck.set(is_claimed);
            }
        }
        Ok(None)
    }

    /// Goes on to the next slot.
    fn pass(&self) {
        self.next.set(self.next.get() + 1);
        self.back_off.restore();
        self.is_stuck.set(false);
    }

    /// A client's request to this server that has no answer.
    fn request(&self, client: u32) -> Result<Option<Request>> {
        let mem = self.queues.worker().mem();
        let asked = Request::read(mem, self.queues.request(client))?;
        let last = self.answered.borrow().get(client as usize).copied();
        Ok(asked.filter(|request| request.server == self.place && Some(request.count) > last))
    }

    fn carry_out(&self, request: Request) -> (Answer, Result<()>) {
        let Request { verb, key, value, .. } = request;
        let done = match verb {
            Verb::Get => self
                .map
                .get_u64(key)
                .map(|found| found.map_or(Answer::Missing, Answer::Present)),
            Verb::Put => self.map.put_u64(key, value).map(Answer::of_put),
            Verb::Insert => self
                .map
                .insert_u64(key, value)
                .map(|inserted| Answer::of_presence(!inserted)),
            Verb::Remove => self.map.remove_u64(key).map(Answer::of_presence),
        };
        match done {
            Ok(answer) => (answer, Ok(())),
            Err(Error::Full { .. }) => (Answer::Full, Ok(())),
            Err(error) => (Answer::Unknown, Err(error)),
        }
    }

    fn answer(&self, client: u32, count: u64, answer: Answer) {
        let mem = self.queues.worker().mem();
        self.note(client, count);
        answer.write(mem, self.queues.answer(self.place, client), count);
    }

    fn note(&self, client: u32, count: u64) {
        if let Some(answered) = self.answered.borrow_mut().get_mut(client as usize) {
            *answered = count;
        }
    }
}

/// Takes the first place that has no server. Returns it, and whether its last server died.
fn claim<M: Memory>(queues: &Queues<M>) -> Result<(u32, bool)> {
    let worker = queues.worker();
    let mem = worker.mem();
    let limit = queues.shape().servers;
    for place in 0..limit {
        let identity = queues.identity(place);
        let found = identity.load(mem);
        if lock::is_gone(worker, found)? && identity.compare_exchange(mem, found, worker.identity()).is_ok() {
            return Ok((place, found != 0));
        }
    }
    Err(Error::TooMany {
        what: Table::Servers,
        limit,
    })
}

/// Leaves a place. Does nothing if another worker took this server for dead.
fn release<M: Memory>(queues: &Queues<M>, place: u32) {
    let worker = queues.worker();
    if !worker.is_forked() {
        let _ = queues
            .identity(place)
            .compare_exchange(worker.mem(), worker.identity(), 0);
    }
}

impl<M: Memory, W: WordMap<M>> Drop for Server<M, W> {
    fn drop(&mut self) {
        // A panic may have come in the middle of a request. Then the place is left as a dead server would.
        if !std::thread::panicking() {
            release(&self.queues, self.place);
        }
    }
}
