//! Lupin, table 4, with as many hosts as the paper has: a task list on 16 simulated hosts with two threads each, of which 0, 1
//! and 8 die, each right before it commits. A task is nothing but 5 ms of virtual time; what the list costs, and what a death
//! does, is the library's own code.
//!
//! A process that dies takes both its threads' tasks with it. Another begins at once, and takes as long to start as the
//! slowest program that the paper has measured, before it joins the pool.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use cenote::pod::geometry::Parameters;
use cenote::pod::superblock::Kind;
use cenote::pod::tasks::{Committed, Next, Plan, TaskList};
use cenote::pod::{Pod, Worker};

use super::{Charted, Figure, Origin, Progress, Quantity, ReproduceError, Row};
use crate::exec::{Context, Crash, Settings, SimMemory, run};
use crate::machine::Shape;
use crate::policy::RandomWalk;
use crate::profile::Profile;
use crate::subjects::pool::{self, Member};

pub const NAME: &str = "lupin/table4-hosts";

const HOSTS: u32 = 16;
/// Of each host.
const THREADS: u32 = 2;
/// Of each thread, in each of two phases.
const TASKS: u64 = 50;
const TASK_PS: u64 = 5_000_000_000;
/// Section 2.2: what the slowest of three programs takes to start.
const START_PS: u64 = 12_300_000_000;
/// How long a worker sleeps that has nothing to do; as in the store layer.
const LOOK_PS: u64 = 1_000_000_000;

const TIME: Quantity = Quantity {
    name: "time",
    unit: "ms",
};
const SLOWDOWN: Quantity = Quantity {
    name: "slowdown",
    unit: "%",
};
/// The least and the most of the paper's six programs, by one death and by eight.
const PAPER: [[f64; 2]; 2] = [[0.0, 3.4], [0.0, 7.8]];
const DEATHS: [u64; 3] = [0, 1, 8];
const INCOHERENT: [&str; 3] = [
    "incoherent, no death",
    "incoherent, 1 death",
    "incoherent, 8 deaths",
];
const COHERENT: [&str; 3] = ["coherent, no death", "coherent, 1 death", "coherent, 8 deaths"];

/// What all processes of a run share outside the machine.
struct Shared {
    deaths: u64,
    died: Cell<u64>,
    done: Cell<u64>,
    begun_ps: Cell<u64>,
    ended_ps: Cell<u64>,
    fault: RefCell<Option<String>>,
}

impl Shared {
    fn note(&self, done: cenote::Result<()>) {
        if let Err(error) = done {
            self.fault.borrow_mut().get_or_insert(error.to_string());
        }
    }
}

fn plan() -> Plan {
    let tasks = u64::from(HOSTS * THREADS) * TASKS;
    Plan::phases(vec![tasks, tasks])
}

fn tasks() -> u64 {
    plan().phases.iter().sum()
}

pub fn make(progress: Progress<'_>) -> Result<Figure, ReproduceError> {
    let mut rows = Vec::new();
    for (n, (cases, profile)) in [(INCOHERENT, "cxl-remote-wide"), (COHERENT, "dram")]
        .into_iter()
        .enumerate()
    {
        let profile = Profile::load(profile)?;
        let mut without = 0.0;
        for (m, (case, deaths)) in cases.into_iter().zip(DEATHS).enumerate() {
            let time = match n {
                0 => time_of::<false>(&profile, deaths)?,
                _ => time_of::<true>(&profile, deaths)?,
            };
            progress(3 * n + m + 1, 6);
            rows.push(Row::new(case, HOSTS * THREADS, TIME, None, time));
            match m {
                0 => without = time,
                _ => {
                    let slowdown = (time / without - 1.0) * 100.0;
                    let paper = PAPER[m - 1];
                    rows.push(Row::in_range(case, HOSTS * THREADS, SLOWDOWN, paper, slowdown));
                }
            }
        }
    }
    Ok(Figure {
        name: NAME,
        title: "A task list on 16 hosts, of which some die right before they commit",
        source: "Lupin, section 5, table 4",
        origin: Origin::Simulated,
        conditions: "profiles cxl-remote-wide (incoherent) and dram (coherent)",
        charted: Charted::Cases([SLOWDOWN, TIME]),
        rows,
        notes: vec![
            "A task is 5 ms of virtual time, with no memory accesses of its own. Two threads a host, 3,200 tasks in two phases.",
            "Whoever starts in a dead one's place takes 12.3 ms until it joins: the slowest of the paper's three programs (section 2.2).",
            "The paper's range is that of its six programs, measured on 16 virtual machines.",
        ],
    })
}

