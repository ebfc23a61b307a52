//! Hooks: functions that upper layers and folders hand to lower ones, for structures that these do not understand.

use std::fmt::{self, Display, Formatter};

use super::worker::Worker;
use crate::error::Result;
use crate::memory::Memory;
use crate::pod::format::actor::Actor;
use crate::pod::format::record::State;

/// Finishes the retirement of an index's old root on behalf of a worker record; registered by the index layer.
pub type FinishRoot<M> = fn(&Worker<M>, Actor) -> Result<()>;
/// Frees what a tagged extent refers to, before the extent itself is freed, following a limited number of links.
/// Registered by the index layer.
pub type DrainExtent<M> = fn(&Worker<M>, Actor, u64, &mut u64) -> Result<Progress>;

/// How far work has come that is done in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// All of it is done.
    Complete,
    /// Some is left for the next call.
    Partial,
}

/// Calls its last argument for the lines that a tagged extent refers to; registered by the index layer. Other objects
/// have none.
pub type ExtentLines<M> = fn(&Worker<M>, u64, &mut dyn FnMut(u64)) -> Result<()>;

/// Ends a dead worker's holds of locks, by its place in the worker table; registered by the layer of locks.
pub type RecoverHeld<M> = fn(&Worker<M>, u32) -> Result<()>;

/// A worker that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead {
    /// Its place.
    pub index: u32,
    /// Its generation.
    pub generation: u32,
}

impl Dead {
    /// The worker that a place's state names.
    pub fn at(index: u32, state: State) -> Self {
        Self {
            index,
            generation: state.generation,
        }
    }

    /// Its identity, as in its locks, claims and memberships.
    pub fn identity(self) -> u64 {
        u64::from(self.index + 1) | u64::from(self.generation) << 32
    }
}

impl Display for Dead {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} (generation {})", self.index, self.generation)
    }
}

/// How a structure recovers from the death of a worker. A recoverer runs the steps, in the order in which they are
/// registered, before it claims the dead worker's record: so a recoverer that is stopped with the claim holds none of
/// them back. Steps need no claim: several threads may run them for the same dead worker at a time, and the next
/// recoverer runs all of them again.
pub struct Step<M: Memory> {
    /// Its name in figures.
    pub name: &'static str,
    /// Does it.
    pub run: fn(&Worker<M>, Dead) -> Result<StepOutcome>,
}

/// What a [`Step`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The dead worker had something of the structure, and has it no more.
    Recovered,
    /// It had nothing of it.
    Nothing,
}

/// Functions that the layers above register, so that recovery can finish what it does not understand.
#[derive(Clone, Copy)]
pub struct Hooks<M: Memory> {
    /// See [`FinishRoot`].
    pub finish_root: FinishRoot<M>,
    /// See [`DrainExtent`].
    pub drain_extent: DrainExtent<M>,
    /// See [`ExtentLines`].
    pub extent_lines: ExtentLines<M>,
    /// See [`RecoverHeld`].
    pub recover_held: RecoverHeld<M>,
    /// Functions of the pod's own upper folders.
    pub inner: Inner<M>,
    /// Steps of structures that have no part in a worker's record. Groups come first, so that they are notified without
    /// waiting for the rest.
    pub steps: &'static [Step<M>],
}

/// What folders of the pod need of those above them: an allocation may have to free first, and freeing to recover the
/// dead.
#[derive(Clone, Copy)]
pub struct Inner<M: Memory> {
    /// Frees what can be freed, and gives empty blocks back.
    pub make_room: fn(&Worker<M>) -> Result<()>,
    /// Retires an object of the actor that no other worker has seen, and that cannot be given back otherwise.
    pub retire: fn(&Worker<M>, Actor, u64) -> Result<()>,
    /// Recovers every dead process.
    pub recover_dead: fn(&Worker<M>) -> Result<()>,
    /// Finishes or undoes whatever a record says was begun.
    pub finish_record: fn(&Worker<M>, Actor) -> Result<()>,
}
