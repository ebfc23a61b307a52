//! What threads hold of the pool's bytes ([`super::slices`]).

/// A slice that a thread holds, until this is handed back to the run.
#[derive(Debug)]
#[must_use]
pub struct Held(pub(super) Option<(u64, u64)>);

/// What one thread holds.
#[derive(Default)]
pub(super) struct Slices {
    pub pins: u32,
    pub given: Vec<(u64, u64)>,
    pub held: Vec<(u64, u64)>,
}
