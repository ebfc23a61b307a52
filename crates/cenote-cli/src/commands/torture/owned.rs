//! Operations on keys that have one writer, so that each outcome is known before.

use cenote::memory::Mapped;
use cenote::{Put, Replace};
use rand::Rng;

use super::content::{self, Family, is_permanent};
use super::latency::Kind;
use super::plan::Plant;
use super::worker::Worker;
use crate::trial::content::{Keyspace, Stamp};
use crate::trial::fault::Fault;
use crate::trial::journal::{Action, Entry, Intent};

/// A value that takes noticeable time to copy.
const LARGE: usize = 64 << 10;
/// The operation with which planted faults begin.
const PLANT_AT: u64 = 500;

impl<M: Mapped> Worker<M> {
    /// One operation of the mix.
    pub(super) fn step(&mut self) -> Result<(), Fault> {
        for family in Family::OWNED {
            if let Some(why) = self.state.map(family).check_held() {
                return Err(Fault::torn(format!("{}: {why}", family.name())));
            }
        }
        match self.random.random_range(0..10_000) {
            0..5_200 => self.write_own(),
            5_200..6_400 => self.read_own(),
            6_400..7_200 => self.read_foreign(),
            7_200..7_400 => self.read_many(),
            7_400..9_000 => self.shared(),
            9_000..9_600 => self.count(),
            9_600..9_994 => self.enter(),
            9_994..9_997 => self.extra_map(),
            _ => self.iterate(),
        }
    }

    fn choose(&mut self) -> (Family, u32) {
        let family = Family::OWNED[self.random.random_range(0..Family::OWNED.len())];
        // Half of the operations go to a few keys, which are then changed again and again.
        let keys = if self.random.random_bool(0.5) {
            64
        } else {
            family.keys()
        };
        (family, self.random.random_range(0..keys))
    }

    fn write_own(&mut self) -> Result<(), Fault> {
        let (family, index) = self.choose();
        let draw = self.random.random_range(0..100);
        let action = match draw {
            0..45 => Action::Put,
            45..60 => Action::Insert,
            60..80 => Action::Replace,
            _ if is_permanent(index) => return self.read_own(),
            _ => Action::Remove,
        };
        let before = self.journal.entry(family, index);
        let there = before.version != 0;
        let me = self.orders.worker;
        let sequence = self.journal.sequence() + 1;
        let stamp = Stamp {
            writer: me,
            version: sequence as u32,
        };
        content::key(family, me, index, before.era, &mut self.key);
        self.state
            .content
            .value(family, &self.key, stamp, &mut self.value);
        // The expected value: the right one, or sometimes a wrong one.
        let right = self.random.random_bool(0.9);
        let mut expected = Vec::new();
        if action == Action::Replace && there {
            let stamp = Stamp {
                writer: me,
                version: before.version,
            };
            self.state.content.value(family, &self.key, stamp, &mut expected);
            expected[0] ^= u8::from(!right);
        }
        let written = Entry {
            version: stamp.version,
            ..before
        };
        let after = match action {
            Action::Put => written,
            Action::Insert if !there => written,
            Action::Replace if there && right => written,
            // Every other time the key is given up, too.
            Action::Remove if there => Entry {
                version: 0,
                era: before.era + (sequence as u32 & 1),
                sequence,
            },
            _ => before,
        };
        let intent = self.journal.intend(action, family, index, after)?;
        if !self.plant(&intent) {
            self.perform(&intent, &expected)?;
        }
        self.journal.acknowledge(&intent, intent.after)?;
        Ok(())
    }

    /// Plants the fault that was asked for; whether the operation is to be left out.
    fn plant(&mut self, intent: &Intent<Family>) -> bool {
        let writes = intent.after.version as u64 == intent.sequence;
        if self.orders.worker != 0 || intent.sequence < PLANT_AT || !writes {
            return false;
        }
        match self.orders.plan.plant {
            Some(Plant::Lose) => return intent.sequence.is_multiple_of(10),
            Some(Plant::Tear) => {
                let middle = self.value.len() / 2;
                self.value[middle] ^= 0x10;
            }
            Some(Plant::Block) => std::thread::sleep(std::time::Duration::from_secs(3600)),
            _ => {}
        }
        false
    }

