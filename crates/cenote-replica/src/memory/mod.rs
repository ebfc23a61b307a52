//! Memory on two levels (FUSEE, section 4.4): nodes hand out blocks, clients cut them into objects.
//!
//! | file | |
//! |---|---|
//! | [`block`] | how a block is cut, and where it says which of its objects are free |
//! | [`heap`] | a client's blocks, its free objects, and those that it has retired |

pub mod block;
pub mod heap;
