//! Mailboxes of three lines each: a client asks for an exchange, a server executes and answers it.
//!
//! | line | written by | words |
//! |---|---|---|
//! | request | the client that has the box | ticket, kind, offset, two operands, check; the ticket again, once the client sleeps |
//! | redo | the server | ticket, offset, what it stores there, whether it stores, the answer, check |
//! | answer | the server | ticket, answer, check |
//!
//! Each line is written whole and past the cache, so that a dead writer's cache holds nothing of it. A line that has
//! arrived in part, or is damaged, does not match its check and counts as absent.
//!
//! The check does not cover the mark of a sleeping client: the client writes the line once more with the mark, all else
//! unchanged.
//!
//! A *ticket* is a number that grows with each request in its box, whichever process asks.

use crate::memory::{LINE, Memory};
use crate::mutant::{self, Mutant};

/// Bytes of a mailbox.
pub const MAILBOX_BYTES: u64 = 3 * LINE;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Replace the first by the second.
    CompareExchange(u64, u64),
    /// Wrapping add.
    Add(u64),
    /// Bitwise or.
    Or(u64),
    /// Bitwise and.
    And(u64),
    /// Store.
    Store(u64),
    /// Change nothing, but answer only when all requests made so far, by anybody, are done.
    Quiesce,
}

impl Wish {
    fn encode(self) -> (u64, u64, u64) {
        match self {
            Self::CompareExchange(current, new) => (1, current, new),
            Self::Add(value) => (2, value, 0),
            Self::Or(value) => (3, value, 0),
            Self::And(value) => (4, value, 0),
            Self::Store(value) => (5, value, 0),
            Self::Quiesce => (6, 0, 0),
        }
    }

    fn decode(kind: u64, a: u64, b: u64) -> Option<Self> {
        Some(match kind {
            1 => Self::CompareExchange(a, b),
            2 => Self::Add(a),
            3 => Self::Or(a),
            4 => Self::And(a),
            5 => Self::Store(a),
            6 => Self::Quiesce,
            _ => return None,
        })
    }

    /// What a word holds afterwards that held `before`; `None` if it is left as it is.
    pub fn of(self, before: u64) -> Option<u64> {
        match self {
            Self::CompareExchange(current, new) => (before == current).then_some(new),
            Self::Add(value) => Some(before.wrapping_add(value)),
            Self::Or(value) => Some(before | value),
            Self::And(value) => Some(before & value),
            Self::Store(value) => Some(value),
            Self::Quiesce => None,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its ticket: greater than any before in its box.
    pub ticket: u64,
    /// The wish.
    pub wish: Wish,
    /// The word's offset.
    pub at: u64,
}

impl Request {
    fn line(self) -> [u64; 8] {
        let (kind, a, b) = self.wish.encode();
        sealed([self.ticket, kind, self.at, a, b])
    }
}

/// What a server is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The request's ticket.
    pub ticket: u64,
    /// The word's offset.
    pub at: u64,
    /// What it stores there, if anything.
    pub after: Option<u64>,
    /// What it answers: what the word held before.
    pub answer: u64,
}

/// Where the mailboxes of a pool are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mailboxes {
    /// The first.
    first: u64,
    /// Bytes from one to the next.
    stride: u64,
    /// How many.
    pub(super) count: u32,
    /// How many of them a process has.
    pub(super) per_process: u32,
}

/// The word of a request's line that says that its client sleeps.
const ASLEEP: u64 = 6;

/// One mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mailbox(u64);

/// A word that depends on all others of a line, and is not 0.
fn check(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, word| {
        (sum.rotate_left(23) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd)
    }) | 1
}

fn sealed<const N: usize>(words: [u64; N]) -> [u64; 8] {
    let mut line = [0; 8];
    line[..N].copy_from_slice(&words);
    line[N] = check(&words);
    line
}

