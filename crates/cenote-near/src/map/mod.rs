//! The map on the host.
//!
//! A batch goes through the files in this order:
//!
//! | file | |
//! |---|---|
//! | `operation` | operations and answers |
//! | `stages` | the order of what follows |
//! | `repeats` | finds operations whose answers an earlier one brings |
//! | `net` | what several operations on one key do to it, as one |
//! | `load` | finds each operation's subrange, and counts what modules will have to do |
//! | `plan`, `price` | decides what to split, move and pull |
//! | `cold` | decides what to bring back |
//! | `moves` | carries both out, in one round |
//! | `dispatch` | writes each operation's commands, in order |
//! | `answers` | reads what modules have answered, in order |
//! | `directory` | where subranges are |
//! | `overlapped` | a batch is prepared while modules execute another one |
//! | `config` | settings, and the shifts that follow from them |
//! | `heights` | what goes to the model of hotness and comes from it; feature `hotness` |
//! | `mutant` | planted faults, for the tests |
//!
//! **State.** What modules hold, and what the directory says of it, agree between batches, but for subranges without
//! keys that modules are to drop (`pending`). **Failure.** If a round fails, the map is lost: it answers everything by
//! that error.

mod answers;
mod cold;
mod config;
mod directory;
mod dispatch;
#[cfg(feature = "hotness")]
mod heights;
mod load;
mod moves;
mod mutant;
mod net;
mod operation;
mod overlapped;
mod plan;
mod price;
mod repeats;
mod stages;
#[cfg(test)]
mod tests;

use crate::device::Skiplist;
use crate::device::command::{Command, Reader};
use crate::modules::{Counters, Modules, ModulesError, Profile, ProfileError, Simulated, Threads};

pub use config::Config;
pub use operation::{Answer, Operation};
pub use overlapped::Overlapped;

use config::shifts;
#[cfg(feature = "hotness")]
pub(crate) use directory::mix;
use directory::{Directory, Entry, Place};
use mutant::{Mutant, planted};

/// Why a batch has no answers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// Modules failed; the map is lost.
    #[error("the map is lost: {0}")]
    Modules(#[from] ModulesError),
    /// A module's answer is not what its commands ask for; the map is lost.
    #[error("the map is lost: the answers of module {module} cannot be read")]
    Answers {
        /// Which module.
        module: u32,
    },
    /// Settings that no map can have.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A map that cannot be loaded, or pairs that it cannot be loaded with.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Settings that no map can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The finest shift is out of range.
    #[error("the finest shift must be from 1 to 63")]
    FinestShift,
    /// There are too many modules.
    #[error("a map has at most 65,536 modules")]
    TooManyModules,
}

/// Why nothing was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The map has keys.
    #[error("the map has keys; only an empty one can be loaded")]
    HasKeys,
    /// The pairs do not ascend.
    #[error("keys must ascend")]
    Unsorted,
    /// A tree was loaded, which only happens once.
    #[error("the tree was loaded")]
    Loaded,
    /// A tree was not loaded, and executes nothing before.
    #[error("load the tree first")]
    NotLoaded,
}

/// What the host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostHolds {
    /// Subranges that the directory knows, wherever they are.
    pub subranges: usize,
    /// Pairs of those that are pulled to the host.
    pub pulled_pairs: u64,
}

/// Bytes of memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryBytes {
    /// In all modules.
    pub modules: u64,
    /// On the host, for metadata and pulled pairs.
    pub host: u64,
}

/// What redistribution has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Subranges that were split.
    pub splits: u64,
    /// Subranges that went from one module to another.
    pub moves: u64,
    /// Subranges that went to the host.
    pub pulls: u64,
    /// Subranges that came back from there.
    pub returns: u64,
    /// Regions that were merged.
    pub merges: u64,
    /// Pairs that went from their module, for any of these.
    pub pairs: u64,
}

/// An ordered map over modules.
pub struct Map<M> {
    modules: M,
    config: Config,
    directory: Directory,
    /// Commands that each module gets first in its next round: subranges that arrive, and those that it forgets.
    pending: Vec<Vec<u8>>,
    /// How many arrive: each has an answer of a byte.
    arriving: Vec<u32>,
    /// Words of each module's arena that were never used.
    room: Vec<u64>,
    keys: u64,
    pulled_keys: u64,
    /// Numbers of pulled subranges.
    pulled: std::collections::BTreeSet<u32>,
    means: load::Means,
    usual: load::Usual,
    regions: cold::Regions,
    moves: Moves,
    /// What each module had to do in the last batch.
    loads: Vec<u64>,
    lost: Option<MapError>,
    #[cfg(feature = "hotness")]
    pipeline: Option<crate::hotness::Pipeline>,
}

