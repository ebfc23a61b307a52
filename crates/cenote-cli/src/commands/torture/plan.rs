//! What all processes of a run agree on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::collection::CollectionKind;

/// What all processes of a run agree on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The pool.
    pub pool: PathBuf,
    /// Where journals, logs and the control file are.
    pub folder: PathBuf,
    /// Decides everything that can be decided.
    pub seed: u64,
    /// How many workers there are.
    pub workers: u32,
    /// What kind of memory it is for.
    pub memory: cenote::MemoryKind,
    /// What is tortured.
    pub map: CollectionKind,
    /// A fault to plant.
    pub plant: Option<Plant>,
}

/// A planted fault: a check proves that it can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Plant {
    /// A worker acknowledges a write that it has not done.
    Lose,
    /// A worker writes a value with a wrong byte.
    Tear,
    /// An object is allocated and nothing refers to it.
    Leak,
    /// A worker stops moving.
    Block,
}
