//! What a worker does in each phase, a few operations a step.

use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use rand::Rng;

use super::family::Family;
use super::meter::{Counter, Kind};
use super::plan::Phase;
use super::worker::Worker;
use crate::map::AnyMap;
use crate::trial::content::Keyspace;
use crate::trial::fault::Fault;
use crate::trial::journal::Journal;

/// Operations of a step.
const BATCH: u32 = 64;
/// Overwrites before a worker sleeps.
const IDLE_WRITES: u32 = 200;
/// How long a value is held at most.
const HOLD_MS: f64 = 2000.0;
/// How often a sleeping worker checks whether it is wanted.
const NAP: Duration = Duration::from_millis(5);
/// How long a worker lives that comes and goes.
const SHORT_LIFE: Duration = Duration::from_millis(300);

/// Where a worker is in its phases.
pub struct Progress {
    /// The windows of the queues, in counters: the oldest that is there, and the next one.
    windows: [(u64, u64); 2],
    /// Whether the queues grow at present.
    queues_grow: bool,
    /// Whether bulk is filled at present, and the next key.
    bulk: (bool, u32),
    /// Overwrites that it has done before it sleeps.
    idle_writes: u32,
    /// The next ballast to read.
    ballast: u32,
    born: Instant,
    /// Refusals written down.
    pub refusals: u64,
}

impl Progress {
    /// At the start of a worker with this journal.
    pub fn of(journal: &Journal<Family>) -> Self {
        Self {
            windows: Family::QUEUES.map(|family| window(journal, family)),
            queues_grow: true,
            bulk: (true, 0),
            idle_writes: 0,
            ballast: 0,
            born: Instant::now(),
            refusals: 0,
        }
    }
}

/// The window of a queue by the journal. It has no gaps; a push that was refused, or undone with its worker, may be the
/// last that the journal knows, and is behind it.
fn window(journal: &Journal<Family>, family: Family) -> (u64, u64) {
    let keys = u64::from(family.keys());
    let entries = (0..).zip(journal.entries(family));
    let used = entries.filter(|(_, entry)| entry.sequence != 0);
    let counters = used.map(|(index, entry)| (u64::from(entry.era) * keys + index, entry.version != 0));
    let (there, gone): (Vec<_>, Vec<_>) = counters.partition(|(_, is_there)| *is_there);
    let end = |of: &[(u64, bool)]| of.iter().map(|(counter, _)| counter + 1).max();
    let next = end(&there).or(end(&gone)).unwrap_or(0);
    let low = there.iter().map(|(counter, _)| *counter).min();
    (low.unwrap_or(next), next)
}

impl<M: Mapped> Worker<M> {
    /// A step of a phase; whether to go on after it.
    pub(super) fn step(&mut self, phase: Phase) -> Result<bool, Fault> {
        if phase != Phase::Idle {
            self.progress.idle_writes = 0;
        }
        // When the pool is not to be near full any more, room is made first.
        if !self.plan.is_near_full() && self.drop_ballast()? {
            return Ok(true);
        }
        match phase {
            Phase::Queue => self.queue()?,
            Phase::Bulk => self.bulk()?,
            Phase::Values => self.values(BATCH / 4)?,
            Phase::Idle => self.idle()?,
            Phase::Reader => self.hold()?,
            Phase::Full => self.fill()?,
            Phase::Churn => {
                self.values(BATCH / 4)?;
                return Ok(self.progress.born.elapsed() < SHORT_LIFE);
            }
        }
        Ok(true)
    }