    fn perform(&mut self, intent: &Intent<Family>, expected: &[u8]) -> Result<(), Fault> {
        let map = self.state.map(intent.family);
        let (key, value) = (&self.key, &self.value);
        let there = intent.before.version != 0;
        let large = |kind| {
            if value.len() >= LARGE {
                Kind::PutLarge
            } else {
                kind
            }
        };
        let (as_expected, outcome) = match intent.action {
            Action::Put => {
                let outcome = self.bench.time(large(Kind::Put), || map.put(key, value))?;
                (
                    outcome == if there { Put::Replaced } else { Put::Inserted },
                    format!("{outcome:?}"),
                )
            }
            Action::Insert => {
                let outcome = self.bench.time(large(Kind::Insert), || map.insert(key, value))?;
                (outcome != there, format!("{outcome}"))
            }
            Action::Remove => {
                let outcome = self.bench.time(Kind::Remove, || map.remove(key))?;
                (outcome == there, format!("{outcome}"))
            }
            Action::Replace | Action::Count => {
                let outcome = self
                    .bench
                    .time(large(Kind::Replace), || map.replace(key, expected, value))?;
                let replaces = intent.after.version as u64 == intent.sequence;
                if let Replace::Differs(found) = &outcome {
                    let at = (intent.family, self.orders.worker, intent.index);
                    self.state.compare(at, intent.before, Some(found))?;
                }
                let as_expected = match &outcome {
                    Replace::Replaced => replaces,
                    Replace::Differs(_) => there && !replaces,
                    Replace::Missing => !there,
                };
                let said = match outcome {
                    Replace::Differs(_) => "Differs".to_owned(),
                    other => format!("{other:?}"),
                };
                (as_expected, said)
            }
        };
        if as_expected {
            return Ok(());
        }
        let worker = self.orders.worker;
        Err(Fault::lost(format!(
            "{} key {} of worker {worker}: the outcome {outcome} of {intent:?} does not fit its journal",
            intent.family.name(),
            intent.index,
        )))
    }

    fn read_own(&mut self) -> Result<(), Fault> {
        let (family, index) = self.choose();
        let me = self.orders.worker;
        let entry = self.journal.entry(family, index);
        content::key(family, me, index, entry.era, &mut self.key);
        let map = self.state.map(family);
        let value = self.bench.time(Kind::Get, || map.get(&self.key))?;
        self.state.compare((family, me, index), entry, value.as_deref())?;
        self.bench.meter.count_reads(1);
        Ok(())
    }

    /// Reads a key of another worker that is never removed: once seen, it stays, and it only gets newer.
    fn read_foreign(&mut self) -> Result<(), Fault> {
        let (family, index) = self.choose();
        let (worker, index) = (self.random.random_range(0..self.orders.plan.workers), index & !7);
        content::key(family, worker, index, 0, &mut self.key);
        let map = self.state.map(family);
        let value = self.bench.time(Kind::Get, || map.get(&self.key))?;
        let found = value
            .as_deref()
            .map(|value| self.state.check(family, &self.key, value))
            .transpose()?;
        drop(value);
        self.bench.meter.count_reads(1);
        self.see((family, worker, index), found)
    }

    fn see(&mut self, at: (Family, u32, u32), found: Option<Stamp>) -> Result<(), Fault> {
        let seen = self.seen.get(&at).copied().unwrap_or(0);
        let (family, worker, index) = at;
        let fits = match found {
            Some(stamp) => stamp.writer == worker && stamp.version >= seen,
            None => seen == 0,
        };
        if !fits {
            return Err(Fault::lost(format!(
                "{} key {index} of worker {worker}, which is never removed: version {seen} was seen before, now {found:?}",
                family.name()
            )));
        }
        if let Some(stamp) = found {
            self.seen.insert(at, stamp.version);
        }
        Ok(())
    }

