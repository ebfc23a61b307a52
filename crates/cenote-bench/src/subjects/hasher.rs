//! The hashers with which the maps of one process are measured.
//!
//! The fastest sensible one is measured by default; `--all` adds the others. Not sensible would be none at all (the
//! benchmark's keys are mixed already, but an application's are not).

use std::hash::BuildHasher;

/// A hasher and its name.
pub trait Hasher: BuildHasher + Clone + Default {
    /// The name, for a subject's form.
    const NAME: &'static str;
}

impl Hasher for foldhash::fast::RandomState {
    const NAME: &'static str = "foldhash";
}

impl Hasher for ahash::RandomState {
    const NAME: &'static str = "ahash";
}

impl Hasher for rustc_hash::FxBuildHasher {
    const NAME: &'static str = "fxhash";
}

impl Hasher for std::hash::RandomState {
    const NAME: &'static str = "SipHash, the default";
}
