//! Lupin, table 2: what it costs that a lock survives its owner. 32 threads increment a counter under one lock.
//!
//! Each thread is a process on a host of its own, on the coherent machine: so a line that moves from one core to another costs
//! a fetch, as on the paper's machine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::index::baseline::arena::Arena;
use cenote::memory::SyncWord;
use cenote::pod::Worker;
use cenote::pod::geometry::Parameters;
use cenote::pod::superblock::Kind;
use cenote::sync::plain::{Node, PlainQueue, PlainSpin};
use cenote::sync::{QueueLock, SpinLock};

use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::exec::{Context, Ended, Settings, SimMemory, run};
use crate::machine::Shape;
use crate::policy::RandomWalk;
use crate::profile::Profile;
use crate::subjects::gathering::Gathering;
use crate::subjects::pool::{self, Member};

pub const NAME: &str = "lupin/table2";

const THREADS: u32 = 32;
/// Increments of each thread that are counted, after some that are not.
const ROUNDS: u32 = 60;
const WARM_UP: u32 = 5;
const UNITS: u64 = 32;
const MAGIC: u64 = 0x6c75_7069_6e32;

const QUANTITIES: [(Quantity, &str); 2] = [
    (
        Quantity {
            name: "an increment, DRAM",
            unit: "µs",
        },
        "dram",
    ),
    (
        Quantity {
            name: "an increment, CXL",
            unit: "µs",
        },
        "cxl-local",
    ),
];

#[derive(Clone, Copy)]
enum Lock {
    PlainSpin,
    Spin,
    PlainQueue,
    Queue,
}

/// What is compared, and the paper's means for DRAM and CXL.
const CASES: [(&str, Lock, [f64; 2]); 4] = [
    ("test-and-test-and-set", Lock::PlainSpin, [5.43, 5.42]),
    ("the same, recoverable", Lock::Spin, [5.50, 5.56]),
    ("MCS", Lock::PlainQueue, [7.42, 7.49]),
    ("queue lock, recoverable", Lock::Queue, [7.86, 8.09]),
];

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut rows = Vec::new();
    for (name, lock, paper) in CASES {
        for ((quantity, profile), paper) in QUANTITIES.into_iter().zip(paper) {
            let ours = measure(lock, &Profile::load(profile)?)?;
            rows.push(Row::new(name, THREADS, quantity, Some(paper), ours));
            progress(rows.len(), CASES.len() * QUANTITIES.len());
        }
    }
    Ok(Figure {
        name: NAME,
        title: "Locks that survive their owners, 32 threads",
        source: "Lupin, section 5, table 2",
        origin: Origin::Simulated,
        conditions: "profiles dram and cxl-local, each thread on a host of its own, coherent",
        charted: Charted::Cases(QUANTITIES.map(|(quantity, _)| quantity)),
        rows,
        notes: vec![
            "Within a column the recoverable lock is to be compared with the plain one of its kind; how long an increment takes depends on the machine.",
            "The recoverable queue lock is no MCS lock: whoever waits watches the slot in front of it (decision 0020).",
            "`cenote-bench locks` measures the same locks on a real machine, by two threads and by two processes.",
        ],
    })
}

/// What the threads of a run share.
struct Shared {
    lock: Lock,
    gathering: Gathering,
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
fn measure(lock: Lock, profile: &Profile) -> Result<f64, ReproduceError> {
    let parameters = Parameters {
        kind: Kind::Coherent,
        max_units: UNITS,
        processes: THREADS + 4,
        workers: THREADS + 4,
        entries: 4,
        hosts: THREADS,
    };
    let settings = Settings {
        shape: Shape {
            coherent: true,
            hosts: THREADS,
            bytes: pool::bytes(parameters),
            cache_lines: profile.cache_lines(1),
            prefetches: false,
            persists_at_crash: false,
            coherent_bytes: 0,
            blind_exchanges: false,
        },
        processes: (0..THREADS).collect(),
        crashes: Vec::new(),
        steps_max: u64::MAX,
        capacity: u64::MAX,
        profile: Some(profile.clone()),
        checks_order: false,
        traces: false,
        delegated: None,
        limits: None,
    };
    let shared = Rc::new(Shared {
        lock,
        gathering: Gathering::new(THREADS),
        spent: Cell::new(0),
        fault: RefCell::default(),
    });
    let [prepares, works, audits] = [(); 3].map(|()| shared.clone());
    let outcome = run(
        &settings,
        // With a profile nothing is left to the policy.
        Box::new(RandomWalk::new(0)),
        Box::new(move |context: Context<true>| {
            let made = pool::format(&context, parameters, UNITS);
            prepares.note(made.and_then(|()| with_worker(&context, |worker| open(worker, lock).map(drop))));
        }),
        Rc::new(move |context: Context<true>| {
            works.note(with_worker(&context, |worker| work(&context, worker, &works)));
        }),
        Box::new(move |context: Context<true>| {
            audits.note(with_worker(&context, |worker| {
                let counter = open(worker, lock)?.counter.load(worker.mem());
                if counter != u64::from(THREADS * (ROUNDS + WARM_UP)) {
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
        Ended::Well => Ok(shared.spent.get() as f64 / f64::from(THREADS * ROUNDS) / 1e6),
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

/// A lock, as a thread has it, and the counter that it guards.
struct Opened {
    counter: SyncWord,
    of: Of,
}

enum Of {
    PlainSpin(PlainSpin),
    Spin(SpinLock<SimMemory<true>>),
    PlainQueue(PlainQueue, Node),
    Queue(QueueLock<SimMemory<true>>),
}

fn open(worker: &Rc<Worker<SimMemory<true>>>, lock: Lock) -> cenote::Result<Opened> {
    let arena = Arena::open_or_create(worker.clone(), "words", MAGIC, 1 << 16)?;
    let of = match lock {
        Lock::PlainSpin => Of::PlainSpin(PlainSpin(arena.root(0))),
        Lock::Spin => Of::Spin(SpinLock::open_or_create(worker.clone(), "lock")?),
        Lock::PlainQueue => Of::PlainQueue(PlainQueue(arena.root(1)), Node(arena.take(64)?)),
        Lock::Queue => Of::Queue(QueueLock::open_or_create(worker.clone(), "lock")?),
    };
    Ok(Opened {
        counter: arena.root(2),
        of,
    })
}

impl Opened {
    fn increment(&self, mem: &SimMemory<true>) -> cenote::Result<()> {
        let add = || self.counter.store(mem, self.counter.load(mem) + 1);
        match &self.of {
            Of::PlainSpin(lock) => {
                lock.lock(mem);
                add();
                lock.unlock(mem);
            }
            Of::Spin(lock) => {
                let _guard = lock.lock()?;
                add();
            }
            Of::PlainQueue(lock, node) => {
                lock.lock(mem, *node);
                add();
                lock.unlock(mem, *node);
            }
            Of::Queue(lock) => {
                let _guard = lock.lock()?;
                add();
            }
        }
        Ok(())
    }
}

fn work(
    context: &Context<true>,
    worker: &Rc<Worker<SimMemory<true>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let opened = open(worker, shared.lock)?;
    shared.gathering.arrive(context);
    (0..WARM_UP).try_for_each(|_| opened.increment(worker.mem()))?;
    let begun = context.now_ps();
    (0..ROUNDS).try_for_each(|_| opened.increment(worker.mem()))?;
    shared.spent.set(shared.spent.get() + context.now_ps() - begun);
    Ok(())
}
