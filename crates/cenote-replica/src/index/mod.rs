//! The index: segments of replicated words, by RACE hashing (Zuo et al., USENIX ATC 2021) with a split of our own.
//!
//! | file | |
//! |---|---|
//! | [`layout`] | where the words of a segment are, and which of them a key may use |
//! | [`candidates`] | what a client has seen of a key's words |

pub mod candidates;
pub mod layout;
