//! A run: threads on the nodes of a simulated network that acquire locks, touch the data, and release, until the time
//! is over.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::sync::directory::queue::Permission;

use super::outcome::{Acquired, Outcome};
use super::scheme::{Locks, Scheme};
use super::script::{Access, Lines};
use super::work::{Chooser, Work};
use crate::locks::Who;
use crate::locks::room::Room;
use crate::locks::service::Manager;
use crate::msi::{Body, Costs, Counts, Cpu, Machine, NetworkProfile, Shape, Stuck, run};

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The locks.
    pub scheme: Scheme,
    /// The network.
    pub profile: NetworkProfile,
    /// Nodes, from 1 to 40.
    pub nodes: u8,
    /// Threads of each.
    pub threads: u32,
    /// Locks.
    pub locks: u32,
    /// Bytes under each lock.
    pub data_bytes: u64,
    /// What threads do.
    pub work: Work,
    /// What a thread does between two operations, in nanoseconds.
    pub think_ns: u64,
    /// How long they do so before it counts, in virtual nanoseconds. Where there are transactions, one thread writes
    /// all their lines before that.
    pub warm_ns: u64,
    /// How long it counts.
    pub run_ns: u64,
    /// What all choices are drawn from.
    pub seed: u64,
}

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockRunError {
    /// It came to no end.
    #[error("{scheme}, seed {seed}: {stuck}")]
    Stuck {
        /// The locks.
        scheme: &'static str,
        /// Its seed.
        seed: u64,
        /// How many threads.
        stuck: Stuck,
    },
    /// A lock did not exclude, or data were not fresh.
    #[error("{scheme}, seed {seed}: {times} times a thread did not find what the last writer had left")]
    Stale {
        /// The locks.
        scheme: &'static str,
        /// Its seed.
        seed: u64,
        /// How often.
        times: u64,
    },
}

/// How often threads look whether the time has begun, in picoseconds.
const POLL_PS: u64 = 100_000_000;

/// What all threads of a run share.
struct Shared {
    plan: Plan,
    locks: Locks,
    /// What transactions do, if there are any.
    lines: Option<Lines>,
    /// How many transactions threads have asked for the lock for.
    asked: Cell<usize>,
    /// Where the data of each lock are, if they do not travel with it; then all lines of the transactions.
    data: Vec<u64>,
    /// How often each of them was written.
    written: Vec<Cell<u64>>,
    stale: Cell<u64>,
    noted: RefCell<Vec<Acquired>>,
    /// When the time begins to count, and its end; not known while the lines are written for the first time.
    counts: Cell<Option<(u64, u64)>>,
}

impl Shared {
    /// Touches data that do not travel with a lock, and checks that they are what the last writer left.
    fn touch(&self, cpu: &Cpu<'_>, n: usize, wants: Permission, len: u64) {
        let found = match wants {
            Permission::Shared => cpu.read(self.data[n], len),
            Permission::Exclusive => cpu.count_up(self.data[n], len),
        };
        self.compare(n, wants, found);
    }

    /// The same for the data of a lock.
    fn touch_data(&self, cpu: &Cpu<'_>, lock: u32, wants: Permission) {
        let len = self.plan.data_bytes;
        match (self.plan.scheme, wants) {
            _ if len == 0 => {}
            (Scheme::Directory { combines: true, .. }, Permission::Shared) => {
                self.compare(lock as usize, wants, cpu.read_covered(lock));
            }
            (Scheme::Directory { combines: true, .. }, Permission::Exclusive) => {
                self.compare(lock as usize, wants, cpu.count_up_covered(lock));
            }
            _ => self.touch(cpu, lock as usize, wants, len),
        }
    }

    fn compare(&self, n: usize, wants: Permission, found: Option<u64>) {
        let written = &self.written[n];
        if found != Some(written.get()) {
            self.stale.set(self.stale.get() + 1);
        }
        if wants == Permission::Exclusive {
            written.set(written.get() + 1);
        }
    }

    /// The first thread writes all lines of the transactions, as who loads a store does; the others wait for that.
    fn begin(&self, cpu: &Cpu<'_>, who: Who) -> u64 {
        if who.thread == 0 {
            for n in self.plan.locks as usize..self.data.len() {
                self.touch(cpu, n, Permission::Exclusive, 8);
            }
            let begin = cpu.now_ps() + self.plan.warm_ns * 1000;
            self.counts.set(Some((begin, begin + self.plan.run_ns * 1000)));
        }
        loop {
            match self.counts.get() {
                Some((_, end)) => return end,
                None => cpu.sleep_ps(POLL_PS),
            }
        }
    }

