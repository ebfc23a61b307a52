//! Sites: the places in the library that order memory or move it between caches and memory. One at a time can be
//! weakened, to see whether any check needs it (`cargo xtask mutants --sweep`).
//!
//! A site is a call in the library's code, which the compiler records with the feature `mutants`; without that there
//! are none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;

/// What a site does, and what it is weakened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touch {
    /// A write-back: left out.
    WriteBack,
    /// An invalidation: left out.
    Invalidate,
    /// A fence: left out.
    Fence,
    /// A sync load on incoherent memory: finds what the host's cache has, or might have had since the processes began.
    Load,
    /// A load of another's owned word: the same.
    Peek,
    /// A compare-exchange: what the thread has stored before may become visible after it.
    Exchange,
}

impl Touch {
    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteBack => "write-back",
            Self::Invalidate => "invalidation",
            Self::Fence => "fence",
            Self::Load => "load",
            Self::Peek => "peek",
            Self::Exchange => "exchange",
        }
    }
}

/// A place, and what it does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The file, as the compiler names it.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
    /// What is done.
    pub touch: Touch,
}

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    static WEAK: Cell<Option<Site>> = const { Cell::new(None) };
    static IS_STUBBORN: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<BTreeSet<Site>> = const { RefCell::new(BTreeSet::new()) };
    static MOMENTS: RefCell<Vec<Moment>> = const { RefCell::new(Vec::new()) };
    static PASSES: Cell<Passes> = const { Cell::new(Passes { all: 0, with_effect: 0 }) };
}

/// How often runs passed the weakened site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passes {
    /// So often.
    pub all: u64,
    /// So often it would have changed something: a line was dirty, a load stale, a store buffered.
    pub with_effect: u64,
}

/// When a process of a run passed: the process, of those that the run begins with, and its steps until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The process.
    pub process: u32,
    /// Its steps.
    pub step: u64,
}

/// Weakens a site in the runs of this thread from now on, or none.
pub fn weaken(site: Option<Site>) {
    WEAK.set(site);
    IS_ON.set(site.is_some());
}

/// Whether in the runs of this thread from now on a weakened load finds the oldest value that it may, however often it
/// is repeated; else it finds any, and now and then the one that it must.
pub fn be_stubborn(is_stubborn: bool) {
    IS_STUBBORN.set(is_stubborn);
}

/// Whether a load that is weakened finds the oldest that it may.
pub(crate) fn is_stubborn() -> bool {
    IS_STUBBORN.get()
}

/// Whether the site that is weakened is a load.
pub(crate) fn weakens_loads() -> bool {
    WEAK.get()
        .is_some_and(|site| matches!(site.touch, Touch::Load | Touch::Peek))
}

/// How often the site was passed since this was asked last.
pub fn take_passes() -> Passes {
    PASSES.take()
}

/// When runs passed the weakened site where it would have changed something, or the planted mutant, since this was
/// asked last.
pub fn take_moments() -> Vec<Moment> {
    MOMENTS.take()
}

/// The weakened site or the mutant was passed, at `moment` if by a process that the run began with; `has_effect` says
/// whether it would have changed something.
pub(crate) fn passed(moment: Option<Moment>, has_effect: bool) {
    if let Some(moment) = moment.filter(|_| has_effect) {
        MOMENTS.with_borrow_mut(|moments| moments.push(moment));
    }
    let Passes { all, with_effect } = PASSES.get();
    PASSES.set(Passes {
        all: all + 1,
        with_effect: with_effect + u64::from(has_effect),
    });
}

/// The sites that runs of this thread pass in a piece of work.
pub fn sites_of(work: impl FnOnce()) -> BTreeSet<Site> {
    weaken(None);
    IS_ON.set(true);
    work();
    IS_ON.set(false);
    SEEN.take()
}

/// Whether the caller's caller is the site that is weakened.
#[inline]
#[track_caller]
pub(crate) fn is_weak(touch: Touch) -> bool {
    IS_ON.get() && is_this(touch, Location::caller())
}

fn is_this(touch: Touch, at: &'static Location<'static>) -> bool {
    let site = Site {
        file: at.file(),
        line: at.line(),
        column: at.column(),
        touch,
    };
    match WEAK.get() {
        Some(weak) => weak == site,
        None => {
            SEEN.with_borrow_mut(|seen| seen.insert(site));
            false
        }
    }
}
