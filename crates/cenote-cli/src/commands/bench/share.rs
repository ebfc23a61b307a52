//! One process's share of a benchmark: its threads run their operations, all beginning at the same time.
//!
//! Operations are drawn before the clock starts, a slice at a time; the clock stands still while the next slice is
//! drawn. Of every [`SAMPLE`] operations (or batches), one is timed.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use cenote::index::hash::iter::Cursor;
use cenote::memory::{Counting, Counts, Memory};
use cenote::{Coherent, Delegated, Map, MemoryKind, Noncoherent, Options, Pool, Range, Replace, kind_of};
use cenote_ycsb::{Action, Operation, key_of_record};
use hdrhistogram::Histogram;

use super::plan::{ACTIONS, Measured, Plan, counts_array, place};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::map::AnyMap;
use crate::threads::start_all;

/// Of so many operations one is timed; a prime, so that it does not keep step with anything.
pub const SAMPLE: u64 = 61;
/// Operations that are drawn at a time.
const SLICE: usize = 1 << 22;

/// Runs the share; `ready` returns when all other processes are ready, too.
pub fn run(plan: &Plan, ready: impl FnOnce()) -> Result<Measured, Failure> {
    let path = &plan.pool;
    let options = Options {
        guidelines: plan.form.guidelines(),
        ..Options::default()
    };
    let options = crate::pool::on_this_host(path, &options)?;
    match (kind_of(path)?, plan.count) {
        (MemoryKind::Coherent, false) => run_threads(&Pool::<Coherent>::open(path, &options)?, plan, ready),
        (MemoryKind::Coherent, true) => {
            run_threads(&Pool::<Counting<Coherent>>::open(path, &options)?, plan, ready)
        }
        (MemoryKind::Noncoherent, false) => {
            run_threads(&Pool::<Noncoherent>::open(path, &options)?, plan, ready)
        }
        (MemoryKind::Noncoherent, true) => {
            run_threads(&Pool::<Counting<Noncoherent>>::open(path, &options)?, plan, ready)
        }
        (MemoryKind::Delegated, false) => run_threads(&Pool::<Delegated>::open(path, &options)?, plan, ready),
        (MemoryKind::Delegated, true) => {
            run_threads(&Pool::<Counting<Delegated>>::open(path, &options)?, plan, ready)
        }
    }
}

fn run_threads<M: Memory>(pool: &Pool<M>, plan: &Plan, ready: impl FnOnce()) -> Result<Measured, Failure> {
    let barrier = Barrier::new(plan.threads as usize + 1);
    std::thread::scope(|scope| {
        let barrier = &barrier;
        let work = |thread| move || run_thread(pool, plan, thread, barrier);
        let threads = start_all(scope, "bench", (0..plan.threads).map(work))?;
        barrier.wait();
        ready();
        barrier.wait();
        let mut all = Measured::default();
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(measured)) => all.add(measured),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(Failure::failed("a thread of the benchmark panicked")),
            }
        }
        failure.map_or(Ok(all), Err)
    })
}

fn run_thread<M: Memory>(
    pool: &Pool<M>,
    plan: &Plan,
    thread: u64,
    barrier: &Barrier,
) -> Result<Measured, Failure> {
    // Whatever goes wrong, the others wait at the barrier.
    let prepared = (|| {
        let map = Collection::open(pool, &plan.name, plan.map)?;
        let mut stream = plan.spec(thread).map_err(Failure::Misuse)?.stream();
        let slice: Vec<Operation> = stream.by_ref().take(SLICE).collect();
        Ok::<_, Failure>((map, stream, slice))
    })();
    barrier.wait();
    barrier.wait();
    let (map, mut stream, mut slice) = prepared?;
    let mut runner = Runner::new(map, plan)?;
    let mut running = Duration::ZERO;
    Counts::reset();
    while !slice.is_empty() {
        let begin = Instant::now();
        for operation in &slice {
            runner.step(operation)?;
        }
        runner.flush()?;
        running += begin.elapsed();
        slice.clear();
        slice.extend(stream.by_ref().take(SLICE));
    }
    let mut measured = runner.measured;
    measured.counts = counts_array(&Counts::current());
    measured.seconds = running.as_secs_f64();
    for (latencies, histogram) in measured.latencies.iter_mut().zip(&runner.histograms) {
        *latencies = histogram
            .iter_recorded()
            .map(|at| (at.value_iterated_to(), at.count_at_value().into()))
            .collect();
    }
    Ok(measured)
}

struct Runner<M: Memory> {
    map: Collection<M>,
    measured: Measured,
    histograms: Vec<Histogram<u32>>,
    /// Values are its beginnings.
    value: Vec<u8>,
    least: usize,
    batch: usize,
    /// Keys whose lookup is put off until the batch is full.
    waiting: Vec<[u8; 8]>,
    /// Where the next scan begins.
    cursor: Cursor,
    steps: u64,
}

/// A histogram of nanoseconds.
pub fn histogram() -> Result<Histogram<u32>, Failure> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).map_err(|error| Failure::failed(error.to_string()))
}

