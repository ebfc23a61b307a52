//! The client's side: a process's mailboxes, and how its threads ask by them.
//!
//! **Waiting.** A client polls for its answer for as long as a server at work needs. Then it marks its request's line
//! as asleep, and sleeps by the answer's first word. The server answers first and reads the mark after; the client
//! marks first, and the kernel reads the word after. So one of the two sees the other, and a server of this machine
//! wakes the client. A server of another machine cannot, and a dead one does not: a sleep ends by itself, and the next
//! one is twice as long, up to [`LONGEST`]. After each sleep that ended by itself, the client has its own process check
//! whether there still is a server.
//!
//! How often the client polls first depends on recent success: where other work keeps the processors busy, polling
//! keeps the server from one.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::mailbox::{Mailbox, Mailboxes, Request, Wish};
use super::own_boxes::OwnBoxes;
use crate::memory::{LocalWord, Memory};
use crate::mutant::{self, Mutant};

/// Polls before the client sleeps: a server that has its own processor needs a few of them. Never fewer than
/// `POLLS_LEAST`; polls that were of no use lately mean that the server needs this processor.
const POLLS: u64 = 64;
const POLLS_LEAST: u64 = 4;
/// Once in this many requests the client polls as often as it may: fewer polls would not show that the server has a
/// processor again.
const HOPEFUL: u64 = 16;
/// The first sleep, and the longest.
pub(super) const SHORTEST: Duration = Duration::from_micros(64);
pub(super) const LONGEST: Duration = Duration::from_millis(2);
/// More than any process has used; a box with a greater one is damaged.
const TICKET_MAX: u64 = 1 << 62;

/// The mailboxes of one process.
#[derive(Debug)]
pub struct Client {
    boxes: Mailboxes,
    place: RwLock<Option<Arc<Entered>>>,
}

#[derive(Debug)]
struct Entered {
    first: u32,
    boxes: OwnBoxes,
    /// The last ticket of each box.
    tickets: Vec<LocalWord>,
    /// Polls for the next request.
    polls: LocalWord,
}

impl Client {
    /// The client of a process that has no place yet.
    pub fn new(boxes: Mailboxes) -> Self {
        Self {
            boxes,
            place: RwLock::default(),
        }
    }

    /// From now on the process has a place that no other living one has, and the boxes that belong to it. Returns
    /// whether these boxes exist and are not damaged. Tickets go on where those of the place's last process ended,
    /// however it ended: none is used twice.
    ///
    /// Cost: three lines fetched a box.
    pub fn enter<M: Memory>(&self, mem: &M, place: u32) -> bool {
        let first = place.saturating_mul(self.boxes.per_process);
        if first.saturating_add(self.boxes.per_process) > self.boxes.count {
            return false;
        }
        let tickets: Vec<u64> = (first..first + self.boxes.per_process)
            .map(|number| self.boxes.of(number).newest(mem))
            .collect();
        if tickets.iter().any(|&ticket| ticket > TICKET_MAX) {
            return false;
        }
        let place = Entered {
            first,
            boxes: OwnBoxes::new(tickets.len()),
            tickets: tickets.into_iter().map(LocalWord::new).collect(),
            polls: LocalWord::new(POLLS),
        };
        *self.place.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(place));
        true
    }

    /// Has a wish carried out; returns what the word held before. `None` if the process has no place yet: then it is
    /// alone. Calls `overdue` when the answer does not come.
    ///
    /// Cost: one line stored and, at best, one fetched; what the server does meanwhile. One more line stored if it
    /// sleeps.
    ///
    /// # Safety
    ///
    /// The word is a sync word, by the [caller's promise](Memory#the-callers-promise): a server changes it for this
    /// process.
    pub unsafe fn execute<M: Memory>(&self, mem: &M, at: u64, wish: Wish, overdue: impl Fn()) -> Option<u64> {
        let place = self
            .place
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        let n = place.boxes.take(mem);
        let last = &place.tickets[n];
        // Only the thread that has the box counts its tickets.
        let ticket = last.load() + 1;
        last.store(ticket);
        let answer = ask_and_wait(
            mem,
            self.boxes.of(place.first + n as u32),
            Request { ticket, wish, at },
            &place.polls,
            overdue,
        );
        // The next thread's request must not be overtaken by this one's stores to the same line.
        mem.tells_own_process();
        place.boxes.give_back(n);
        Some(answer)
    }
}

fn ask_and_wait<M: Memory>(
    mem: &M,
    mailbox: Mailbox,
    request: Request,
    polls: &LocalWord,
    overdue: impl Fn(),
) -> u64 {
    let is_its = |answered: Option<(u64, u64)>| answered.filter(|&(ticket, _)| ticket == request.ticket);
    mailbox.ask(mem, request);
    let worth = match request.ticket.is_multiple_of(HOPEFUL) {
        true => POLLS,
        false => polls.load(),
    };
    for _ in 0..worth {
        if let Some((_, answer)) = is_its(mailbox.answered(mem)) {
            polls.store((2 * worth).min(POLLS));
            return answer;
        }
        mem.pause();
    }
    polls.store((polls.load() / 2).max(POLLS_LEAST));
    mailbox.ask_to_be_woken(mem, request);
    let mut time = SHORTEST;
    loop {
        let (seen, answered) = mailbox.read(mem);
        if let Some((_, answer)) = is_its(answered) {
            return answer;
        }
        if time > SHORTEST {
            overdue();
        }
        if seen == request.ticket as u32 && !mutant::is(Mutant::SleptByHalf) {
            // The rest of the answer is on its way, or the server has died. The word has changed already, so it
            // notifies no more.
            mem.rest(SHORTEST);
        } else {
            mem.kernel().wait(&[], &[(mailbox.event_count(), seen)], time);
        }
        time = longer(time);
    }
}

pub(super) fn longer(time: Duration) -> Duration {
    (2 * time).min(LONGEST)
}
