//! Taking tasks: which worker works on what next. All of it is a hint.
//!
//! Tasks are claimed by chunks. Each chunk has two claims: its *owner* works on it upwards, its *helper* downwards,
//! until they meet. A claim is an identity, or 0. In this order a worker looks for work:
//!
//! 1. the next task of the chunk that it has, if the claim is still its own;
//! 2. an unclaimed chunk, by the hint;
//! 3. a chunk with tasks left whose owner is dead, or is this worker itself, which lost track of it;
//! 4. a chunk with two tasks left or more that has no helper, or a dead one;
//! 5. a chunk about which nothing has changed for a number of scans: its owner may be stopped, or lost in a task.
//!
//! A living worker whose claim was taken over goes on until its next check, and commits, or is second.
//!
//! A worker that dies after it has claimed leaves the claim; another worker repairs it by step 3 or 4. Nothing else is
//! left: what has been done is in the slots.

use super::TaskList;
use super::layout::Phase;
use crate::error::Result;
use crate::memory::checked::word_line;
use crate::memory::{Memory, SyncWord};
use crate::mutant::{self, Mutant};
use crate::pod::instance::crash::{Point, crash_point};
use crate::pod::lock::is_gone;

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextTask {
    /// This task.
    Task(u64),
    /// Nothing at present: other workers have the phase's last tasks. Ask again in a while.
    Wait,
    /// No more: every task has its result.
    Done,
}

/// The end from which a worker works on a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Owner,
    Helper,
}

/// The chunk that a handle works on, and which of its tasks are left to check.
#[derive(Clone, Copy, Debug)]
pub struct Mine {
    claim: SyncWord,
    role: Role,
    from: u64,
    to: u64,
}

/// A chunk that may be stuck: what was seen of it, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Suspect {
    seen: ChunkState,
    looks: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChunkState {
    chunk: u64,
    owner: u64,
    helper: u64,
    left: u64,
}

impl<M: Memory> TaskList<M> {
    /// Takes the next task. A chunk at which nothing has changed for `polls` calls that ended with [`NextTask::Wait`]
    /// is taken over, even from a living worker.
    ///
    /// Cost: two loads for the next task of a chunk; a load and two compare-exchanges more for a fresh chunk. Where
    /// there is none, for each chunk of the phase that has tasks left: lines of slots, two loads, and whether its
    /// claimers live ([`is_gone`]).
    #[cfg_attr(feature = "internals", visibility::make(pub))]
    pub(crate) fn take(&self, polls: u64) -> Result<NextTask> {
        let _pin = self.pin()?;
        loop {
            if let Some(task) = self.go_on() {
                return Ok(NextTask::Task(task));
            }
            let below = self.advance();
            let Some(phase) = self.phase_of(below) else {
                return Ok(NextTask::Done);
            };
            if self.claim_fresh(phase) {
                continue;
            }
            if mutant::is(Mutant::PhaseNotAwaited)
                && let Some(next) = self.phase_of(phase.tasks.end)
                && self.claim_fresh(next)
            {
                continue;
            }
            if !self.claim_used(phase, below, polls) {
                return Ok(NextTask::Wait);
            }
        }
    }

    /// Whether every task has its result.
    ///
    /// Cost: a line fetch for each eight tasks since the last call of this or of [`TaskList::take`], and one at the
    /// end.
    ///
    /// Errors: [`Error::Dropped`](crate::Error::Dropped).
    pub fn is_done(&self) -> Result<bool> {
        let _pin = self.pin()?;
        Ok(self.advance() == self.len())
    }

    /// Whether a phase and all before it have all their results. Costs as [`TaskList::is_done`]; of a phase that there
    /// is not, all tasks.
    ///
    /// Errors: [`Error::Dropped`](crate::Error::Dropped).
    pub fn is_phase_done(&self, phase: usize) -> Result<bool> {
        let _pin = self.pin()?;
        let end = self
            .layout
            .phases()
            .get(phase)
            .map_or(self.len(), |phase| phase.tasks.end);
        Ok(self.advance() >= end)
    }

    /// Finds the first task without a result, from where it was found last: results never vanish.
    fn advance(&self) -> u64 {
        let (mem, end) = (self.worker.mem(), self.len());
        let mut task = self.done_below.get();
        while task < end {
            // A line of slots at a time.
            let left = self.left_of_line(task);
            let line = word_line(self.layout.slot(task).offset() & !63).fetch(mem);
            let first = (8 - left) as usize;
            let done = line[first..].iter().take_while(|word| **word != 0).count() as u64;
            task = (task + done).min(end);
            if done < left {
                break;
            }
        }
        self.done_below.set(task);
        task
    }

    /// How many slots of a line there are from a task's on.
    fn left_of_line(&self, task: u64) -> u64 {
        8 - self.layout.slot(task).offset() / 8 % 8
    }

    fn phase_of(&self, task: u64) -> Option<&Phase> {
        self.layout.phases().iter().find(|phase| task < phase.tasks.end)
    }

