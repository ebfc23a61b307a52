//! The workloads. Each is a job made from an input file and a few settings, the same in every process.

mod blackscholes;
mod dedup;
mod histogram;
mod kmeans;
mod matrix;
mod wordcount;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::input::Input;
use crate::job::Job;

pub use dedup::undedup;
pub(crate) use {kmeans::MAGIC as POINTS_MAGIC, matrix::MAGIC as MATRIX_MAGIC};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// How often each word occurs in a text.
    Wordcount,
    /// Points in clusters, by Lloyd's iterations.
    Kmeans,
    /// The product of two matrices.
    Matrix,
    /// How often each value of each colour occurs in an image.
    Histogram,
    /// Prices of European options, by the formula of Black and Scholes.
    Blackscholes,
    /// An archive in which no content is twice.
    Dedup,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Wordcount,
        Self::Kmeans,
        Self::Matrix,
        Self::Histogram,
        Self::Blackscholes,
        Self::Dedup,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wordcount => "wordcount",
            Self::Kmeans => "kmeans",
            Self::Matrix => "matrix",
            Self::Histogram => "histogram",
            Self::Blackscholes => "blackscholes",
            Self::Dedup => "dedup",
        }
    }
}

/// A job's settings: all its processes must have the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// What is done.
    pub workload: Workload,
    /// To which file.
    pub input: PathBuf,
    /// How much of it a task does: bytes of a text, of an image's pixels and of a list of options; points; rows of a
    /// matrix; blocks of 1 MiB to be deduplicated. The output does not depend on it.
    pub grain: u64,
    /// Tasks that put the results of others together, where there are several.
    pub parts: u64,
    /// Clusters.
    pub clusters: u32,
    /// Iterations of k-means at most; it ends sooner if nothing changes.
    pub iterations: u32,
    /// How often each option is priced; as a benchmark, as one pricing is less work than reading its line.
    pub rounds: u32,
}

impl Spec {
    /// A workload on a file, with the settings that nothing was said about.
    pub fn new(workload: Workload, input: PathBuf) -> Self {
        let grain = match workload {
            Workload::Wordcount | Workload::Histogram => 1 << 20,
            Workload::Blackscholes => 64 << 10,
            Workload::Kmeans => 1 << 14,
            Workload::Matrix => 4,
            Workload::Dedup => 1,
        };
        Self {
            workload,
            input,
            grain,
            parts: 16,
            clusters: 16,
            iterations: 10,
            rounds: 100,
        }
    }
}

/// Makes a job of its settings. Reads the input's header, and checks both.
pub fn open(spec: &Spec) -> Result<Box<dyn Job>> {
    if spec.grain == 0 || spec.parts == 0 {
        return Err(Error::Setting(
            "a task does at least something, and results have at least one part",
        ));
    }
    let input = Input::open(&spec.input)?;
    Ok(match spec.workload {
        Workload::Wordcount => Box::new(wordcount::WordCount::new(input, spec.grain, spec.parts)?),
        Workload::Kmeans => Box::new(kmeans::KMeans::new(
            input,
            spec.grain,
            spec.clusters,
            spec.iterations,
        )?),
        Workload::Matrix => Box::new(matrix::Product::new(input, spec.grain)?),
        Workload::Histogram => Box::new(histogram::Histogram::new(input, spec.grain)?),
        Workload::Blackscholes => Box::new(blackscholes::Prices::new(input, spec.grain, spec.rounds)?),
        Workload::Dedup => Box::new(dedup::Dedup::new(input, spec.grain, spec.parts)?),
    })
}
