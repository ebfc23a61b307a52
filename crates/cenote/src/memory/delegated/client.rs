//! A process's mailboxes, and how its threads ask by them.

use std::sync::{Arc, PoisonError, RwLock};

use super::mailbox::{Mailbox, Mailboxes, Request, Wish};
use crate::memory::{LocalWord, Memory};

/// Looks at the answer before the client yields its processor.
const LOOKS: u32 = 256;
/// More than any process has used; a box with a greater one is damaged.
const TICKET_MAX: u64 = 1 << 62;

/// The mailboxes of one process.
#[derive(Debug)]
pub struct Client {
    boxes: Mailboxes,
    place: RwLock<Option<Arc<Place>>>,
}

#[derive(Debug)]
struct Place {
    first: u32,
    /// For each box: whether a thread has it, and its last ticket.
    states: Vec<(LocalWord, LocalWord)>,
}

impl Client {
    /// A process that has no place yet.
    pub fn new(boxes: Mailboxes) -> Self {
        Self {
            boxes,
            place: RwLock::default(),
        }
    }

    /// From now on the process has a place that no other living one has, and the boxes that belong to it. Whether there are boxes
    /// for it, and they are not damaged. Tickets go on where those of the place's last process ended, however that ended: none is
    /// used twice.
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
        let state = |ticket| (LocalWord::new(0), LocalWord::new(ticket));
        let place = Place {
            first,
            states: tickets.into_iter().map(state).collect(),
        };
        *self.place.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(place));
        true
    }

    /// Has a wish carried out; what the word held before. `None` if the process has no place yet: then it is alone.
    ///
    /// Cost: one line stored and, at best, one fetched; what the server does meanwhile.
    pub fn execute<M: Memory>(&self, mem: &M, at: u64, wish: Wish) -> Option<u64> {
        let place = self
            .place
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        let n = place.take(mem);
        let (taken, last) = &place.states[n];
        // Only the thread that has the box counts.
        let ticket = last.load() + 1;
        last.store(ticket);
        let answer = ask_and_wait(
            mem,
            self.boxes.of(place.first + n as u32),
            Request { ticket, wish, at },
        );
        taken.store(0);
        Some(answer)
    }
}

impl Place {
    /// Takes a box that no other thread of the process has; one after another is tried, as a thread that died alone has its own
    /// for ever.
    fn take<M: Memory>(&self, mem: &M) -> usize {
        let mut tries = 0;
        loop {
            for (n, (taken, _)) in self.states.iter().enumerate() {
                if taken.exchange(0, 1) {
                    return n;
                }
            }
            tries += 1;
            wait(mem, tries);
        }
    }
}

fn ask_and_wait<M: Memory>(mem: &M, mailbox: Mailbox, request: Request) -> u64 {
    mailbox.ask(mem, request);
    let mut looks = 0;
    loop {
        match mailbox.answered(mem) {
            Some((ticket, answer)) if ticket == request.ticket => return answer,
            _ => {
                looks += 1;
                wait(mem, looks);
            }
        }
    }
}

fn wait<M: Memory>(mem: &M, times: u32) {
    if times < LOOKS {
        mem.pause();
    } else {
        mem.relax();
    }
}
