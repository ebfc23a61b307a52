//! One replicated word.
//!
//! | file | |
//! |---|---|
//! | [`value`] | what the words of the index mean |
//! | [`rules`] | who has won a round |
//! | [`snapshot`] | reading and writing a word |

pub mod rules;
pub mod snapshot;
pub mod value;