    fn read_many(&mut self) -> Result<(), Fault> {
        let me = self.orders.worker;
        let family = self.choose().0;
        let mut asked = Vec::new();
        for _ in 0..self.random.random_range(2..70) {
            let index = self.random.random_range(0..family.keys());
            let worker = self.random.random_range(0..self.orders.plan.workers);
            asked.push(if self.random.random_bool(0.7) {
                (me, index)
            } else {
                (worker, index & !7)
            });
        }
        let mut keys = Vec::new();
        for (worker, index) in &asked {
            let era = if *worker == me {
                self.journal.entry(family, *index).era
            } else {
                0
            };
            content::key(family, *worker, *index, era, &mut self.key);
            keys.push(self.key.clone());
        }
        let map = self.state.map(family);
        let mut values = vec![None; keys.len()];
        self.bench.time(Kind::GetMany, || {
            map.get_many(&keys, |n, value| values[n] = value.map(<[u8]>::to_vec))
        })?;
        for (((worker, index), key), value) in asked.into_iter().zip(&keys).zip(&values) {
            if worker == me {
                let entry = self.journal.entry(family, index);
                self.state.compare((family, me, index), entry, value.as_deref())?;
            } else {
                let found = value
                    .as_deref()
                    .map(|value| self.state.check(family, key, value))
                    .transpose()?;
                self.see((family, worker, index), found)?;
            }
        }
        self.bench.meter.count_reads(keys.len() as u64);
        Ok(())
    }

    /// Walks a map. Own keys do not change meanwhile: each is seen exactly once. Neither do permanent ones go.
    fn iterate(&mut self) -> Result<(), Fault> {
        let family = self.choose().0;
        let me = self.orders.worker;
        let (state, journal) = (&self.state, &self.journal);
        let mut times = vec![0u8; family.keys() as usize];
        let mut others = Vec::new();
        let mut fault = None;
        let mut visit = |key: &[u8], value: &[u8]| {
            let visited = state.check(family, key, value).and_then(|stamp| {
                match content::owner(family, key) {
                    Some((worker, index, era)) if worker == me && index < family.keys() => {
                        times[index as usize] += 1;
                        let entry = journal.entry(family, index);
                        if era != entry.era {
                            return Err(Fault::lost(format!("{key:?} was given up, and is there again")));
                        }
                        state.compare((family, me, index), entry, Some(value))?;
                    }
                    Some((worker, index, 0)) if is_permanent(index) => {
                        others.push(((family, worker, index), stamp))
                    }
                    Some(_) => {}
                    None => return Err(Fault::torn(format!("{}: nobody's key {key:?}", family.name()))),
                }
                Ok(())
            });
            fault = fault.take().or(visited.err());
        };
        if self.random.random_bool(0.5) {
            state.map(family).for_each(&mut visit)?;
        } else {
            for (key, value) in state.map(family).pairs()? {
                visit(&key, &value);
            }
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        for (index, (times, entry)) in times.iter().zip(journal.entries(family)).enumerate() {
            if *times != u8::from(entry.version != 0) {
                return Err(Fault::lost(format!(
                    "{} key {index} of worker {me}, {entry:?}: an iteration saw it {times} times",
                    family.name()
                )));
            }
        }
        self.bench.meter.count_reads((others.len() + times.len()) as u64);
        self.see_others(family, others)
    }

    fn see_others(
        &mut self,
        family: Family,
        mut others: Vec<((Family, u32, u32), Stamp)>,
    ) -> Result<(), Fault> {
        others.sort_by_key(|((_, worker, index), _)| (*worker, *index));
        if let Some(twice) = others.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Fault::lost(format!("an iteration saw a key twice: {twice:?}")));
        }
        let unseen = |at: &(Family, u32, u32)| {
            others
                .binary_search_by_key(&(at.1, at.2), |((_, worker, index), _)| (*worker, *index))
                .is_err()
        };
        let mut known = self
            .seen
            .keys()
            .filter(|at| at.0 == family && at.1 != self.orders.worker);
        if let Some((_, worker, index)) = known.find(|at| unseen(at)) {
            return Err(Fault::lost(format!(
                "{} key {index} of worker {worker}, which is never removed: an iteration did not see it",
                family.name()
            )));
        }
        others
            .into_iter()
            .try_for_each(|(at, stamp)| self.see(at, Some(stamp)))
    }
}
