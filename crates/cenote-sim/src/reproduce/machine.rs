//! This machine against the simulator: two threads that increment one counter, by turns, by exchanges and under locks,
//! measured here and simulated with the same code.
//!
//! The profile's cost of a line that moves from one core to another is another machine's. So there are two simulated
//! columns: with the profile as it is, and with that one cost set so that turns take as long as they do here. Any other
//! number that then agrees was not fitted.

use std::path::Path;
use std::time::{Duration, Instant};

use cenote::memory::LocalWord;
use cenote::{Coherent, Error, Options, Pool};

use super::counting::{Counting, Way};
use super::lupin_table2::measure;
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::profile::Profile;

pub const NAME: &str = "machine/handoffs";

const THREADS: u32 = 2;
/// Seeds of the simulated means.
const SEEDS: u64 = 5;
const PROFILE: &str = "dram";
/// Of a transfer, where turns take less than all else that the profile charges for them.
const LEAST_NS: f64 = 1.0;
/// Until a transfer is known within a fraction of a nanosecond.
const HALVINGS: u32 = 10;

const MEASURED: Quantity = quantity("measured");
const SIMULATED: Quantity = quantity("dram");
const FITTED: Quantity = quantity("dram, transfers as here");

const fn quantity(name: &'static str) -> Quantity {
    Quantity { name, unit: "ns" }
}

const CASES: [(&str, Way); 7] = [
    ("in turn", Way::Turns),
    ("in turn, by exchanges", Way::TurnsByExchange),
    ("by compare-exchange", Way::Exchange),
    ("under test-and-test-and-set", Way::PlainSpin),
    ("the same, recoverable", Way::Spin),
    ("under MCS", Way::PlainQueue),
    ("under the queue lock", Way::Queue),
];

/// How much is measured.
#[derive(Clone, Copy)]
struct Scale {
    rounds: usize,
    /// Of each thread in a round.
    increments: u32,
}

const FULL: Scale = Scale {
    rounds: 21,
    increments: 400_000,
};

pub fn make(folder: &Path, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    figure(folder, FULL, progress)
}

fn figure(folder: &Path, scale: Scale, progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let measured = measured(folder, scale).map_err(|error| ReproduceError::Pool {
        name: NAME,
        error: error.to_string(),
    })?;
    let profile = Profile::load(PROFILE)?;
    let fitted = fitted(&profile, measured.first().copied().unwrap_or(f64::NAN))?;
    const TRANSFER: &str = "a line from core to core";
    let mut rows = vec![
        Row::new(TRANSFER, 1, SIMULATED, None, profile.transfer_ns),
        Row::new(TRANSFER, 1, FITTED, None, fitted.transfer_ns),
    ];
    for (n, ((case, way), measured)) in CASES.into_iter().zip(measured).enumerate() {
        rows.push(Row::new(case, THREADS, MEASURED, None, measured));
        for (quantity, profile) in [(SIMULATED, &profile), (FITTED, &fitted)] {
            rows.push(Row::new(case, THREADS, quantity, None, simulated(way, profile)?));
        }
        progress(n + 1, CASES.len());
    }
    Ok(Figure {
        name: NAME,
        title: "Two threads that increment one counter: this machine against the simulator",
        source: "what a thread's increment takes",
        origin: Origin::Measured,
        conditions: "on this machine, and simulated on the profile dram",
        charted: Charted::Cases([MEASURED, FITTED]),
        rows,
        notes: vec![
            "Measured: the median of 21 rounds of 400,000 increments a thread. Simulated: the mean of five trials of 600 increments a thread.",
            "The last column has transfer_ns set so that increments in turn take as long as here; all else is the profile's.",
        ],
    })
}

/// The profile with the cost of a transfer with which increments in turn take so long.
fn fitted(profile: &Profile, turns_ns: f64) -> Result<Profile, ReproduceError> {
    let with = |transfer_ns| Profile {
        transfer_ns,
        ..profile.clone()
    };
    let (mut least, mut most) = (LEAST_NS, 8.0 * profile.transfer_ns);
    for _ in 0..HALVINGS {
        let middle = (least + most) / 2.0;
        match simulated(Way::Turns, &with(middle))? < turns_ns {
            true => least = middle,
            false => most = middle,
        }
    }
    Ok(with(least))
}

