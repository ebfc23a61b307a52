//! Traces of caches: recorded ones that are read, and synthetic ones that are drawn.
//!
//! - [`Reader`] reads [`Record`]s: Twitter's CSV, and the plain forms of libCacheSim; plain, by gzip or by Zstandard.
//! - [`operations`] makes [`Step`]s on keys of 8 bytes of them; [`synthetic`] draws such steps without any file.
//! - [`Synthetic::records`] draws whole records, which [`write_line`] writes as Twitter's CSV; [`Preset`] imitates
//!   published figures of Twitter's clusters.
//! - [`Summary`] says what a trace is like.
//!
//! ```
//! use cenote_ycsb::trace::{Action, Format, Reader, Synthetic, operations, synthetic};
//!
//! let trace = "1583990400,nz:u:eeW5,12,230,7,get,0\n1583990400,nz:u:eeW5,12,230,7,set,60\n";
//! let reader = Reader::new(Box::new(trace.as_bytes()), &Format::Twitter, "sample");
//! let steps: Vec<_> = operations(reader).collect::<Result<_, _>>()?;
//! assert_eq!((steps[0].action, steps[1].action), (Action::Read, Action::Write));
//! assert_eq!(steps[0].key, steps[1].key);
//!
//! let spec = Synthetic { operations: 1_000, reads: 0.5, ..Synthetic::default() };
//! // The share of the first of 144 threads.
//! assert_eq!(synthetic(&spec.for_worker(0, 144))?.count(), 7);
//! # Ok::<(), cenote_ycsb::trace::Error>(())
//! ```

mod bounded;
mod columns;
mod error;
mod fit;
mod lines;
mod plain;
mod presets;
mod reader;
mod record;
mod sizes;
mod summary;
mod synthetic;
mod twitter;
mod unpack;

pub use bounded::{Bound, Bounded};
pub use columns::Columns;
pub use error::Error;
pub use fit::{Fit, fit};
pub use plain::UNKNOWN_VALUE_SIZE;
pub use presets::{PRESETS, Preset};
pub use reader::{Format, Reader, operations};
pub use record::{Action, Operation, Record, Step};
pub use sizes::{SIZE_MAX, Shape, Sizes};
pub use summary::Summary;
pub use synthetic::{Records, Stream, Synthetic, synthetic};
pub use twitter::write_line;
pub use unpack::Packing;
