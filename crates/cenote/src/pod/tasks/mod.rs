//! A task list: work that outlives its workers (Lupin, sections 3.5 and 4).
//!
//! A list has so many tasks, in phases. Any number of workers take tasks, and put one result each into the pool. A result
//! is there exactly once, whoever has died: it is published in its task's slot by one compare-exchange, as a binding of a map
//! is. Everything else is a hint.
//!
//! | words | writer | what a crash leaves | who repairs it |
//! |---|---|---|---|
//! | slot, one a task (S) | who commits, by compare-exchange from 0 | all or nothing: the operation record decides | recovery (`publish`) |
//! | claims, two a chunk (S) | who works on it, by compare-exchange | a claim by a dead identity | whoever finds nothing else to do takes it over |
//! | hint (S) | who claims a fresh chunk | a hint that lags behind | the next one that claims |
//! | shares, one a worker (O) | who commits: how many of its results there are | the count before, or after | recovery, in the dead one's name |
//!
//! **A phase begins when all results of those before it are there.** Nobody has to be alive for that: slots say it, and who
//! waits takes over what the dead have claimed. So there is no barrier that a death could hold up.
//!
//! **Claims** only save double work. Two that work on one task both commit, one of them succeeds. Hence a claim may be
//! taken over by mistake, and no clock decides anything but who works when.
//!
//! Protocol and crash analysis: `docs/protocols/tasks.md`.

mod audit;
mod claim;
mod layout;
mod result;

use std::cell::Cell;
use std::rc::Rc;

use crate::error::{Error, Result};
use crate::memory::{Memory, OwnedWord};
use crate::mutant::{self, Mutant};
use crate::pod::instance::worker::Worker;
use crate::pod::names::directory::{self, KIND_TASKS};

pub use audit::Audited;
pub use claim::Next;
use layout::Layout;
pub use layout::{CHUNK_MAX, PHASES_MAX, TASKS_MAX};
pub use result::{Committed, Outcome};

/// What a list is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many tasks each phase has. Tasks are numbered through all phases.
    pub phases: Vec<u64>,
    /// Tasks that a worker claims at a time. 1 balances best; more cost fewer round trips a task.
    pub chunk: u32,
}

impl Plan {
    /// One phase, whose tasks are claimed one at a time.
    pub fn single(tasks: u64) -> Self {
        Self::phases(vec![tasks])
    }

    /// Phases, whose tasks are claimed one at a time.
    pub fn phases(phases: Vec<u64>) -> Self {
        Self { phases, chunk: 1 }
    }
}

/// A worker's handle on a task list. Each thread has its own.
pub struct TaskList<M: Memory> {
    worker: Rc<Worker<M>>,
    layout: Layout,
    share: OwnedWord,
    /// All tasks below this one have results.
    done_below: Cell<u64>,
    mine: Cell<Option<claim::Mine>>,
    suspect: Cell<claim::Suspect>,
}

impl<M: Memory> TaskList<M> {
    /// Opens the list of a name, or creates it. One that is there must have been made with the same plan.
    ///
    /// Cost: a search of the directory; creation also writes the whole list, 8 bytes a task and 16 a chunk.
    pub fn open_or_create(worker: Rc<Worker<M>>, name: &str, plan: &Plan) -> Result<Self> {
        layout::check(plan)?;
        let named = directory::find_or_create(&worker, name, KIND_TASKS, || layout::create(&worker, plan))?;
        let list = Self::of(worker, named)?;
        match list.layout.is(plan) {
            true => Ok(list),
            false => Err(Error::Option {
                option: "the plan of a task list that exists",
                value: format!("{plan:?}"),
                why: "it was made with another; use another name",
            }),
        }
    }

    /// Opens the list of a name, if there is one.
    pub fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        match directory::find(&worker, name)? {
            Some(named) => Self::of(worker, named),
            None => Err(Error::NoSuchTasks {
                name: name.to_owned(),
            }),
        }
    }

    fn of(worker: Rc<Worker<M>>, named: directory::Named) -> Result<Self> {
        match named.kind {
            KIND_TASKS => Self::at(worker, named.offset),
            _ => Err(Error::OtherKind {
                name: named.name,
                kind: "no task list",
            }),
        }
    }

    /// Opens the list whose header is at an offset.
    pub fn at(worker: Rc<Worker<M>>, header: u64) -> Result<Self> {
        let layout = Layout::read(&worker, header)?;
        let share = layout.share(u64::from(worker.me() - 1));
        // The place may have been used from another host since this one read it.
        if !M::COHERENT && !mutant::is(Mutant::TasksCountNotDropped) {
            worker.mem().fetch_line(share.offset());
        }
        Ok(Self {
            worker,
            layout,
            share,
            done_below: Cell::new(0),
            mine: Cell::new(None),
            suspect: Cell::default(),
        })
    }

    /// The worker.
    pub fn worker(&self) -> &Rc<Worker<M>> {
        &self.worker
    }

    /// Where its header is.
    pub fn header(&self) -> u64 {
        self.layout.header()
    }

    /// How many tasks there are in all phases.
    pub fn len(&self) -> u64 {
        self.layout.tasks()
    }

    /// Whether there are none: never, a list has at least one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which tasks each phase has.
    pub fn phases(&self) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        self.layout.phases().iter().map(|phase| phase.tasks.clone())
    }

    /// The phase of a task, and its number in it.
    pub fn place(&self, task: u64) -> Option<(usize, u64)> {
        let phases = self.layout.phases();
        let n = phases.iter().position(|phase| phase.tasks.contains(&task))?;
        Some((n, task - phases[n].tasks.start))
    }

    /// How many results have been committed: exact when nobody commits, else some number that it had meanwhile.
    ///
    /// Cost: one peek a worker of the pool.
    pub fn committed(&self) -> u64 {
        let workers = u64::from(self.worker.pod().workers_high()).min(self.layout.shares());
        (0..workers)
            .map(|worker| self.layout.share(worker).peek(self.worker.mem()))
            .fold(0u64, u64::wrapping_add)
            .min(self.len())
    }
}
