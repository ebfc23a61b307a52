//! A store with one lock for everything (the shape of Kyoto Cabinet in Soul, section 5), under TPC-C.
//!
//! Layout, undo record, deviations: `docs/protocols/locked-stores.md`. Clauses are those of TPC-C, revision 5.11.
//!
//! | file | concept |
//! |---|---|
//! | `scale` | how large a store is |
//! | `rows` | the columns of each table |
//! | `layout` | where each row is |
//! | `random` | random numbers and texts |
//! | `load` | the first population |
//! | `input` | what terminals ask for |
//! | `transactions/` | the five transactions |
//! | `consistency/` | the conditions of consistency |
//! | `store` | a store under a lock: who repairs it, and when |
//! | `trace` | what transactions touch, for simulators |

mod consistency;
mod input;
mod layout;
mod load;
mod random;
pub mod rows;
mod scale;
mod store;
mod trace;
mod transactions;

pub use consistency::{Condition, Violation};
pub use input::{Input, Kind, Ordered, Terminals, Who};
pub use layout::{District, Layout};
pub use scale::Scale;
pub use store::{Repairs, Store};
pub use trace::{Traced, trace};
pub use transactions::{Output, StatusLine, execute};

#[cfg(test)]
mod testing;
