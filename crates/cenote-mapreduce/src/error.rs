//! What can go wrong.

use std::path::{Path, PathBuf};

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a job could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool.
    #[error(transparent)]
    Pool(#[from] cenote::Error),
    /// A file could not be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The input is not what the workload reads.
    #[error("{}, at byte {at}: {why}", path.display())]
    Input {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        at: u64,
        /// What is wrong.
        why: String,
    },
    /// A setting cannot work.
    #[error("{0}")]
    Setting(&'static str),
    /// A result of an earlier phase is not there, or not what a task of that phase makes.
    #[error("the result of task {task} of phase {phase} is missing or damaged")]
    Result {
        /// Its phase, from 0 on.
        phase: usize,
        /// Its number in the phase.
        task: u64,
    },
    /// The output could not be written.
    #[error("the output: {0}")]
    Output(std::io::Error),
}

impl Error {
    /// For `map_err`: the failure of a system call on a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }

    pub(crate) fn input(path: &Path, at: u64, why: impl Into<String>) -> Self {
        Self::Input {
            path: path.to_owned(),
            at,
            why: why.into(),
        }
    }
}
