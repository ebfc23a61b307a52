//! What a pool's frames are at one moment, seen without a step.

use cenote::pod::Worker;
use cenote::pod::alloc::slab::{full_word, table_word};
use cenote::pod::format::block::{Block, ExtentState};
use cenote::pod::format::class::TABLE;
use cenote::pod::format::superblock::COMMITTED;

use crate::exec::{Context, SimMemory};

/// Frames by what they are.
#[derive(Clone, Copy, Default)]
pub struct Snapshot {
    /// Of extents that are unlinked and not free.
    pub retired: u64,
    /// Of blocks of small objects, without empty ones that belong to nobody or to the caller.
    pub small: u64,
    /// Of the longest run of free ones.
    pub longest: u64,
    /// And of the longest in which there may be retired ones.
    pub longest_with_retired: u64,
}

/// The longest run seen.
#[derive(Default)]
struct Longest {
    now: u64,
    most: u64,
}

impl Longest {
    fn see(&mut self, frames: u64, is_free: bool) {
        self.now = if is_free { self.now + frames } else { 0 };
        self.most = self.most.max(self.now);
    }
}

impl Snapshot {
    /// The longest run of free frames, and of those that are free or retired.
    pub fn longest(&self) -> (u64, u64) {
        (self.longest, self.longest_with_retired)
    }

    /// What a worker's pool is now, of which there can be so many frames.
    pub fn take<const C: bool>(context: &Context<C>, worker: &Worker<SimMemory<C>>, frames_max: u64) -> Self {
        let committed = context.peek(COMMITTED.offset()).min(frames_max);
        let mut snapshot = Self::default();
        let (mut free, mut with_retired) = (Longest::default(), Longest::default());
        let mut frame = 0;
        while frame < committed {
            let block = Block::decode(context.peek(table_word(worker, frame).offset()));
            let (frames, is_free, is_retired) = match block {
                Block::Free => (1, true, false),
                Block::Hole { order, .. } => (1 << order, true, false),
                Block::Extent { frames, state, .. } => {
                    (u64::from(frames).max(1), false, state == ExtentState::Retired)
                }
                Block::Slab { class, ready, owner } => {
                    let layout = &TABLE[usize::from(class) % TABLE.len()];
                    let base = worker.geometry().frame_offset(frame);
                    let is_empty = ready
                        && (0..layout.words())
                            .all(|word| context.peek(base + 8 * u64::from(word)) == full_word(layout, word));
                    if !(is_empty && (owner == 0 || owner == worker.actor().me)) {
                        snapshot.small += layout.frames();
                    }
                    (layout.frames(), false, false)
                }
                Block::Tail | Block::Damaged => (1, false, false),
            };
            if is_retired {
                snapshot.retired += frames;
            }
            free.see(frames, is_free);
            with_retired.see(frames, is_free || is_retired);
            frame += frames;
        }
        free.see(frames_max - committed, true);
        with_retired.see(frames_max - committed, true);
        (snapshot.longest, snapshot.longest_with_retired) = (free.most, with_retired.most);
        snapshot
    }
}
