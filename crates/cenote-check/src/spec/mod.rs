//! Sequential specifications, one object a file. Each is a state machine on plain values, as short as it can be: who
//! doubts a verdict reads it.

pub mod lock;
pub mod map;
pub mod ordered;
pub mod register;

#[cfg(test)]
mod json_tests;
