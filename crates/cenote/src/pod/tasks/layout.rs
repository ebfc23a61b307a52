//! The layout of a task list. It is one extent of the pool, written once except for the words that coordinate.
//!
//! | at | | what |
//! |---|---|---|
//! | 0 | P | magic |
//! | 8 | P | phases; tasks a chunk; shares; tasks in all; CRC-32C of these and of the phases' ends |
//! | 48 | P | [drops](crate::pod::names::dropping) when it was made |
//! | 64 | S | hint: the first chunk that may be unclaimed |
//! | 128 | O | shares, a line each |
//! | after them | P | the end of each phase, a task's number |
//! | lines after | S | claims, two words a chunk: the workers that work on it upwards and downwards |
//! | lines after | S | slots, a word a task |

use std::ops::Range;

use super::Plan;
use crate::causes::Setting;
use crate::error::{Error, Result};
use crate::memory::checked::{owned_word, published, sync_word, unpublished};
use crate::memory::{LINE, Memory, OwnedWord, SyncWord};

use crate::mutant::{self, Mutant};
use crate::pod::alloc::heap;
use crate::pod::format::geometry::FRAME;
use crate::pod::instance::worker::Worker;
use crate::pod::names::directory::KIND_TASKS;
use crate::pod::names::dropping;

/// The most tasks of a list.
pub const TASKS_MAX: u64 = 1 << 24;
/// The most phases.
pub const PHASES_MAX: u64 = 1 << 12;
/// The most tasks that are claimed at a time.
pub const CHUNK_MAX: u32 = 1 << 12;

const MAGIC: u64 = u64::from_le_bytes(*b"CTASKS\x01\0");
const SUM_AT: u64 = 40;
const HINT_AT: u64 = 64;
const SHARES_AT: u64 = 128;
/// The smallest list is an extent too: extents begin at whole frames.
const BYTES_MIN: u64 = FRAME / 2 + 1;

/// A phase's tasks and chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Its tasks.
    pub tasks: Range<u64>,
    /// The chunks that they are in.
    pub chunks: Range<u64>,
}

/// A list's layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    header: u64,
    chunk: u64,
    shares: u64,
    phases: Vec<Phase>,
}

/// Checks that there can be such a list.
pub fn check(plan: &Plan) -> Result<()> {
    let refuse = |why| {
        Err(Error::InvalidOption {
            option: Setting::Plan,
            value: format!("{plan:?}"),
            why,
        })
    };
    if plan.phases.is_empty() || plan.phases.len() as u64 > PHASES_MAX || plan.phases.contains(&0) {
        return refuse("it has 1 to 4096 phases, and each of them at least one task");
    }
    let all = plan
        .phases
        .iter()
        .try_fold(0u64, |sum, tasks| sum.checked_add(*tasks));
    if all.is_none_or(|all| all > TASKS_MAX) {
        return refuse("it has at most 2^24 tasks");
    }
    if plan.chunk == 0 || plan.chunk > CHUNK_MAX {
        return refuse("1 to 4096 tasks are claimed at a time");
    }
    Ok(())
}

/// The chunks of phases with these numbers of tasks, if there can be such phases.
fn phases_of(counts: impl Iterator<Item = u64>, chunk: u64) -> Option<Vec<Phase>> {
    let mut phases: Vec<Phase> = Vec::new();
    let (mut task, mut first) = (0u64, 0u64);
    for count in counts {
        let end = task.checked_add(count).filter(|end| *end <= TASKS_MAX)?;
        let chunks = count.div_ceil(chunk);
        if count == 0 {
            return None;
        }
        phases.push(Phase {
            tasks: task..end,
            chunks: first..first + chunks,
        });
        (task, first) = (end, first + chunks);
    }
    (!phases.is_empty()).then_some(phases)
}

impl Layout {
    /// Reads a list's header, and checks all that follows from it.
    pub fn read<M: Memory>(worker: &Worker<M>, header: u64) -> Result<Self> {
        let mem = worker.mem();
        let corrupt = || Error::corrupt("a task list's header", header);
        worker.check("a task list's header", header, SHARES_AT)?;
        if !header.is_multiple_of(LINE) || published(header, 8).read_word(mem) != MAGIC {
            return Err(corrupt());
        }
        let [count, chunk, shares, tasks] =
            [8, 16, 24, 32].map(|at| published(header + at, 8).read_word(mem));
        let is_sound = (1..=PHASES_MAX).contains(&count)
            && (1..=u64::from(CHUNK_MAX)).contains(&chunk)
            && shares == u64::from(worker.geometry().parameters.workers);
        if !is_sound {
            return Err(corrupt());
        }
        let ends = header + SHARES_AT + shares * LINE;
        worker.check("a task list's phases", ends, count * 8)?;
        let mut before = 0;
        let counts = (0..count).map(|n| {
            let end = published(ends + 8 * n, 8).read_word(mem);
            let count = end.saturating_sub(before);
            before = end;
            count
        });
        let layout = Self {
            header,
            chunk,
            shares,
            phases: phases_of(counts, chunk).ok_or_else(corrupt)?,
        };
        if layout.tasks() != tasks || published(header + SUM_AT, 8).read_word(mem) != layout.sum() {
            return Err(corrupt());
        }
        worker.check("a task list", header, layout.bytes())?;
        Ok(layout)
    }

    /// Whether it was made with this plan.
    pub fn is(&self, plan: &Plan) -> bool {
        let counts = self
            .phases
            .iter()
            .map(|phase| phase.tasks.end - phase.tasks.start);
        self.chunk == u64::from(plan.chunk) && counts.eq(plan.phases.iter().copied())
    }

