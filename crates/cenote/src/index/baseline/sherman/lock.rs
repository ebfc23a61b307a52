//! Locks of two levels: the threads of a process first agree on which of them competes for the pool's lock.
//!
//! A lock of the pool is a sync word in a line of its own: 0, or the process that holds it, as a worker's state names
//! it (place and tag). It is taken by a compare-exchange from 0, or from a dead process, and released by a store. Nodes
//! share locks by a hash of their offsets; nobody holds two.
//!
//! If threads of the same process wait, a holder hands the pool's lock on to them instead of releasing it; only a few
//! times in a row, so that other processes get their turn. A process that dies leaves its lock words; the next holder
//! repairs what they cover (`line`, `node`).

use super::Sherman;
use super::host::Local;
use crate::error::Result;
use crate::index::baseline::back_off::BackOff;
use crate::memory::checked::sync_word;
use crate::memory::{LINE, Memory, SyncWord};
use crate::pod::format::record::{Phase, State};

/// How often a lock is handed on within a process, as in Sherman.
const HANDED_ON_MAX: u64 = 4;
/// Polls of a lock between two checks whether its owner lives.
const POLLS: u32 = 64;

/// A held lock.
pub struct Held<'t, M: Memory> {
    mem: &'t M,
    word: SyncWord,
    local: &'t Local,
}

impl<M: Memory> Sherman<M> {
    /// Takes the lock of a node.
    ///
    /// Cost: a compare-exchange, unless it is handed on; more while others hold it.
    pub(super) fn lock(&self, node: u64) -> Result<Held<'_, M>> {
        let mem = self.mem();
        let (number, local) = self.host.local_of(node / LINE);
        let back_off = BackOff::default();
        local.waiting.add(1);
        while !local.held.exchange(0, 1) {
            back_off.lose(mem);
        }
        local.waiting.add(u64::MAX);
        mem.tells_own_process();
        let word = sync_word(self.locks + (1 + number) * LINE);
        if local.handed_on.load() == 0
            && let Err(error) = self.take(word)
        {
            local.held.store(0);
            return Err(error);
        }
        Ok(Held { mem, word, local })
    }

    /// Takes a lock of the pool.
    fn take(&self, word: SyncWord) -> Result<()> {
        let (mem, pod) = (self.mem(), self.arena.worker().pod());
        let mine = pod.claim(Phase::Alive, 0).encode();
        let back_off = BackOff::default();
        loop {
            let Err(owner) = word.compare_exchange(mem, 0, mine) else {
                return Ok(());
            };
            if back_off.lose(mem).is_multiple_of(POLLS)
                && !pod.instance_lives(State::decode(owner))?
                && word.compare_exchange(mem, owner, mine).is_ok()
            {
                return Ok(());
            }
        }
    }
}

impl<M: Memory> Drop for Held<'_, M> {
    fn drop(&mut self) {
        let handed_on = self.local.handed_on.load();
        if self.local.waiting.load() > 0 && handed_on < HANDED_ON_MAX {
            self.local.handed_on.store(handed_on + 1);
        } else {
            self.local.handed_on.store(0);
            self.word.store(self.mem, 0);
        }
        self.mem.tells_own_process();
        self.local.held.store(0);
    }
}