/// The mean time of an increment, in nanoseconds.
fn simulated(way: Way, profile: &Profile) -> Result<f64, ReproduceError> {
    let times = (1..=SEEDS).map(|seed| measure(way, THREADS, seed, profile));
    Ok(times.sum::<Result<f64, _>>()? * 1e3 / SEEDS as f64)
}

/// The same, measured, in each way.
fn measured(folder: &Path, scale: Scale) -> cenote::Result<Vec<f64>> {
    let path = folder.join(format!("cenote-handoffs-{}", std::process::id()));
    let pool = Pool::<Coherent>::create(&path, &Options::default())?;
    // The pool stays as long as it is open.
    std::fs::remove_file(&path).map_err(|source| Error::Io { path, source })?;
    let mut times = vec![Vec::new(); CASES.len()];
    for _ in 0..scale.rounds {
        for (times, (_, way)) in times.iter_mut().zip(CASES) {
            times.push(round(&pool, way, scale.increments)?);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_unstable_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Ok(times.into_iter().map(median).collect())
}

/// The mean time of an increment in nanoseconds, of so many by each of the threads at once.
fn round(pool: &Pool<Coherent>, way: Way, increments: u32) -> cenote::Result<f64> {
    let ready: Vec<_> = (0..THREADS).map(|_| LocalWord::new(0)).collect();
    let ready = &ready;
    let count = |thread: u32| -> cenote::Result<Duration> {
        let opened = pool
            .worker()
            .and_then(|worker| Ok((Counting::open(&worker, way, thread, THREADS)?, worker)));
        // Even if it could not: the other thread waits. It does not sleep, as waking up takes longer than what is
        // measured.
        ready[thread as usize].store(1);
        while ready.iter().any(|word| word.load() == 0) {
            std::hint::spin_loop();
        }
        let (counting, worker) = opened?;
        let begun = Instant::now();
        (0..increments).try_for_each(|_| counting.increment(worker.mem()))?;
        Ok(begun.elapsed())
    };
    let taken = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || count(thread)))
            .collect();
        let ends = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ends.sum::<cenote::Result<Duration>>()
    })?;
    Ok(taken.as_nanos() as f64 / f64::from(THREADS * increments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_take_as_long_as_is_asked_for_with_the_fitted_profile() {
        let profile = Profile::load(PROFILE).unwrap();
        for wanted in [100.0, 400.0] {
            let turns = simulated(Way::Turns, &fitted(&profile, wanted).unwrap()).unwrap();
            assert!((turns / wanted - 1.0).abs() < 0.05, "{turns} and {wanted}");
        }
    }

    /// "Measuring CPU core-to-core latency" (github.com/nviennot/core-to-core-latency), by compare-exchanges in turn:
    /// 44 to 51 ns from core to core for four server processors of Intel (Broadwell to Ice Lake), 107 and 115 between
    /// parts of AMD's Milan.
    #[test]
    fn a_line_takes_from_core_to_core_what_others_have_measured() {
        let profile = Profile::load(PROFILE).unwrap();
        let one_way = simulated(Way::TurnsByExchange, &profile).unwrap() / 2.0;
        assert!((44.0..115.0).contains(&one_way), "{one_way}");
    }

    #[test]
    fn every_way_has_its_numbers_and_nothing_is_left() {
        let folder = std::env::temp_dir().join(format!("cenote-handoffs-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let scale = Scale {
            rounds: 1,
            increments: 100,
        };
        let figure = figure(&folder, scale, &|_, _| {}).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(figure.rows.len(), 2 + 3 * CASES.len());
        let is_number = |row: &Row| row.ours.is_some_and(|ours| ours.is_finite() && ours > 0.0);
        assert!(figure.rows.iter().all(is_number), "{:?}", figure.rows);
    }
}
