//! Execution: simulated threads are coroutines, every memory operation is a scheduling point, and one operating system thread
//! runs them all. Only the policy's answers decide what happens.
//!
//! A thread that is killed is never resumed: its stack is dropped without running destructors, as `kill -9` runs none.

mod backend;
mod buffer;
mod context;
mod deaths;
mod delegation;
mod futex;
mod kernel;
mod liveness;
mod op;
mod order;
mod regions;
mod reliance;
mod run;
mod slices;
mod traffic;
mod world;

pub use backend::SimMemory;
pub use context::Context;
pub use delegation::Delegation;
pub use futex::Overslept;
pub use op::{Kind, Op};
pub use order::StaleRead;
pub use regions::{Profiled, Region};
pub use reliance::Unreliable;
pub use run::{Body, Crash, Ended, Outcome, Settings, run};
pub use slices::{Held, SliceChanged};
pub use traffic::Traffic;
pub use world::{Event, Stop};
