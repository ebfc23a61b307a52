//! Checkers: those of crate [`cenote_check`], and one of the library's own locks.

pub mod notified;

pub use cenote_check::*;
