//! Compares the pool's maps or stores with the journals: each key is as its journal says.
//!
//! Workers use it after each restart and on everything that they read; the supervisor uses it at the end.

use cenote::Pool;

use super::content::{self, Family};
use super::plan::Plan;
use crate::collection::{Collection, CollectionKind};
use crate::trial::content::{Content, Keyspace, Stamp};
use crate::trial::fault::Fault;
use crate::trial::journal::{Entry, Intent, Journal};

/// What a family is kept in: objects cannot be compared and replaced in one step.
fn kind_of(family: Family, wanted: CollectionKind) -> CollectionKind {
    match family {
        Family::Counters | Family::Ledgers if wanted == CollectionKind::Objects => CollectionKind::Hash,
        _ => wanted,
    }
}

/// The maps or stores of a run, as one thread has them open.
pub struct State<M: cenote::memory::Memory> {
    /// How values are made.
    pub content: Content,
    collections: Vec<Collection<M>>,
    workers: u32,
}

impl<M: cenote::memory::Memory> State<M> {
    /// Opens the maps, and creates those that are not there.
    pub fn open(pool: &Pool<M>, plan: &Plan) -> Result<Self, Fault> {
        let collections: cenote::Result<Vec<Collection<M>>> = Family::ALL
            .iter()
            .map(|family| Collection::open(pool, family.name(), kind_of(*family, plan.map)))
            .collect();
        let state = Self {
            content: Content::new(plan.seed),
            collections: collections?,
            workers: plan.workers,
        };
        let mut key = Vec::new();
        for index in 0..Family::Counters.keys() {
            content::key(Family::Counters, 0, index, 0, &mut key);
            state
                .map(Family::Counters)
                .insert(&key, &state.content.counter(&key, 0))?;
            content::key(Family::Ledgers, 0, index, 0, &mut key);
            let zeros = state.content.ledger(&vec![0; plan.workers as usize]);
            state.map(Family::Ledgers).insert(&key, &zeros)?;
        }
        Ok(state)
    }

    /// What a family is kept in.
    pub fn map(&self, family: Family) -> &Collection<M> {
        &self.collections[family as usize]
    }

    /// Checks a value's bytes.
    pub fn check(&self, family: Family, key: &[u8], value: &[u8]) -> Result<Stamp, Fault> {
        self.content.check(family, key, value).map_err(|why| {
            Fault::torn(format!(
                "{}: the value of key {} {why}",
                family.name(),
                readable(key)
            ))
        })
    }

    /// Checks that an own key's value is the one that its entry says.
    pub fn compare(&self, at: (Family, u32, u32), entry: Entry, value: Option<&[u8]>) -> Result<(), Fault> {
        let (family, worker, index) = at;
        let mut key = Vec::new();
        content::key(family, worker, index, entry.era, &mut key);
        let found = value.map(|value| self.check(family, &key, value)).transpose()?;
        let wanted = (entry.version != 0).then_some(Stamp {
            writer: worker,
            version: entry.version,
        });
        if found == wanted {
            return Ok(());
        }
        Err(Fault::lost(format!(
            "{} key {index} of worker {worker}, era {}: the journal says {}, operation {} was the last; the pool has {}",
            family.name(),
            entry.era,
            described(wanted),
            entry.sequence,
            described(found),
        )))
    }

    /// Reads an own key and checks it; also that the key of the era before stays away.
    pub fn verify(&self, worker: u32, family: Family, index: u32, entry: Entry) -> Result<(), Fault> {
        let mut key = Vec::new();
        content::key(family, worker, index, entry.era, &mut key);
        let value = self.map(family).get(&key)?;
        self.compare((family, worker, index), entry, value.as_deref())?;
        if let Some(era) = entry.era.checked_sub(1) {
            content::key(family, worker, index, era, &mut key);
            let gone = Entry {
                version: 0,
                era,
                ..entry
            };
            let value = self.map(family).get(&key)?;
            self.compare((family, worker, index), gone, value.as_deref())?;
        }
        Ok(())
    }

