//! The verdict, once all workers are dead: everything is there, and nothing else.

use cenote::memory::Mapped;
use cenote::{FsckReport, Options, Pool};

use super::content::{self, Family};
use super::plan::{Plan, Plant};
use super::state::State;
use crate::trial::content::Keyspace;
use crate::trial::fault::Fault;
use crate::trial::journal::{Entry, Journal};

/// What the supervisor found at the end.
pub struct Verdict {
    /// Faults of the contents.
    pub faults: Vec<Fault>,
    /// What fsck says.
    pub fsck: Option<FsckReport>,
    /// Dead processes recovered during the run.
    pub recoveries: u64,
    /// Operations that were acknowledged.
    pub acknowledged: u64,
}

/// Opens the pool, recovers it, checks every journal against it, and accounts for its bytes.
pub fn reach<M: Mapped>(plan: &Plan, in_flight: u64) -> Verdict {
    let mut verdict = Verdict {
        faults: Vec::new(),
        fsck: None,
        recoveries: 0,
        acknowledged: 0,
    };
    if let Err(fault) = examine::<M>(plan, in_flight, &mut verdict) {
        verdict.faults.push(fault);
    }
    for fault in &mut verdict.faults {
        fault.found_by = "the supervisor, at the end".to_owned();
    }
    verdict
}

fn examine<M: Mapped>(plan: &Plan, in_flight: u64, verdict: &mut Verdict) -> Result<(), Fault> {
    let mut journals = Vec::new();
    for worker in 0..plan.workers {
        journals.push(Journal::open(&plan.folder, worker)?);
    }
    let open: u64 = journals
        .iter()
        .map(|journal| u64::from(journal.in_flight().is_some()))
        .sum();
    let intended: u64 = journals.iter().map(Journal::sequence).sum();
    verdict.acknowledged = intended.saturating_sub(open + in_flight);
    let pool = Pool::<M>::open(&plan.pool, &Options::default())?;
    pool.recover()?;
    let state = State::open(&pool, plan)?;
    for (worker, journal) in journals.iter_mut().enumerate() {
        let worker = worker as u32;
        let fault = state.resolve_in_flight(worker, journal).err();
        let faults = fault
            .into_iter()
            .chain(state.verify_journal(worker, journal, true).err());
        verdict.faults.extend(faults);
    }
    verdict.faults.extend(unexpected(&state, &journals).err());
    verdict.faults.extend(shared(&state, &journals).err());
    verdict.faults.extend(counters(&state, &journals).err());
    if plan.plant == Some(Plant::Leak) {
        leak(&pool)?;
    }
    verdict.fsck = Some(pool.fsck()?);
    verdict.recoveries = pool.stat()?.recoveries;
    Ok(())
}

/// Walks the maps whose keys have one writer: nothing is there that no journal knows.
fn unexpected<M: Mapped>(state: &State<M>, journals: &[Journal<Family>]) -> Result<(), Fault> {
    for family in Family::OWNED {
        let mut keys = 0;
        for (key, value) in state.map(family).pairs()? {
            keys += 1;
            let known = content::owner(family, &key)
                .and_then(|(worker, index, era)| Some((worker, index, era, journals.get(worker as usize)?)))
                .filter(|(_, index, _, _)| *index < family.keys());
            let Some((worker, index, era, journal)) = known else {
                return Err(Fault::torn(format!(
                    "{}: a key of nobody: {key:?}",
                    family.name()
                )));
            };
            let entry = journal.entry(family, index);
            let entry = if era == entry.era {
                entry
            } else {
                Entry {
                    version: 0,
                    era,
                    ..entry
                }
            };
            state.compare((family, worker, index), entry, Some(&value))?;
        }
        let wanted: usize = journals
            .iter()
            .map(|journal| {
                journal
                    .entries(family)
                    .iter()
                    .filter(|entry| entry.version != 0)
                    .count()
            })
            .sum();
        let length = state.map(family).len()?;
        if keys != wanted || length != wanted as u64 {
            return Err(Fault::lost(format!(
                "{} has {wanted} keys by the journals, {keys} by walking it, {length} by its own count",
                family.name()
            )));
        }
    }
    Ok(())
}

/// Shared keys: a value is one that its writer intended, and not from before its last acknowledged write.
fn shared<M: Mapped>(state: &State<M>, journals: &[Journal<Family>]) -> Result<(), Fault> {
    let mut key = Vec::new();
    for index in 0..Family::Shared.keys() {
        content::key(Family::Shared, 0, index, 0, &mut key);
        let Some(value) = state.map(Family::Shared).get(&key)? else {
            continue;
        };
        let stamp = state.check(Family::Shared, &key, &value)?;
        // The second threads keep no journal.
        let Some(journal) = journals.get(stamp.writer as usize) else {
            continue;
        };
        let last = journal.entry(Family::Shared, index);
        if stamp.version < last.version || u64::from(stamp.version) > journal.sequence() {
            return Err(Fault::lost(format!(
                "shared key {index} has {stamp:?}, whose last write was {last:?}"
            )));
        }
    }
    Ok(())
}

/// Counters: no acknowledged increment is missing, and no increment is there that was never intended.
fn counters<M: Mapped>(state: &State<M>, journals: &[Journal<Family>]) -> Result<(), Fault> {
    let mut key = Vec::new();
    for index in 0..Family::Counters.keys() {
        content::key(Family::Counters, 0, index, 0, &mut key);
        let entries = journals
            .iter()
            .map(|journal| journal.entry(Family::Counters, index));
        let (least, open) = entries.fold((0, 0), |(least, open), entry| {
            (least + u64::from(entry.version), open + u64::from(entry.era))
        });
        let Some(value) = state.map(Family::Counters).get(&key)? else {
            return Err(Fault::lost(format!("counter {index} is gone")));
        };
        let count = state.content.count_of(&key, &value);
        let count = count.map_err(|why| Fault::torn(format!("counter {index} {why}")))?;
        if !(least..=least + open).contains(&count) {
            return Err(Fault::lost(format!(
                "counter {index} is {count}; {least} increments were acknowledged, {open} were in flight"
            )));
        }
    }
    Ok(())
}

/// Plants a leak: an object that is allocated, and forgotten.
fn leak<M: Mapped>(pool: &Pool<M>) -> Result<(), Fault> {
    let worker = pool.worker()?;
    let word = worker.record().aux_object();
    let _hold = worker.hold_list()?;
    cenote::pod::alloc::heap::allocate_for(&worker, worker.actor(), 64, word, 0)?;
    word.set(worker.mem(), 0);
    Ok(())
}
