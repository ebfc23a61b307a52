//! Faults. A worker leaves the fault that it finds in a file; the supervisor finds some itself.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An acknowledged effect is missing, or one that was not wanted is there.
    Lost,
    /// A value is there that was removed, or never written.
    Phantom,
    /// A value that no worker wrote like this.
    Torn,
    /// Anything else that should not be.
    Problem,
}

/// Something that was found to be wrong.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// What kind of thing.
    pub kind: Kind,
    /// The worker that found it.
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

    /// Something is there that should not be.
    pub fn phantom(text: impl Into<String>) -> Self {
        Self::new(Kind::Phantom, text)
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
