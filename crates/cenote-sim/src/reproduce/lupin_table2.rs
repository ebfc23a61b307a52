//! Lupin, table 2: the cost of a lock that survives its owner. 32 threads as in the paper, and fewer, increment a
//! counter under one lock.
//!
//! Each figure is the mean of ten trials. In each all threads warm up, meet, and begin within ten microseconds, at
//! moments that are drawn: in virtual time, a run whose threads begin at once would be the same each time, and order
//! them as they began.
//!
//! Each thread is a process on a host of its own, on the coherent machine: so a line that moves from one core to
//! another costs a fetch, as on the paper's machine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::pod::Worker;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::format::superblock::MemoryKind;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::counting::{Counting, Way};
use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::exec::{Context, Ended, Settings, SimMemory, run};
use crate::policy::RandomWalk;
use crate::profile::Profile;
use crate::subjects::below;
use crate::subjects::gathering::Gathering;
use crate::subjects::pool::{self, Member};

pub const NAME: &str = "lupin/table2";

/// Threads; the paper has 32.
const SWEEP: [u32; 6] = [1, 2, 4, 8, 16, THREADS];
pub const THREADS: u32 = 32;
/// Trials of the paper, and of each figure here.
const TRIALS: u64 = 10;
/// Threads begin within so much time.
const STAGGER_PS: u64 = 10_000_000;
/// Increments of each thread that are counted, after some that are not.
const ROUNDS: u32 = 600;
const WARM_UP: u32 = 5;
const FRAMES: u64 = 32;

/// The mean, its deviation, and how much the recoverable lock takes more than the plain one, on a profile.
struct Quantities {
    profile: &'static str,
    mean: Quantity,
    deviation: Quantity,
    over_plain: Quantity,
}

const fn quantity(name: &'static str, unit: &'static str) -> Quantity {
    Quantity { name, unit }
}

const QUANTITIES: [Quantities; 2] = [
    Quantities {
        profile: "dram",
        mean: quantity("an increment, DRAM", "us"),
        deviation: quantity("deviation, DRAM", "us"),
        over_plain: quantity("over the plain lock, DRAM", "%"),
    },
    Quantities {
        profile: "cxl-local",
        mean: quantity("an increment, CXL", "us"),
        deviation: quantity("deviation, CXL", "us"),
        over_plain: quantity("over the plain lock, CXL", "%"),
    },
];

/// What is compared: the lock, the plain one of its kind, and the paper's means and deviations for DRAM and CXL.
struct Case {
    name: &'static str,
    way: Way,
    plain: Option<&'static str>,
    paper: [[f64; 2]; 2],
}

const PLAIN_SPIN: &str = "test-and-test-and-set";
const PLAIN_QUEUE: &str = "MCS";

const CASES: [Case; 5] = [
    Case {
        name: PLAIN_SPIN,
        way: Way::PlainSpin,
        plain: None,
        paper: [[5.43, 2.27], [5.42, 2.34]],
    },
    Case {
        name: "the same, recoverable",
        way: Way::Spin,
        plain: Some(PLAIN_SPIN),
        paper: [[5.50, 2.37], [5.56, 2.33]],
    },
    Case {
        name: PLAIN_QUEUE,
        way: Way::PlainQueue,
        plain: None,
        paper: [[7.42, 0.11], [7.49, 0.21]],
    },
    Case {
        name: "queue lock, recoverable",
        way: Way::Queue,
        plain: Some(PLAIN_QUEUE),
        paper: [[7.86, 0.17], [8.09, 0.07]],
    },
    Case {
        name: "min-array, recoverable",
        way: Way::MinArray,
        plain: Some(PLAIN_QUEUE),
        paper: [[99.97, 4.38], [95.71, 0.21]],
    },
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut done = 0;
    for case in &CASES {
        for threads in SWEEP {
            for (of, paper) in QUANTITIES.iter().zip(case.paper) {
                let paper = (threads == THREADS).then_some(paper);
                let profile = Profile::load(of.profile)?;
                let times = (1..=TRIALS)
                    .map(|seed| measure(case.way, threads, seed, &profile))
                    .collect::<Result<Vec<_>, _>>()?;
                let (mean, deviation) = mean_and_deviation(&times);
                let row = |quantity, paper, ours| Row::new(case.name, threads, quantity, paper, ours);
                rows.push(row(of.mean, paper.map(|[mean, _]| mean), mean));
                rows.push(row(
                    of.deviation,
                    paper.map(|[_, deviation]| deviation),
                    deviation,
                ));
                let is_plain = |row: &&Row| {
                    Some(row.case) == case.plain && (row.threads, row.quantity) == (threads, of.mean)
                };
                if let Some(plain) = rows.iter().find(is_plain).cloned() {
                    let more = |own: Option<f64>, plain: Option<f64>| Some((own? / plain? - 1.0) * 100.0);
                    let papers = more(paper.map(|[mean, _]| mean), plain.paper);
                    if let Some(ours) = more(Some(mean), plain.ours) {
                        rows.push(row(of.over_plain, papers, ours));
                    }
                }
                done += 1;
                progress(done, CASES.len() * SWEEP.len() * QUANTITIES.len());
            }
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Locks that survive their owners",
        source: "Lupin, section 5, table 2",
        origin: Origin::Simulated,
        conditions: "profiles dram and cxl-local, each thread on a core of its own, coherent",
        charted: Charted::Threads(QUANTITIES[0].mean),
        rows,
        notes: vec![
            "The mean time of an increment, over ten trials of 600 increments a thread, and the deviation of the trials' means.",
            "How long an increment takes depends on the machine; the recoverable lock is to be compared with the plain one of its kind.",
            "The recoverable queue lock is no MCS lock: a waiter watches the slot in front of it (decision 0020).",
            "All wait alike: they poll, pause between two polls at first, later let others run, which costs a system call. No thread sleeps, as the \
             paper pins each thread to a core.",
            "The lock with a min-array is after the paper's JJ, and has no recovery: what is compared is a passage without deaths.",
            "`cenote-bench locks` measures the same locks on a real machine, by two threads and by two processes.",
        ],
    })
}