fn opened<const N: usize>(line: &[u64; 8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    words.copy_from_slice(&line[..N]);
    let is_whole = line[N] == check(&words) || mutant::is(Mutant::SealUnchecked);
    is_whole.then_some(words)
}

impl Mailboxes {
    /// `count` mailboxes from the offset `first` on, with `stride` bytes from one to the next, of which each process
    /// has `per_process`.
    ///
    /// # Safety
    ///
    /// They lie in the pool, at multiples of 64, and nothing but clients and servers uses them.
    pub const unsafe fn new(first: u64, stride: u64, count: u32, per_process: u32) -> Self {
        Self {
            first,
            stride,
            count,
            per_process,
        }
    }

    /// A mailbox by its number.
    pub fn of(&self, number: u32) -> Mailbox {
        assert!(number < self.count, "no such mailbox");
        Mailbox(self.first + u64::from(number) * self.stride)
    }
}

impl Mailbox {
    /// The greatest ticket that was used in it, in whole lines or not. Three round trips.
    pub fn newest<M: Memory>(self, mem: &M) -> u64 {
        // SAFETY: a line of the box, as the code that made the mailboxes promised.
        [self.request_line(), self.journal_line(), self.answer_line()]
            .map(|line| unsafe { mem.fetch_line(line) }[0])
            .into_iter()
            .fold(0, u64::max)
    }

    /// The line of the request.
    pub fn request_line(self) -> u64 {
        self.0
    }

    fn journal_line(self) -> u64 {
        self.0 + LINE
    }

    fn answer_line(self) -> u64 {
        self.0 + 2 * LINE
    }

    /// Asks. One round trip.
    pub fn ask<M: Memory>(self, mem: &M, request: Request) {
        // SAFETY: a line of the box, as the code that made the mailboxes promised.
        unsafe { mem.store_line(self.0, request.line()) };
    }

    /// Marks a request: its client is about to sleep by the answer. One round trip.
    pub fn ask_to_be_woken<M: Memory>(self, mem: &M, request: Request) {
        let mut line = request.line();
        line[ASLEEP as usize] = request.ticket;
        if !mutant::is(Mutant::SleepUnsaid) {
            // SAFETY: a line of the box, as the code that made the mailboxes promised.
            unsafe { mem.store_line(self.0, line) };
        }
    }

    /// Whether the client sleeps until this ticket is answered. The caller has fetched the request's line.
    pub fn wants_to_be_woken<M: Memory>(self, mem: &M, ticket: u64) -> bool {
        // SAFETY: a line of the box, as the code that made the mailboxes promised.
        let mark = unsafe { mem.load_speculative(self.0 + 8 * ASLEEP) };
        mark == ticket
    }

    /// The event count by which a client sleeps: it changes with each answer.
    pub fn event_count(self) -> u64 {
        self.answer_line()
    }

    /// The request in a line, if there is a whole one.
    pub fn asked(line: &[u64; 8]) -> Option<Request> {
        let [ticket, kind, at, a, b] = opened(line)?;
        let wish = Wish::decode(kind, a, b)?;
        Some(Request { ticket, wish, at })
    }

    /// Journals what is about to be done. One round trip.
    pub fn plan<M: Memory>(self, mem: &M, entry: Entry) {
        let (stores, after) = entry.after.map_or((0, 0), |after| (1, after));
        let words = [entry.ticket, entry.at, after, stores, entry.answer];
        // SAFETY: a line of the box, as the code that made the mailboxes promised.
        unsafe { mem.store_line(self.journal_line(), sealed(words)) };
    }

    /// What the server redoes if it dies: the last entry. One round trip.
    pub fn planned<M: Memory>(self, mem: &M) -> Option<Entry> {
        // SAFETY: a line of the box, as the code that made the mailboxes promised.
        let [ticket, at, after, stores, answer] = opened(&unsafe { mem.fetch_line(self.journal_line()) })?;
        Some(Entry {
            ticket,
            at,
            after: (stores == 1).then_some(after),
            answer,
        })
    }

    /// Answers. One round trip.
    pub fn answer<M: Memory>(self, mem: &M, ticket: u64, answer: u64) {
        // SAFETY: a line of the box, as the code that made the mailboxes promised.
        unsafe { mem.store_line(self.answer_line(), sealed([ticket, answer])) };
    }

    /// The last answer, with its ticket. One round trip.
    pub fn answered<M: Memory>(self, mem: &M) -> Option<(u64, u64)> {
        self.read(mem).1
    }

    /// The same, with the event count. One round trip.
    pub fn read<M: Memory>(self, mem: &M) -> (u32, Option<(u64, u64)>) {
        // SAFETY: a line of the box, as the code that made the mailboxes promised.
        let line = unsafe { mem.fetch_line(self.answer_line()) };
        (
            line[0] as u32,
            opened(&line).map(|[ticket, answer]| (ticket, answer)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_whole_are_no_requests() {
        let words = [7, 1, 64, 3, 4];
        let line = sealed(words);
        let whole = Mailbox::asked(&line).unwrap();
        assert_eq!((whole.ticket, whole.at), (7, 64));
        assert_eq!(whole.wish, Wish::CompareExchange(3, 4));
        for word in 0..6 {
            for bit in 0..64 {
                let mut torn = line;
                torn[word] ^= 1 << bit;
                assert_eq!(Mailbox::asked(&torn), None, "word {word}, bit {bit}");
            }
            let mut torn = line;
            torn[word] = 0;
            assert_eq!(Mailbox::asked(&torn), None, "without word {word}");
        }
        assert_eq!(Mailbox::asked(&[0; 8]), None);
        // A sleeping client's mark is no part of the request.
        let mut marked = line;
        marked[ASLEEP as usize] = 7;
        assert_eq!(Mailbox::asked(&marked), Some(whole));
    }

    #[test]
    fn wishes_are_read_as_they_were_written() {
        for wish in [
            Wish::CompareExchange(1, 2),
            Wish::Add(3),
            Wish::Or(4),
            Wish::And(5),
            Wish::Store(6),
            Wish::Quiesce,
        ] {
            let (kind, a, b) = wish.encode();
            assert_eq!(Wish::decode(kind, a, b), Some(wish));
        }
        assert_eq!(Wish::CompareExchange(1, 2).of(1), Some(2));
        assert_eq!(Wish::CompareExchange(1, 2).of(3), None);
        assert_eq!(Wish::Add(u64::MAX).of(3), Some(2));
        assert_eq!(Wish::And(6).of(3), Some(2));
    }
}
