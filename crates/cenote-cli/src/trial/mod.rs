//! Shared by the commands that test the library with real processes (`torture`, `soak`).
//!
//! | file | |
//! |---|---|
//! | `crew`, `agenda` | worker processes that are started, stopped, killed; future events and their times |
//! | `control` | commands of the supervisor to the workers |
//! | `content` | values that identify themselves |
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