impl<M: Memory> Runner<M> {
    fn new(map: Collection<M>, plan: &Plan) -> Result<Self, Failure> {
        let value = (0..plan.value_size.most)
            .map(|n| (n as u64).wrapping_mul(0x9e37_79b9) as u8)
            .collect();
        let histograms = ACTIONS.iter().map(|_| histogram()).collect::<Result<_, _>>()?;
        Ok(Self {
            map,
            measured: Measured::default(),
            histograms,
            value,
            least: plan.value_size.least,
            batch: plan.batch,
            waiting: Vec::with_capacity(plan.batch),
            cursor: Cursor::default(),
            steps: 0,
        })
    }

    #[inline]
    fn step(&mut self, operation: &Operation) -> Result<(), Failure> {
        let key = key_of_record(operation.record).to_le_bytes();
        self.measured.operations[place(operation.action)] += 1;
        if self.batch > 1 {
            if operation.action == Action::Read {
                self.waiting.push(key);
                return if self.waiting.len() == self.batch {
                    self.flush()
                } else {
                    Ok(())
                };
            }
            self.flush()?;
        }
        self.timed(operation.action, |runner| match operation.action {
            Action::Read => runner.read(&key),
            Action::Update | Action::Insert => runner.put(&key),
            Action::Scan => runner.scan(&key, operation.length),
            Action::Modify => runner.modify(&key),
        })
    }

    #[inline]
    fn timed(
        &mut self,
        action: Action,
        work: impl FnOnce(&mut Self) -> cenote::Result<()>,
    ) -> Result<(), Failure> {
        self.steps += 1;
        if !self.steps.is_multiple_of(SAMPLE) {
            return Ok(work(self)?);
        }
        let begin = Instant::now();
        work(self)?;
        self.histograms[place(action)].saturating_record(begin.elapsed().as_nanos() as u64);
        Ok(())
    }

    /// Looks up the keys that wait.
    fn flush(&mut self) -> Result<(), Failure> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.timed(Action::Read, |runner| {
            let mut misses = 0;
            runner.map.get_many(&runner.waiting, |_, value| match value {
                Some(value) => touch(value),
                None => misses += 1,
            })?;
            runner.measured.misses += misses;
            runner.waiting.clear();
            Ok(())
        })
    }

    #[inline]
    fn read(&mut self, key: &[u8; 8]) -> cenote::Result<()> {
        let measured = &mut self.measured;
        self.map.with_value(key, |value| match value {
            Some(value) => touch(value),
            None => measured.misses += 1,
        })
    }

    /// The next value to write.
    #[inline]
    fn next_value(&mut self) -> usize {
        let number = key_of_record(self.steps);
        let len = self.least + (number % (self.value.len() - self.least + 1) as u64) as usize;
        let marked = len.min(8);
        self.value[..marked].copy_from_slice(&number.to_le_bytes()[..marked]);
        len
    }

    #[inline]
    fn put(&mut self, key: &[u8; 8]) -> cenote::Result<()> {
        let len = self.next_value();
        self.map.put(key, &self.value[..len]).map(|_| ())
    }

    fn scan(&mut self, from: &[u8; 8], length: u32) -> cenote::Result<()> {
        let length = u64::from(length);
        let mut seen = 0;
        match &self.map {
            Collection::Map(AnyMap::Hash(map)) => seen = walk(map, &mut self.cursor, length)?,
            Collection::Map(AnyMap::Ordered(map)) => map.scan(Range { from, to: None }, |_, value| {
                touch(value);
                seen += 1;
                seen < length
            })?,
            // They are not scanned, so no such workload comes here.
            Collection::Objects(_) => {}
        }
        self.measured.scanned += seen;
        Ok(())
    }

    fn modify(&mut self, key: &[u8; 8]) -> cenote::Result<()> {
        let Some(mut old) = self.map.get(key)? else {
            self.measured.misses += 1;
            return Ok(());
        };
        let len = self.next_value();
        loop {
            match self.map.replace(key, &old, &self.value[..len])? {
                Replace::Differs(found) => {
                    self.measured.retries += 1;
                    old = found;
                }
                Replace::Replaced => return Ok(()),
                Replace::Missing => {
                    self.measured.misses += 1;
                    return Ok(());
                }
            }
        }
    }
}

/// What a scan is on a map that has no order: the pairs that come next in a walk of the whole map. How many it read.
fn walk<M: Memory>(map: &Map<M>, cursor: &mut Cursor, length: u64) -> cenote::Result<u64> {
    let mut read = 0;
    let mut wrapped = false;
    while read < length {
        let next = map.step(*cursor, |_, value| {
            touch(value);
            read += 1;
        })?;
        *cursor = next.unwrap_or_default();
        // A map with fewer pairs than the scan asks for ends it.
        if next.is_none() && std::mem::replace(&mut wrapped, true) {
            break;
        }
    }
    Ok(read)
}

/// Reads a value as a user would begin to.
#[inline]
fn touch(value: &[u8]) {
    black_box(value.first());
    black_box(value.len());
}
