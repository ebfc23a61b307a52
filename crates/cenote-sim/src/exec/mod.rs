//! Execution: simulated threads are coroutines, every memory operation is a scheduling point, and one operating system
//! thread runs them all. Only the policy's answers decide what happens.
//!
//! A thread that is killed is never resumed: its stack is dropped without running destructors, as `kill -9` runs none.

mod backend;
mod buffer;
mod context;
mod crash;
mod deaths;
mod delegation;
mod futex;
mod held;
mod kernel;
mod liveness;
mod op;
mod order;
mod regions;
mod reliance;
mod run;
mod server;
mod sleeper;
mod slices;
mod stop;
mod store_buffer;
mod traffic;
mod visibility;
mod world;

pub use backend::SimMemory;
pub use context::{Body, Context};
pub use crash::Crash;
pub use delegation::Delegation;
pub use held::Held;
pub use op::{Kind, Op};
pub use regions::{Profiled, Region};
pub use run::{Ended, Outcome, Settings, run};
pub use stop::{Overslept, SliceChanged, StaleRead, Stop, Unreliable};
pub use traffic::Traffic;
pub use world::Event;