    /// Pushes and pops: a window moves up, and another one moves down.
    fn queue(&mut self) -> Result<(), Fault> {
        for (n, family) in Family::QUEUES.into_iter().enumerate() {
            let most = u64::from(self.plan.keys(family));
            for _ in 0..BATCH {
                let (low, next) = self.progress.windows[n];
                let length = next - low;
                if length >= most {
                    self.progress.queues_grow = false;
                } else if length == 0 {
                    self.progress.queues_grow = true;
                }
                let share = if self.progress.queues_grow { 0.6 } else { 0.4 };
                if length < most && self.random.random_bool(share) {
                    self.push(n, family)?;
                } else {
                    self.pop(n, family)?;
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, n: usize, family: Family) -> Result<(), Fault> {
        let (low, next) = self.progress.windows[n];
        let keys = u64::from(family.keys());
        if self.put(family, (next % keys) as u32, (next / keys) as u32)? {
            self.progress.windows[n] = (low, next + 1);
        }
        Ok(())
    }

    fn pop(&mut self, n: usize, family: Family) -> Result<(), Fault> {
        let (low, next) = self.progress.windows[n];
        let kind = [Kind::First, Kind::Last][n];
        let found = self.time(kind, 0, |state| match (state.map(family), kind) {
            (AnyMap::Ordered(map), Kind::First) => map.first(),
            (AnyMap::Ordered(map), _) => map.last(),
            (AnyMap::Hash(_), _) => Ok(None),
        })?;
        self.meter.count(Counter::Reads, 1);
        if low == next {
            return match found {
                None => Ok(()),
                Some((key, _)) => Err(Fault::phantom(format!(
                    "{}, which is empty: {} is {key:?}",
                    family.map_name(self.me),
                    kind.name()
                ))),
            };
        }
        let index = (low % u64::from(family.keys())) as u32;
        let entry = self.journal.entry(family, index);
        let mut wanted = Vec::new();
        family.key(self.me, index, entry.era, &mut wanted);
        match &found {
            Some((key, value)) if *key == wanted => self.state.compare(family, index, entry, Some(value))?,
            other => {
                let read = match self.state.verify(family, index, entry) {
                    Ok(()) => "which a get finds".to_owned(),
                    Err(fault) => fault.text,
                };
                let name = family.map_name(self.me);
                let other = other.as_ref().map(|(key, _)| key);
                let history = self.journal.history()?;
                let last: Vec<_> = history.iter().rev().take(3).collect();
                return Err(Fault::lost(format!(
                    "{name}: {} is {other:?}, not {wanted:?} ({entry:?}), {read}; window {low} to {next}; last operations {last:?}",
                    kind.name()
                )));
            }
        }
        if self.remove(family, index)? {
            self.progress.windows[n] = (low + 1, next);
        }
        Ok(())
    }

    /// Fills a hash map and an ordered map, then empties them.
    fn bulk(&mut self) -> Result<(), Fault> {
        let families = [Family::BulkHash, Family::BulkOrdered];
        let keys = self.plan.keys(Family::BulkHash);
        for _ in 0..BATCH {
            let (is_filling, index) = self.progress.bulk;
            if index >= keys {
                self.progress.bulk = (!is_filling, 0);
                return Ok(());
            }
            for family in families {
                let is_there = self.journal.entry(family, index).version != 0;
                match (is_filling, is_there) {
                    (true, false) => drop(self.put(family, index, 0)?),
                    (false, true) => drop(self.remove(family, index)?),
                    _ => {}
                }
            }
            self.progress.bulk.1 += 1;
            if index % 8 == 0 {
                let any = self.random.random_range(0..keys);
                self.get(families[index as usize / 8 % 2], any)?;
            }
        }
        Ok(())
    }

    /// Writes, removes and reads values of all sizes.
    fn values(&mut self, operations: u32) -> Result<(), Fault> {
        let keys = self.plan.keys(Family::Values);
        for _ in 0..operations {
            let index = self.random.random_range(0..keys);
            let is_there = self.journal.entry(Family::Values, index).version != 0;
            match self.random.random_range(0..100) {
                0..55 => drop(self.put(Family::Values, index, 0)?),
                55..80 if is_there => drop(self.remove(Family::Values, index)?),
                _ => self.get(Family::Values, index)?,
            }
        }
        Ok(())
    }

    /// Overwrites much, so that much is retired; then sleeps, and lives.
    fn idle(&mut self) -> Result<(), Fault> {
        if self.progress.idle_writes < IDLE_WRITES {
            self.progress.idle_writes += BATCH / 4;
            return self.values(BATCH / 4);
        }
        std::thread::sleep(NAP);
        Ok(())
    }

    /// Holds a value for up to two seconds, its own or another's: every byte stays as it was.
    fn hold(&mut self) -> Result<(), Fault> {
        let owner = self.random.random_range(0..self.plan.workers);
        let family = if self.random.random_bool(0.7) {
            Family::Values
        } else {
            Family::Ballast
        };
        let index = self.random.random_range(0..self.plan.keys(family).min(512));
        let milliseconds = HOLD_MS.powf(self.random.random_range(0.2..1.0));
        let mut key = Vec::new();
        family.key(owner, index, 0, &mut key);
        self.board.hold(self.me)?;
        let state = self.state.clone();
        let guard = match state.map(family) {
            AnyMap::Hash(map) => map.get(&key)?,
            AnyMap::Ordered(map) => map.get(&key)?,
        };
        if let Some(value) = &guard {
            let copy = value.to_vec();
            let end = Instant::now() + Duration::from_secs_f64(milliseconds / 1e3);
            while Instant::now() < end && !self.is_wanted() && self.is_in(Phase::Reader) {
                std::thread::sleep(NAP);
                self.tick()?;
            }
            if copy != value[..] {
                let name = family.map_name(owner);
                return Err(Fault::torn(format!(
                    "{name}, key {index} of worker {owner}: the bytes of a value changed while it was held"
                )));
            }
            self.meter.count(Counter::Guards, 1);
        }
        drop(guard);
        self.board.let_go(self.me)?;
        // Now the garbage can go.
        let end = Instant::now() + Duration::from_secs_f64(milliseconds / 1e3);
        while Instant::now() < end && !self.is_wanted() && self.is_in(Phase::Reader) {
            std::thread::sleep(NAP);
            self.values(1)?;
            self.tick()?;
        }
        Ok(())
    }

    /// Drives the live bytes of all workers to the target, and overwrites what is there.
    fn fill(&mut self) -> Result<(), Fault> {
        let (target, keys) = (self.plan.target(), Family::Ballast.keys());
        for _ in 0..BATCH / 8 {
            let index = self.progress.ballast % keys;
            let is_there = self.journal.entry(Family::Ballast, index).version != 0;
            self.read_board()?;
            if self.seen.live > target {
                self.remove_some_ballast()?;
                continue;
            }
            let is_left = is_there && self.random.random_bool(0.5);
            let goes_on = is_left || self.put(Family::Ballast, index, 0)?;
            self.progress.ballast = if goes_on { index + 1 } else { 0 };
        }
        Ok(())
    }

    /// Removes one of the ballast, if there is any; whether there was.
    fn remove_some_ballast(&mut self) -> Result<bool, Fault> {
        let entries = self.journal.entries(Family::Ballast);
        let Some(index) = entries.iter().rposition(|entry| entry.version != 0) else {
            return Ok(false);
        };
        self.remove(Family::Ballast, index as u32)?;
        Ok(true)
    }

    /// Removes ballast; whether there was any.
    fn drop_ballast(&mut self) -> Result<bool, Fault> {
        for n in 0..BATCH {
            if !self.remove_some_ballast()? {
                return Ok(n > 0);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::journal::{Action, Entry};

    #[test]
    fn a_window_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        Journal::<Family>::create(folder.path(), 0).unwrap();
        let mut journal = Journal::open(folder.path(), 0).unwrap();
        assert_eq!(window(&journal, Family::Up), (0, 0));
        let mut tell = |counter: u64, version| {
            let keys = u64::from(Family::Up.keys());
            let entry = Entry {
                version,
                era: (counter / keys) as u32,
                sequence: 0,
            };
            let index = (counter % keys) as u32;
            let intent = journal.intend(Action::Put, Family::Up, index, entry).unwrap();
            journal.acknowledge(&intent, intent.after).unwrap();
        };
        (5000..5100).for_each(|counter| tell(counter, 1));
        (5000..5040).for_each(|counter| tell(counter, 0));
        tell(5100, 0);
        assert_eq!(window(&journal, Family::Up), (5040, 5100));
    }
}
