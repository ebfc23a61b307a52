//! The tests of the Python package, in a virtual environment of their own that has the package installed as a user's
//! would.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{self, Needed};
use crate::process;

/// What `python3 -m venv` needs, where Debian's Python has come without it.
const VENV: Needed = Needed {
    command: "python3-venv",
    package: "python3-venv",
    purpose: "virtual environments for the tests of the Python package",
};

/// The folder of the virtual environment.
fn environment(root: &Path) -> PathBuf {
    root.join("target/python")
}

/// Installs the package in the virtual environment, built as the other tests are, and runs its tests.
pub fn run(root: &Path) -> Result<(), String> {
    let environment = environment(root);
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
    pip(&["-r", "crates/cenote-py/tests/requirements.txt"])?;
    pip(&[
        "--no-deps",
        "--force-reinstall",
        "--config-settings=build-args=--profile=dev",
        ".",
    ])?;
    let mut tests = Command::new(&python);
    tests.args(["-m", "pytest", "-q"]).current_dir(root);
    called(tests)
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