fn mean_and_deviation(times: &[f64]) -> (f64, f64) {
    let count = times.len().max(1) as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

/// What the threads of a run share.
struct Shared {
    way: Way,
    threads: u32,
    warming_up: Gathering,
    gathering: Gathering,
    /// How long each thread waits then, by process.
    delays: Vec<u64>,
    /// Picoseconds of all increments.
    spent: Cell<u64>,
    fault: RefCell<Option<String>>,
}

impl Shared {
    fn note(&self, done: cenote::Result<()>) {
        if let Err(error) = done {
            self.fault.borrow_mut().get_or_insert(error.to_string());
        }
    }
}

/// The mean time of an increment in microseconds.
pub fn measure(way: Way, threads: u32, seed: u64, profile: &Profile) -> Result<f64, ReproduceError> {
    let parameters = Parameters {
        kind: MemoryKind::Coherent,
        max_frames: FRAMES,
        processes: threads + 4,
        workers: threads + 4,
        entries: 4,
        hosts: threads,
    };
    let settings = Settings::timed(profile, true, threads, 1, pool::bytes(parameters));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let shared = Rc::new(Shared {
        way,
        threads,
        warming_up: Gathering::new(threads),
        gathering: Gathering::new(threads),
        delays: (0..=threads).map(|_| below(&mut random, STAGGER_PS)).collect(),
        spent: Cell::new(0),
        fault: RefCell::default(),
    });
    let [prepares, works, audits] = [(); 3].map(|()| shared.clone());
    let outcome = run(
        &settings,
        // With a profile nothing is left to the policy.
        Box::new(RandomWalk::new(0)),
        Box::new(move |context: Context<true>| {
            context.never_sleep();
            let made = pool::format(&context, parameters, FRAMES);
            prepares.note(made.and_then(|()| with_worker(&context, |worker| Counting::prepare(worker, way))));
        }),
        Rc::new(move |context: Context<true>| {
            works.note(with_worker(&context, |worker| work(&context, worker, &works)));
        }),
        Box::new(move |context: Context<true>| {
            audits.note(with_worker(&context, |worker| {
                let counter = Counting::open(worker, way, 0, threads)?.count(worker.mem());
                if counter != u64::from(threads * (ROUNDS + WARM_UP)) {
                    audits
                        .fault
                        .borrow_mut()
                        .get_or_insert(format!("{counter} increments"));
                }
                Ok(())
            }));
        }),
    );
    if let Some(error) = shared.fault.take() {
        return Err(ReproduceError::Pool { name: NAME, error });
    }
    match outcome.ended {
        Ended::Well => Ok(shared.spent.get() as f64 / f64::from(threads * ROUNDS) / 1e6),
        ended => Err(ReproduceError::Run(ended)),
    }
}

/// Runs `work` as a worker of a process that joins for it.
fn with_worker(
    context: &Context<true>,
    work: impl FnOnce(&Rc<Worker<SimMemory<true>>>) -> cenote::Result<()>,
) -> cenote::Result<()> {
    let member = Member::join(context, false)?;
    let done = Worker::attach(&member.pod, true).and_then(|worker| work(&Rc::new(worker)));
    member.leave(context);
    done
}

fn work(
    context: &Context<true>,
    worker: &Rc<Worker<SimMemory<true>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    // The first process has prepared.
    let counting = Counting::open(worker, shared.way, context.process() - 1, shared.threads)?;
    shared.warming_up.arrive(context);
    (0..WARM_UP).try_for_each(|_| counting.increment(worker.mem()))?;
    shared.gathering.arrive(context);
    context.spend_ps(
        shared
            .delays
            .get(context.process() as usize)
            .copied()
            .unwrap_or(0),
    );
    let begun = context.now_ps();
    (0..ROUNDS).try_for_each(|_| counting.increment(worker.mem()))?;
    shared.spent.set(shared.spent.get() + context.now_ps() - begun);
    Ok(())
}
