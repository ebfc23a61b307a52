//! The worker processes of a run: the supervisor starts, stops and kills them, and notices when one ends by itself.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use super::control::Control;
use super::fault::Fault;
use super::waits::Life;
use crate::complaint::complain;
use crate::failure::Failure;
use crate::role::Role;

/// A worker's place, and the process that has it, if there is one now.
struct Member {
    child: Option<Child>,
    incarnation: u32,
    is_stopped: bool,
    stops: u64,
    /// Whether we killed it, so that its end is no surprise.
    is_killed: bool,
}

/// When a worker was to move, and what its process had spent its life with by then.
#[derive(Clone, Copy)]
pub struct Since {
    at: Instant,
    life: Life,
}

/// All workers of a run. Their processes do not outlive it.
pub struct Crew {
    role: Role,
    folder: PathBuf,
    control: Control,
    members: Vec<Member>,
}

impl Crew {
    /// No worker is started yet. Logs, faults and the control file lie in the folder.
    pub fn new(role: Role, folder: &Path, workers: u32) -> Result<Self, Failure> {
        let member = |_| Member {
            child: None,
            incarnation: 0,
            is_stopped: false,
            stops: 0,
            is_killed: false,
        };
        Ok(Self {
            role,
            folder: folder.to_owned(),
            control: Control::create(folder, workers).map_err(Failure::io(folder.display()))?,
            members: (0..workers).map(member).collect(),
        })
    }

    fn member(&self, worker: u32) -> &Member {
        &self.members[worker as usize]
    }

    /// The commands to the workers.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// How many processes of this number there were before.
    pub fn incarnation(&self, worker: u32) -> u32 {
        self.member(worker).incarnation
    }

    /// The process of a worker, if there is one that was not reaped.
    pub fn pid(&self, worker: u32) -> Option<u32> {
        self.member(worker).child.as_ref().map(Child::id)
    }

    /// Whether there is a process that should be moving.
    pub fn is_at_work(&self, worker: u32) -> bool {
        let member = self.member(worker);
        member.child.is_some() && !member.is_stopped && !member.is_killed
    }

    /// Those that should be moving.
    pub fn at_work(&self) -> Vec<u32> {
        (0..self.members.len() as u32)
            .filter(|worker| self.is_at_work(*worker))
            .collect()
    }

    /// Whether it is stopped.
    pub fn is_stopped(&self, worker: u32) -> bool {
        self.member(worker).is_stopped
    }

    /// Whether a process is there, not killed, and still this incarnation.
    pub fn is(&self, worker: u32, incarnation: u32) -> bool {
        let member = self.member(worker);
        member.child.is_some() && member.incarnation == incarnation && !member.is_killed
    }

