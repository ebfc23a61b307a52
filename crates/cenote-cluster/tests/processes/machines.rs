//! Machines that are network namespaces, and a network between them that can be cut.
//!
//! A test runs itself again in user, network, process and mount namespaces of its own, where it may do what root may.
//! In there each machine has a network namespace; a pair of virtual interfaces leads from it to a bridge, at which the
//! test has an address too. All of it ends with the last process that is in it, and the kernel ends those with the
//! first.

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::cluster::{LONG, Place, Running};
use super::histories::set;

/// Set in what runs in the namespaces.
const INSIDE: &str = "CENOTE_CLUSTER_INSIDE";
/// The bridge.
const BRIDGE: &str = "bridge";
/// A hardware address that no interface has.
const NOBODY: &str = "02:00:00:00:00:ff";

fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 9, 0, number).into()
}

/// A command of the system, which has to work.
fn system(words: &[&str]) {
    let done = Command::new(words[0]).args(&words[1..]).output().unwrap();
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}: {}", words.join(" "), why.trim());
}

/// What everything is drawn from.
pub fn seed() -> u64 {
    set("CENOTE_TEST_SEED", u64::from(std::process::id()))
}

fn in_namespaces() -> Command {
    let mut command = Command::new("unshare");
    let flags = "--user --map-root-user --net --pid --fork --kill-child --mount-proc --";
    command.args(flags.split(' '));
    // SAFETY: one system call, between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    command
}

/// Whether this process is in namespaces of its own. If it is not, the test of this name runs there, or is passed over
/// if this user may not make any; then there is nothing left to do.
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        system(&["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]);
        system(&["ip", "link", "set", "lo", "up"]);
        system(&["ip", "link", "add", BRIDGE, "type", "bridge"]);
        let own = format!("{}/24", address(254));
        system(&["ip", "address", "add", &own, "dev", BRIDGE]);
        system(&["ip", "link", "set", BRIDGE, "up"]);
        return true;
    }
    let tried = in_namespaces()
        .args(["ip", "link", "add", BRIDGE, "type", "bridge"])
        .output();
    let why = match tried {
        Ok(tried) if tried.status.success() => String::new(),
        Ok(tried) => String::from_utf8_lossy(&tried.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    if !why.is_empty() {
        println!("passed over: network namespaces with a bridge cannot be made here: {why}");
        return false;
    }
    let status = in_namespaces()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "yes")
        // In there, this process's number says nothing.
        .env("CENOTE_TEST_SEED", seed().to_string())
        .status();
    let status = status.unwrap();
    assert!(status.success(), "in its namespaces the test ends with {status}");
    false
}

/// A machine.
pub struct Machine {
    number: u8,
    /// What keeps its namespace.
    keeper: Running,
}

impl Machine {
    /// Another one; its number is from 1 to 253.
    pub fn new(number: u8) -> Self {
        let keeper = Command::new("unshare")
            .args(["--net", "--", "cat"])
            .stdin(Stdio::piped())
            .spawn();
        let machine = Self {
            number,
            keeper: Running(keeper.unwrap()),
        };
        let namespace = |pid: &str| std::fs::read_link(PathBuf::from(format!("/proc/{pid}/ns/net"))).unwrap();
        let begun = std::time::Instant::now();
        while namespace(&machine.pid()) == namespace("self") {
            assert!(
                begun.elapsed() < LONG,
                "machine {number} has no network of its own"
            );
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let (pid, port) = (machine.pid(), machine.port());
        let pair = ["type", "veth", "peer", "name", "net", "netns", &pid];
        system(&[&["ip", "link", "add", &port][..], &pair].concat());
        system(&["ip", "link", "set", &port, "master", BRIDGE, "up"]);
        let own = format!("{}/24", address(number));
        machine.system(&["ip", "address", "add", &own, "dev", "net"]);
        machine.system(&["ip", "link", "set", "net", "up"]);
        machine.system(&["ip", "link", "set", "lo", "up"]);
        machine
    }

    fn pid(&self) -> String {
        self.keeper.0.id().to_string()
    }

    /// Its port at the bridge.
    fn port(&self) -> String {
        format!("port{}", self.number)
    }

    fn enter(&self) -> Vec<String> {
        ["nsenter", "--target", &self.pid(), "--net", "--"]
            .map(str::to_owned)
            .to_vec()
    }

    fn system(&self, words: &[&str]) {
        let enter = self.enter();
        let all: Vec<&str> = enter
            .iter()
            .map(String::as_str)
            .chain(words.iter().copied())
            .collect();
        system(&all);
    }

    /// Where its processes run.
    pub fn place(&self) -> Place {
        Place {
            enter: self.enter(),
            address: address(self.number),
            mapped: None,
        }
    }

    /// Pulls its cable, or puts it back.
    pub fn connect(&self, connected: bool) {
        system(&[
            "ip",
            "link",
            "set",
            &self.port(),
            if connected { "up" } else { "down" },
        ]);
    }

    /// Loses all that it sends to another machine, or no longer.
    pub fn lose(&self, to: &Self, lost: bool) {
        let to = address(to.number).to_string();
        match lost {
            true => {
                let wrong = ["lladdr", NOBODY, "dev", "net", "nud", "permanent"];
                self.system(&[&["ip", "neighbour", "replace", &to][..], &wrong].concat());
            }
            false => self.system(&["ip", "neighbour", "delete", &to, "dev", "net"]),
        }
    }
}
