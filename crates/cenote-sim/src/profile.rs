//! What things cost on a simulated machine.

/// A profile.
#[derive(Clone, Debug)]
pub struct Profile;