impl Map<Threads<Skiplist>> {
    /// A map over so many modules, on so many worker threads of this process.
    ///
    /// # Errors
    /// Settings that contradict each other; the system starts no more threads.
    pub fn threads(config: Config, modules: usize, threads: usize) -> Result<Self, MapError> {
        let modules = Threads::new(programs(&config, modules), threads)?;
        Self::new(config, modules)
    }
}

impl Map<Simulated<Skiplist>> {
    /// A map over so many modules in virtual time.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn simulated(config: Config, modules: usize, profile: Profile) -> Result<Self, MapError> {
        let modules = Simulated::new(programs(&config, modules), profile)?;
        Self::new(config, modules)
    }
}

/// Answers that are read from the front.
fn readers(answers: &[Vec<u8>]) -> Vec<Reader<'_>> {
    answers.iter().map(|answers| Reader(answers)).collect()
}

/// An empty module each.
fn programs(config: &Config, modules: usize) -> Vec<Skiplist> {
    (0..modules as u64)
        .map(|module| Skiplist::new(config.module_bytes, directory::mix(config.seed ^ module)))
        .collect()
}

impl<M: Modules> Map<M> {
    /// An empty map over modules that execute an empty [`Skiplist`] each. Costs a round.
    ///
    /// # Errors
    /// Settings that contradict each other; the modules failed.
    pub fn new(config: Config, modules: M) -> Result<Self, MapError> {
        let count = modules.count();
        if !(1..64).contains(&config.finest_shift) {
            return Err(ConfigError::FinestShift.into());
        }
        if count > 1 << 16 {
            return Err(ConfigError::TooManyModules.into());
        }
        let directory = Directory::new(shifts(&config, count));
        let regions = 1usize << (64 - directory.shift(0));
        let mut map = Self {
            modules,
            directory,
            pending: vec![Vec::new(); count],
            arriving: vec![0; count],
            room: vec![config.module_bytes / 4; count],
            keys: 0,
            pulled_keys: 0,
            pulled: std::collections::BTreeSet::new(),
            means: load::Means::default(),
            usual: load::Usual::default(),
            regions: cold::Regions::new(regions),
            moves: Moves::default(),
            loads: vec![0; count],
            lost: None,
            #[cfg(feature = "hotness")]
            pipeline: None,
            config,
        };
        map.load(&[])?;
        Ok(map)
    }

