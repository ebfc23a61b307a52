//! Indexes that are not the library's, as subjects: a type that names a map on any memory becomes a scenario on either
//! machine.

use cenote::index::baseline::WordMap;
use cenote::memory::Memory;
use cenote::pod::format::geometry::Parameters;

use super::{Load, Scenario, baseline};
use crate::check::linear::Durability;
use crate::exec::SimMemory;

/// An index of somebody's own: names the type that is its handle on each memory. [`Subject::own`](super::Subject::own)
/// makes a subject of it.
pub trait Index {
    /// Until when a call may take effect whose process died in it.
    ///
    /// [`Strict`](Durability::Strict): before the death or never. [`Durable`](Durability::Durable) is for an index in
    /// which others complete what the dead one had begun.
    const DURABILITY: Durability = Durability::Strict;

    /// The index on a memory, as one thread has it open. Its [`NAME`](WordMap::NAME) is the subject's.
    type On<M: Memory>: WordMap<M> + 'static;
}

/// An [`Index`], as a value. Two of the same name count as the same.
#[derive(Clone, Copy)]
pub struct OwnIndex {
    name: &'static str,
    durability: Durability,
    coherent: fn(Load, Parameters) -> Scenario<true>,
    noncoherent: fn(Load, Parameters) -> Scenario<false>,
}

impl OwnIndex {
    /// The value of an index.
    pub const fn of<I: Index>() -> Self {
        Self {
            name: <I::On<SimMemory<true>> as WordMap<SimMemory<true>>>::NAME,
            durability: I::DURABILITY,
            coherent: baseline::scenario::<true, I::On<SimMemory<true>>>,
            noncoherent: baseline::scenario::<false, I::On<SimMemory<false>>>,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Until when a call may take effect whose process died in it.
    pub const fn durability(self) -> Durability {
        self.durability
    }
}

impl PartialEq for OwnIndex {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OwnIndex {}

impl std::fmt::Debug for OwnIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.name.fmt(f)
    }
}

/// What makes a scenario on a machine that is coherent, or on one that is not.
pub trait Makes<const C: bool> {
    /// What the processes of a run do.
    fn scenario(self, load: Load, parameters: Parameters) -> Scenario<C>;
}

impl Makes<true> for OwnIndex {
    fn scenario(self, load: Load, parameters: Parameters) -> Scenario<true> {
        (self.coherent)(load, parameters)
    }
}

impl Makes<false> for OwnIndex {
    fn scenario(self, load: Load, parameters: Parameters) -> Scenario<false> {
        (self.noncoherent)(load, parameters)
    }
}
