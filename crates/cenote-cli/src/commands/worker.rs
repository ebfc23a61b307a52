//! `cenote worker ROLE …` (hidden): what the child processes of other commands run.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::failure::Failure;

/// Which command's worker, and its arguments.
#[derive(clap::Args)]
pub struct Args {
    #[arg(value_enum)]
    role: Role,
    /// Whatever the role understands
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// The commands that start worker processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Upserts the records that arrive on standard input.
    Load,
    /// Runs its share of a workload.
    Bench,
    /// Writes and journals until it is killed.
    Torture,
    /// Uses a pool while it is damaged.
    Damage,
    /// Goes through the phases of a long run.
    Soak,
    /// Indexes its share of the demo's data.
    Demo,
    /// Does tasks of a job until all are done.
    Mapreduce,
    /// Plays a part where deaths are measured.
    Detection,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Bench => "bench",
            Self::Torture => "torture",
            Self::Damage => "damage",
            Self::Soak => "soak",
            Self::Demo => "demo",
            Self::Mapreduce => "mapreduce",
            Self::Detection => "detection",
        }
    }

    /// A command that starts this very program as a worker of this role.
    ///
    /// The program is found through `/proc/self/exe`, so that it is the same one even if its file was replaced.
    pub fn command(self, args: impl IntoIterator<Item = String>) -> Command {
        let mut command = Command::new("/proc/self/exe");
        crate::pool::hand_on(&mut command);
        command.arg0("cenote").arg("worker").arg(self.name()).args(args);
        command
    }
}

/// Runs a worker.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.role {
        Role::Load => super::load::worker(args.args),
        Role::Bench => super::bench::worker(args.args),
        Role::Torture => super::torture::worker(args.args),
        Role::Damage => super::torture::damage::worker(&args.args),
        Role::Soak => super::soak::worker(args.args),
        Role::Demo => super::demo::worker(args.args),
        Role::Mapreduce => super::mapreduce::worker(args.args),
        Role::Detection => cenote_sim::detection::part(&args.args)
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Failure::failed(error.to_string())),
    }
}
