//! All schedules with at most so many preemptions and faults: depth-first, by running again from the start.
//!
//! Context bounding (Musuvathi and Qadeer, PLDI 2007): most errors need few preemptions, and with a bound the number of
//! schedules is polynomial in the length of the run. When a thread ends or waits, the next in turn runs; another one
//! after an end counts as a preemption too (delay bounding: Emmi, Qadeer and Rakamaric, POPL 2011). Threads that wait
//! for what has not happened yet are not tried.
//!
//! **Reduction.** Threads are only preempted before operations whose order can matter: those that touch a place which
//! another thread touches too, one of the two changing it. A preemption before any other operation can be put off to
//! the next of these without a difference. A place is a word of coherent memory, or a line: in memory, or in the cache
//! of a host that both run on. What was begun touches its lines at the fence. Which places those are is learned from
//! the runs; when a run finds a new one, the exploration begins anew, so that in the end all runs have used the same
//! set.
//!
//! Nor is a thread preempted for another before an operation that nothing conflicts with until it runs again, if it is
//! preempted for the same one right after the operation: the two schedules differ in the order of independent
//! operations only (a sleep set of one operation: Godefroid, LNCS 1032). This holds where no other deviation can
//! follow, and is used there.
//!
//! **Faults** are evictions, and write-backs or flushes that complete before their fence. They happen before operations
//! of the same kind. Of the lines that the thread's host has in its cache those are tried that the operation touches
//! and those that are dirty and shared: a clean line that is dropped earlier than right before its next use is fetched
//! by that use all the same. A line that equals memory is not tried.
//!
//! **Phases.** Only what the processes do together is explored: a single thread prepares the memory, and a single
//! thread checks it in the end. With [`Exhaustive::once_gathered`] the exploration begins when all threads are there.
//!
//! **Bounds.** A lost cache loses its dirty lines. Crashes happen where the scenario puts them. Which thread runs after
//! a wait is not varied. A host's lines are evicted at steps of its threads only. Whether a thread fetches a line
//! before or after another thread of its host begins to flush it is not varied.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::rc::Rc;

use super::{Candidate, Fault, Phase, Policy};
use crate::exec::Kind;
use crate::machine::{Cache, LINE, Words};

/// How far runs may deviate from the one in which nothing is disturbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Preemptions of a run.
    pub preemptions: u32,
    /// Faults of a run.
    pub faults: u32,
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = |n| if n == 1 { "" } else { "s" };
        let Self { preemptions, faults } = *self;
        write!(f, "at most {preemptions} preemption{} ", plural(preemptions))?;
        write!(f, "and {faults} fault{}", plural(faults))
    }
}

/// Bounds, and how far the exploration has come. Clones share it.
#[derive(Clone)]
pub struct Exhaustive {
    explorer: Rc<RefCell<Explorer>>,
}

/// Where operations can meet: a word or line in memory, or a line in a host's cache.
type Place = (u64, Option<u32>);

/// Places, each with whether it may be changed.
type Places = HashMap<Place, bool, Mixed>;

/// Mixes the numbers that places are made of; they are not chosen to collide.
#[derive(Clone, Copy, Default)]
struct Mixed(u64);

impl BuildHasher for Mixed {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A choice of a run.
struct Choice {
    taken: usize,
    count: usize,
    /// If it chooses the thread that runs next, and no deviation can follow.
    last: Option<LastPreemption>,
}

/// The choice of the thread that runs next, if no deviation can follow.
struct LastPreemption {
    /// The thread that is preempted.
    thread: u32,
    /// The threads that may run next, the thread itself first.
    able: Vec<u32>,
    /// What its next operation touches.
    places: Places,
    /// Whether it has run alone since the choice before.
    follows: bool,
    /// For each thread that it was preempted for: what others touched until it ran again.
    stretches: HashMap<u32, Rc<Places>>,
    /// The stretches of the choice after, if the thread runs alone up to that.
    after: HashMap<u32, Rc<Places>>,
}

impl LastPreemption {
    /// Whether to preempt for this thread comes to the same as to do so after the next operation; then it is noted.
    fn is_redundant(&mut self, choice: usize) -> bool {
        let other = self.able[choice];
        let Some(stretch) = self.after.get(&other) else {
            return false;
        };
        let conflicts = |(place, changes): (&Place, &bool)| {
            stretch.get(place).is_some_and(|changed| *changes || *changed)
        };
        if self.places.iter().any(conflicts) {
            return false;
        }
        self.stretches.insert(other, stretch.clone());
        true
    }
}

struct Explorer {
    bounds: Bounds,
    coherent: bool,
    /// The phase whose choices are explored.
    explored: Phase,
    is_exploring: bool,
    /// The choices of the current run.
    path: Vec<Choice>,
    /// Choices taken in the current run.
    depth: usize,
    /// What the current run has used up.
    used: Bounds,
    shared: HashSet<u64, Mixed>,
    has_learned: bool,
    /// For each place: the threads that touched it, and those that may have changed it.
    touched: HashMap<Place, (u64, u64), Mixed>,
    /// The places of one operation; kept for its memory.
    scratch: Vec<(Place, bool)>,
    /// Runs left that learn only.
    warm_ups: u32,
    /// From which their preemptions are drawn.
    draw: u64,
    /// Lines whose write-back or flush each thread has begun.
    begun: BTreeMap<u32, BTreeSet<u64>>,
    /// Whether another thread than that of the last choice has run since.
    has_switched: bool,
    /// After the last preemption, while its thread has not run again: that, and what others have touched.
    stretch: Option<(u32, Places)>,
    /// The same, once it is over.
    stretched: Option<Places>,
    schedules: u64,
    runs: u64,
    points: u64,
}

impl Exhaustive {
    /// An exploration of what processes do from their start, on a machine that is coherent or not.
    pub fn new(bounds: Bounds, coherent: bool) -> Self {
        Self::of(Phase::Run, bounds, coherent)
    }

