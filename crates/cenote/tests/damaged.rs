//! Pools that are damaged, by children that use them. One program, as each costs a link of the whole library.

// Has the library compiled for both memories (`cenote_damage::ALL_CALLS`).
extern crate cenote_damage as _;

mod damage;
mod damage_live;
mod damage_ordered;
mod directory_regions;
