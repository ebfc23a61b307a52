//! Getting many keys at once: their cache misses overlap.
//!
//! Keys are taken in batches. For each batch, first all home lines are prefetched, then all candidate
//! objects, and only then are keys compared. On incoherent memory the lines of a batch are dropped from the
//! cache under one fence, and fetched by plain loads.

use super::HashMap;
use super::level::home_of;
use super::slot::{Slot, fingerprint};
use crate::error::Result;
use crate::index::common::value::Bytes;
use crate::memory::Memory;
use crate::memory::checked::{sync_word, word_line};

/// Keys in a batch: about as many misses as a core keeps in flight.
const GROUP: usize = 24;

/// What is known of a key so far.
#[derive(Clone, Copy, Default)]
struct Step {
    hash: u64,
    line: u64,
    candidate: u64,
}

impl<M: Memory> HashMap<M> {
    /// Looks up all keys, and calls `each` with the position of a key and its value, in the order of the keys. The
    /// bytes are only valid during the call.
    ///
    /// Cost: as many misses as `get`, but many at a time.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut first = 0;
        for group in keys.chunks(GROUP) {
            self.get_group(group, |n, value| each(first + n, value))?;
            first += group.len();
        }
        Ok(())
    }

    /// [`HashMap::get_many`] for 8-byte keys and values. Values of other lengths count as missing.
    ///
    /// Cost: as of [`HashMap::get_many`].
    pub fn get_many_u64(&self, keys: &[u64], mut each: impl FnMut(usize, Option<u64>)) -> Result<()> {
        let mut first = 0;
        for group in keys.chunks(GROUP) {
            let mut bytes = [[0; 8]; GROUP];
            for (bytes, key) in bytes.iter_mut().zip(group) {
                *bytes = key.to_le_bytes();
            }
            self.get_group(&bytes[..group.len()], |n, value| {
                each(
                    first + n,
                    value.and_then(|value| value.try_into().ok().map(u64::from_le_bytes)),
                );
            })?;
            first += group.len();
        }
        Ok(())
    }

    #[inline]
    fn get_group<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let worker = &*self.worker;
        let mem = worker.mem();
        let _pin = self.pin()?;
        let Some(level) = self.oldest()? else {
            (0..keys.len()).for_each(|n| each(n, None));
            return Ok(());
        };
        let mut steps = [Step::default(); GROUP];
        for (step, key) in steps.iter_mut().zip(keys) {
            step.hash = self.hash(key.as_ref());
            step.line = home_of(&level, step.hash);
            mem.prefetch(step.line);
        }
        if !M::COHERENT {
            mem.fence();
        }
        for step in &mut steps[..keys.len()] {
            step.candidate = self.candidate(step.line, step.hash);
            if step.candidate != 0 {
                worker.check("a map's object", Slot(step.candidate).offset(), 16)?;
                if M::COHERENT {
                    mem.prefetch(Slot(step.candidate).offset());
                }
            }
        }
        for (n, (step, key)) in steps.iter().zip(keys).enumerate() {
            let key = key.as_ref();
            if step.candidate != 0 {
                let slot = Slot(step.candidate);
                if slot.is_small_binding()
                    && let Some(value) = self.small_value(slot.offset(), key)
                {
                    each(n, Some(value.as_bytes()));
                    continue;
                }
                if let Some(value) = self.value_if_key(slot, key)? {
                    each(n, Some(value.as_bytes()));
                    continue;
                }
            }
            let value = self.find(step.hash, key)?;
            each(n, value.as_ref().map(Bytes::as_bytes));
        }
        Ok(())
    }

    /// The first binding of a line that has the fingerprint; 0 if there is none. The line was dropped from the cache
    /// before.
    #[inline]
    fn candidate(&self, at: u64, hash: u64) -> u64 {
        let mem = self.worker.mem();
        let candidates = word_line(at).tagged(mem, fingerprint(hash));
        if candidates == 0 {
            return 0;
        }
        let slot = Slot(sync_word(at + 8 * u64::from(candidates.trailing_zeros())).load_speculative(mem));
        if slot.is_binding() { slot.0 } else { 0 }
    }
}
