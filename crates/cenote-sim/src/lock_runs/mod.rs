//! Threads of many nodes that share locks and the data under them, on a simulated network: how often they get them, how
//! long it takes, and how many coherence transactions. Every run checks what it measures: a thread that has a lock must
//! find what the last writer left.
//!
//! | file | concept |
//! |---|---|
//! | `scheme` | the locks that are compared |
//! | `work` | which locks threads want |
//! | `script` | what recorded transactions did under a lock, and its lines on a network |
//! | `outcome` | what a run has found |
//! | `plan` | a run |

mod outcome;
mod plan;
mod scheme;
mod script;
mod work;

#[cfg(test)]
mod tests;

pub use outcome::Outcome;
pub use plan::{LockRunError, Plan, measure};
pub use scheme::Scheme;
pub use script::{Script, Transaction};
pub use work::Work;
