//! Figures of the papers again: the paper's numbers, ours, and their ratio.
//!
//! Ours are of one of two [origins](Origin), and every table, file and chart says of which. *Simulated*: code runs on
//! [`SimMemory`](crate::exec::SimMemory) under a profile and reads its virtual clock, as code on the paper's machine
//! reads a real one. Where a profile's number was taken from the very figure, a ratio of 1 shows only that the model
//! gives back its input; a figure's notes say which rows these are. *Measured*: code runs on this machine and reads its
//! clock.
//!
//! **Limits.** The paper's numbers are those that its text or tables give. None were read off a picture.

mod bars;
mod chart;
mod contention;
mod counting;
pub mod curves;
mod drawing;
mod fusee;
mod lupin_detection;
mod lupin_hosts;
mod lupin_table2;
mod lupin_table3;
mod lupin_table4;
mod machine;
mod measure;
mod panels;
mod pcc_fig12;
mod pcc_fig13;
mod pcc_fig15;
mod pcc_fig5;
mod pcc_gc;
mod pcc_table1;
mod pcc_table2;
mod radar;
pub mod sensitivity;
mod soul_costs;
mod soul_fig10;
mod soul_fig11;
mod soul_fig7;
mod soul_fig8;
mod soul_fig9;
mod sweep;
mod table;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::exec::Ended;
use crate::lock_runs::LockRunError;
use crate::near_runs::{NearRunError, TextError};
use crate::profile::ProfileError;
use crate::replica_runs::RunError;
use crate::throughput::ThroughputError;

pub use measure::{Measured, Place, measure};

/// A figure of a paper, reproduced.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is called here.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where the paper has it.
    pub source: &'static str,
    /// Where our numbers come from.
    pub origin: Origin,
    /// Under which conditions.
    pub conditions: &'static str,
    /// What its chart shows.
    pub charted: Charted,
    /// All numbers.
    pub rows: Vec<Row>,
    /// What a reader must know to judge them.
    pub notes: Vec<&'static str>,
}

/// Where numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// From a virtual clock.
    Simulated,
    /// From this machine's.
    Measured,
}

impl Origin {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Measured => "measured",
        }
    }
}

/// What a figure's chart shows; its table has the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Charted {
    /// A quantity over the number of threads, a curve for each case. The table has a line for each number.
    Threads(Quantity),
    /// A quantity over the number of threads, in a panel for each workload. The table has a line for each case of each.
    Panels(Quantity),
    /// The same over something else than threads.
    Over {
        /// What.
        quantity: Quantity,
        /// Over what: the rows have its values in the place of threads.
        axis: &'static str,
    },
    /// Two quantities, with bars for each case. The table has a line for each case.
    Cases([Quantity; 2]),
}

impl Charted {
    /// What numbers are over.
    fn axis(self) -> &'static str {
        match self {
            Self::Over { axis, .. } => axis,
            Self::Threads(_) | Self::Panels(_) | Self::Cases(_) => "threads",
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantity {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
}

/// One number of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The panel of the chart, if there are several; else empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub panel: &'static str,
    /// What was done, on which profile.
    pub case: &'static str,
    /// By how many threads at once.
    pub threads: u32,
    /// What of it was measured.
    pub quantity: Quantity,
    /// The paper's number, if it gives one; the least, if it gives a range.
    pub paper: Option<f64>,
    /// The greatest, if it gives a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper_most: Option<f64>,
    /// Ours; none if the case is not built.
    pub ours: Option<f64>,
    /// Ours over the paper's.
    pub ratio: Option<f64>,
}

impl Row {
    fn new(
        case: &'static str,
        threads: u32,
        quantity: Quantity,
        paper: Option<f64>,
        ours: impl Into<Option<f64>>,
    ) -> Self {
        let ours = ours.into();
        Self {
            panel: "",
            paper_most: None,
            case,
            threads,
            quantity,
            paper,
            ours,
            ratio: paper.zip(ours).map(|(paper, ours)| ours / paper),
        }
    }

    /// The same in a panel of its own.
    fn of(mut self, panel: &'static str) -> Self {
        self.panel = panel;
        self
    }

