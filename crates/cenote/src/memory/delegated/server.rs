//! The exchange server: it alone changes sync words, in the order in which it finds requests.
//!
//! A *pass* reads mailboxes and carries out what is new in them, with at most one change of each word:
//!
//! | step | a crash after it leaves | the next server |
//! |---|---|---|
//! | 1. journals: what will be stored and answered | planned requests, not carried out, or not all | stores and answers what is planned and not answered |
//! | 2. the words | words that are stored, requests that are not answered | stores the same again: nobody else changes the word |
//! | 3. the answers | clients that sleep by them, perhaps | wakes them |
//! | 4. in the next pass, with the reading of requests: wakes clients that sleep by the answers | nothing | |
//!
//! Step 4 costs no fetch of its own: the mark of a sleeping client is on the line that is fetched for its next request.
//! A client that marks later than that finds the answer instead of falling asleep.
//!
//! So each request is carried out once, or not at all if no server has seen it. A plan stays true until it is carried
//! out, as a pass plans no word twice and nobody else stores.
//!
//! There is one server at a time; [`super::serving`] decides which. A new server begins after the last access of the
//! one before.

use std::cell::Cell;

use super::mailbox::{Entry, Mailbox, Mailboxes, Request, Wish};
use crate::memory::{LINE, Memory};
use crate::mutant::{self, Mutant};

/// Passes for which each pass reads a box after its last use.
const WARM: u64 = 512;
/// Passes from one reading of all boxes to the next.
const ALL_EVERY: u64 = 32;
/// Passes that a rest counts for: nothing is lost if a pass takes longer then.
const REST: u64 = 8;

/// What a server knows of a box.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The last ticket that was carried out.
    served: u64,
    /// The pass in which it was.
    at_pass: u64,
    /// Whether the client may sleep by its answer and was not woken.
    may_sleep: bool,
}

impl Seen {
    /// A box whose ticket is answered, or about to be.
    fn answered(ticket: u64, pass: u64) -> Self {
        Self {
            served: ticket,
            at_pass: pass,
            may_sleep: true,
        }
    }
}

/// Carries out what others ask for.
pub struct Server<M: Memory> {
    mem: M,
    boxes: Mailboxes,
    /// Bytes of the pool's address range.
    limit: u64,
    /// There is memory below this offset.
    backed: Cell<u64>,
    seen: Vec<Seen>,
    pass: u64,
    /// The pass from which on all boxes are due.
    all_at: u64,
    /// The boxes to read in this pass, in turn.
    due: Vec<u32>,
    /// What was found in this pass.
    found: Vec<(u32, Request)>,
    plans: Vec<(Mailbox, Entry)>,
    /// Requests to quiesce that are not answered yet.
    quiescing: Vec<Quiescing>,
}

/// A [`Wish::Quiesce`] that is not answered yet.
struct Quiescing {
    number: u32,
    ticket: u64,
    /// The pass in which it was found.
    since: u64,
    /// What the next pass found and could not carry out: boxes and tickets.
    waits_for: Option<Vec<(u32, u64)>>,
}

impl<M: Memory> Server<M> {
    /// Becomes the server, after the last one's last access: finishes what that one had planned.
    pub fn take_over(mem: M, boxes: Mailboxes, limit: u64) -> Self {
        let mut server = Self {
            mem,
            boxes,
            limit,
            backed: Cell::new(0),
            seen: vec![Seen::default(); boxes.count as usize],
            pass: 0,
            // In the first pass: the last server may have left clients asleep.
            all_at: 0,
            due: Vec::new(),
            found: Vec::new(),
            plans: Vec::new(),
            quiescing: Vec::new(),
        };
        for number in 0..boxes.count {
            let mailbox = boxes.of(number);
            let answered = mailbox.answered(&server.mem).map_or(0, |(ticket, _)| ticket);
            let planned = mailbox.planned(&server.mem);
            if let Some(entry) = planned
                && entry.ticket > answered
                && !mutant::is(Mutant::PlansForgotten)
            {
                server.carry_out(&entry);
                mailbox.answer(&server.mem, entry.ticket, entry.answer);
            }
            server.seen[number as usize] = Seen {
                served: answered.max(planned.map_or(0, |entry| entry.ticket)),
                at_pass: 0,
                may_sleep: !mutant::is(Mutant::SleepersForgotten),
            };
        }
        server
    }

    /// Reports that there was nothing to do for a while: boxes that were not used for long become due sooner.
    pub fn has_rested(&mut self) {
        self.pass += REST;
    }

    fn carry_out(&self, entry: &Entry) {
        if let Some(after) = entry.after
            && self.is_word(entry.at)
        {
            // SAFETY: a word of the pool, as was just checked; a client asks for sync words alone.
            unsafe { self.mem.store(entry.at, after) };
        }
    }

    /// Whether there is a word at an offset that a client has sent. Cost: a system call where the offset is beyond all
    /// earlier ones.
    fn is_word(&self, at: u64) -> bool {
        if !at.is_multiple_of(8) || at >= self.limit {
            return false;
        }
        if at >= self.backed.get() && self.mem.is_there(at) {
            self.backed.set(at + 8);
        }
        at < self.backed.get()
    }

