//! The tests of the Python package, in a virtual environment of their own that has the package installed as a user's
//! would.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::packages::{self, Needed};
use crate::process;

/// What `python3 -m venv` needs, where Debian's Python has come without it.
const VENV: Needed = Needed {
    command: "python3-venv",
    package: "python3-venv",
    purpose: "virtual environments for the tests of the Python package",
};

/// Tests of the package, each with a virtual environment of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// The package by itself.
    Package,
    /// The adapter for LMCache, with the released package, which needs some 8 GB.
    Lmcache,
    /// Handles and the tensor transport in the released Ray, with PyTorch, which needs some 6 GB.
    Ray,
}

impl Suite {
    /// Its folder under `target`.
    fn environment(self) -> &'static str {
        match self {
            Self::Package => "python",
            Self::Lmcache => "python-lmcache",
            Self::Ray => "python-ray",
        }
    }

    /// The folder of its tests, which says what they need.
    fn tests(self) -> &'static str {
        match self {
            Self::Package => "crates/cenote-py/tests",
            Self::Lmcache => "crates/cenote-py/lmcache",
            Self::Ray => "crates/cenote-py/ray",
        }
    }

    /// Within what time its tests end, also with many more kills than they have by default.
    fn limit(self) -> Duration {
        match self {
            Self::Package => process::LIMIT_DEFAULT,
            Self::Lmcache | Self::Ray => 6 * process::LIMIT_DEFAULT,
        }
    }

    /// What is built: speed is looked at in none but those of other packages.
    fn profile(self) -> &'static str {
        match self {
            Self::Package => "dev",
            Self::Lmcache | Self::Ray => "release",
        }
    }
}

/// Installs the package in the virtual environment, and runs the tests.
pub fn run(root: &Path, suite: Suite) -> Result<(), String> {
    let environment: PathBuf = root.join("target").join(suite.environment());
    let python = environment.join("bin/python");
    if !python.is_file() {
        make(&environment)?;
    }
    let pip = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(arguments)
            .env("CARGO_TARGET_DIR", root.join("target"))
            .current_dir(root);
        called(command)
    };
    pip(&["-r", &format!("{}/requirements.txt", suite.tests())])?;
    pip(&[
        "--no-deps",
        "--force-reinstall",
        &format!("--config-settings=build-args=--profile={}", suite.profile()),
        ".",
    ])?;
    let mut tests = Command::new(&python);
    tests
        .args(["-m", "pytest", "-q", suite.tests()])
        .current_dir(root);
    process::run(tests, suite.limit()).map_err(|failure| failure.to_string())
}

/// Makes the virtual environment.
fn make(environment: &Path) -> Result<(), String> {
    let is_so = |test: &str| {
        Command::new("python3")
            .args(["-c", test])
            .status()
            .is_ok_and(|status| status.success())
    };
    if !is_so("import sys; sys.exit(sys.version_info < (3, 11))") {
        return Err(
            "`python3` is not Python 3.11 or newer; install one, and have it first on the path".into(),
        );
    }
    if !is_so("import importlib.util, sys; sys.exit(importlib.util.find_spec('ensurepip') is None)") {
        println!("installed {}", packages::install(&[&VENV])?);
    }
    let mut command = Command::new("python3");
    command.args(["-m", "venv", "--clear"]).arg(environment);
    called(command)
}

fn called(command: Command) -> Result<(), String> {
    process::run(command, process::LIMIT_DEFAULT).map_err(|failure| failure.to_string())
}
