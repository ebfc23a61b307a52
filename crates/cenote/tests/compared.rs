//! The indexes made for comparison. One program, as each costs a link of the whole library.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

mod baseline;
mod common;
mod messages;
mod sherman;
