//! A worker process of the demo: takes units of work that are unclaimed, or whose worker is dead, until all are done.
//!
//! There is no coordinator. A worker claims a unit by inserting its number into a map; the claim names the process, by
//! its place in the pool and the place's generation. A worker that finds the claim of a dead process replaces it by its
//! own. Doing a unit again does no harm.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cenote::store::InstanceStat;
use cenote::{Coherent, Map, Options, Pool, Replace};
use serde::{Deserialize, Serialize};

use super::data::{self, City, Country, UNIT};
use crate::failure::Failure;
use crate::map::AnyMap;

/// A pause between two units, so that one can watch: without it, all is done too quickly to see.
const PACE: Duration = Duration::from_millis(50);

/// The claim of a worker that does a unit, or has done it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// Whether it is done.
    pub done: bool,
    /// The worker's process id, its place in the pool, and the place's generation.
    pub process: (u32, u32, u32),
    /// The process id of a dead one that had begun it.
    pub taken_from: Option<u32>,
}

/// What a worker says in the end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Units done.
    pub units: u64,
    /// Of these, units of the dead.
    pub taken_over: u64,
    /// Operations.
    pub operations: u64,
    /// The longest operation.
    pub longest_us: u64,
}

struct Worker {
    phase: usize,
    me: (u32, u32, u32),
    pool: Pool,
    units: Map,
    cities: Map,
    by_name: AnyMap<Coherent>,
    by_country: AnyMap<Coherent>,
    countries: Map,
    report: Report,
}