    /// The next task of the chunk that this handle has.
    fn go_on(&self) -> Option<u64> {
        let mem = self.worker.mem();
        let mut mine = self.mine.get()?;
        let is_open = |task: &u64| self.layout.slot(*task).load(mem) == 0;
        let is_mine = mine.claim.load(mem) == self.worker.identity();
        let task = match mine.role {
            _ if !is_mine => None,
            Role::Owner => (mine.from..mine.to).find(is_open),
            // The last one open is what the owner is at.
            Role::Helper => {
                let mut open = (mine.from..mine.to).rev().filter(is_open);
                open.next().filter(|_| open.next().is_some())
            }
        };
        match (task, mine.role) {
            (Some(task), Role::Owner) => mine.from = task + 1,
            (Some(task), Role::Helper) => mine.to = task,
            (None, _) => {}
        }
        self.mine.set(task.map(|_| mine));
        task
    }

    /// Claims a chunk; returns whether it succeeded.
    fn claim(&self, phase: &Phase, chunk: u64, role: Role, found: u64) -> bool {
        let [owner, helper] = self.layout.claims(chunk);
        let claim = match role {
            Role::Owner => owner,
            Role::Helper => helper,
        };
        let mine = self.worker.identity();
        // NO PAIR: claim
        if claim
            .compare_exchange_acquire(self.worker.mem(), found, mine)
            .is_err()
        {
            return false;
        }
        crash_point(match (role, found) {
            (Role::Owner, 0) => Point::TasksClaimed,
            (Role::Owner, _) => Point::TasksTakenOver,
            (Role::Helper, _) => Point::TasksHelped,
        });
        let tasks = self.layout.tasks_of(phase, chunk);
        self.mine.set(Some(Mine {
            claim,
            role,
            from: tasks.start,
            to: tasks.end,
        }));
        true
    }

    /// Claims an unclaimed chunk; returns whether there was one.
    fn claim_fresh(&self, phase: &Phase) -> bool {
        let (mem, hint) = (self.worker.mem(), self.layout.hint());
        let found = hint.load(mem);
        let fresh = (found.max(phase.chunks.start)..phase.chunks.end)
            .find(|chunk| self.claim(phase, *chunk, Role::Owner, 0));
        let next = fresh.map_or(phase.chunks.end, |chunk| chunk + 1);
        if next > found {
            // A worker that fails has seen a newer value.
            // NO PAIR: hint
            let _ = hint.compare_exchange_acquire(mem, found, next);
        }
        fresh.is_some()
    }

    /// Claims a chunk that another worker has or had; returns whether there was one to claim.
    fn claim_used(&self, phase: &Phase, below: u64, polls: u64) -> bool {
        let (mem, me) = (self.worker.mem(), self.worker.identity());
        let is_free = |claimer: u64| {
            if claimer == me || claimer == 0 || mutant::is(Mutant::ClaimOfTheDead) {
                return claimer == me || claimer == 0;
            }
            // A worker that may or may not live keeps its claim.
            matches!(is_gone(&self.worker, claimer), Ok(true))
        };
        let mut first = None;
        for chunk in self.layout.chunk_of(phase, below)..phase.chunks.end {
            let left = self.left_in(phase, chunk);
            if left == 0 {
                continue;
            }
            let [owner, helper] = self.layout.claims(chunk).map(|claim| claim.load(mem));
            if is_free(owner) && self.claim(phase, chunk, Role::Owner, owner) {
                return true;
            }
            if left > 1 && is_free(helper) && self.claim(phase, chunk, Role::Helper, helper) {
                return true;
            }
            first.get_or_insert(ChunkState {
                chunk,
                owner,
                helper,
                left,
            });
        }
        first.is_some_and(|seen| self.is_stuck(seen, polls) && self.seize(phase, seen))
    }

    /// Takes a chunk over from a living worker.
    fn seize(&self, phase: &Phase, seen: ChunkState) -> bool {
        self.claim(phase, seen.chunk, Role::Owner, seen.owner)
    }

    /// Records what was seen of the first chunk that is not done; returns whether it has been like that for too long.
    fn is_stuck(&self, seen: ChunkState, polls: u64) -> bool {
        let before = self.suspect.get();
        let looks = if before.seen == seen { before.looks + 1 } else { 0 };
        let is_stuck = looks >= polls;
        let looks = if is_stuck { 0 } else { looks };
        self.suspect.set(Suspect { seen, looks });
        is_stuck
    }

    /// How many tasks of a chunk have no result.
    fn left_in(&self, phase: &Phase, chunk: u64) -> u64 {
        let tasks = self.layout.tasks_of(phase, chunk);
        let mut left = 0;
        let mut task = tasks.start;
        while task < tasks.end {
            let count = self.left_of_line(task).min(tasks.end - task);
            let line = word_line(self.layout.slot(task).offset() & !63).fetch(self.worker.mem());
            let first = self.layout.slot(task).offset() / 8 % 8;
            left += (first..first + count).filter(|n| line[*n as usize] == 0).count() as u64;
            task += count;
        }
        left
    }
}
