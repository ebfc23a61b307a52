//! All schedules with at most so many preemptions: depth-first, by running again from the start.
//!
//! Context bounding (Musuvathi and Qadeer, PLDI 2007): most errors need few preemptions, and with a bound the number of
//! schedules is polynomial in the length of the run. When a thread ends or waits, the next in turn runs; another one after
//! an end counts as a preemption too (delay bounding: Emmi, Qadeer and Rakamaric, POPL 2011). Threads are only preempted
//! before operations whose order can matter: those that touch a line which another thread touches too, one of the two
//! changing it: in memory, or in the cache of a host that both run on. What was begun touches its lines at the fence.
//! Which lines those are is learned from the runs; when a run finds a new one, the exploration begins anew, so that in
//! the end all runs have used the same set.
//!
//! **Bounds.** Faults do not happen: nothing is evicted, write-backs complete at their fence, and a lost cache loses its
//! dirty lines. Crashes happen where the scenario puts them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::{Candidate, Fault, Policy};
use crate::exec::Kind;

/// How many preemptions, and how far the exploration has come. Clones share it.
#[derive(Clone)]
pub struct Exhaustive {
    explorer: Rc<RefCell<Explorer>>,
}

struct Explorer {
    bound: u32,
    coherent: bool,
    /// The choices of the current run, each with how many there were.
    path: Vec<(usize, usize)>,
    /// Choices taken in the current run.
    depth: usize,
    preemptions: u32,
    shared: BTreeSet<u64>,
    has_learned: bool,
    /// For each line, in memory or in a host's cache: the threads that touched it, and those that may have changed it.
    touched: BTreeMap<(u64, Option<u32>), (u64, u64)>,
    /// Lines whose write-back or flush each thread has begun.
    begun: BTreeMap<u32, BTreeSet<u64>>,
    schedules: u64,
}

impl Exhaustive {
    /// An exploration with at most `bound` preemptions a run, on a machine that is coherent or not.
    pub fn new(bound: u32, coherent: bool) -> Self {
        Self {
            explorer: Rc::new(RefCell::new(Explorer {
                bound,
                coherent,
                path: Vec::new(),
                depth: 0,
                preemptions: 0,
                shared: BTreeSet::new(),
                has_learned: false,
                touched: BTreeMap::new(),
                begun: BTreeMap::new(),
                schedules: 0,
            })),
        }
    }

    /// Goes on to the next schedule, after a run has ended; `false` if that was the last.
    pub fn advance(&self) -> bool {
        let explorer = &mut *self.explorer.borrow_mut();
        explorer.schedules += 1;
        if std::mem::take(&mut explorer.has_learned) {
            explorer.path.clear();
            explorer.schedules = 0;
        } else {
            explorer.path.truncate(explorer.depth);
            while explorer
                .path
                .pop_if(|(choice, count)| *choice + 1 >= *count)
                .is_some()
            {}
            match explorer.path.last_mut() {
                Some((choice, _)) => *choice += 1,
                None => return false,
            }
        }
        explorer.depth = 0;
        explorer.preemptions = 0;
        explorer.touched.clear();
        explorer.begun.clear();
        true
    }

    /// Schedules run so far, since the last new shared line was found.
    pub fn schedules(&self) -> u64 {
        self.explorer.borrow().schedules
    }

    /// Lines whose order of accesses matters.
    pub fn shared_lines(&self) -> usize {
        self.explorer.borrow().shared.len()
    }
}

impl Explorer {
    fn choose(&mut self, count: usize) -> usize {
        if count == 1 {
            return 0;
        }
        if self.depth == self.path.len() {
            self.path.push((0, count));
        }
        self.path[self.depth].1 = count;
        let choice = self.path[self.depth].0;
        self.depth += 1;
        choice
    }

    /// Notes what a thread is about to touch. Whether it is a line whose order of accesses matters.
    fn touch(&mut self, candidate: &Candidate) -> bool {
        let Candidate { thread, host, op, .. } = *candidate;
        let lines = op.lines().into_iter().flat_map(|(first, last)| first..=last);
        if matches!(op.kind, Kind::WriteBack | Kind::Invalidate | Kind::Prefetch) {
            if !self.coherent {
                self.begun.entry(thread).or_default().extend(lines);
            }
            return false;
        }
        let mut matters = false;
        for line in lines {
            matters |= self.touch_line(thread, (line, None), op.kind.changes_memory(self.coherent));
            if !self.coherent && op.kind.is_cached() {
                matters |= self.touch_line(thread, (line, Some(host)), op.kind.changes_cache());
            }
        }
        if matches!(op.kind, Kind::Fence | Kind::FetchLine) {
            for line in self.begun.remove(&thread).unwrap_or_default() {
                matters |= self.touch_line(thread, (line, None), true);
                matters |= self.touch_line(thread, (line, Some(host)), true);
            }
        }
        matters
    }

    fn touch_line(&mut self, thread: u32, line: (u64, Option<u32>), changes: bool) -> bool {
        let bit = 1 << (thread % 64);
        let (touched, changed) = self.touched.entry(line).or_default();
        *touched |= bit;
        *changed |= if changes { bit } else { 0 };
        if touched.count_ones() > 1 && *changed != 0 && self.shared.insert(line.0) {
            self.has_learned = true;
        }
        self.shared.contains(&line.0)
    }
}

impl Policy for Exhaustive {
    fn thread(&mut self, candidates: &[Candidate], ended: bool) -> usize {
        let explorer = &mut *self.explorer.borrow_mut();
        let current = &candidates[0];
        let may_deviate = explorer.preemptions < explorer.bound;
        let choice = if ended {
            if may_deviate {
                explorer.choose(candidates.len())
            } else {
                0
            }
        } else if current.waits {
            // The next in turn: if it waits too, everybody comes to run.
            (1..candidates.len())
                .find(|&n| candidates[n].thread > current.thread)
                .unwrap_or(1)
        } else if explorer.touch(current) && may_deviate {
            explorer.choose(candidates.len())
        } else {
            0
        };
        explorer.preemptions += u32::from(choice != 0 && (ended || !current.waits));
        if choice != 0 || ended {
            explorer.touch(&candidates[choice]);
        }
        choice
    }

    fn alone(&mut self, candidate: &Candidate) {
        self.explorer.borrow_mut().touch(candidate);
    }

    fn fault(&mut self, _fault: Fault, _bound: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        format!(
            "all schedules with at most {} preemptions",
            self.explorer.borrow().bound
        )
    }
}