/// From the first worker's start to the last result, in milliseconds.
fn time_of<const C: bool>(profile: &Profile, deaths: u64) -> Result<f64, ReproduceError> {
    let parameters = Parameters {
        kind: if C { Kind::Coherent } else { Kind::Noncoherent },
        max_units: 256,
        processes: 2 * HOSTS + 8,
        workers: 8 * HOSTS,
        entries: 4,
        hosts: HOSTS,
    };
    let crash = |process| Crash {
        process,
        step: u64::MAX,
        restarts: true,
        alone: false,
    };
    let settings = Settings {
        shape: Shape {
            coherent: C,
            hosts: HOSTS,
            bytes: pool::bytes(parameters),
            cache_lines: profile.cache_lines(1),
            prefetches: false,
            persists_at_crash: false,
            coherent_bytes: 0,
            blind_exchanges: false,
        },
        processes: (0..HOSTS).collect(),
        crashes: (0..HOSTS).map(crash).collect(),
        steps_max: u64::MAX,
        capacity: u64::MAX,
        profile: Some(profile.clone()),
        checks_order: false,
        traces: false,
        delegated: None,
        limits: None,
    };
    let shared = Rc::new(Shared {
        deaths,
        died: Cell::new(0),
        done: Cell::new(0),
        begun_ps: Cell::new(u64::MAX),
        ended_ps: Cell::new(0),
        fault: RefCell::default(),
    });
    let prepare = {
        let shared = shared.clone();
        move |context: Context<C>| shared.note(prepare(&context, parameters))
    };
    let body = {
        let shared = shared.clone();
        move |context: Context<C>| shared.note(process(&context, &shared))
    };
    // With a profile nothing is left to the policy.
    let policy = Box::new(RandomWalk::new(0));
    let outcome = run(
        &settings,
        policy,
        Box::new(prepare),
        Rc::new(body),
        Box::new(|_| {}),
    );
    let wrong = |error| Err(ReproduceError::Pool { name: NAME, error });
    if outcome.ended != crate::exec::Ended::Well {
        return Err(ReproduceError::Run(outcome.ended));
    }
    if let Some(fault) = shared.fault.take() {
        return wrong(fault);
    }
    // A dead one's last commit is not among those that were told.
    if shared.done.get() != tasks() || shared.died.get() != deaths {
        return wrong(format!(
            "{} results, {} deaths",
            shared.done.get(),
            shared.died.get()
        ));
    }
    Ok((shared.ended_ps.get() - shared.begun_ps.get()) as f64 / 1e9)
}

fn prepare<const C: bool>(context: &Context<C>, parameters: Parameters) -> cenote::Result<()> {
    pool::format(context, parameters, 16)?;
    let member = Member::join(context, !C)?;
    let made = Worker::attach(&member.pod, true)
        .and_then(|worker| TaskList::open_or_create(Rc::new(worker), "list", &plan()));
    member.leave(context);
    made.map(drop)
}

/// A process: the first of its host, or one that begins in a dead one's place.
fn process<const C: bool>(context: &Context<C>, shared: &Rc<Shared>) -> cenote::Result<()> {
    // The first process has prepared.
    let is_first = context.process() <= HOSTS;
    match is_first {
        true => shared.begun_ps.set(shared.begun_ps.get().min(context.now_ps())),
        false => context.spend_ps(START_PS),
    }
    let member = Member::join(context, !C)?;
    for _ in 0..THREADS {
        let shared = shared.clone();
        member.spawn(context, move |context, pod| {
            shared.note(work(&context, &pod, &shared, is_first));
        });
    }
    member.leave(context);
    Ok(())
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
    is_first: bool,
) -> cenote::Result<()> {
    let list = TaskList::open(Rc::new(Worker::attach(pod, true)?), "list")?;
    loop {
        match list.take(u64::MAX)? {
            Next::Task(task) => {
                context.spend_ps(TASK_PS);
                let (died, all) = (shared.died.get(), list.len());
                let is_due =
                    died < shared.deaths && shared.done.get() >= (died + 1) * all / (shared.deaths + 1);
                if is_first && is_due {
                    shared.died.set(died + 1);
                    context.die_next();
                }
                if list.commit(task, &task.to_le_bytes())? == Committed::First {
                    shared.done.set(shared.done.get() + 1);
                    shared.ended_ps.set(shared.ended_ps.get().max(context.now_ps()));
                }
            }
            Next::Wait => {
                context.wait();
                context.spend_ps(LOOK_PS);
            }
            Next::Done => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_cost_little_more_than_the_work_that_is_lost() {
        let profile = Profile::load("dram").unwrap();
        let [without, with] = [0, 8].map(|deaths| time_of::<true>(&profile, deaths).unwrap());
        // 100 rounds of 5 ms, and what the list costs.
        assert!((500.0..520.0).contains(&without), "{without}");
        // Eight processes' two tasks and starts, over 32 threads: some 4 tasks' time each.
        assert!(with > without && with < without * 1.1, "{with} and {without}");
    }
}