    /// The checksum of the layout.
    fn sum(&self) -> u64 {
        let words = [self.phases.len() as u64, self.chunk, self.shares, self.tasks()];
        let ends = self.phases.iter().map(|phase| phase.tasks.end);
        let bytes: Vec<u8> = words.into_iter().chain(ends).flat_map(u64::to_le_bytes).collect();
        u64::from(crc32c::crc32c(&bytes))
    }

    /// Where it begins.
    pub fn header(&self) -> u64 {
        self.header
    }

    /// Its phases.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// Tasks of all phases.
    pub fn tasks(&self) -> u64 {
        self.phases.last().map_or(0, |phase| phase.tasks.end)
    }

    fn chunks(&self) -> u64 {
        self.phases.last().map_or(0, |phase| phase.chunks.end)
    }

    /// Workers that have a share.
    pub fn shares(&self) -> u64 {
        self.shares
    }

    /// The tasks of a chunk of a phase.
    pub fn tasks_of(&self, phase: &Phase, chunk: u64) -> Range<u64> {
        let first = phase.tasks.start + (chunk - phase.chunks.start) * self.chunk;
        first..(first + self.chunk).min(phase.tasks.end)
    }

    /// The chunk of a task of a phase.
    pub fn chunk_of(&self, phase: &Phase, task: u64) -> u64 {
        phase.chunks.start + (task - phase.tasks.start) / self.chunk
    }

    /// The hint to fresh chunks.
    pub fn hint(&self) -> SyncWord {
        sync_word(self.header + HINT_AT)
    }

    /// How many results a worker has committed.
    pub fn share(&self, worker: u64) -> OwnedWord {
        owned_word(self.header + SHARES_AT + worker * LINE)
    }

    fn ends_at(&self) -> u64 {
        self.header + SHARES_AT + self.shares * LINE
    }

    fn claims_at(&self) -> u64 {
        self.ends_at() + (8 * self.phases.len() as u64).next_multiple_of(LINE)
    }

    fn slots_at(&self) -> u64 {
        self.claims_at() + (16 * self.chunks()).next_multiple_of(LINE)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.slots_at() + 8 * self.tasks() - self.header
    }

    /// The claims of the workers that work on a chunk upwards, and downwards.
    pub fn claims(&self, chunk: u64) -> [SyncWord; 2] {
        let at = self.claims_at() + 16 * chunk;
        [sync_word(at), sync_word(at + 8)]
    }

    /// A task's slot.
    pub fn slot(&self, task: u64) -> SyncWord {
        sync_word(self.slots_at() + 8 * task)
    }
}

/// Allocates and writes a list, as the worker's auxiliary object.
pub fn create<M: Memory>(worker: &Worker<M>, plan: &Plan) -> Result<u64> {
    let mut layout = Layout {
        header: 0,
        chunk: u64::from(plan.chunk),
        shares: u64::from(worker.geometry().parameters.workers),
        phases: phases_of(plan.phases.iter().copied(), u64::from(plan.chunk)).unwrap_or_default(),
    };
    let len = layout.bytes().next_multiple_of(LINE).max(BYTES_MIN);
    let at = worker.record().aux_object();
    layout.header = heap::allocate_for(worker, worker.actor(), len, at, 0)?;
    let (mem, header, len) = (worker.mem(), layout.header, layout.bytes().next_multiple_of(LINE));
    unpublished(header, len).zero(mem);
    let count = layout.phases.len() as u64;
    for (n, word) in [MAGIC, count, layout.chunk, layout.shares, layout.tasks()]
        .into_iter()
        .enumerate()
    {
        unpublished(header + 8 * n as u64, 8).write_word(mem, word);
    }
    unpublished(header + SUM_AT, 8).write_word(mem, layout.sum());
    dropping::write_created(worker, header, KIND_TASKS);
    for (n, phase) in layout.phases.iter().enumerate() {
        unpublished(layout.ends_at() + 8 * n as u64, 8).write_word(mem, phase.tasks.end);
    }
    if mutant::is(Mutant::TasksNotWrittenBack) {
        return Ok(header);
    }
    // From here on other workers use these words past the cache; no line of this host may cover them. Complete before
    // the list is published, with its name.
    mem.invalidate(header, len);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(phases: &[u64], chunk: u32) -> Plan {
        Plan {
            phases: phases.to_vec(),
            chunk,
        }
    }

    #[test]
    fn chunks_end_with_their_phase() {
        let phases = phases_of([10, 1, 4].into_iter(), 4).unwrap();
        let chunks: Vec<_> = phases.iter().map(|phase| phase.chunks.clone()).collect();
        assert_eq!(chunks, [0..3, 3..4, 4..5]);
        let layout = Layout {
            header: 0,
            chunk: 4,
            shares: 2,
            phases,
        };
        assert_eq!(layout.tasks_of(&layout.phases[0], 2), 8..10);
        assert_eq!(layout.tasks_of(&layout.phases[1], 3), 10..11);
        assert_eq!(layout.chunk_of(&layout.phases[2], 14), 4);
        assert!(layout.is(&plan(&[10, 1, 4], 4)));
        assert!(!layout.is(&plan(&[10, 1, 4], 5)));
        assert!(!layout.is(&plan(&[10, 5], 4)));
    }

    #[test]
    fn plans_that_cannot_be_are_refused() {
        for bad in [
            plan(&[], 1),
            plan(&[3, 0], 1),
            plan(&[1], 0),
            plan(&[1], CHUNK_MAX + 1),
            plan(&[TASKS_MAX, 1], 1),
            plan(&[u64::MAX, u64::MAX], 1),
            plan(&[1; PHASES_MAX as usize + 1], 1),
        ] {
            assert!(check(&bad).is_err());
        }
        check(&plan(&[TASKS_MAX], CHUNK_MAX)).unwrap();
    }
}
