//! Subjects: parts of the library, put to work on the simulated machine. A subject says what its processes do and what they
//! write down; the checkers judge what was written.

mod allocator;
mod hash;
mod log;
pub mod pool;

pub use log::{Inner, Log};

use std::rc::Rc;

use cenote::Guidelines;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::exec::{Body, Context};

/// What a subject's processes run, and with what.
pub struct Scenario<const C: bool> {
    /// Makes the pool, alone.
    pub prepare: Body<C>,
    /// What each process does.
    pub body: Rc<dyn Fn(Context<C>)>,
    /// Looks at everything, alone.
    pub audit: Body<C>,
    /// What they write down.
    pub log: Log,
}

/// How much work there is. Everything else is drawn from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Threads of each process.
    pub threads: u32,
    /// Operations of each thread.
    pub operations: u32,
    /// Which optimisations the map's handles use.
    pub guidelines: Guidelines,
    /// What data is drawn from.
    pub seed: u64,
}

/// A part of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The hash map on one bucket and few keys.
    Hash,
    /// The hash map on the point of growing.
    Growth,
    /// Units, slabs and the pool's growth, without a map.
    Allocator,
    /// Processes that come and go.
    Instances,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hash, Self::Growth, Self::Allocator, Self::Instances];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Growth => "growth",
            Self::Allocator => "allocator",
            Self::Instances => "instances",
        }
    }

    /// The subject of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| subject.name() == name)
    }

    /// Units that its pools may grow to.
    pub fn units_max(self) -> u64 {
        match self {
            Self::Allocator => 12,
            _ => 40,
        }
    }

    /// What its processes do.
    pub fn scenario<const C: bool>(self, load: Load) -> Scenario<C> {
        match self {
            Self::Hash => hash::scenario(load, hash::Shape::Bucket, self.units_max()),
            Self::Growth => hash::scenario(load, hash::Shape::Growing, self.units_max()),
            Self::Instances => hash::scenario(load, hash::Shape::Visits, self.units_max()),
            Self::Allocator => allocator::scenario(load, self.units_max()),
        }
    }
}

/// Numbers for one thread of a run.
pub(crate) fn random(seed: u64, thread: u32) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(thread).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A number below a bound.
pub(crate) fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}
