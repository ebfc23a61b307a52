//! Threads that all increment one word, by additions, by compare-exchanges and under a spin lock: published
//! measurements of three machines, against the simulator.
//!
//! The profile's cost of a line that moves from one core to another is set for each machine so that additions by the
//! most threads take as long as they did there. How long a line stays is the profile's for all machines. The simulator
//! gives the rest.

use std::cell::Cell;
use std::rc::Rc;

use cenote::memory::Memory;

use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::exec::{Context, Ended, Settings, SimMemory, run};
use crate::policy::RandomWalk;
use crate::profile::Profile;
use cenote::memory::SyncWord;

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of simulated memory, which checks each access.
    unsafe { SyncWord::at(at) }
}

pub const NAME: &str = "machine/contention";

const PROFILE: &str = "dram";
/// Increments of each thread.
const ROUNDS: u32 = 1000;

/// Until a transfer is known within a fraction of a nanosecond.
const HALVINGS: u32 = 10;

const INCREMENT: Quantity = Quantity {
    name: "a thread's increment",
    unit: "ns",
};
const TRANSFER: Quantity = Quantity {
    name: "a line from core to core",
    unit: "ns",
};

/// What was measured on a machine: threads, and the time of an increment of a thread by an addition, by
/// compare-exchanges, and under a lock.
struct Machine {
    transfer: &'static str,
    additions: &'static str,
    exchanges: &'static str,
    spin_lock: &'static str,
    measured: &'static [(u32, f64, f64)],
    under_lock: &'static [(u32, f64)],
}

/// "A concurrency cost hierarchy" (Travis Downs, 2020): medians of 15 trials from its published results
/// (github.com/travisdowns/concurrency-hierarchy-bench, results/*/combined.csv, "atomic add", "cas add" and "pause
/// spin").
const MACHINES: [Machine; 3] = [
    Machine {
        transfer: "Skylake (i7-6700HQ), fitted",
        additions: "Skylake, additions",
        exchanges: "Skylake, compare-exchanges",
        spin_lock: "Skylake, under a spin lock",
        measured: &[
            (1, 7.0, 12.0),
            (2, 44.1, 108.6),
            (3, 70.0, 226.8),
            (4, 96.4, 347.2),
        ],
        under_lock: &[(1, 11.2), (2, 42.8), (3, 98.3), (4, 220.1)],
    },
    Machine {
        transfer: "Ice Lake (i5-1035G4), fitted",
        additions: "Ice Lake, additions",
        exchanges: "Ice Lake, compare-exchanges",
        spin_lock: "Ice Lake, under a spin lock",
        measured: &[
            (1, 6.1, 11.0),
            (2, 32.8, 103.1),
            (3, 49.3, 171.3),
            (4, 69.5, 266.6),
        ],
        under_lock: &[(1, 7.3), (2, 72.6), (3, 178.3), (4, 291.6)],
    },
    Machine {
        transfer: "Graviton 2 (Neoverse N1), fitted",
        additions: "Graviton 2, additions",
        exchanges: "Graviton 2, compare-exchanges",
        spin_lock: "",
        under_lock: &[],
        measured: &[
            (1, 5.3, 8.4),
            (2, 17.0, 52.2),
            (3, 26.2, 84.1),
            (4, 34.7, 116.5),
            (8, 75.5, 323.3),
            (16, 150.3, 638.7),
        ],
    },
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let profile = Profile::load(PROFILE)?;
    let mut rows = Vec::new();
    for (n, machine) in MACHINES.iter().enumerate() {
        let fitted = fitted(&profile, machine)?;
        rows.push(Row::new(machine.transfer, 1, TRANSFER, None, fitted.transfer_ns));
        for &(threads, by_addition, by_exchanges) in machine.measured {
            let ways: [(_, Increment, _); 2] = [
                (machine.additions, add, by_addition),
                (machine.exchanges, exchange, by_exchanges),
            ];
            for (case, increment, measured) in ways {
                let simulated = simulated(increment, threads, &fitted)?;
                rows.push(Row::new(case, threads, INCREMENT, Some(measured), simulated));
            }
        }
        for &(threads, measured) in machine.under_lock {
            let simulated = simulated(spin, threads, &fitted)?;
            rows.push(Row::new(
                machine.spin_lock,
                threads,
                INCREMENT,
                Some(measured),
                simulated,
            ));
        }
        progress(n + 1, MACHINES.len());
    }
    Ok(Figure {
        name: NAME,
        title: "Threads that all increment one word",
        source: "\"A concurrency cost hierarchy\" (Travis Downs, 2020), published results",
        origin: Origin::Simulated,
        conditions: "profile dram, but transfer_ns, each thread on a core of its own, coherent",
        charted: Charted::Threads(INCREMENT),
        rows,
        notes: vec![
            "For each machine transfer_ns is set so that additions by the most threads take what was measured there; all else is the profile's.",
            "The spin lock is test-and-test-and-set with pauses; the counter is in a line of its own.",
        ],
    })
}

/// The profile with the cost of a transfer with which additions by a machine's most threads take as long as they did on
/// it.
fn fitted(profile: &Profile, machine: &Machine) -> Result<Profile, ReproduceError> {
    let with = |transfer_ns| Profile {
        transfer_ns,
        ..profile.clone()
    };
    let Some(&(threads, addition, _)) = machine.measured.last() else {
        return Ok(profile.clone());
    };
    let (mut least, mut most) = (0.0, 8.0 * profile.transfer_ns);
    for _ in 0..HALVINGS {
        let middle = (least + most) / 2.0;
        match simulated(add, threads, &with(middle))? < addition {
            true => least = middle,
            false => most = middle,
        }
    }
    Ok(with(least))
}

/// How a thread increments the word.
type Increment = fn(&SimMemory<true>);

fn add(mem: &SimMemory<true>) {
    sync_word(0).fetch_add(mem, 1);
}

fn exchange(mem: &SimMemory<true>) {
    let mut found = sync_word(0).load(mem);
    while let Err(other) = sync_word(0).compare_exchange(mem, found, found + 1) {
        found = other;
    }
}

/// Under a test-and-test-and-set lock, whose waiters pause.
fn spin(mem: &SimMemory<true>) {
    const COUNTER: u64 = 64;
    while sync_word(0).compare_exchange(mem, 0, 1).is_err() {
        while sync_word(0).load(mem) != 0 {
            mem.pause();
        }
    }
    sync_word(COUNTER).store(mem, sync_word(COUNTER).load(mem) + 1);
    sync_word(0).store(mem, 0);
}

/// The mean time of an increment of a thread, in nanoseconds, of so many that begin at once, each on a core of its own.
fn simulated(increment: Increment, threads: u32, profile: &Profile) -> Result<f64, ReproduceError> {
    let settings = Settings::timed(profile, true, threads, 1, 1 << 12);
    let spent = Rc::new(Cell::new(0));
    let sum = spent.clone();
    let outcome = run(
        &settings,
        // With a profile nothing is left to the policy.
        Box::new(RandomWalk::new(0)),
        Box::new(|_| {}),
        Rc::new(move |context: Context<true>| {
            let mem = context.memory();
            let begun = context.now_ps();
            (0..ROUNDS).for_each(|_| increment(&mem));
            sum.set(sum.get() + context.now_ps() - begun);
        }),
        Box::new(|_| {}),
    );
    match outcome.ended {
        Ended::Well => Ok(spent.get() as f64 / f64::from(threads * ROUNDS) / 1e3),
        ended => Err(ReproduceError::Run(ended)),
    }
}
