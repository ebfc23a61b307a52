//! Which worker a child process is to be, and how it is started.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The commands that start worker processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Upserts the records that arrive on standard input.
    Load,
    /// Runs its share of a workload.
    Bench,
    /// Writes and journals until it is killed.
    Torture,
    /// Calls a cluster and says so until it is killed.
    Client,
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
            Self::Client => "client",
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
