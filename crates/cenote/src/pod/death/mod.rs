//! Noticing deaths at once, and notifying other hosts. Page: `docs/protocols/detection.md`.

pub mod relay;
pub mod watch;
