//! What all processes of a run agree on, how the supervisor speaks to the workers, and what a fault is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::map::MapKind;

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
    pub memory: cenote::Kind,
    /// What the maps are.
    pub map: MapKind,
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

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An acknowledged effect is missing, or one that was not wanted is there.
    Lost,
    /// A value that nobody wrote like this.
    Torn,
    /// Anything else that should not be.
    Problem,
}

/// Something that was found to be wrong.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// What kind of thing.
    pub kind: Kind,
    /// Who found it.
    pub found_by: String,
    /// What exactly.
    pub text: String,
}

impl Fault {
    fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self {
            kind,
            found_by: String::new(),
            text: text.into(),
        }
    }

    /// An effect is missing.
    pub fn lost(text: impl Into<String>) -> Self {
        Self::new(Kind::Lost, text)
    }

    /// A value is torn.
    pub fn torn(text: impl Into<String>) -> Self {
        Self::new(Kind::Torn, text)
    }

    /// Something else.
    pub fn problem(text: impl Into<String>) -> Self {
        Self::new(Kind::Problem, text)
    }

    /// Where a worker leaves the fault that it found.
    pub fn path(folder: &Path, worker: u32) -> PathBuf {
        folder.join(format!("fault-{worker}.json"))
    }
}

impl From<cenote::Error> for Fault {
    fn from(error: cenote::Error) -> Self {
        Self::problem(error.to_string())
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::problem(format!("the run's own files: {error}"))
    }
}

/// What the supervisor tells the workers: a file of words. The first says that they shall end; the others count, for
/// each worker, how often it was stopped for a while.
pub struct Control {
    file: File,
    worker: u32,
    stops: u64,
}

impl Control {
    /// Makes the file.
    pub fn create(folder: &Path, workers: u32) -> io::Result<Self> {
        let file = File::create_new(folder.join("control"))?;
        file.set_len(8 + 8 * u64::from(workers))?;
        Ok(Self {
            file,
            worker: 0,
            stops: 0,
        })
    }

    /// Opens it as a worker.
    pub fn open(folder: &Path, worker: u32) -> io::Result<Self> {
        let mut control = Self {
            file: File::open(folder.join("control"))?,
            worker,
            stops: 0,
        };
        control.was_stopped();
        Ok(control)
    }

    fn read(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        let _ = self.file.read_exact_at(&mut word, at);
        u64::from_le_bytes(word)
    }

    /// Tells all workers to end.
    pub fn end(&self) -> io::Result<()> {
        self.file.write_all_at(&1u64.to_le_bytes(), 0)
    }

    /// Says that a worker is about to be stopped for a while.
    pub fn announce_stop(&self, worker: u32, count: u64) -> io::Result<()> {
        self.file
            .write_all_at(&count.to_le_bytes(), 8 + 8 * u64::from(worker))
    }

    /// Whether this worker shall end.
    pub fn shall_end(&self) -> bool {
        self.read(0) != 0
    }

    /// Whether this worker was stopped since the last call.
    pub fn was_stopped(&mut self) -> bool {
        let stops = self.read(8 + 8 * u64::from(self.worker));
        std::mem::replace(&mut self.stops, stops) != stops
    }
}