    /// The next transaction, and what it has the lock for.
    fn next_transaction(&self) -> Option<&(Permission, Vec<Access>)> {
        let lines = self.lines.as_ref()?;
        let n = self.asked.replace(self.asked.get() + 1);
        lines.transactions.get(n % lines.transactions.len().max(1))
    }

    /// A thread's work.
    fn work(&self, cpu: &Cpu<'_>, who: Who, chooser: &mut Chooser) {
        let end = self.begin(cpu, who);
        while cpu.now_ps() < end {
            let transaction = self.next_transaction();
            let (lock, wants) = match transaction {
                Some((wants, _)) => (0, *wants),
                None => chooser.next(),
            };
            let (begun, crossings) = (cpu.now_ps(), cpu.crossings());
            self.locks.acquire(cpu, who, lock, wants);
            self.touch_data(cpu, lock, wants);
            self.noted.borrow_mut().push(Acquired {
                node: who.node,
                begun,
                time: cpu.now_ps() - begun,
                crossed: cpu.crossings() != crossings,
            });
            if let (Some((_, accesses)), Work::Transactions(script)) = (transaction, &self.plan.work) {
                for access in accesses {
                    let n = (self.plan.locks + access.line) as usize;
                    self.touch(cpu, n, access.wants, access.bytes);
                }
                cpu.sleep_ps(script.computes_ns * 1000);
            }
            self.locks.release(cpu, who, lock, wants);
            if self.plan.think_ns != 0 {
                cpu.sleep_ps(self.plan.think_ns * 1000);
            }
        }
    }
}

/// Carries a run out.
pub fn measure(plan: &Plan) -> Result<Outcome, LockRunError> {
    let nodes = u32::from(plan.nodes);
    let threads = nodes * plan.threads;
    let mut room = Room::new(plan.profile.line_bytes);
    let locks = Locks::new(plan.scheme, &mut room, plan.locks, nodes, threads);
    let of_locks = (0..plan.locks).map(|_| plan.data_bytes);
    let lines = match &plan.work {
        Work::Transactions(script) => Some(Lines::of(script, plan.profile.line_bytes)),
        Work::Shares(_) | Work::Buckets(..) => None,
    };
    let count = lines.as_ref().map_or(0, |lines| lines.count);
    let of_lines = (0..count).map(|_| plan.profile.line_bytes);
    let data: Vec<u64> = of_locks.chain(of_lines).map(|len| room.bytes(len)).collect();
    let mut places: Vec<u8> = (0..plan.nodes)
        .flat_map(|node| (0..plan.threads).map(move |_| node))
        .collect();
    let managers = match plan.scheme {
        Scheme::Service => plan.nodes,
        _ => 0,
    };
    places.extend(0..managers);
    let (is_directory, keeps, combines) = match plan.scheme {
        Scheme::Directory { keeps, combines } => (true, keeps, combines),
        _ => (false, true, false),
    };
    let mut machine = Machine::new(
        &plan.profile,
        Shape {
            nodes: plan.nodes,
            threads: places.clone(),
            locks: if is_directory { plan.locks } else { 0 },
            covered_bytes: if combines { plan.data_bytes } else { 0 },
            keeps,
        },
    );
    let shared = Rc::new(Shared {
        written: data.iter().map(|_| Cell::new(0)).collect(),
        locks,
        lines,
        asked: Cell::new(0),
        data,
        stale: Cell::new(0),
        noted: RefCell::default(),
        counts: Cell::new(None),
        plan: plan.clone(),
    });
    let body = |(thread, &node): (u32, &u8)| -> Body {
        if thread >= threads {
            let service = Costs::of(&plan.profile).service;
            return Box::new(move |cpu| Manager::default().serve(cpu, thread, |cpu| cpu.sleep_ps(service)));
        }
        let node = node.into();
        let mut chooser = Chooser::new(plan.work.clone(), plan.locks, (thread, threads), plan.seed);
        let shared = shared.clone();
        Box::new(move |cpu| shared.work(cpu, Who { thread, node }, &mut chooser))
    };
    let bodies = (0..).zip(&places).map(body).collect();
    let (scheme, seed) = (plan.scheme.name(), plan.seed);
    let done = run(&mut machine, bodies, managers.into());
    done.map_err(|stuck| LockRunError::Stuck { scheme, seed, stuck })?;
    if shared.stale.get() != 0 {
        let times = shared.stale.get();
        return Err(LockRunError::Stale { scheme, seed, times });
    }
    let counts = machine.counts();
    let counted = shared.counts.get().unwrap_or_default();
    let mut outcome = Outcome::of(&shared.noted.borrow(), plan.nodes, counted);
    outcome.transactions = counts.iter().copied().map(Counts::transactions).sum();
    outcome.bytes = counts.iter().map(|counts| counts.bytes).sum();
    Ok(outcome)
}
