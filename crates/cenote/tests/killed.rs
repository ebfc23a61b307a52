//! Processes that are killed or stopped: this program starts itself, to be one of them. One program, as each costs a
//! link of the whole library.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

#[cfg(feature = "crash-points")]
mod beside_stopped;
#[cfg(feature = "crash-points")]
mod common;
mod deaths;
mod directory_locks;
mod exchange_waits;
mod groups;
#[cfg(feature = "crash-points")]
mod repairs;
mod space;
#[cfg(feature = "crash-points")]
mod stopped;
#[cfg(feature = "crash-points")]
mod unrecovered;
mod waiting;
