//! `cargo xtask mutants`: builds the simulator on a library with planted faults, and has it find them.

use std::path::Path;
use std::process::{Command, ExitCode};

/// Runs the program with our arguments; its exit code is ours.
pub fn run(root: &Path, arguments: &[String]) -> ExitCode {
    let mut command = Command::new(crate::test::cargo());
    command
        .args("run --quiet --release -p cenote-sim --features mutants --bin mutants --".split_whitespace())
        .args(arguments)
        .current_dir(root);
    match command.status() {
        Ok(status) => ExitCode::from(status.code().map_or(1, |code| code.clamp(0, 255) as u8)),
        Err(error) => {
            eprintln!("cargo xtask mutants: cargo could not be started: {error}");
            ExitCode::FAILURE
        }
    }
}
