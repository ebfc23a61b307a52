//! What the hash map, the ordered map and the indexes made for comparison have in common. It uses none of them.

pub mod count;
pub mod guidelines;
pub(crate) mod kind;
pub mod outcome;
pub mod pair;
pub mod value;