/// Runs a worker of a phase.
pub fn run(path: &str, phase: usize) -> Result<(), Failure> {
    let cities = data::cities()?;
    let pool: Pool = Pool::open(path, &Options::default())?;
    let pid = std::process::id();
    let stat = pool.stat()?;
    let mine = stat
        .processes
        .iter()
        .find(|process| process.pid == u64::from(pid) && process.is_alive);
    let mine = mine.ok_or_else(|| Failure::failed("this process has no place in the pool"))?;
    let mut worker = Worker {
        phase,
        me: (pid, mine.index, mine.generation),
        units: pool.map(&format!("units-{phase}"))?,
        cities: pool.map("cities")?,
        by_name: AnyMap::open(&pool, "by-name", true)?,
        by_country: AnyMap::open(&pool, "by-country", false)?,
        countries: pool.map("countries")?,
        pool,
        report: Report {
            units: 0,
            taken_over: 0,
            operations: 0,
            longest_us: 0,
        },
    };
    let units: Vec<&[City]> = cities.chunks(UNIT).collect();
    // Each worker begins elsewhere.
    let start = pid as usize * 37 % units.len();
    let mut order = (0..units.len()).map(|n| (start + n) % units.len());
    loop {
        let (orphan, done) = worker.claim_orphaned()?;
        let unit = match orphan {
            Some(unit) => Some(unit),
            None => worker.next_unclaimed(&mut order)?,
        };
        match unit {
            Some(unit) => {
                worker.work(unit, units[unit])?;
                worker.finish(unit)?;
                std::thread::sleep(PACE);
            }
            None if done == units.len() => break,
            // Others are at work. If one of them dies, this worker takes its unit.
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let name = format!("{phase}/{pid}");
    let text = serde_json::to_string(&worker.report).unwrap_or_default();
    worker
        .pool
        .map("reports")?
        .put(name.as_bytes(), text.as_bytes())?;
    Ok(())
}

/// Reads a claim.
pub fn parse(text: &[u8]) -> Result<Claim, Failure> {
    serde_json::from_slice(text).map_err(|error| Failure::failed(format!("a claim is not readable: {error}")))
}

fn place(process: &InstanceStat) -> (u32, u32) {
    (process.index, process.generation)
}

fn key(unit: usize) -> Vec<u8> {
    format!("{unit:04}").into_bytes()
}

impl Worker {
    /// Does something to the pool and measures how long it takes.
    fn time<R>(&mut self, work: impl FnOnce(&Self) -> cenote::Result<R>) -> Result<R, Failure> {
        let start = Instant::now();
        let result = work(self);
        self.report.longest_us = self.report.longest_us.max(start.elapsed().as_micros() as u64);
        self.report.operations += 1;
        Ok(result?)
    }

    /// Claims a unit that a dead process has left, if there is one; and says how many are done.
    fn claim_orphaned(&mut self) -> Result<(Option<usize>, usize), Failure> {
        let mut done = 0;
        let mut open = Vec::new();
        for pair in self.units.iter() {
            let (key, value) = pair?;
            let claim = parse(&value)?;
            done += usize::from(claim.done);
            if !claim.done {
                open.push((key, value, claim.process));
            }
        }
        if open.is_empty() {
            return Ok((None, done));
        }
        // Read after the claims: a claimant that is not among these is dead.
        let living: Vec<(u32, u32)> = self
            .pool
            .stat()?
            .processes
            .iter()
            .filter(|p| p.is_alive)
            .map(place)
            .collect();
        for (key, value, (pid, index, generation)) in open {
            if living.contains(&(index, generation)) {
                continue;
            }
            let mine = Claim {
                done: false,
                process: self.me,
                taken_from: Some(pid),
            };
            let text = serde_json::to_vec(&mine).unwrap_or_default();
            if self.time(|worker| worker.units.replace(&key, &value, &text))? == Replace::Replaced {
                let unit = std::str::from_utf8(&key).ok().and_then(|key| key.parse().ok());
                return Ok((unit, done));
            }
        }
        Ok((None, done))
    }

    /// Claims the next unclaimed unit.
    fn next_unclaimed(&mut self, order: &mut impl Iterator<Item = usize>) -> Result<Option<usize>, Failure> {
        let mine = Claim {
            done: false,
            process: self.me,
            taken_from: None,
        };
        let text = serde_json::to_vec(&mine).unwrap_or_default();
        for unit in order {
            if self.time(|worker| worker.units.insert(&key(unit), &text))? {
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }

    fn finish(&mut self, unit: usize) -> Result<(), Failure> {
        let Some(old) = self.units.get(&key(unit))?.map(|claim| claim.to_vec()) else {
            return Ok(());
        };
        let claim = Claim {
            done: true,
            ..parse(&old)?
        };
        let text = serde_json::to_vec(&claim).unwrap_or_default();
        self.time(|worker| worker.units.put(&key(unit), &text))?;
        self.report.units += 1;
        self.report.taken_over += u64::from(claim.taken_from.is_some());
        Ok(())
    }

    fn work(&mut self, unit: usize, cities: &[City]) -> Result<(), Failure> {
        let mut countries: BTreeMap<&str, Vec<&City>> = BTreeMap::new();
        for city in cities {
            let id = city.id.to_string();
            if self.phase == 1 {
                self.time(|worker| worker.cities.put(id.as_bytes(), city.record.as_bytes()))?;
                self.edit_ids(Index::Name, &city.name, &[city.id])?;
            } else if city.is_small() {
                self.time(|worker| worker.cities.remove(id.as_bytes()))?;
                self.edit_ids(Index::Name, &city.name, &[city.id])?;
            } else {
                let grown = city.grown();
                self.time(|worker| worker.cities.put(id.as_bytes(), grown.as_bytes()))?;
            }
            countries.entry(&city.country).or_default().push(city);
        }
        for (country, cities) in countries {
            let all = cities.iter().filter(|city| self.phase == 1 || city.is_small());
            let ids: Vec<u32> = all.map(|city| city.id).collect();
            self.edit_ids(Index::Country, country, &ids)?;
            self.count(unit, country, &cities)?;
        }
        Ok(())
    }

    /// Adds ids to a list in the first phase, takes them off in the second: read, edit, compare-and-replace.
    fn edit_ids(&mut self, index: Index, name: &str, ids: &[u32]) -> Result<(), Failure> {
        let adds = self.phase == 1;
        let name = name.as_bytes();
        loop {
            let map = self.index(index);
            let old = map.get(name)?.map(|ids| ids.to_vec());
            let listed = old.as_deref().map_or(Some(Vec::new()), data::ids_from_text);
            let mut list = listed.ok_or_else(|| Failure::failed("a list of ids is not readable"))?;
            let before = list.len();
            if adds {
                list.extend_from_slice(ids);
                list.sort_unstable();
                list.dedup();
            } else {
                list.retain(|id| !ids.contains(id));
            }
            if list.len() == before {
                return Ok(());
            }
            let new = data::ids_to_text(&list);
            let done = self.time(|worker| {
                let map = worker.index(index);
                match &old {
                    None => map.insert(name, new.as_bytes()),
                    // Nothing is added any more in the second phase: an empty list stays empty.
                    Some(_) if list.is_empty() => map.remove(name).map(|_| true),
                    Some(old) => Ok(map.replace(name, old, new.as_bytes())? == Replace::Replaced),
                }
            })?;
            if done {
                return Ok(());
            }
        }
    }

    fn index(&self, index: Index) -> &AnyMap<Coherent> {
        match index {
            Index::Name => &self.by_name,
            Index::Country => &self.by_country,
        }
    }

    /// Brings a unit's share into a country's sums, once.
    fn count(&mut self, unit: usize, name: &str, cities: &[&City]) -> Result<(), Failure> {
        loop {
            let old = self.countries.get(name.as_bytes())?.map(|text| text.to_vec());
            let parsed = old.as_deref().map_or(Some(Country::default()), Country::parse);
            let mut country = parsed.ok_or_else(|| Failure::failed("a country's sums are not readable"))?;
            if country.has(self.phase, unit) {
                return Ok(());
            }
            for city in cities {
                if self.phase == 1 {
                    country.population += city.population;
                    country.cities += 1;
                    continue;
                }
                let after = if city.is_small() {
                    0
                } else {
                    city.grown_population()
                };
                country.population = country.population + after - city.population;
                country.cities -= u64::from(city.is_small());
            }
            country.mark(self.phase, unit);
            let new = country.to_text();
            let done = self.time(|worker| match &old {
                None => worker.countries.insert(name.as_bytes(), new.as_bytes()),
                Some(old) => {
                    let outcome = worker.countries.replace(name.as_bytes(), old, new.as_bytes())?;
                    Ok(outcome == Replace::Replaced)
                }
            })?;
            if done {
                return Ok(());
            }
        }
    }
}

/// Which list of ids.
#[derive(Clone, Copy)]
enum Index {
    Name,
    Country,
}
