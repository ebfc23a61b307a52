//! A task list: work that outlives its workers (Lupin, sections 3.5 and 4).
//!
//! A list has a fixed number of tasks, in phases. Any number of workers take tasks, and put one result each into the
//! pool. A result is there exactly once, whichever workers die: one compare-exchange publishes it in its task's slot,
//! like a binding of a map. Everything else is a hint.
//!
//! | words | writer | what a crash leaves | who repairs it |
//! |---|---|---|---|
//! | slot, one a task (S) | the worker that commits, by compare-exchange from 0 | all or nothing: the operation record decides | recovery (`publish`) |
//! | claims, two a chunk (S) | the claiming worker, by compare-exchange | a claim by a dead identity | a worker that finds nothing else to do takes it over |
//! | hint (S) | a worker that claims a fresh chunk | a hint that lags behind | the next worker that claims |
//! | shares, one a worker (O) | the worker that commits: the number of its results | the count before, or after | recovery, in the dead worker's name |
//!
//! **A phase begins when all results of those before it are there.** No worker has to be alive for that: slots say it,
//! and a worker that waits takes over what the dead have claimed. So there is no barrier that a death could hold up.
//!
//! **Claims** only save double work. If two workers do one task, both commit, and one of them succeeds. Hence a claim
//! may be taken over by mistake, and clocks decide only which worker works when.
//!
//! Protocol and crash analysis: `docs/protocols/tasks.md`.

mod audit;
mod claim;
mod layout;
pub mod result;

use std::cell::Cell;
use std::rc::Rc;

use crate::causes::{Found, Structure};
use crate::error::{Error, Result};
use crate::memory::checked::word_line;
use crate::memory::{Memory, OwnedWord};
use crate::mutant::{self, Mutant};
use crate::pod::instance::worker::{Pin, Worker};
use crate::pod::names::directory::{self, KIND_TASKS};
use crate::pod::names::dropping::{Check, Identity};
use crate::pod::names::open::opened;

pub use audit::Audited;
pub use claim::NextTask;
use layout::Layout;
pub use layout::{CHUNK_MAX, PHASES_MAX, TASKS_MAX};
pub use result::{Committed, TaskResult};

/// The parameters of a list.
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

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPosition {
    /// Its phase, from 0 on.
    pub phase: usize,
    /// Its number in that phase, from 0 on.
    pub number: u64,
}

/// A worker's handle on a task list. Each thread has its own.
pub struct TaskList<M: Memory> {
    worker: Rc<Worker<M>>,
    check: Check,
    layout: Layout,
    share: OwnedWord,
    /// All tasks below this one have results.
    done_below: Cell<u64>,
    mine: Cell<Option<claim::Mine>>,
    suspect: Cell<claim::Suspect>,
}

impl<M: Memory> TaskList<M> {
    /// Opens the list of a name, or creates it. An existing list must have been made with the same plan.
    ///
    /// Cost: a search of the directory; creation also writes the whole list, 8 bytes a task and 16 a chunk.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open_or_create(worker: Rc<Worker<M>>, name: &str, plan: &Plan) -> Result<Self> {
        layout::check(plan)?;
        let create = || layout::create(&worker, plan);
        let find = || directory::find_or_create(&worker, name, KIND_TASKS, create).map(Some);
        let open = |named| Self::of(worker.clone(), named);
        let list = opened(&worker, find, open)?.ok_or(Error::Dropped)?;
        match list.layout.is(plan) {
            true => Ok(list),
            false => Err(Error::OtherPlan {
                name: name.to_owned(),
            }),
        }
    }

    /// Opens the list of a name, if there is one.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn open(worker: Rc<Worker<M>>, name: &str) -> Result<Self> {
        let open = |named| Self::of(worker.clone(), named);
        let found = opened(&worker, || directory::find(&worker, name), open)?;
        found.ok_or_else(|| Error::NoSuch {
            kind: Structure::Tasks,
            name: name.to_owned(),
        })
    }

    /// Opens the list that an entry names, unless it has been dropped. The worker is pinned.
    pub(crate) fn of(worker: Rc<Worker<M>>, named: directory::Named) -> Result<Self> {
        let identity = Identity::of(&worker, &named).ok_or(Error::Dropped)?;
        match named.kind {
            KIND_TASKS => Self::with(worker, named.offset, identity),
            _ => Err(Error::OtherKind {
                name: named.name,
                kind: Found::IsNot(Structure::Tasks),
            }),
        }
    }

    /// Opens the list whose header is at an offset, and that nobody drops meanwhile.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn at(worker: Rc<Worker<M>>, header: u64) -> Result<Self> {
        Self::with(worker, header, Identity::UNCHECKED)
    }

    fn with(worker: Rc<Worker<M>>, header: u64, identity: Identity) -> Result<Self> {
        let layout = Layout::read(&worker, header)?;
        let share = layout.share(u64::from(worker.me() - 1));
        // Another host may have used the place since this one read it.
        if !M::COHERENT && !mutant::is(Mutant::TasksCountNotDropped) {
            word_line(share.offset()).fetch(worker.mem());
        }
        Ok(Self {
            worker,
            check: Check::new(identity),
            layout,
            share,
            done_below: Cell::new(0),
            mine: Cell::new(None),
            suspect: Cell::default(),
        })
    }

    /// The worker.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn worker(&self) -> &Rc<Worker<M>> {
        &self.worker
    }

    /// Pins the worker. Fails if the list was dropped.
    fn pin(&self) -> Result<Pin<'_, M>> {
        let pin = self.worker.pin()?;
        self.check.confirm(&self.worker)?;
        Ok(pin)
    }

    /// Where its header is.
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn header(&self) -> u64 {
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

    /// Where a task stands, if there is such a task.
    pub fn position(&self, task: u64) -> Option<TaskPosition> {
        let phases = self.layout.phases();
        let phase = phases.iter().position(|phase| phase.tasks.contains(&task))?;
        Some(TaskPosition {
            phase,
            number: task - phases[phase].tasks.start,
        })
    }

    /// How many results have been committed: exact while no worker commits, else some number in between. 0 of a list
    /// that was dropped.
    ///
    /// Cost: one peek a worker of the pool.
    pub fn committed(&self) -> u64 {
        let Ok(_pin) = self.pin() else {
            return 0;
        };
        let workers = u64::from(self.worker.pod().workers_high()).min(self.layout.shares());
        (0..workers)
            .map(|worker| self.layout.share(worker).peek(self.worker.mem()))
            .fold(0u64, u64::wrapping_add)
            .min(self.len())
    }
}
