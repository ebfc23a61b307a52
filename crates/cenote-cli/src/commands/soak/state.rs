//! Compares the pool's maps with the journals: each key is as its journal says, and nothing else is there.

use cenote::Pool;
use cenote::memory::Memory;

use super::family::Family;
use super::plan::Plan;
use crate::map::AnyMap;
use crate::trial::content::{Content, Keyspace, Stamp};
use crate::trial::fault::Fault;
use crate::trial::journal::{Entry, Intent, Journal};

/// In a quick check, one of so many keys of bulk is read.
const STRIDE: u32 = 16;

/// The maps that a worker uses, as one thread has them open.
pub struct State<M: Memory> {
    /// How values are made.
    pub content: Content,
    worker: u32,
    maps: Vec<AnyMap<M>>,
}

impl<M: Memory> State<M> {
    /// Opens a worker's maps, and creates those that are not there.
    pub fn open(pool: &Pool<M>, plan: &Plan, worker: u32) -> Result<Self, Fault> {
        let maps: cenote::Result<Vec<AnyMap<M>>> = Family::ALL
            .iter()
            .map(|family| AnyMap::open(pool, &family.map_name(worker), family.is_ordered()))
            .collect();
        Ok(Self {
            content: Content::new(plan.seed),
            worker,
            maps: maps?,
        })
    }

    /// A family's map.
    pub fn map(&self, family: Family) -> &AnyMap<M> {
        &self.maps[family as usize]
    }

    fn stamp(&self, version: u32) -> Stamp {
        Stamp {
            writer: self.worker,
            version,
        }
    }

    /// Bytes of an own key and of its value.
    pub fn sizes(&self, family: Family, index: u32, entry: Entry) -> (usize, usize) {
        let mut key = Vec::new();
        family.key(self.worker, index, entry.era, &mut key);
        let len = self.content.len(family, &key, self.stamp(entry.version));
        (key.len(), len)
    }

    /// Checks that what was found under an own key is what its entry says.
    pub fn compare(
        &self,
        family: Family,
        index: u32,
        entry: Entry,
        found: Option<&[u8]>,
    ) -> Result<(), Fault> {
        let mut key = Vec::new();
        family.key(self.worker, index, entry.era, &mut key);
        let about = |what: String| {
            let name = family.map_name(self.worker);
            format!("{name}, key {index} of worker {}, {entry:?}: {what}", self.worker)
        };
        let Some(found) = found else {
            if entry.version == 0 {
                return Ok(());
            }
            return Err(Fault::lost(about("the pool has none".to_owned())));
        };
        let mut wanted = Vec::new();
        if entry.version != 0 {
            let stamp = self.stamp(entry.version);
            self.content.value(family, &key, stamp, &mut wanted);
            if wanted == found {
                return Ok(());
            }
        }
        let fault = match self.content.check(family, &key, found) {
            Ok(stamp) if entry.version == 0 => Fault::phantom(about(format!("the pool has {stamp:?}"))),
            Ok(stamp) => Fault::lost(about(format!("the pool has {stamp:?}"))),
            Err(why) => Fault::torn(about(format!("its value {why}"))),
        };
        Err(fault)
    }

    /// Reads an own key, and checks it.
    pub fn verify(&self, family: Family, index: u32, entry: Entry) -> Result<(), Fault> {
        let mut key = Vec::new();
        family.key(self.worker, index, entry.era, &mut key);
        let found = self.map(family).get(&key)?;
        self.compare(family, index, entry, found.as_deref())
    }

    /// Finds out whether the operation that was in flight when the worker died has happened, and acknowledges that.
    pub fn resolve_in_flight(&self, journal: &mut Journal<Family>) -> Result<Option<Intent<Family>>, Fault> {
        let Some(intent) = journal.in_flight() else {
            return Ok(None);
        };
        let happened = self.verify(intent.family, intent.index, intent.after);
        let entry = match happened {
            Ok(()) => intent.after,
            Err(_) => {
                self.verify_undone(&intent)?;
                intent.before
            }
        };
        journal.acknowledge(&intent, entry)?;
        Ok(Some(intent))
    }

    /// Checks that an operation has changed nothing.
    pub fn verify_undone(&self, intent: &Intent<Family>) -> Result<(), Fault> {
        let Intent {
            family,
            index,
            before,
            after,
            ..
        } = *intent;
        if before.era != after.era {
            self.verify(family, index, Entry { version: 0, ..after })?;
        }
        self.verify(family, index, before)
    }

    /// Checks what the journal says of all keys; quickly, of all but most of the bulk. How many that were.
    pub fn verify_journal(&self, journal: &Journal<Family>, quickly: bool) -> Result<u64, Fault> {
        let mut checked = 0;
        for &family in Family::ALL {
            let is_bulk = matches!(family, Family::BulkHash | Family::BulkOrdered);
            let stride = if quickly && is_bulk { STRIDE } else { 1 };
            let used = |(_, entry): &(u32, &Entry)| entry.sequence != 0;
            for (index, entry) in (0..).zip(journal.entries(family)).filter(used) {
                if index % stride == 0 {
                    self.verify(family, index, *entry)?;
                    checked += 1;
                }
            }
        }
        Ok(checked)
    }
}

/// Keys of a family that are there by a journal.
pub fn present(journal: &Journal<Family>, family: Family) -> u64 {
    let entries = journal.entries(family).iter();
    entries.filter(|entry| entry.version != 0).count() as u64
}

/// Checks every journal against the pool, while no worker writes: each key, and that each map has no other. Returns how
/// many keys there were.
pub fn examine<M: Memory>(pool: &Pool<M>, plan: &Plan) -> Result<u64, Fault> {
    let mut journals = Vec::new();
    for worker in 0..plan.workers {
        journals.push(Journal::<Family>::open(&plan.folder, worker)?);
    }
    let mut checked = 0;
    for (worker, journal) in (0..).zip(&mut journals) {
        let state = State::open(pool, plan, worker)?;
        // At the end some were killed; while they pause, nothing is in flight.
        state.resolve_in_flight(journal)?;
        checked += state.verify_journal(journal, false)?;
        for family in Family::QUEUES {
            count(&state, family, present(journal, family))?;
        }
    }
    let state = State::open(pool, plan, 0)?;
    for &family in Family::ALL {
        if !Family::QUEUES.contains(&family) {
            let wanted = journals.iter().map(|journal| present(journal, family)).sum();
            count(&state, family, wanted)?;
        }
    }
    Ok(checked)
}

/// Walks a map: it has as many keys as the journals say. That each of these is there was seen already.
fn count<M: Memory>(state: &State<M>, family: Family, wanted: u64) -> Result<(), Fault> {
    let map = state.map(family);
    let mut walked = 0;
    map.for_each(|_, _| walked += 1)?;
    let length = map.len();
    let text = || {
        let name = family.map_name(state.worker);
        format!("{name} has {wanted} keys by the journals, {walked} by walking it, {length} by its own count")
    };
    if walked > wanted {
        Err(Fault::phantom(text()))
    } else if walked < wanted || length != wanted {
        Err(Fault::lost(text()))
    } else {
        Ok(())
    }
}