    /// Reads a ledger; the count of a worker in it.
    pub fn ledger(&self, index: u32) -> Result<Vec<u32>, Fault> {
        let mut key = Vec::new();
        content::key(Family::Ledgers, 0, index, 0, &mut key);
        let Some(value) = self.map(Family::Ledgers).get(&key)? else {
            return Err(Fault::lost(format!("ledger {index} is gone")));
        };
        self.content
            .counts_of(&value, self.workers)
            .map_err(|why| Fault::torn(format!("ledger {index} {why}")))
    }

    /// Finds out whether the operation that was in flight when a worker died has happened, and acknowledges that.
    pub fn resolve_in_flight(
        &self,
        worker: u32,
        journal: &mut Journal<Family>,
    ) -> Result<Option<Intent<Family>>, Fault> {
        let Some(intent) = journal.in_flight() else {
            return Ok(None);
        };
        let Intent {
            family,
            index,
            before,
            after,
            ..
        } = intent;
        let entry = match family {
            Family::Shared => before,
            Family::Counters => Entry {
                era: before.era + 1,
                ..before
            },
            Family::Ledgers => {
                let count = self.ledger(index)?[worker as usize];
                if count != before.version && count != after.version {
                    return Err(Fault::lost(format!(
                        "ledger {index} says that worker {worker} has counted {count}; it was {} or {} when it died",
                        before.version, after.version
                    )));
                }
                Entry {
                    version: count,
                    ..before
                }
            }
            _ => {
                let mut key = Vec::new();
                content::key(family, worker, index, before.era, &mut key);
                let value = self.map(family).get(&key)?;
                let found = value
                    .as_deref()
                    .map(|value| self.check(family, &key, value))
                    .transpose()?;
                let version = found.map_or(0, |stamp| stamp.version);
                let states = [before, after].into_iter();
                let state = states.filter(|_| found.is_none_or(|stamp| stamp.writer == worker));
                state.rev().find(|entry| entry.version == version).ok_or_else(|| {
                    Fault::lost(format!(
                        "{} key {index} of worker {worker}: {intent:?} was in flight when it died; the pool has {}",
                        family.name(),
                        described(found)
                    ))
                })?
            }
        };
        journal.acknowledge(&intent, entry)?;
        Ok(Some(intent))
    }

    /// Checks what a worker's journal says of the keys that only it writes, all of them or only the last ones.
    pub fn verify_journal(&self, worker: u32, journal: &Journal<Family>, all: bool) -> Result<u64, Fault> {
        let mut checked = 0;
        let mut verify = |family: Family, index: u32| {
            checked += 1;
            self.verify(worker, family, index, journal.entry(family, index))
        };
        if all {
            for family in Family::OWNED {
                (0..family.keys()).try_for_each(|index| verify(family, index))?;
            }
        } else {
            let owned = |intent: &Intent<Family>| Family::OWNED.contains(&intent.family);
            for intent in journal
                .history()?
                .iter()
                .rev()
                .filter(|intent| owned(intent))
                .take(256)
            {
                verify(intent.family, intent.index)?;
            }
        }
        for index in 0..Family::Ledgers.keys() {
            let (said, wanted) = (
                self.ledger(index)?[worker as usize],
                journal.entry(Family::Ledgers, index),
            );
            if said != wanted.version {
                return Err(Fault::lost(format!(
                    "ledger {index} says that worker {worker} has counted {said}; it has counted {}",
                    wanted.version
                )));
            }
        }
        Ok(checked)
    }
}

/// A key for people.
pub fn readable(key: &[u8]) -> String {
    let text = key[..key.len().min(40)].escape_ascii().to_string();
    if key.len() > 40 {
        format!("\"{text}…\" ({} bytes)", key.len())
    } else {
        format!("\"{text}\"")
    }
}

fn described(stamp: Option<Stamp>) -> String {
    match stamp {
        Some(Stamp { writer, version }) => format!("version {version} of worker {writer}"),
        None => "none".to_owned(),
    }
}
