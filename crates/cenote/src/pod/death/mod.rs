//! Noticing deaths at once, and telling other hosts. Page: `docs/protocols/detection.md`.

pub mod relay;
pub mod watch;
