//! Appending an event together with what it changes, so that a crash leaves both or neither.
//!
//! Under the group's lock everything is written down; setting the commit word to the event's number decides it; then it
//! is applied: the event into the ring, the member's line, the count; last the commit word is cleared. The next holder
//! of the lock that finds a commit word set applies the event again: all of it is absolute.
//!
//! | a crash after | leaves | repaired by |
//! |---|---|---|
//! | the lock is taken (`group.locked`) | a held lock | a worker that waits for it, or the recoverer |
//! | it is written down (`group.written`) | words that mean nothing | nobody has to |
//! | the commit (`group.committed`), the event (`group.event`), the member (`group.member`), the count (`group.counted`) | a decided event | the next holder of the lock applies it |
//! | the commit is cleared (`group.cleared`) | a complete event, perhaps nobody woken | the recoverer notifies the event count |

use super::Group;
use super::event::{Event, Member};
use super::layout::PAYLOAD_WORDS;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::mutant::{self, Mutant};
use crate::pod::Worker;
use crate::pod::instance::crash::{Point, crash_point};

/// Where the parts of the payload are.
const EVENT: usize = 0;
const MEMBER_PLACE: usize = 8;
const MEMBER: usize = 9;
const CURSOR: usize = 17;
const ANNOUNCING_DEATHS: usize = 18;
const HIGH: usize = 19;

/// What is written down before it is committed.
type Committed = [u64; PAYLOAD_WORDS];

/// What an event changes.
pub(super) struct Change {
    /// The event; its number is chosen when it is appended.
    pub event: Event,
    /// The member that changes, and what it becomes.
    pub member: Option<(u64, Member)>,
    /// Whether the member begins to read with this event.
    pub begins: bool,
    /// The host whose members are being announced dead, as
    /// [`Layout::announcing_deaths`](super::layout::Layout::announcing_deaths) has it.
    pub announcing_deaths: u64,
}

impl Group {
    /// Appends an event. The caller holds the lock, and has made sure that there is room.
    pub(super) fn append<M: Memory>(&self, worker: &Worker<M>, change: Change) -> Result<()> {
        let mem = worker.mem();
        let counted = self.layout.counted().load(mem);
        let number = counted.wrapping_add(1);
        let used = counted.wrapping_sub(self.least_cursor(worker, counted)?.0);
        if used >= self.events && !mutant::is(Mutant::GroupRoomForgotten) {
            return Err(Error::corrupt(
                "the events of a group",
                self.layout.counted().offset(),
            ));
        }
        let event = Event {
            number,
            time_ns: mem.kernel().now(),
            ..change.event
        };
        let mut payload: Committed = [0; PAYLOAD_WORDS];
        payload[EVENT..MEMBER_PLACE].copy_from_slice(&event.words());
        let high = self.layout.high().load(mem);
        payload[HIGH] = high;
        if let Some((place, member)) = change.member {
            let since = Member {
                since_event: number,
                ..member
            };
            payload[MEMBER_PLACE] = place + 1;
            payload[MEMBER..CURSOR].copy_from_slice(&since.words());
            payload[CURSOR] = if change.begins { number } else { 0 };
            payload[HIGH] = high.max(place + 1);
        }
        payload[ANNOUNCING_DEATHS] = change.announcing_deaths;
        let commit = self.layout.commit();
        mutant::also(Mutant::GroupCommitEarly, || commit.store(mem, number));
        for (n, word) in payload.into_iter().enumerate() {
            // PAIRS WITH: pod::group::append::committed, pod::group::append::is_appending
            self.layout.payload(n).store(mem, word);
        }
        crash_point(Point::GroupWritten);
        // PAIRS WITH: pod::group::append::committed, pod::group::append::is_appending
        commit.store(mem, number);
        crash_point(Point::GroupCommitted);
        self.apply(worker)
    }

    /// The number of a committed event and what it changes, if there is one. An error if it cannot be applied.
    pub(super) fn committed<M: Memory>(&self, worker: &Worker<M>) -> Result<Option<(u64, Committed)>> {
        let (mem, layout) = (worker.mem(), self.layout);
        // PAIRS WITH: pod::group::append::append, pod::group::append::apply
        let number = layout.commit().load(mem);
        if number == 0 {
            return Ok(None);
        }
        let payload: Committed = std::array::from_fn(|n| layout.payload(n).load(mem));
        let counted = layout.counted().load(mem);
        let is_next = counted == number || counted.wrapping_add(1) == number;
        let is_within = payload[MEMBER_PLACE] <= self.members && payload[HIGH] <= self.members;
        match is_next && payload[EVENT] == number && is_within {
            true => Ok(Some((number, payload))),
            false => Err(Error::corrupt(
                "what is being appended to a group",
                layout.commit().offset(),
            )),
        }
    }

    /// Whether an event is committed, and not applied yet, of a worker as a member.
    pub(super) fn is_appending<M: Memory>(&self, worker: &Worker<M>, identity: u64) -> bool {
        let mem = worker.mem();
        loop {
            // PAIRS WITH: pod::group::append::append, pod::group::append::apply
            let number = self.layout.commit().load(mem);
            if number == 0 {
                return false;
            }
            let of = self.layout.payload(MEMBER + 1).load(mem);
            // No number comes twice, and nothing is written down while one is committed.
            if self.layout.commit().load(mem) == number {
                return of == identity;
            }
        }
    }

    /// Applies a committed event, if there is one. The caller holds the lock.
    pub(super) fn apply<M: Memory>(&self, worker: &Worker<M>) -> Result<()> {
        let (mem, layout) = (worker.mem(), self.layout);
        let Some((number, payload)) = self.committed(worker)? else {
            return Ok(());
        };
        let corrupt = || Error::corrupt("what is being appended to a group", layout.commit().offset());
        let (event, rest) = payload.split_first_chunk::<8>().ok_or_else(corrupt)?;
        let [place, member @ .., cursor, announcing_deaths, high] = rest else {
            return Err(corrupt());
        };
        let member: [u64; 8] = member.try_into().map_err(|_| corrupt())?;
        mutant::also(Mutant::GroupCountedEarly, || layout.counted().store(mem, number));
        layout.event((number - 1) % self.events).write(mem, *event);
        crash_point(Point::GroupEvent);
        if let Some(place) = place.checked_sub(1) {
            if let Some(read) = cursor.checked_sub(1) {
                // PAIRS WITH: pod::group::least_cursor
                layout.cursor(place).store(mem, read);
            }
            if !mutant::is(Mutant::GroupMemberKept) {
                layout.member(place).write(mem, member);
            }
        }
        // PAIRS WITH: pod::group::high
        layout.high().store(mem, *high);
        // PAIRS WITH: pod::group::deaths::finish_deaths
        layout.announcing_deaths().store(mem, *announcing_deaths);
        crash_point(Point::GroupMember);
        // PAIRS WITH: pod::group::counted
        layout.counted().store(mem, number);
        crash_point(Point::GroupCounted);
        // PAIRS WITH: pod::group::append::committed, pod::group::append::is_appending, pod::group::last_committed
        layout.commit().store(mem, 0);
        crash_point(Point::GroupCleared);
        Ok(())
    }
}
