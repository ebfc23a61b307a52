//! One thread of a replay: its handle of the map, the requests it is given, what it found and measured.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use cenote::memory::Memory;
use cenote::{Error, Pool};
use cenote_ycsb::trace::Action;
use hdrhistogram::Histogram;

use super::batch::{Batch, Request};
use super::content::{self, Wrong};
use crate::bytes::brief;
use crate::commands::bench::{SAMPLE, histogram};
use crate::failure::Failure;
use crate::map::{AnyMap, MapKind};

/// What threads do.
#[derive(Clone, Debug)]
pub struct Task {
    /// The map's name.
    pub name: String,
    /// Its kind.
    pub kind: MapKind,
    /// Whether a miss is followed by a write.
    pub fill: bool,
}

/// What a thread found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Requests of each action, in the order of [`Action::ALL`].
    pub actions: [u64; 4],
    /// Reads that found a value, each of which was verified.
    pub hits: u64,
    /// Inserts that found no value and wrote one.
    pub inserted: u64,
    /// Deletes that found a value.
    pub deleted: u64,
    /// Misses that were followed by a write.
    pub fills: u64,
    /// Misses that were not, because the pool was full.
    pub refused_fills: u64,
    /// Bytes of values that were read.
    pub bytes_read: u64,
    /// Bytes of values that were written.
    pub bytes_written: u64,
}

impl Tally {
    /// Adds what another thread found.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.actions.iter_mut().zip(other.actions) {
            *mine += theirs;
        }
        self.hits += other.hits;
        self.inserted += other.inserted;
        self.deleted += other.deleted;
        self.fills += other.fills;
        self.refused_fills += other.refused_fills;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}

/// What a thread has at the end.
pub struct Outcome {
    /// What it found.
    pub tally: Tally,
    /// Nanoseconds of the sampled requests of each action.
    pub times: Vec<Histogram<u32>>,
}

/// Replays batches until no more come. The first answer is an empty batch: the thread is ready.
pub fn run<M: Memory>(
    pool: &Pool<M>,
    task: &Task,
    batches: Receiver<Batch>,
    done: Sender<Batch>,
) -> Result<Outcome, Failure> {
    let mut runner = Runner {
        map: AnyMap::open(pool, &task.name, task.kind == MapKind::Ordered)?,
        fill: task.fill,
        full: false,
        value: Vec::new(),
        tally: Tally::default(),
        times: Action::ALL
            .iter()
            .map(|_| histogram())
            .collect::<Result<_, _>>()?,
        steps: 0,
    };
    // If there is no receiver, another thread has failed and reports it.
    let mut next = done
        .send(Batch::default())
        .ok()
        .and_then(|()| batches.recv().ok());
    while let Some(mut batch) = next {
        for (request, key) in batch.iter() {
            runner.step(request, key)?;
        }
        batch.clear();
        next = done.send(batch).ok().and_then(|()| batches.recv().ok());
    }
    Ok(Outcome {
        tally: runner.tally,
        times: runner.times,
    })
}

struct Runner<M: Memory> {
    map: AnyMap<M>,
    fill: bool,
    /// A fill was refused, and nothing was deleted since.
    full: bool,
    /// What is written; made before the clock starts.
    value: Vec<u8>,
    tally: Tally,
    times: Vec<Histogram<u32>>,
    steps: u64,
}

fn place(action: Action) -> usize {
    match action {
        Action::Read => 0,
        Action::Write => 1,
        Action::Insert => 2,
        Action::Delete => 3,
    }
}

impl<M: Memory> Runner<M> {
    fn step(&mut self, request: &Request, key: &[u8]) -> Result<(), Failure> {
        if matches!(request.action, Action::Write | Action::Insert) {
            self.make_value(request);
        }
        self.steps += 1;
        let begin = self.steps.is_multiple_of(SAMPLE).then(Instant::now);
        let place = place(request.action);
        self.tally.actions[place] += 1;
        let found = self.act(request, key).map_err(|error| failed(request, &error))?;
        if let Some(begin) = begin {
            self.times[place].saturating_record(begin.elapsed().as_nanos() as u64);
        }
        match found {
            Found::Done => Ok(()),
            Found::Missing => self.miss(request, key),
            Found::Wrong(wrong) => Err(Failure::failed(format!(
                "request {} read a value of the key {} that {}",
                request.number,
                brief(key),
                match wrong {
                    Wrong::Foreign => "no replay wrote for it; use another map, or this one is damaged",
                    Wrong::Torn => "is torn: its parts belong to different writes",
                }
            ))),
        }
    }

    fn make_value(&mut self, request: &Request) {
        content::fill(
            &mut self.value,
            request.hash,
            request.number,
            request.value_size as usize,
        );
    }

    /// The part that is timed.
    fn act(&mut self, request: &Request, key: &[u8]) -> cenote::Result<Found> {
        match request.action {
            Action::Read => {
                let found = match &self.map {
                    AnyMap::Hash(map) => map.get(key)?,
                    AnyMap::Ordered(map) => map.get(key)?,
                };
                let Some(value) = found else {
                    return Ok(Found::Missing);
                };
                self.tally.hits += 1;
                self.tally.bytes_read += value.len() as u64;
                if let Err(wrong) = content::check(&value, request.hash) {
                    return Ok(Found::Wrong(wrong));
                }
            }
            Action::Write => {
                self.map.put(key, &self.value)?;
                self.tally.bytes_written += self.value.len() as u64;
            }
            Action::Insert => {
                if self.map.insert(key, &self.value)? {
                    self.tally.inserted += 1;
                    self.tally.bytes_written += self.value.len() as u64;
                }
            }
            Action::Delete => {
                if self.map.remove(key)? {
                    self.tally.deleted += 1;
                    self.full = false;
                }
            }
        }
        Ok(Found::Done)
    }

    /// After a miss the asking client fills a look-aside cache. A full pool refuses; it is not asked again before this
    /// thread has deleted something.
    fn miss(&mut self, request: &Request, key: &[u8]) -> Result<(), Failure> {
        if !self.fill {
            return Ok(());
        }
        if self.full {
            self.tally.refused_fills += 1;
            return Ok(());
        }
        self.make_value(request);
        match self.map.put(key, &self.value) {
            Ok(_) => {
                self.tally.fills += 1;
                self.tally.bytes_written += self.value.len() as u64;
                Ok(())
            }
            Err(Error::Full { .. }) => {
                self.tally.refused_fills += 1;
                self.full = true;
                Ok(())
            }
            Err(error) => Err(failed(request, &error)),
        }
    }
}

/// What a request came to.
enum Found {
    Done,
    Missing,
    Wrong(Wrong),
}

fn failed(request: &Request, error: &Error) -> Failure {
    Failure::failed(format!("{error} (at request {} of the trace)", request.number))
}