    /// Starts a worker with its orders.
    pub fn start(&mut self, worker: u32, orders: &impl serde::Serialize) -> Result<(), Failure> {
        let orders = serde_json::to_string(orders).map_err(|error| Failure::failed(error.to_string()))?;
        let log = self.folder.join(format!("log-{worker}"));
        let log = File::options()
            .append(true)
            .create(true)
            .open(&log)
            .map_err(Failure::io(log.display()))?;
        let mut command = self.role.command([orders]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command
            .spawn()
            .map_err(Failure::io("starting a worker process"))?;
        let member = &mut self.members[worker as usize];
        member.child = Some(child);
        (member.is_killed, member.is_stopped) = (false, false);
        Ok(())
    }

    fn signal(&self, worker: u32, signal: Signal) {
        if let Some(child) = &self.member(worker).child {
            // It was not waited for yet, so that its id is still its own. It may have ended.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// Stops a worker, and tells it that an operation that takes long now is no fault.
    pub fn stop(&mut self, worker: u32) -> Result<(), Failure> {
        let member = &mut self.members[worker as usize];
        (member.is_stopped, member.stops) = (true, member.stops + 1);
        self.control
            .announce_stop(worker, member.stops)
            .map_err(Failure::io("the control file"))?;
        self.signal(worker, Signal::STOP);
        Ok(())
    }

    /// Lets a stopped worker go on.
    pub fn resume(&mut self, worker: u32) {
        self.signal(worker, Signal::CONT);
        self.members[worker as usize].is_stopped = false;
    }

    /// Kills a worker; false if it was killed or had ended before.
    pub fn kill(&mut self, worker: u32) -> bool {
        let member = &mut self.members[worker as usize];
        let dies = member.child.is_some() && !member.is_killed;
        if dies {
            member.is_killed = true;
            self.signal(worker, Signal::KILL);
        }
        dies
    }

    /// Takes note of processes that have ended: their workers, and what is wrong if they were neither killed nor asked
    /// to end.
    pub fn reap(&mut self) -> Vec<(u32, Option<Fault>)> {
        let mut ended = Vec::new();
        for worker in 0..self.members.len() as u32 {
            let member = &mut self.members[worker as usize];
            let Some(Ok(Some(status))) = member.child.as_mut().map(Child::try_wait) else {
                continue;
            };
            member.child = None;
            member.incarnation += 1;
            let expected =
                status.success() || member.is_killed && status.signal() == Some(Signal::KILL.as_raw());
            ended.push((worker, (!expected).then(|| self.surprise(worker, status))));
        }
        ended
    }

    /// A worker has ended by itself: because of a fault that it found, or for a worse reason.
    fn surprise(&self, worker: u32, status: ExitStatus) -> Fault {
        let left = std::fs::read_to_string(Fault::path(&self.folder, worker))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok());
        left.unwrap_or_else(|| {
            let log = std::fs::read_to_string(self.folder.join(format!("log-{worker}"))).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(5).collect();
            let tail = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
            let mut fault = Fault::problem(format!("worker {worker} ended by itself ({status}): {tail}"));
            fault.found_by = "the supervisor".to_owned();
            fault
        })
    }

    fn life(&self, worker: u32) -> Life {
        self.pid(worker).map(Life::of_process).unwrap_or_default()
    }

    /// From now on a worker is to move.
    pub fn since_now(&self, worker: u32) -> Since {
        Since {
            at: Instant::now(),
            life: self.life(worker),
        }
    }

    /// For how long of that its process had a processor, or wanted none.
    pub fn time_since(&self, worker: u32, since: Since) -> Duration {
        self.life(worker).could_move(since.life, since.at.elapsed())
    }

    /// What is wrong with a worker that does not move: how long, and in what.
    pub fn blocked(&self, worker: u32, seconds: u64, in_flight: &str) -> Fault {
        let pid = self.pid(worker).unwrap_or(0);
        let about = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let mut fault = Fault::problem(format!(
            "worker {worker} (process {pid}) is blocked: it has not moved for {seconds} s, besides those in which it waited for a processor; \
             in flight: {in_flight}; it waits in {:?}, system call {:?}; ran, waited, slices: {}",
            about("wchan"),
            about("syscall").trim_end(),
            about("schedstat").trim_end(),
        ));
        fault.found_by = "the supervisor".to_owned();
        fault
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(child) = &mut member.child {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Has the kernel kill this process when the supervisor dies.
pub fn die_with_parent() {
    // There is nothing to do where the kernel refuses that.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// A worker's end: its fault, if it has one, is left in a file for the supervisor. Whether there was none.
pub fn leave(folder: &Path, worker: u32, incarnation: u32, done: Result<(), Fault>) -> bool {
    let Err(mut fault) = done else { return true };
    fault.found_by = format!("worker {worker}, incarnation {incarnation}");
    let text = serde_json::to_string(&fault).unwrap_or_default();
    if std::fs::write(Fault::path(folder, worker), text).is_err() {
        complain!("{}: {}", fault.found_by, fault.text);
    }
    false
}
