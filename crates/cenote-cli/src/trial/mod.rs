//! What the commands share that put the library on trial with real processes (`torture`, `soak`).
//!
//! | file | |
//! |---|---|
//! | `crew`, `agenda` | worker processes that are started, stopped, killed; what is going to happen, and when |
//! | `control` | what the supervisor tells the workers |
//! | `content` | values that say what they are |
//! | `journal` | what a worker did, outside the pool |
//! | `histogram`, `waits` | how long operations took, and what of it was not their own |
//! | `fault` | what is wrong |

pub mod agenda;
pub mod content;
pub mod control;
pub mod crew;
pub mod fault;
pub mod histogram;
pub mod journal;
pub mod waits;
