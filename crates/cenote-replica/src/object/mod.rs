//! Objects: a record with the log entry of the change that wrote it (FUSEE, section 4.5).
//!
//! | bytes | |
//! |---|---|
//! | 0 to 7 | identity: session and count |
//! | 8 to 15 | kind of the change, whether the value is in [extents](Extent), lengths of key and value |
//! | 16 to 19 | checksum of all but itself and the outcome |
//! | 20 to 23 | 0 |
//! | 24 to 31 | hash of the key: which slots |
//! | 32 to 47 | outcome: its values |
//! | 48 to 55 | outcome: its kind, and a checksum of it with the identity |
//! | 56 to 63 | hash of the key: which segment |
//! | from 64 | key, then value |
//!
//! All but the outcome is written once, in one batch with everything else that the change does first. The outcome is
//! written later, in place, by the client or the master that decides the change.

mod extent;
mod outcome;
mod record;

pub use extent::{EXTENT_HEADER, Extent, LONG_MAX, Table};
pub use outcome::{OUTCOME_AT, OUTCOME_BYTES, OUTCOME_KIND_AT, Outcome};
pub use record::{Identity, KEY_MAX, Kind, Record, VALUE_MAX, bytes_of};