    /// An exploration of what they do after [`Phase::Gathered`].
    pub fn once_gathered(bounds: Bounds, coherent: bool) -> Self {
        Self::of(Phase::Gathered, bounds, coherent)
    }

    fn of(explored: Phase, bounds: Bounds, coherent: bool) -> Self {
        Self {
            explorer: Rc::new(RefCell::new(Explorer {
                bounds,
                coherent,
                explored,
                is_exploring: false,
                path: Vec::new(),
                depth: 0,
                used: Bounds::default(),
                shared: HashSet::default(),
                has_learned: false,
                touched: HashMap::default(),
                scratch: Vec::new(),
                warm_ups: if explored == Phase::Gathered { WARM_UPS } else { 0 },
                draw: 1,
                begun: BTreeMap::new(),
                has_switched: true,
                stretch: None,
                stretched: None,
                schedules: 0,
                runs: 0,
                points: 0,
            })),
        }
    }

    /// Goes on to the next schedule, after a run has ended; `false` if that was the last.
    pub fn advance(&self) -> bool {
        let explorer = &mut *self.explorer.borrow_mut();
        explorer.runs += 1;
        explorer.schedules += 1;
        if explorer.warm_ups > 0 {
            explorer.warm_ups -= 1;
            if explorer.warm_ups == 0 {
                (explorer.schedules, explorer.points) = (0, 0);
            }
            explorer.has_learned = false;
        } else if std::mem::take(&mut explorer.has_learned) {
            explorer.path.clear();
            explorer.schedules = 0;
            explorer.points = 0;
        } else {
            explorer.path.truncate(explorer.depth);
            explorer.note_stretch();
            if !explorer.step() {
                return false;
            }
        }
        explorer.depth = 0;
        explorer.used = Bounds::default();
        explorer.touched.clear();
        explorer.begun.clear();
        explorer.stretch = None;
        explorer.stretched = None;
        explorer.has_switched = true;
        true
    }

    /// Schedules run so far, since the last new shared place was found.
    pub fn schedules(&self) -> u64 {
        self.explorer.borrow().schedules
    }

    /// Runs so far, with those before the last new shared place was found.
    pub fn runs(&self) -> u64 {
        self.explorer.borrow().runs
    }

    /// Words of coherent memory, or lines, whose order of accesses matters.
    pub fn shared_places(&self) -> usize {
        self.explorer.borrow().shared.len()
    }

    /// Points of the first schedule at which a thread could be preempted.
    pub fn points(&self) -> u64 {
        self.explorer.borrow().points
    }
}

/// Runs with preemptions at random before an exploration, that find most of the shared places.
const WARM_UPS: u32 = 200;

impl Explorer {
    /// Remembers what others did after the last preemption, with the choice that it was.
    fn note_stretch(&mut self) {
        let stretch = self
            .stretched
            .take()
            .or(self.stretch.take().map(|(_, places)| places));
        let (
            Some(places),
            Some(Choice {
                taken,
                last: Some(last),
                ..
            }),
        ) = (stretch, self.path.last_mut())
        else {
            return;
        };
        last.stretches.insert(last.able[*taken], Rc::new(places));
    }

