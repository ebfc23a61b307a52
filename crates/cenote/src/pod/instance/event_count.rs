//! Event counts: sync words by which many threads wait for something that happens in the pool.
//!
//! ```text
//! bit 0        a thread may be asleep
//! bits 1..31   how often it was notified, modulo 2^31
//! ```
//!
//! A waiter sets bit 0 first and sleeps only if the word is still as it was then. A notifier increments the count and
//! clears the bit in one step, and wakes all sleepers if the bit was set. So no waiter sleeps through a notification,
//! no notifier makes a system call for nobody, and a crash at any step leaves at most a bit that costs one needless
//! call. A notifier that dies between the word and the call leaves sleepers: the recoverer wakes them if it knows
//! the event count, by a slot of the dead one's for example; else they check again when their time is over.

use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};

const ASLEEP: u64 = 1;
const ONE_NOTIFICATION: u64 = 2;

/// Notifies an event count: all its sleepers wake up. Others already see what it announces, by an exchange or a lock
/// that was given back, or it is a word of this process.
///
/// Cost: a load and a compare-exchange; a system call if a thread may be asleep.
#[cold]
#[inline(never)]
pub fn notify_all<M: Memory>(mem: &M, event_count: SyncWord) {
    let mut word = event_count.load(mem);
    loop {
        let next = (word & !ASLEEP).wrapping_add(ONE_NOTIFICATION) & u64::from(u32::MAX);
        // PAIRS WITH: pod::instance::event_count::prepare_wait
        match event_count.compare_exchange_acquire(mem, word, next) {
            Ok(_) => break,
            Err(found) => word = found,
        }
    }
    if word & ASLEEP != 0 && !mutant::is(Mutant::EventCountNotWoken) {
        mem.kernel().wake(event_count.offset());
    }
}

/// [`notify_all`]s an event count if a thread may be asleep. The caller has ordered what it announces before the read
/// of the event count.
///
/// Cost: a load; an exchange and a system call if a thread may be asleep.
#[inline]
pub fn notify_waiting<M: Memory>(mem: &M, event_count: SyncWord) {
    // PAIRS WITH: pod::instance::event_count::prepare_wait
    if event_count.load(mem) & ASLEEP != 0 {
        notify_all(mem, event_count);
    }
}

/// Notifies an event count in the place of a dead worker: wakes the sleepers also if that one has notified, and so
/// cleared the bit, and has woken nobody, whenever its change took effect.
///
/// Cost: a load and a system call; an exchange and another system call if a thread may be asleep.
pub fn notify_for_the_dead<M: Memory>(mem: &M, event_count: SyncWord) {
    notify_waiting(mem, event_count);
    if !mutant::is(Mutant::DeadTakenForWaking) {
        mem.kernel().wake(event_count.offset());
    }
}

/// How often it was notified, as bits to compare.
///
/// Cost: a load.
pub(in crate::pod) fn notifications<M: Memory>(mem: &M, event_count: SyncWord) -> u32 {
    notifications_of(event_count.load(mem) as u32)
}

/// Notifies an event count, but wakes only one of the sleepers, and threads that are about to fall asleep. The other
/// sleepers stay asleep, by the event count as it was.
///
/// Cost: as [`notify_waiting`]; another exchange and system call if no thread is asleep.
pub fn notify_one<M: Memory>(mem: &M, event_count: SyncWord) {
    let mut word = event_count.load(mem);
    let notified = loop {
        if word & ASLEEP == 0 {
            return;
        }
        let next = word.wrapping_add(ONE_NOTIFICATION) & u64::from(u32::MAX);
        // PAIRS WITH: pod::instance::event_count::prepare_wait
        match event_count.compare_exchange_acquire(mem, word, next) {
            Ok(_) => break next,
            Err(found) => word = found,
        }
    };
    if !mem.kernel().wake_one(event_count.offset()) {
        // A waiter that has found the bit set since relies on it: it is notified as well, as it may have fallen asleep.
        // If the event count has changed, another notifier has come, and wakes it.
        let quiet = (notified & !ASLEEP).wrapping_add(ONE_NOTIFICATION) & u64::from(u32::MAX);
        if mutant::is(Mutant::BitTakenFromSleeper) {
            let _ = event_count.compare_exchange_acquire(mem, notified, notified & !ASLEEP);
        // PAIRS WITH: pod::instance::event_count::prepare_wait
        } else if event_count.compare_exchange_acquire(mem, notified, quiet).is_ok() {
            mem.kernel().wake(event_count.offset());
        }
    }
}

/// How often an event count had been notified when it had this value, as bits to compare.
pub fn notifications_of(seen: u32) -> u32 {
    seen & !(ASLEEP as u32)
}

/// The caller is about to sleep by an event count; to be called before it checks what it waits for. Returns the word's
/// offset and its low half until the next notification: what [`crate::memory::Kernel::wait`] needs.
///
/// Cost: a load, and a compare-exchange if no other thread is asleep.
pub fn prepare_wait<M: Memory>(mem: &M, event_count: SyncWord) -> (u64, u32) {
    let mut word = event_count.load(mem);
    while word & ASLEEP == 0 && !mutant::is(Mutant::WaitNotPrepared) {
        // PAIRS WITH: pod::instance::event_count::notify_waiting, pod::instance::event_count::notify_all, pod::instance::event_count::notify_one
        match event_count.compare_exchange_acquire(mem, word, word | ASLEEP) {
            Ok(_) => word |= ASLEEP,
            Err(found) => word = found,
        }
    }
    (event_count.offset(), word as u32)
}