    /// A number for which the paper has a range: there is no ratio of the two.
    fn in_range(case: &'static str, threads: u32, quantity: Quantity, paper: [f64; 2], ours: f64) -> Self {
        Self {
            paper_most: Some(paper[1]),
            ratio: None,
            ..Self::new(case, threads, quantity, Some(paper[0]), ours)
        }
    }
}

/// Files that a figure was written to.
#[derive(Clone, Debug, Serialize)]
pub struct Files {
    /// All numbers.
    pub json: PathBuf,
    /// The chart.
    pub svg: PathBuf,
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// No figure has this name.
    #[error("there is no figure {name:?}; give all, or some of {}", names().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// A figure is about what was not built.
    #[error("{name} is about the model of hotness, which was not built: build with `--features hotness`")]
    NotBuilt {
        /// Which figure.
        name: String,
    },
    /// A figure is about a text, and there is none.
    #[error("{name} is about the words of a text: give a file, or a folder of files that end in .txt")]
    NoText {
        /// Which figure.
        name: String,
    },
    /// The text cannot be used.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A profile is not what it should be.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A pool could not be made, or an operation on it failed.
    #[error("{name}: {error}")]
    Pool {
        /// Which figure.
        name: &'static str,
        /// Why.
        error: String,
    },
    /// Deaths could not be measured.
    #[error("{name}: {error}")]
    Detection {
        /// Which figure.
        name: &'static str,
        /// Why.
        error: crate::detection::DetectionError,
    },
    /// A simulated run went wrong.
    #[error(transparent)]
    Throughput(#[from] ThroughputError),
    /// A simulated run of stores on memory nodes went wrong.
    #[error(transparent)]
    Stores(#[from] RunError),
    /// A simulated run of locks went wrong.
    #[error(transparent)]
    Locks(#[from] LockRunError),
    /// A simulated run of the near-memory map went wrong.
    #[error(transparent)]
    Near(#[from] NearRunError),
    /// A simulated run came to no end.
    #[error("the simulated run ended before its threads: {0:?}")]
    Run(Ended),
    /// A chart could not be drawn.
    #[error("{name}: the chart cannot be drawn: {error}")]
    Chart {
        /// Which figure.
        name: &'static str,
        /// Why.
        error: String,
    },
    /// A file could not be written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// Is called with how many runs are done, of how many.
pub type Progress<'p> = &'p (dyn Fn(usize, usize) + Sync);

type Make = fn(&Path, Progress<'_>) -> Result<Figure, ReproduceError>;

const FIGURES: &[(&str, Make)] = &[
    (pcc_table1::NAME, |folder, _| pcc_table1::make(folder)),
    (pcc_fig5::NAME, |_, _| pcc_fig5::make()),
    (pcc_fig12::NAME, |_, _| pcc_fig12::make()),
    (pcc_fig13::USUAL.name, |_, progress| {
        pcc_fig13::make(&pcc_fig13::USUAL, progress)
    }),
    (pcc_fig13::LARGE.name, |_, progress| {
        pcc_fig13::make(&pcc_fig13::LARGE, progress)
    }),
    (pcc_fig15::NAME, |_, progress| pcc_fig15::make(progress)),
    (pcc_gc::NAME, |_, progress| pcc_gc::make(progress)),
    (pcc_table2::NAME, |_, progress| pcc_table2::make(progress)),
    (lupin_table3::NAME, |_, progress| lupin_table3::make(progress)),
    (lupin_table4::NAME, |_, progress| lupin_table4::make(progress)),
    (lupin_table2::NAME, |_, progress| lupin_table2::make(progress)),
    (lupin_detection::NAME, lupin_detection::make),
    (machine::NAME, machine::make),
    (contention::NAME, |_, progress| contention::make(progress)),
    (soul_fig7::NAME, |_, progress| soul_fig7::make(progress)),
    (soul_fig8::NAME, |_, progress| soul_fig8::make(progress)),
    (soul_fig9::NAME, |_, progress| soul_fig9::make(progress)),
    (soul_costs::NAME, |_, progress| soul_costs::make(progress)),
    (soul_fig10::NAME, |_, progress| soul_fig10::make(progress)),
    (soul_fig11::NAME, |_, progress| soul_fig11::make(progress)),
    (fusee::latency::NAME, |_, progress| {
        fusee::latency::make(fusee::USUAL, progress)
    }),
    (fusee::micro::NAME, |_, progress| {
        fusee::micro::make(fusee::USUAL, progress)
    }),
    (fusee::sizes::NAME, |_, progress| {
        fusee::sizes::make(fusee::USUAL, progress)
    }),
    (fusee::ycsb::NAME, |_, progress| {
        fusee::ycsb::make(fusee::USUAL, progress)
    }),
    (fusee::costs::NAME, |_, progress| {
        fusee::costs::make(fusee::USUAL, progress)
    }),
    (fusee::nodes::NAME, |_, progress| {
        fusee::nodes::make(fusee::USUAL, progress)
    }),
    (fusee::ratio::NAME, |_, progress| {
        fusee::ratio::make(fusee::USUAL, progress)
    }),
    (fusee::threshold::NAME, |_, progress| {
        fusee::threshold::make(fusee::USUAL, progress)
    }),
    (fusee::allocation::NAME, |_, progress| {
        fusee::allocation::make(fusee::USUAL, progress)
    }),
    (fusee::copies::NAME, |_, progress| {
        fusee::copies::make(fusee::USUAL, progress)
    }),
    (fusee::crash::NAME, |_, progress| {
        fusee::crash::make(fusee::USUAL, progress)
    }),
    (fusee::elasticity::NAME, |_, progress| {
        fusee::elasticity::make(fusee::USUAL, progress)
    }),
    (fusee::recovery::NAME, |_, progress| {
        fusee::recovery::make(fusee::USUAL, progress)
    }),
    #[cfg(feature = "hotness")]
    (radar::hotness::ACCURACY, |_, progress| {
        radar::hotness::accuracy(progress)
    }),
    #[cfg(feature = "hotness")]
    (radar::hotness::THROUGHPUT, |_, progress| {
        radar::hotness::throughput(progress)
    }),
    (radar::operations::NAME, |_, progress| {
        radar::operations::make(progress)
    }),
    (radar::overheads::NAME, |_, progress| {
        radar::overheads::make(progress)
    }),
    (radar::ycsb::NAME, |_, progress| radar::ycsb::make(progress)),
    (radar::memory::NAME, |_, progress| radar::memory::make(progress)),
];

/// Figures that were not built, as they need a feature.
pub const NOT_BUILT: &[&str] = if cfg!(feature = "hotness") {
    &[]
} else {
    &["radar/fig8", "radar/fig9"]
};

/// The names of all figures that were built.
pub fn names() -> Vec<&'static str> {
    let names = FIGURES.iter().map(|(name, _)| *name);
    names.chain([radar::text::NAME]).collect()
}

/// Whether a figure is about a text, which has to be given.
pub fn needs_text(name: &str) -> bool {
    name == radar::text::NAME
}

/// Runs what a figure shows. What is measured makes its pools in a folder, which should be in memory, and removes them
/// if it comes to its end. A figure about a text reads it: a file, or a folder of files that end in `.txt`.
pub fn make(
    name: &str,
    folder: &Path,
    text: Option<&Path>,
    progress: Progress<'_>,
) -> Result<Figure, ReproduceError> {
    if needs_text(name) {
        let missing = || ReproduceError::NoText {
            name: name.to_owned(),
        };
        return radar::text::make(text.ok_or_else(missing)?, progress);
    }
    match FIGURES.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => make(folder, progress),
        None if NOT_BUILT.contains(&name) => Err(ReproduceError::NotBuilt {
            name: name.to_owned(),
        }),
        None => Err(ReproduceError::Unknown {
            name: name.to_owned(),
        }),
    }
}

impl Figure {
    /// Where its numbers come from and under which conditions, for people.
    fn provenance(&self) -> String {
        format!("{} {}", self.origin.name(), self.conditions)
    }

    /// The numbers that the paper has too, as text.
    pub fn table(&self) -> String {
        table::text(self)
    }

    /// Writes the numbers and the chart to files of the figure's name in a folder, which is made if it is missing.
    pub fn save(&self, folder: &Path) -> Result<Files, ReproduceError> {
        self.save_by(folder, write)
    }

    /// The same, where `write` writes each file.
    pub fn save_by<E: From<ReproduceError>>(
        &self,
        folder: &Path,
        write: impl Fn(&Path, &str) -> Result<(), E>,
    ) -> Result<Files, E> {
        let files = Files {
            json: folder.join(format!("{}.json", self.name)),
            svg: folder.join(format!("{}.svg", self.name)),
        };
        let numbers = serde_json::to_string_pretty(self).map_err(|error| ReproduceError::File {
            path: files.json.clone(),
            error: error.into(),
        })?;
        write(&files.json, &(numbers + "\n"))?;
        write(&files.svg, &chart::svg(self)?)?;
        Ok(files)
    }
}

fn write(path: &Path, text: &str) -> Result<(), ReproduceError> {
    let done = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(path, text));
    done.map_err(|error| ReproduceError::File {
        path: path.to_owned(),
        error,
    })
}