    /// Goes on to the next path, depth-first; `false` if there is none.
    fn step(&mut self) -> bool {
        while let Some(choice) = self.path.last_mut() {
            choice.taken += 1;
            if let Some(last) = &mut choice.last {
                while choice.taken < choice.count && last.is_redundant(choice.taken) {
                    choice.taken += 1;
                }
            }
            if choice.taken < choice.count {
                return true;
            }
            let done = self.path.pop().and_then(|choice| choice.last);
            if let (
                Some(done),
                Some(Choice {
                    taken: 0,
                    last: Some(before),
                    ..
                }),
            ) = (done, self.path.last_mut())
                && done.follows
                && done.thread == before.thread
            {
                before.after = done.stretches;
            }
        }
        false
    }

    fn choose(&mut self, count: usize, last: impl FnOnce(&mut Self) -> Option<LastPreemption>) -> usize {
        if count == 1 {
            return 0;
        }
        if self.depth == self.path.len() {
            let last = last(self);
            self.path.push(Choice {
                taken: 0,
                count,
                last,
            });
        }
        self.has_switched = false;
        self.path[self.depth].count = count;
        let choice = self.path[self.depth].taken;
        self.depth += 1;
        choice
    }

    /// A number below a bound, for a run that learns only.
    fn draw(&mut self, bound: u64) -> u64 {
        self.draw = self.draw.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.draw >> 33) % bound
    }

    /// Which thread runs next, of those that do not wait in vain; another than the first is a deviation.
    fn preempt(&mut self, candidates: &[Candidate], ended: bool) -> usize {
        let able: Vec<usize> = (0..candidates.len())
            .filter(|&n| !candidates[n].blocked)
            .collect();
        if able.is_empty() || self.used.preemptions >= self.bounds.preemptions {
            return able.first().copied().unwrap_or(0);
        }
        if self.warm_ups > 0 {
            let preempts = self.draw(self.points.max(4)) < 4;
            return able[if preempts {
                self.draw(able.len() as u64) as usize
            } else {
                0
            }];
        }
        let is_last = !ended
            && self.used.preemptions + 1 == self.bounds.preemptions
            && self.used.faults == self.bounds.faults;
        let choice = self.choose(able.len(), |explorer| {
            is_last.then(|| LastPreemption {
                thread: candidates[0].thread,
                able: able.iter().map(|&n| candidates[n].thread).collect(),
                places: explorer.places(&candidates[0], Vec::new()).into_iter().collect(),
                follows: !explorer.has_switched,
                stretches: HashMap::new(),
                after: HashMap::new(),
            })
        });
        if choice != 0 {
            self.used.preemptions += 1;
            if is_last {
                self.stretch = Some((candidates[0].thread, Places::default()));
            }
        }
        able[choice]
    }

    /// The places that an operation touches, each with whether it may change it.
    fn places(&self, candidate: &Candidate, mut places: Vec<(Place, bool)>) -> Vec<(Place, bool)> {
        let Candidate { thread, host, op, .. } = *candidate;
        places.clear();
        if matches!(op.kind, Kind::WriteBack | Kind::Invalidate | Kind::Prefetch) {
            return places;
        }
        if op.kind == Kind::Kernel && op.len > 0 {
            // A lock: beyond all memory.
            places.push(((u64::MAX - op.at, None), true));
        }
        if let Some((first, last)) = op.lines() {
            if self.coherent {
                let words = op.at / 8..=(op.at + op.len.max(1) - 1) / 8;
                places.extend(words.map(|word| ((word, None), op.kind.changes_memory(true))));
            } else {
                for line in first..=last {
                    places.push(((line, None), op.kind.changes_memory(false)));
                    if op.kind.is_cached() {
                        places.push(((line, Some(host)), op.kind.changes_cache()));
                    }
                }
            }
        }
        if matches!(op.kind, Kind::Fence | Kind::FetchLine) {
            for &line in self.begun.get(&thread).into_iter().flatten() {
                places.push(((line, None), true));
                places.push(((line, Some(host)), true));
            }
        }
        places
    }

    /// Whether the order of an operation among others can matter.
    fn matters(&self, candidate: &Candidate) -> bool {
        let is_shared = |((at, _), _): &(Place, bool)| self.shared.contains(at);
        self.places(candidate, Vec::new()).iter().any(is_shared)
    }

