//! A worker process: opens the pool, finds out what became of its predecessor's operation in flight, and then does a
//! random mix of operations until it is killed or told to end.

use std::collections::HashMap;
use std::time::Instant;

use cenote::memory::Mapped;
use cenote::{Guidelines, Options, Pool};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::content::Family;
use super::latency::{Kind, Meter};
use super::plan::Plan;
use super::shared::Crowd;
use super::state::State;
use crate::trial::content::{Keyspace, mix};
use crate::trial::control::Control;
use crate::trial::crew;
use crate::trial::fault::Fault;
use crate::trial::journal::Journal;

/// What a worker gets from the supervisor when it starts.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Orders {
    /// What all agree on.
    pub plan: Plan,
    /// Its number.
    pub worker: u32,
    /// How many processes of its number there were before.
    pub incarnation: u32,
}

/// A worker at work.
pub struct Worker<M: Mapped> {
    pub(super) orders: Orders,
    pub(super) state: State<M>,
    pub(super) pool: Pool<M>,
    pub(super) journal: Journal<Family>,
    pub(super) bench: Bench,
    pub(super) random: ChaCha8Rng,
    pub(super) crowd: Crowd,
    /// The versions seen of keys that others own and never remove.
    pub(super) seen: HashMap<(Family, u32, u32), u32>,
    pub(super) seen_counters: Vec<u64>,
    pub(super) seen_ledgers: Vec<Vec<u32>>,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// Measures operations.
pub struct Bench {
    pub(super) meter: Meter,
    control: Control,
}

impl Bench {
    /// Does something and measures how long it takes.
    pub fn time<R>(&mut self, kind: Kind, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        self.meter
            .record(kind, start.elapsed(), || self.control.was_stopped());
        result
    }
}

/// Runs a worker; its fault is left in a file for the supervisor.
pub fn run(orders: Orders) -> bool {
    crew::die_with_parent();
    let done = match orders.plan.memory {
        cenote::MemoryKind::Coherent => work::<cenote::Coherent>(&orders),
        cenote::MemoryKind::Noncoherent => work::<cenote::Noncoherent>(&orders),
        cenote::MemoryKind::Delegated => work::<cenote::Delegated>(&orders),
    };
    crew::leave(&orders.plan.folder, orders.worker, orders.incarnation, done)
}

fn work<M: Mapped>(orders: &Orders) -> Result<(), Fault> {
    let Orders {
        plan,
        worker: me,
        incarnation,
    } = orders.clone();
    let draw = mix(mix(plan.seed) ^ u64::from(me) << 32 ^ u64::from(incarnation));
    let mut random = ChaCha8Rng::seed_from_u64(draw);
    let options = Options {
        // Some have the background thread, some read without replicas and speculation.
        background_thread: random.random_bool(0.25),
        guidelines: if random.random_bool(0.25) {
            Guidelines::SP
        } else {
            Guidelines::P3
        },
        ..Options::default()
    };
    let mut journal = Journal::open(&plan.folder, me)?;
    let mut meter = Meter::new(&journal)?;
    meter.flush(&journal)?;
    let pool = Pool::<M>::open(&plan.pool, &options)?;
    let state = State::open(&pool, &plan)?;
    if state.resolve_in_flight(me, &mut journal)?.is_some() {
        meter.count_in_flight(&journal)?;
    }
    let checked = state.verify_journal(me, &journal, random.random_bool(0.25))?;
    meter.count_reads(checked);
    let mut steps = if random.random_bool(0.1) {
        random.random_range(1..20_000)
    } else {
        u64::MAX
    };
    // Dropped when this thread has done its steps: the second one ends with it.
    let (stay, leave) = std::sync::mpsc::channel::<()>();
    let second = start_second_thread(orders, &pool, draw, leave)?;
    let mut worker = Worker {
        orders: orders.clone(),
        state,
        pool,
        journal,
        bench: Bench {
            meter,
            control: Control::open(&plan.folder, me)?,
        },
        random,
        crowd: Crowd::new(me),
        seen: HashMap::new(),
        seen_counters: vec![0; Family::Counters.keys() as usize],
        seen_ledgers: vec![vec![0; plan.workers as usize]; Family::Ledgers.keys() as usize],
        key: Vec::new(),
        value: Vec::new(),
    };
    while steps > 0 && !worker.bench.control.shall_end() {
        for _ in 0..128.min(steps) {
            worker.step()?;
        }
        steps = steps.saturating_sub(128);
        worker.bench.meter.tick(&worker.journal)?;
        if second.as_ref().is_some_and(|thread| thread.is_finished()) {
            break;
        }
    }
    worker.bench.meter.flush(&worker.journal)?;
    drop((worker, stay));
    match second.map(|thread| thread.join()) {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => Err(Fault::problem("the second thread panicked")),
        None => Ok(()),
    }
}

/// Every other worker has a second thread, which writes shared keys. It keeps no journal: it dies with the first.
fn start_second_thread<M: Mapped>(
    orders: &Orders,
    pool: &Pool<M>,
    draw: u64,
    leave: std::sync::mpsc::Receiver<()>,
) -> Result<Option<std::thread::JoinHandle<Result<(), Fault>>>, Fault> {
    if orders.worker.is_multiple_of(2) {
        return Ok(None);
    }
    let (orders, pool) = (orders.clone(), pool.clone());
    let control = Control::open(&orders.plan.folder, orders.worker)?;
    let work = move || {
        let state = State::open(&pool, &orders.plan)?;
        let mut random = ChaCha8Rng::seed_from_u64(draw ^ 1);
        let mut crowd = Crowd::new(128 | orders.worker);
        let mut version = orders.incarnation << 20;
        let stays = || leave.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty);
        while stays() && !control.shall_end() {
            for _ in 0..32 {
                let index = random.random_range(0..Family::Shared.keys());
                crowd.step(&state, &mut random, index, version, |_, work| work())?;
                version += 1;
            }
            std::thread::sleep(std::time::Duration::from_micros(random.random_range(0..500)));
        }
        Ok(())
    };
    let started = std::thread::Builder::new().name("second".to_owned()).spawn(work);
    Ok(Some(started?))
}
