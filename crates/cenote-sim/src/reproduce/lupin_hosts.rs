//! A task list on simulated hosts, some of which may die right before they commit. What a task does is given; the costs
//! of the list and of a death are those of the library's own code.
//!
//! A process that dies takes its threads' tasks with it. Another begins at once, and takes as long to start as the
//! slowest program that *Lupin* has measured, before it joins the pool.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use cenote::index::baseline::arena::Arena;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::format::superblock::MemoryKind;
use cenote::pod::tasks::{Committed, NextTask, Plan, TaskList};
use cenote::pod::{Pod, Worker};

use super::ReproduceError;
use crate::exec::{Context, Crash, Ended, Settings, SimMemory, run};
use crate::policy::RandomWalk;
use crate::profile::Profile;
use crate::subjects::pool::{self, Member};
use cenote::memory::Published;

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of simulated memory, which checks each access.
    unsafe { Published::at(at, len) }
}

/// Section 2.2: what the slowest of three programs takes to start.
const START_PS: u64 = 12_300_000_000;
/// How long a worker sleeps that has nothing to do; as in the store layer.
const POLL_PS: u64 = 1_000_000_000;
/// What a task reads at a time.
pub const PIECE: u64 = 4096;
const MAGIC: u64 = 0x6c75_7069_6e33;
/// Frames of the pool, besides what is read.
const FRAMES: u64 = 16;

/// What a task does.
#[derive(Clone, Copy)]
pub enum Task {
    /// Picoseconds pass.
    Compute(u64),
    /// Reads so many bytes of the pool, in order, that no other task reads; picoseconds pass for each 4 KiB.
    Read { bytes: u64, piece_ps: u64 },
}

/// A run.
#[derive(Clone)]
pub struct Work {
    /// The figure that it is for.
    pub figure: &'static str,
    pub hosts: u32,
    /// Of each host.
    pub threads: u32,
    pub plan: Plan,
    pub task: Task,
    /// How many hosts die.
    pub deaths: u64,
}

/// What all processes of a run share outside the machine.
struct Shared {
    work: Work,
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

impl Work {
    fn tasks(&self) -> u64 {
        self.plan.phases.iter().sum()
    }

    /// Bytes that all tasks read.
    fn input(&self) -> u64 {
        match self.task {
            Task::Compute(_) => 0,
            Task::Read { bytes, .. } => bytes * self.tasks(),
        }
    }

    /// From the first worker's start to the last result, in milliseconds.
    pub fn time<const C: bool>(&self, profile: &Profile) -> Result<f64, ReproduceError> {
        let parameters = Parameters {
            kind: if C {
                MemoryKind::Coherent
            } else {
                MemoryKind::Noncoherent
            },
            max_frames: 256 + self.input().div_ceil(64 << 10) + FRAMES,
            processes: 2 * self.hosts + 8,
            workers: 8 * self.hosts,
            entries: 4,
            hosts: self.hosts,
        };
        let crash = |process| Crash {
            process,
            step: u64::MAX,
            restarts: true,
            alone: false,
        };
        let settings = Settings {
            crashes: (0..self.hosts).map(crash).collect(),
            ..Settings::timed(profile, C, self.hosts, 1, pool::bytes(parameters))
        };
        let shared = Rc::new(Shared {
            work: self.clone(),
            died: Cell::new(0),
            done: Cell::new(0),
            begun_ps: Cell::new(u64::MAX),
            ended_ps: Cell::new(0),
            fault: RefCell::default(),
        });
        let [prepares, works] = [(); 2].map(|()| shared.clone());
        let outcome = run(
            &settings,
            // With a profile nothing is left to the policy.
            Box::new(RandomWalk::new(0)),
            Box::new(move |context: Context<C>| {
                prepares.note(prepare(&context, parameters, &prepares.work));
            }),
            Rc::new(move |context: Context<C>| works.note(process(&context, &works))),
            Box::new(|_| {}),
        );
        let wrong = |error| {
            Err(ReproduceError::Pool {
                name: self.figure,
                error,
            })
        };
        if outcome.ended != Ended::Well {
            return Err(ReproduceError::Run(outcome.ended));
        }
        if let Some(fault) = shared.fault.take() {
            return wrong(fault);
        }
        // A dead worker's last commit is not among those that were counted.
        if shared.done.get() != self.tasks() || shared.died.get() != self.deaths {
            let (done, died) = (shared.done.get(), shared.died.get());
            return wrong(format!("{done} results, {died} deaths"));
        }
        Ok((shared.ended_ps.get() - shared.begun_ps.get()) as f64 / 1e9)
    }
}

fn prepare<const C: bool>(context: &Context<C>, parameters: Parameters, work: &Work) -> cenote::Result<()> {
    pool::format(context, parameters, parameters.max_frames)?;
    let member = Member::join(context, !C)?;
    let made = Worker::attach(&member.pod, true).and_then(|worker| {
        let worker = Rc::new(worker);
        input(&worker, work)?;
        TaskList::open_or_create(worker, "list", &work.plan).map(drop)
    });
    member.leave(context);
    made
}

/// What tasks read, if they read.
fn input<const C: bool>(
    worker: &Rc<Worker<SimMemory<C>>>,
    work: &Work,
) -> cenote::Result<Option<Arena<SimMemory<C>>>> {
    match work.input() {
        0 => Ok(None),
        bytes => Arena::open_or_create(worker.clone(), "input", MAGIC, bytes).map(Some),
    }
}

/// A process: the first of its host, or one that begins in a dead one's place.
fn process<const C: bool>(context: &Context<C>, shared: &Rc<Shared>) -> cenote::Result<()> {
    // The first process has prepared.
    let is_first = context.process() <= shared.work.hosts;
    match is_first {
        true => shared.begun_ps.set(shared.begun_ps.get().min(context.now_ps())),
        false => context.spend_ps(START_PS),
    }
    let member = Member::join(context, !C)?;
    for _ in 0..shared.work.threads {
        let shared = shared.clone();
        member.spawn(context, move |context, pod| {
            shared.note(do_tasks(&context, &pod, &shared, is_first));
        });
    }
    member.leave(context);
    Ok(())
}

fn do_tasks<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
    is_first: bool,
) -> cenote::Result<()> {
    let worker = Rc::new(Worker::attach(pod, true)?);
    let input = input(&worker, &shared.work)?;
    let list = TaskList::open(worker.clone(), "list")?;
    loop {
        match list.take(u64::MAX)? {
            NextTask::Task(task) => {
                match (shared.work.task, &input) {
                    (Task::Read { bytes, piece_ps }, Some(input)) => {
                        let from = input.start() + task * bytes;
                        for at in (from..from + bytes).step_by(PIECE as usize) {
                            published(at, PIECE).bytes(worker.mem());
                            context.spend_ps(piece_ps);
                        }
                    }
                    (Task::Read { .. }, None) => {}
                    (Task::Compute(ps), _) => context.spend_ps(ps),
                }
                let (died, all, deaths) = (shared.died.get(), list.len(), shared.work.deaths);
                let is_due = died < deaths && shared.done.get() >= (died + 1) * all / (deaths + 1);
                if is_first && is_due {
                    shared.died.set(died + 1);
                    context.die_next();
                }
                if list.commit(task, &task.to_le_bytes())? == Committed::First {
                    shared.done.set(shared.done.get() + 1);
                    shared.ended_ps.set(shared.ended_ps.get().max(context.now_ps()));
                }
            }
            NextTask::Wait => {
                context.wait();
                context.spend_ps(POLL_PS);
            }
            NextTask::Done => return Ok(()),
        }
    }
}
