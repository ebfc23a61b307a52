//! `cenote worker ROLE …` (hidden): what the child processes of other commands run.

use std::process::ExitCode;

use crate::failure::Failure;
use crate::role::Role;

/// Which command's worker, and its arguments.
#[derive(clap::Args)]
pub struct Args {
    #[arg(value_enum)]
    role: Role,
    /// Whatever the role understands
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs a worker.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.role {
        Role::Load => super::load::worker(args.args),
        Role::Bench => super::bench::worker(args.args),
        Role::Torture => super::torture::worker(args.args),
        Role::Client => super::torture::client::run(&args.args),
        Role::Damage => super::torture::damage::worker(&args.args),
        Role::Soak => super::soak::worker(args.args),
        Role::Demo => super::demo::worker(args.args),
        Role::Mapreduce => super::mapreduce::worker(args.args),
        Role::Detection => cenote_sim::detection::part(&args.args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Failure::failed(error.to_string())),
    }
}
