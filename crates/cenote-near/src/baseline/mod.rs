//! Other ways to divide an ordered map over modules, on the same contract, to compare with.
//!
//! | | keys are divided | under skew |
//! |---|---|---|
//! | [`range`] | by ranges of equal width, one a module | nothing |
//! | [`Form::JumpPush`] | small nodes, each in a module that a hash of its number names; upper levels in every module | searches of a sorted sample lead the others to their starts, in phases; nodes that many ask for are pulled |
//! | [`Form::PimTree`] | the same with chunks for nodes | a level at a time: commands are pushed to nodes that few ask for, others are pulled |
//!
//! The last two are forms of the originals (Kang et al., "The processing-in-memory model", SPAA 2021, and "PIM-tree",
//! VLDB 2022), made anew from what RADAR (sections II-B and VII) and they describe, not their code: [`tree`] is a B+
//! tree whose nodes are distributed, with small or large nodes. What each leaves out is said there. They promise
//! answers in order, and order of operations on one key; not that a batch is a sequence across keys.
//!
//! Traditional indexes are compared by real time in `cenote-bench`.

mod grow;
mod leaves;
pub mod range;
mod store;
#[cfg(test)]
mod tests;
pub mod tree;

pub use store::NodeStore;
pub use tree::{Form, Tree};

use crate::map::{Answer, Map, MapError, Operation};
use crate::modules::{Counters, Modules};

/// What is compared.
pub trait Index {
    /// Fills an empty index with pairs that ascend.
    ///
    /// # Errors
    /// As for [`Map::load`].
    fn load(&mut self, pairs: &[(u64, u64)]) -> Result<(), MapError>;

    /// Executes a batch. Answers in order.
    ///
    /// # Errors
    /// Modules failed.
    fn execute(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, MapError>;

    /// Totals of the modules.
    fn counters(&self) -> Counters;

    /// Bytes in all modules and on the host.
    fn memory_bytes(&self) -> u64;

    /// What modules had to do in the last batch.
    fn loads(&self) -> &[u64];
}

impl<M: Modules> Index for Map<M> {
    fn load(&mut self, pairs: &[(u64, u64)]) -> Result<(), MapError> {
        self.load(pairs)
    }

    fn execute(&mut self, operations: &[Operation]) -> Result<Vec<Answer>, MapError> {
        self.execute(operations)
    }

    fn counters(&self) -> Counters {
        self.counters()
    }

    fn memory_bytes(&self) -> u64 {
        let bytes = self.memory_bytes();
        bytes.modules + bytes.host
    }

    fn loads(&self) -> &[u64] {
        self.loads()
    }
}
