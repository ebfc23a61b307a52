//! Bells: sync words by which many wait for something that happens in the pool.
//!
//! ```text
//! bit 0        somebody may be asleep
//! bits 1..31   how often it was rung, modulo 2^31
//! ```
//!
//! Who waits sets bit 0 first and sleeps only if the word is still as it was then. Who rings counts on and clears the bit in one step,
//! and wakes all if it was set. Then nobody sleeps through a ring, nobody makes a system call for nobody, and a crash at any
//! step leaves at most a bit that costs one needless call. A ringer that dies between the word and the call leaves
//! sleepers; they look again when their time is over.

use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};

const ASLEEP: u64 = 1;
const ONE_RING: u64 = 2;

/// Rings a bell: all who sleep by it wake up. What it tells of is seen by others already, by an exchange or a lock that was given back, or
/// is a word of this process.
///
/// Cost: a load and a compare-exchange; a system call if somebody may be asleep.
#[cold]
#[inline(never)]
pub fn ring<M: Memory>(mem: &M, bell: SyncWord) {
    let mut word = bell.load(mem);
    loop {
        let next = (word & !ASLEEP).wrapping_add(ONE_RING) & u64::from(u32::MAX);
        match bell.compare_exchange_acquire(mem, word, next) {
            Ok(_) => break,
            Err(found) => word = found,
        }
    }
    if word & ASLEEP != 0 && !mutant::is(Mutant::BellNotRoused) {
        mem.kernel().rouse(bell.offset());
    }
}

/// [`ring`]s a bell if somebody may be asleep. What it tells of is ordered before the look at the bell by the caller.
///
/// Cost: a load; an exchange and a system call if somebody may be asleep.
#[inline]
pub fn wake<M: Memory>(mem: &M, bell: SyncWord) {
    if bell.load(mem) & ASLEEP != 0 {
        ring(mem, bell);
    }
}

/// How often it was rung, in bits that are compared.
///
/// Cost: a load.
pub(in crate::pod) fn rings<M: Memory>(mem: &M, bell: SyncWord) -> u32 {
    rings_of(bell.load(mem) as u32)
}

/// The same, but that one alone of those who are asleep is woken, and others who are about to fall asleep. All the others are asleep still, by the bell as it was.
///
/// Cost: as [`wake`]; another exchange and system call if nobody is asleep.
pub fn ring_for_one<M: Memory>(mem: &M, bell: SyncWord) {
    let mut word = bell.load(mem);
    let rung = loop {
        if word & ASLEEP == 0 {
            return;
        }
        let next = word.wrapping_add(ONE_RING) & u64::from(u32::MAX);
        match bell.compare_exchange_acquire(mem, word, next) {
            Ok(_) => break next,
            Err(found) => word = found,
        }
    };
    if !mem.kernel().rouse_one(bell.offset()) {
        // Who has found the bit set since relies on it: that one is rung for as well, as it may have fallen asleep. If the bell has changed, somebody else has
        // rung, who sees to it.
        let quiet = (rung & !ASLEEP).wrapping_add(ONE_RING) & u64::from(u32::MAX);
        if mutant::is(Mutant::BitTakenFromSleeper) {
            let _ = bell.compare_exchange_acquire(mem, rung, rung & !ASLEEP);
        } else if bell.compare_exchange_acquire(mem, rung, quiet).is_ok() {
            mem.kernel().rouse(bell.offset());
        }
    }
}

/// How often a bell had been rung when it said this, in bits that are compared.
pub fn rings_of(seen: u32) -> u32 {
    seen & !(ASLEEP as u32)
}

/// Says that the caller is about to sleep by a bell; to be called before the look for what is waited for. What the low
/// half of the word is until it is rung: what [`crate::memory::Kernel::doze`] wants to know.
///
/// Cost: a load, and a compare-exchange if nobody else is asleep.
pub fn attend<M: Memory>(mem: &M, bell: SyncWord) -> (u64, u32) {
    let mut word = bell.load(mem);
    while word & ASLEEP == 0 && !mutant::is(Mutant::BellUnattended) {
        match bell.compare_exchange_acquire(mem, word, word | ASLEEP) {
            Ok(_) => word |= ASLEEP,
            Err(found) => word = found,
        }
    }
    (bell.offset(), word as u32)
}
