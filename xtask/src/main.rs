//! `cargo xtask`: the chores of the workspace, the same ones for a person and for CI.

#![forbid(unsafe_code)]

mod api;
mod deny;
mod guests;
mod mutants;
mod null_device;
mod packages;
mod process;
mod programs;
mod python;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
The chores of the Cenote workspace.

    cargo xtask tidy      check layers, style, links and PAIRS WITH comments; starts nothing, takes a moment
    cargo xtask api       compare the public interface of the library, without features, with docs/api.txt
        --write           keep it as it is now
    cargo xtask deny      check what is depended on against deny.toml: licences, sources, versions that are there twice
    cargo xtask test      run everything that must pass: formatting, clippy, tidy, dependencies, tests, crash points,
                          elections by a real etcd, the Python package, planted faults, a torture run
        --quick           leave out planted faults, torture, the demo, and test programs that take minutes
        --soak            larger explorations, 20 more torture runs of 60 s each, every one with a seed of its own,
                          and hours of pools that are damaged
        --seed N          the first seed of the torture runs (default 1)
        --lmcache         nothing else but the adapter for LMCache, with the released package (some 8 GB to install)
        --ray             nothing else but handles and the tensor transport in the released Ray (some 6 GB to install)
    cargo xtask mutants   plant faults in the library, one after the other; each must be seen in simulation
        --quick           those that take few seeds
        --only NAME       one of them
        --jobs N          so many at a time (default: one a processor)
        --table           write what was measured to docs/mutants.md
        --json            a JSON object a line
    cargo xtask python    install the Python package in target/python, and run its tests
    cargo xtask guests    two virtual machines (QEMU, no KVM) share a pool: an agent is killed, guests are stopped and switched off
        --quick           one pod instead of four
        --memory ivshmem|dax     how guests see what they share (default: one pod of each)
        --coherent, --noncoherent    the kind of the pool (default: one pod of each)
        --no-control      leave out the pod whose fence lies
        --told            measure only how soon one guest is told of a death in the other: agents that tell each other, and such that look
        --json            a JSON object a line

Exit code: 0 passed, 1 something failed, 2 the command line was not understood.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        None => return help(),
        Some((command, rest)) => (command.as_str(), rest),
    };
    if rest
        .iter()
        .any(|argument| argument == "--help" || argument == "-h")
    {
        return help();
    }
    let root = workspace_root();
    match command {
        "help" | "--help" | "-h" => help(),
        "tidy" if rest.is_empty() => exit_code(tidy::run(&root)),
        "api" if rest.iter().all(|argument| argument == "--write") => {
            exit_code(api::run(&root, !rest.is_empty()))
        }
        "api" => misuse(&format!(
            "`api` takes `--write` or nothing, got `{}`",
            rest.join(" ")
        )),
        "python" if rest.is_empty() => match python::run(&root, python::Suite::Package) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                eprintln!("cargo xtask python: {message}");
                ExitCode::FAILURE
            }
        },
        "python" => misuse(&format!("`python` takes no arguments, got `{}`", rest.join(" "))),
        "deny" if rest.is_empty() => exit_code(deny::run(&root)),
        "deny" => misuse(&format!("`deny` takes no arguments, got `{}`", rest.join(" "))),
        "tidy" => misuse(&format!("`tidy` takes no arguments, got `{}`", rest.join(" "))),
        "test" => match test::Options::parse(rest) {
            Ok(options) => exit_code(test::run(&root, &options)),
            Err(message) => misuse(&message),
        },
        "mutants" => mutants::run(&root, rest),
        "guests" => match guests::Plan::parse(rest) {
            Ok(plan) => guests::run(&root, &plan),
            Err(message) => misuse(&message),
        },
        other => misuse(&format!("no command is called `{other}`")),
    }
}

fn help() -> ExitCode {
    print!("{HELP}");
    ExitCode::SUCCESS
}

fn misuse(message: &str) -> ExitCode {
    eprint!("cargo xtask: {message}\n\n{HELP}");
    ExitCode::from(2)
}

fn exit_code(passed: bool) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The folder above this crate's: asked of cargo first, so that a checkout may move after it was built.
fn workspace_root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
