//! Why a command did not do what it was asked: what is printed, and the exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::complaint::complain;
use crate::output::Output;

/// Why a command ended without a result.
#[derive(Debug)]
pub enum Failure {
    /// The command cannot be meant like this; exit code 2.
    Misuse(String),
    /// It was meant well and did not work; exit code 1.
    Failed(String),
    /// The reader of our standard output has gone; exit code 0.
    PipeClosed,
}

impl Failure {
    /// A failure with a text that says what, where and what to do.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// A misuse with a text that says what is wrong and what would be right.
    pub fn misuse(text: impl Into<String>) -> Self {
        Self::Misuse(text.into())
    }

    /// For `map_err`: the failure of a system call on a thing (a file, a process) that is named.
    pub fn io(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Failed(format!("{what}: {error}"))
    }

    /// For `map_err`: the failure of a write to standard output.
    pub fn stdout(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::Failed(format!("standard output: {error}")),
        }
    }

    /// Prints it to standard error: `cenote: …`, or `{"error": …}` with `--json`.
    pub fn report(self, out: &Output) -> ExitCode {
        let (text, code) = match self {
            Self::Misuse(text) => (text, 2),
            Self::Failed(text) => (text, 1),
            Self::PipeClosed => return ExitCode::SUCCESS,
        };
        if out.json {
            complain!("{}", serde_json::json!({ "error": text }));
        } else {
            complain!("cenote: {text}");
        }
        ExitCode::from(code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misuse(text) | Self::Failed(text) => f.write_str(text),
            Self::PipeClosed => f.write_str("standard output was closed"),
        }
    }
}

impl From<cenote_mapreduce::Error> for Failure {
    fn from(error: cenote_mapreduce::Error) -> Self {
        match error {
            cenote_mapreduce::Error::Pool(error) => error.into(),
            cenote_mapreduce::Error::Setting(_) => Self::Misuse(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<cenote_cluster::Error> for Failure {
    fn from(error: cenote_cluster::Error) -> Self {
        match error {
            cenote_cluster::Error::Pool(error) => error.into(),
            cenote_cluster::Error::Address(_) | cenote_cluster::Error::NoSuchMap(_) => {
                Self::Misuse(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<cenote::Error> for Failure {
    fn from(error: cenote::Error) -> Self {
        match error {
            cenote::Error::InvalidOption { .. }
            | cenote::Error::InvalidName { .. }
            | cenote::Error::OtherPlan { .. }
            | cenote::Error::OutOfRange { .. } => Self::Misuse(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<cenote::remote::ConnectError> for Failure {
    fn from(error: cenote::remote::ConnectError) -> Self {
        match error {
            cenote::remote::ConnectError::Lease(_) => Self::Misuse(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<cenote::remote::Error> for Failure {
    fn from(error: cenote::remote::Error) -> Self {
        match error {
            cenote::remote::Error::InvalidName { .. } => Self::Misuse(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}
