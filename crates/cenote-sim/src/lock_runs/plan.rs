//! A run: threads on the nodes of a simulated network that acquire locks, touch the data, and release, until the time is over.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote::sync::directory::queue::Permission;

use super::outcome::{Acquired, Outcome};
use super::scheme::{Locks, Scheme};
use super::work::{Chooser, PAGE, Work};
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
    /// How long they do so before it counts, in virtual nanoseconds.
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

/// What all threads of a run share.
struct Shared {
    plan: Plan,
    locks: Locks,
    /// Where the data of each lock are, if they do not travel with it; then all pages of a section.
    data: Vec<u64>,
    /// How often each of them was written.
    written: Vec<Cell<u64>>,
    stale: Cell<u64>,
    noted: RefCell<Vec<Acquired>>,
    end_ps: u64,
}

impl Shared {
    /// Touches data, and checks that they are what the last writer left.
    fn touch(&self, cpu: &Cpu<'_>, n: usize, wants: Permission) {
        let combines = matches!(self.plan.scheme, Scheme::Directory { combines: true, .. });
        let is_covered = combines && n < self.plan.locks as usize;
        let len = match n < self.plan.locks as usize {
            true => self.plan.data_bytes,
            false => PAGE,
        };
        if len == 0 {
            return;
        }
        let found = match (is_covered, wants) {
            (true, Permission::Shared) => cpu.read_covered(n as u32),
            (true, Permission::Exclusive) => cpu.count_up_covered(n as u32),
            (false, Permission::Shared) => cpu.read(self.data[n], len),
            (false, Permission::Exclusive) => cpu.count_up(self.data[n], len),
        };
        let written = &self.written[n];
        if found != Some(written.get()) {
            self.stale.set(self.stale.get() + 1);
        }
        if wants == Permission::Exclusive {
            written.set(written.get() + 1);
        }
    }

    /// A thread's work.
    fn work(&self, cpu: &Cpu<'_>, who: Who, chooser: &mut Chooser) {
        while cpu.now_ps() < self.end_ps {
            let (lock, wants) = chooser.next();
            let (begun, crossings) = (cpu.now_ps(), cpu.crossings());
            self.locks.acquire(cpu, who, lock, wants);
            self.touch(cpu, lock as usize, wants);
            self.noted.borrow_mut().push(Acquired {
                node: who.node,
                begun,
                time: cpu.now_ps() - begun,
                crossed: cpu.crossings() != crossings,
            });
            if let Some(section) = chooser.section() {
                for n in 0..section.touched {
                    let page = self.plan.locks + chooser.below(section.pages);
                    let wants = match n % 2 {
                        0 => Permission::Shared,
                        _ => Permission::Exclusive,
                    };
                    self.touch(cpu, page as usize, wants);
                }
                cpu.sleep_ps(section.computes_ns * 1000);
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
    let pages = match plan.work {
        Work::Global(section) => section.pages,
        Work::Shares(_) | Work::Buckets(..) => 0,
    };
    let of_pages = (0..pages).map(|_| PAGE);
    let data: Vec<u64> = of_locks.chain(of_pages).map(|len| room.bytes(len)).collect();
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
        data,
        stale: Cell::new(0),
        noted: RefCell::default(),
        end_ps: (plan.warm_ns + plan.run_ns) * 1000,
        plan: plan.clone(),
    });
    let body = |(thread, &node): (u32, &u8)| -> Body {
        if thread >= threads {
            let service = Costs::of(&plan.profile).service;
            return Box::new(move |cpu| Manager::default().serve(cpu, thread, |cpu| cpu.sleep_ps(service)));
        }
        let node = node.into();
        let mut chooser = Chooser::new(plan.work, plan.locks, (thread, threads), plan.seed);
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
    let mut outcome = Outcome::of(
        &shared.noted.borrow(),
        plan.nodes,
        (plan.warm_ns * 1000, shared.end_ps),
    );
    outcome.transactions = counts.iter().copied().map(Counts::transactions).sum();
    outcome.bytes = counts.iter().map(|counts| counts.bytes).sum();
    Ok(outcome)
}