    /// Notes what a thread is about to touch. Whether its order among others can matter.
    fn touch(&mut self, candidate: &Candidate) -> bool {
        let Candidate { thread, op, .. } = *candidate;
        if matches!(op.kind, Kind::WriteBack | Kind::Invalidate | Kind::Prefetch) && !self.coherent {
            let lines = op.lines().into_iter().flat_map(|(first, last)| first..=last);
            self.begun.entry(thread).or_default().extend(lines);
        }
        let bit = 1 << (thread % 64);
        let mut matters = false;
        if let Some((_, stretched)) = self.stretch.take_if(|(preempted, _)| *preempted == thread) {
            self.stretched = Some(stretched);
        }
        let scratch = std::mem::take(&mut self.scratch);
        let places = self.places(candidate, scratch);
        for &(place, changes) in &places {
            if let Some((_, stretch)) = &mut self.stretch {
                *stretch.entry(place).or_default() |= changes;
            }
            let (touched, changed) = self.touched.entry(place).or_default();
            *touched |= bit;
            *changed |= if changes { bit } else { 0 };
            if touched.count_ones() > 1 && *changed != 0 && self.shared.insert(place.0) {
                self.has_learned = true;
            }
            matters |= self.shared.contains(&place.0);
        }
        self.scratch = places;
        if matches!(op.kind, Kind::Fence | Kind::FetchLine) {
            self.begun.remove(&thread);
        }
        matters
    }

    fn may_fail(&self, running: &Candidate) -> bool {
        self.is_exploring && self.used.faults < self.bounds.faults && self.matters(running)
    }
}

impl Policy for Exhaustive {
    fn enter(&mut self, phase: Phase) {
        let explorer = &mut *self.explorer.borrow_mut();
        explorer.is_exploring = phase == explorer.explored;
    }

    fn stays(&mut self, running: &Candidate) -> bool {
        let explorer = &mut *self.explorer.borrow_mut();
        if running.waits {
            return false;
        }
        if !explorer.is_exploring {
            return true;
        }
        let is_point = explorer.touch(running);
        explorer.points += u64::from(is_point && explorer.schedules == 0);
        !is_point || explorer.used.preemptions >= explorer.bounds.preemptions
    }

    fn thread(&mut self, candidates: &[Candidate], ended: bool) -> usize {
        let explorer = &mut *self.explorer.borrow_mut();
        let current = &candidates[0];
        let able = |n: &usize| !candidates[*n].blocked;
        let choice = if !ended && current.waits {
            // The next in turn: if it waits too, every thread comes to run.
            let is_next = |n: &usize| candidates[*n].thread > current.thread && able(n);
            let mut others = 1..candidates.len();
            others
                .clone()
                .find(is_next)
                .or_else(|| others.find(able))
                .unwrap_or(1)
        } else if explorer.is_exploring {
            explorer.preempt(candidates, ended)
        } else {
            (0..candidates.len()).find(able).unwrap_or(0)
        };
        if choice != 0 || ended {
            explorer.has_switched = true;
            if explorer.is_exploring {
                explorer.touch(&candidates[choice]);
            }
        }
        choice
    }

    fn alone(&mut self, candidate: &Candidate) {
        let explorer = &mut *self.explorer.borrow_mut();
        if explorer.is_exploring {
            explorer.touch(candidate);
        }
    }

    fn evict(&mut self, running: &Candidate, cache: &Cache, memory: &Words) -> u32 {
        let explorer = &mut *self.explorer.borrow_mut();
        if !explorer.may_fail(running) {
            return 0;
        }
        let touched = running.op.lines().filter(|_| running.op.kind.is_cached());
        let touched = touched.into_iter().flat_map(|(first, last)| first..=last);
        let lines: BTreeSet<u64> = touched
            .chain(cache.dirty().into_iter().map(|at| at / LINE))
            .filter(|line| explorer.shared.contains(line))
            .collect();
        let numbers: Vec<u32> = lines
            .into_iter()
            .map(|line| line * LINE)
            .filter(|&at| cache.holds(at) && cache.bytes(at, LINE) != memory.bytes(at, LINE))
            .filter_map(|at| cache.number_of(at).map(|number| number as u32 + 1))
            .collect();
        let choice = explorer.choose(numbers.len() + 1, |_| None);
        explorer.used.faults += u32::from(choice != 0);
        if choice == 0 { 0 } else { numbers[choice - 1] }
    }

    fn complete_early(&mut self, running: &Candidate, line: u64) -> u32 {
        let explorer = &mut *self.explorer.borrow_mut();
        if !explorer.may_fail(running) || !explorer.shared.contains(&(line / LINE)) {
            return 0;
        }
        let choice = explorer.choose(2, |_| None);
        explorer.used.faults += u32::from(choice != 0);
        choice as u32
    }

    fn fault(&mut self, _fault: Fault, _bound: u32) -> u32 {
        0
    }

    fn parameters(&self) -> String {
        format!("all schedules with {}", self.explorer.borrow().bounds)
    }
}