    /// Fills an empty map with pairs that ascend. Costs a round; searches then take the fewest pointers.
    ///
    /// # Errors
    /// Keys that do not ascend, or a map that has keys, and then nothing changes; modules that have no room, or failed,
    /// and then the map is lost.
    pub fn load(&mut self, pairs: &[(u64, u64)]) -> Result<(), MapError> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        if self.keys > 0 {
            return Err(LoadError::HasKeys.into());
        }
        if pairs.windows(2).any(|two| two[0].0 >= two[1].0) {
            return Err(LoadError::Unsorted.into());
        }
        let gone: Vec<u32> = self.directory.all().collect();
        for id in gone {
            let entry = self.directory.remove(id);
            if let Place::Module(module) = entry.place {
                Command::Drop(entry.start).write(&mut self.pending[module as usize]);
            }
        }
        self.pulled.clear();
        self.pulled_keys = 0;
        self.regions.all_whole();
        self.room
            .fill((self.config.module_bytes / 4).clamp(1 << 10, 1 << 31));
        let mut rest = pairs;
        for region in 0..self.regions.count() {
            let start = self.regions.start(region, self.directory.shift(0));
            let last = self.directory.ends(0, start).1;
            let (here, after) = rest.split_at(rest.partition_point(|pair| pair.0 <= last));
            rest = after;
            let module = self.home(region);
            self.place(0, start, module, here);
        }
        self.round(vec![Vec::new(); self.modules.count()])?;
        self.keys = pairs.len() as u64;
        Ok(())
    }

    /// Has a subrange with these pairs arrive in a module; if that has no room, its parts that have keys in the modules
    /// that have most; what no module has room for stays on the host.
    fn place(&mut self, level: u8, start: u64, module: u32, pairs: &[(u64, u64)]) {
        let (keys, least) = (pairs.len() as u64, pairs.first().map(|pair| pair.0));
        let (needed, room) = (moves::room_for(keys), self.room[module as usize]);
        if room >= needed || pairs.is_empty() {
            self.room[module as usize] = room.saturating_sub(needed);
            self.import(module, start, level, &moves::bytes_of(pairs));
            self.directory
                .add(Entry::new(start, level, Place::Module(module), keys, least));
            return;
        }
        let region = self.regions.of(start, self.directory.shift(0));
        if level + 1 == self.directory.levels() {
            let place = Place::Host(pairs.iter().copied().collect());
            let id = self.directory.add(Entry::new(start, level, place, keys, least));
            self.pulled.insert(id);
            self.pulled_keys += keys;
            return;
        }
        self.regions.set_split(region);
        let mut rest = pairs;
        while let Some(&(key, _)) = rest.first() {
            let (start, last) = self.directory.ends(level + 1, key);
            let (here, after) = rest.split_at(rest.partition_point(|pair| pair.0 <= last));
            rest = after;
            let roomiest = (0..).zip(&self.room).max_by_key(|(_, room)| **room);
            self.place(
                level + 1,
                start,
                roomiest.map_or(module, |(module, _)| module),
                here,
            );
        }
    }

    /// Executes operations as if one after another. Their answers, in order.
    ///
    /// Costs a round, and one more if redistribution pays for it within the batch. Else what it takes from modules
    /// comes with the answers, and arrives elsewhere with the next batch.
    ///
    /// # Errors
    /// Modules failed; the map is lost.
    pub fn execute(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, MapError> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        let prepared = self.prepare(operations);
        let under_way = self.start(operations, prepared)?;
        self.complete(operations, under_way)
    }

    /// Has a subrange arrive in a module before anything else of the next round.
    fn import(&mut self, module: u32, start: u64, level: u8, pairs: &[u8]) {
        let shift = self.directory.shift(level);
        Command::Import(start, shift, pairs).write(&mut self.pending[module as usize]);
        self.arriving[module as usize] += 1;
    }

    /// A round with what is pending first.
    fn round(&mut self, batches: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, MapError> {
        self.launch(batches)?;
        self.collect()
    }

    fn launch(&mut self, mut batches: Vec<Vec<u8>>) -> Result<(), MapError> {
        for (pending, batch) in self.pending.iter_mut().zip(&mut batches) {
            if !pending.is_empty() {
                let mut first = std::mem::take(pending);
                if planted(Mutant::ArrivesLate) {
                    std::mem::swap(&mut first, batch);
                }
                first.append(batch);
                *batch = first;
            }
        }
        if let Err(error) = self.modules.launch(batches) {
            return Err(self.lose(error.into()));
        }
        #[cfg(feature = "hotness")]
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.launched();
        }
        Ok(())
    }

    /// Answers without their closing words, which are taken note of.
    fn collect(&mut self) -> Result<Vec<Vec<u8>>, MapError> {
        let collected = self.modules.collect();
        #[cfg(feature = "hotness")]
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.collected();
        }
        let mut answers = match collected {
            Ok(answers) => answers,
            Err(error) => return Err(self.lose(error.into())),
        };
        self.means.begin();
        for (module, answers) in answers.iter_mut().enumerate() {
            if answers.is_empty() {
                continue;
            }
            let Some((rest, closing)) = answers.split_last_chunk::<12>() else {
                return Err(self.lose(MapError::Answers {
                    module: module as u32,
                }));
            };
            let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| closing[at * 4 + byte]));
            self.means.add(word(0).into());
            self.room[module] = word(2).into();
            let (len, arrived) = (rest.len(), std::mem::take(&mut self.arriving[module]) as usize);
            // The host has made sure that there is room.
            if rest.len() < arrived || rest[..arrived].iter().any(|done| *done != 1) {
                return Err(self.lose(MapError::Answers {
                    module: module as u32,
                }));
            }
            answers.truncate(len);
            answers.drain(..arrived);
        }
        Ok(answers)
    }

    fn lose(&mut self, error: MapError) -> MapError {
        self.lost = Some(error.clone());
        error
    }

    /// The module that a region's coarsest subrange belongs to.
    fn home(&self, region: usize) -> u32 {
        (region % self.modules.count()) as u32
    }

    /// How many keys are bound.
    pub fn len(&self) -> u64 {
        self.keys
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Totals of the modules.
    pub fn counters(&self) -> Counters {
        self.modules.counters()
    }

    /// What redistribution has done.
    pub fn moves(&self) -> Moves {
        self.moves
    }

    /// What each module had to do in the last batch: 16 for a point operation, or several on a key that were one
    /// command, up to twice as much if these compared many values; and for scans as many as for point operations with
    /// as many chases.
    pub fn loads(&self) -> &[u64] {
        &self.loads
    }

    /// Subranges, and pairs that are pulled.
    pub fn host_holds(&self) -> HostHolds {
        HostHolds {
            subranges: self.directory.len(),
            pulled_pairs: self.pulled_keys,
        }
    }

    /// Bytes of memory in all modules; bytes of the host's metadata and pulled pairs.
    pub fn memory_bytes(&self) -> MemoryBytes {
        MemoryBytes {
            modules: self.modules.memory_bytes(),
            host: self.directory.memory_bytes(self.pulled_keys),
        }
    }

    /// The modules.
    pub fn modules(&self) -> &M {
        &self.modules
    }
}
