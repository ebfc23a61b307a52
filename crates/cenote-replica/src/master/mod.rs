//! What is done when somebody has failed.
//!
//! | file | |
//! |---|---|
//! | [`equalise`] | completes or undoes what was going on in regions that were closed |

pub mod equalise;