    /// Carries out new requests; returns how many were answered.
    ///
    /// Cost: a line fetched for each box that was used lately, all at once; three round trips a request; a system call
    /// for each client that sleeps.
    pub fn pass(&mut self) -> usize {
        self.pass += 1;
        self.poll();
        self.plan();
        for (mailbox, entry) in &self.plans {
            if !mutant::is(Mutant::ExecutedUnplanned) {
                mailbox.plan(&self.mem, *entry);
            }
        }
        for (_, entry) in &self.plans {
            self.carry_out(entry);
        }
        for (mailbox, entry) in &self.plans {
            mailbox.answer(&self.mem, entry.ticket, entry.answer);
        }
        self.plans.len() + self.quiesce()
    }

    /// Finds new requests, and wakes clients that sleep by answers of the last pass.
    fn poll(&mut self) {
        let all = self.pass >= self.all_at || !self.quiescing.is_empty();
        if all {
            self.all_at = self.pass + ALL_EVERY;
        }
        let (pass, seen, count) = (self.pass, &self.seen, self.boxes.count);
        let due = |number: &u32| all || pass - seen[*number as usize].at_pass < WARM;
        // Each pass begins with another box: where many want one word, each has its turn.
        let first = (pass % u64::from(count.max(1))) as u32;
        let in_turn = || (first..count).chain(0..first);
        self.due.clear();
        self.due.extend(in_turn().filter(due));
        for &number in &self.due {
            self.mem.invalidate(self.boxes.of(number).request_line(), LINE);
        }
        self.mem.fence();
        self.found.clear();
        for &number in &self.due {
            let mailbox = self.boxes.of(number);
            let at = mailbox.request_line();
            let seen = &mut self.seen[number as usize];
            if std::mem::take(&mut seen.may_sleep)
                && mailbox.wants_to_be_woken(&self.mem, seen.served)
                && !mutant::is(Mutant::SleeperNotWoken)
            {
                self.mem.kernel().wake(mailbox.event_count());
            }
            // SAFETY: a line of a mailbox.
            if unsafe { self.mem.load_speculative(at) } <= seen.served {
                continue;
            }
            // SAFETY: a line of a mailbox.
            let line = std::array::from_fn(|n| unsafe { self.mem.load_speculative(at + 8 * n as u64) });
            if let Some(request) = Mailbox::asked(&line)
                && request.ticket > seen.served
            {
                self.found.push((number, request));
            }
        }
    }

    /// Plans what was found. A request for a word that this pass already changes waits for the next one.
    fn plan(&mut self) {
        self.plans.clear();
        for &(number, request) in &self.found {
            let Request { ticket, wish, at } = request;
            if wish == Wish::Quiesce {
                let is_known = |one: &Quiescing| (one.number, one.ticket) == (number, ticket);
                if !self.quiescing.iter().any(is_known) {
                    self.quiescing.push(Quiescing {
                        number,
                        ticket,
                        since: self.pass,
                        waits_for: None,
                    });
                }
                continue;
            }
            let is_planned = self.plans.iter().any(|(_, entry)| entry.at == at);
            if is_planned && !mutant::is(Mutant::WordPlannedTwice) {
                continue;
            }
            let answer = match self.is_word(at) {
                // SAFETY: a word of the pool, as was just checked; a client asks for sync words alone.
                true => unsafe { self.mem.load(at) },
                false => 0,
            };
            let entry = Entry {
                ticket,
                at,
                after: wish.of(answer),
                answer,
            };
            self.plans.push((self.boxes.of(number), entry));
            self.seen[number as usize] = Seen::answered(ticket, self.pass);
        }
    }

    /// Answers requests to quiesce, once everything is done that the first whole pass after the request has found.
    /// Returns how many.
    fn quiesce(&mut self) -> usize {
        let waiting = self.quiescing.len();
        let (mem, boxes, pass) = (&self.mem, self.boxes, self.pass);
        let (found, seen) = (&self.found, &mut self.seen);
        self.quiescing.retain_mut(|one| {
            let served = seen[one.number as usize].served;
            // The client that asked may be gone, and another have the box.
            if served >= one.ticket {
                return false;
            }
            let is_early = mutant::is(Mutant::QuiescedEarly);
            if pass == one.since && !is_early {
                return true;
            }
            let waits_for = one.waits_for.get_or_insert_with(|| {
                let others = found.iter().filter(|(_, request)| request.wish != Wish::Quiesce);
                others
                    .map(|&(number, request)| (number, request.ticket))
                    .collect()
            });
            waits_for.retain(|&(number, ticket)| seen[number as usize].served < ticket);
            if !waits_for.is_empty() && !is_early {
                return true;
            }
            boxes.of(one.number).answer(mem, one.ticket, 0);
            seen[one.number as usize] = Seen::answered(one.ticket, pass);
            false
        });
        waiting - self.quiescing.len()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
