//! Operations on what all workers write: shared keys, counters, ledgers, and maps that are created during the run.

use std::collections::HashMap;

use cenote::Replace;
use cenote::memory::Mapped;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::content::{self, Family};
use super::latency::Kind;
use super::state::{State, readable};
use super::worker::Worker;
use crate::collection::Collection;
use crate::trial::content::{Keyspace, Stamp};
use crate::trial::fault::Fault;
use crate::trial::journal::{Action, Entry};

/// A writer among many, and what it has seen of the others: no writer's older write may come back.
pub struct Crowd {
    writer: u32,
    seen: HashMap<(u32, u32), u32>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Crowd {
    /// A writer.
    pub fn new(writer: u32) -> Self {
        Self {
            writer,
            seen: HashMap::new(),
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    fn see<M: Mapped>(&mut self, state: &State<M>, index: u32, value: &[u8]) -> Result<(), Fault> {
        let Stamp { writer, version } = state.check(Family::Shared, &self.key, value)?;
        let seen = self.seen.entry((index, writer)).or_default();
        if version < *seen {
            return Err(Fault::lost(format!(
                "shared key {index} has version {version} of worker {writer} again, after a later one: {seen}"
            )));
        }
        *seen = version;
        Ok(())
    }

    /// One operation on a shared key, as `version` of this writer; whether it changed the key.
    pub fn step<M: Mapped>(
        &mut self,
        state: &State<M>,
        random: &mut ChaCha8Rng,
        index: u32,
        version: u32,
        mut time: impl FnMut(Kind, &mut dyn FnMut() -> Result<(), Fault>) -> Result<(), Fault>,
    ) -> Result<bool, Fault> {
        let map = state.map(Family::Shared);
        content::key(Family::Shared, 0, index, 0, &mut self.key);
        let stamp = Stamp {
            writer: self.writer,
            version,
        };
        state
            .content
            .value(Family::Shared, &self.key, stamp, &mut self.value);
        let draw = random.random_range(0..100);
        let mut found = None;
        let mut changed = false;
        let key = &self.key;
        if !(25..70).contains(&draw) {
            time(Kind::Get, &mut || {
                found = map.get(key)?;
                Ok(())
            })?;
        }
        let copy = found.map(|value| value.to_vec());
        if let Some(value) = &copy {
            self.see(state, index, value)?;
        }
        let (key, value) = (&self.key, &self.value);
        let mut differs = None;
        match draw {
            0..25 => {}
            25..55 => time(Kind::Put, &mut || {
                map.put(key, value)?;
                changed = true;
                Ok(())
            })?,
            55..70 => time(Kind::Insert, &mut || {
                changed = map.insert(key, value)?;
                Ok(())
            })?,
            70..85 => {
                let Some(old) = &copy else { return Ok(false) };
                time(Kind::Replace, &mut || {
                    match map.replace(key, old, value)? {
                        Replace::Replaced => changed = true,
                        Replace::Differs(found) => differs = Some(found),
                        Replace::Missing => {}
                    }
                    Ok(())
                })?;
            }
            _ => time(Kind::Remove, &mut || {
                changed = map.remove(key)?;
                Ok(())
            })?,
        }
        if let Some(found) = differs {
            self.see(state, index, &found)?;
        }
        if changed {
            self.seen.insert((index, self.writer), version);
        }
        Ok(changed)
    }
}

impl<M: Mapped> Worker<M> {
    /// An operation on a shared key.
    pub(super) fn shared(&mut self) -> Result<(), Fault> {
        let index = self.random.random_range(0..Family::Shared.keys());
        let version = self.journal.sequence() as u32 + 1;
        let after = Entry {
            version,
            ..Entry::default()
        };
        let intent = self.journal.intend(Action::Put, Family::Shared, index, after)?;
        let bench = &mut self.bench;
        let changed = self
            .crowd
            .step(&self.state, &mut self.random, index, version, |kind, work| {
                bench.time(kind, work)
            })?;
        self.journal
            .acknowledge(&intent, if changed { intent.after } else { intent.before })?;
        Ok(())
    }

    /// Increments a counter by compare-and-replace.
    pub(super) fn count(&mut self) -> Result<(), Fault> {
        let index = self.random.random_range(0..Family::Counters.keys());
        content::key(Family::Counters, 0, index, 0, &mut self.key);
        let entry = self.journal.entry(Family::Counters, index);
        let after = Entry {
            version: entry.version + 1,
            ..entry
        };
        let intent = self
            .journal
            .intend(Action::Count, Family::Counters, index, after)?;
        let map = self.state.map(Family::Counters);
        let value = self.bench.time(Kind::Get, || map.get(&self.key))?;
        let Some(mut old) = value.map(|value| value.to_vec()) else {
            return Err(Fault::lost(format!("counter {index} is gone")));
        };
        for _ in 0..16 {
            let count = self.state.content.count_of(&self.key, &old);
            let count = count.map_err(|why| Fault::torn(format!("counter {index} {why}")))?;
            let seen = &mut self.seen_counters[index as usize];
            if count < *seen {
                return Err(Fault::lost(format!(
                    "counter {index} went back from {seen} to {count}"
                )));
            }
            *seen = count;
            let new = self.state.content.counter(&self.key, count + 1);
            match self
                .bench
                .time(Kind::Replace, || map.replace(&self.key, &old, &new))?
            {
                Replace::Replaced => {
                    *seen = count + 1;
                    self.journal.acknowledge(&intent, intent.after)?;
                    return Ok(());
                }
                Replace::Differs(found) => old = found,
                Replace::Missing => return Err(Fault::lost(format!("counter {index} is gone"))),
            }
        }
        self.journal.acknowledge(&intent, intent.before)?;
        Ok(())
    }

    /// Increments the own count in a ledger by compare-and-replace.
    pub(super) fn enter(&mut self) -> Result<(), Fault> {
        let me = self.orders.worker as usize;
        let index = self.random.random_range(0..Family::Ledgers.keys());
        let entry = self.journal.entry(Family::Ledgers, index);
        let after = Entry {
            version: entry.version + 1,
            ..entry
        };
        let intent = self
            .journal
            .intend(Action::Count, Family::Ledgers, index, after)?;
        content::key(Family::Ledgers, 0, index, 0, &mut self.key);
        for _ in 0..16 {
            let old = self.state.ledger(index)?;
            let seen = &mut self.seen_ledgers[index as usize];
            if old[me] != entry.version || old.iter().zip(&*seen).any(|(now, seen)| now < seen) {
                return Err(Fault::lost(format!(
                    "ledger {index} is {old:?}; it was {seen:?} before, and worker {me} has counted {}",
                    entry.version
                )));
            }
            let mut new = old.clone();
            new[me] += 1;
            let (old_bytes, new_bytes) = (self.state.content.ledger(&old), self.state.content.ledger(&new));
            let map = self.state.map(Family::Ledgers);
            let outcome = self
                .bench
                .time(Kind::Replace, || map.replace(&self.key, &old_bytes, &new_bytes))?;
            seen.clone_from(&old);
            if outcome == Replace::Replaced {
                self.journal.acknowledge(&intent, intent.after)?;
                return Ok(());
            }
        }
        self.journal.acknowledge(&intent, intent.before)?;
        Ok(())
    }

    /// Opens one of many maps, which may have to be created, and uses it.
    pub(super) fn extra_map(&mut self) -> Result<(), Fault> {
        let name = format!("extra-{}", self.random.random_range(0..40));
        let map = self.bench.time(Kind::OpenMap, || {
            Collection::open(&self.pool, &name, self.orders.plan.map)
        })?;
        let me = self.orders.worker;
        content::key(Family::Words, me, 0, 0, &mut self.key);
        let mut version = self.journal.sequence() as u32;
        if let Some(value) = self.bench.time(Kind::Get, || map.get(&self.key))? {
            let found = self.state.check(Family::Words, &self.key, &value)?;
            if found.writer != me || found.version > version {
                return Err(Fault::torn(format!(
                    "{name}: key {} has {found:?}",
                    readable(&self.key)
                )));
            }
            version = version.max(found.version);
        }
        self.state.content.value(
            Family::Words,
            &self.key,
            Stamp { writer: me, version },
            &mut self.value,
        );
        self.bench.time(Kind::Put, || map.put(&self.key, &self.value))?;
        Ok(())
    }
}
