//! agent and monitor, and what commands do on a pool that is a pod's.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use cenote::pod::format::geometry::Geometry;
use cenote::pod::format::superblock::{HEADER_BYTES, Superblock};

use super::{Here, kill};

/// An agent or a monitor that is running.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(here: &Here, line: &str) -> Self {
        Self::of(here.command(line.split_whitespace()))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command
            .env_remove("CENOTE_HOST")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn line(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect(&line)
    }

    fn signal(&self, signal: i32) {
        kill(self.child.id().into(), signal);
    }

    fn ends(mut self) -> Option<i32> {
        self.signal(libc::SIGTERM);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn agents_heartbeat_and_monitors_fence() {
    let here = Here::new();
    here.ok("create ./p --hosts 8 --size 4MiB");
    here.ok("put ./p k alone");
    here.fails(1, "agent ./p --host 0");
    here.fails(2, "agent ./p --host 8");
    // It is read without a place in it.
    let read = here.run("get ./p k --host 2");
    assert_eq!((read.code, &*read.stdout), (Some(0), &b"alone"[..]));
    assert!(
        read.stderr.contains("without a place") && read.stderr.contains("agent"),
        "{read:?}"
    );
    here.fails(1, "put ./p k v --host 2");

    let mut agent = Running::start(&here, "agent ./p --host 2 --health h/agent.sock --json");
    let began = agent.line();
    assert_eq!((&began["host"], &began["generation"]), (&2.into(), &0.into()));
    let mut health = String::new();
    UnixStream::connect(here.path("h/agent.sock"))
        .unwrap()
        .read_to_string(&mut health)
        .unwrap();
    let health: serde_json::Value = serde_json::from_str(&health).expect(&health);
    assert_eq!(
        (&health["phase"], &health["leads"]),
        (&"up".into(), &serde_json::Value::Null)
    );

    // The flag, the environment and the file say which host this is.
    assert!(here.fails(1, "get ./p k").contains("--host"));
    assert_eq!(here.ok("get ./p k --host 2"), "alone");
    std::fs::write(here.path("id"), "2\n").unwrap();
    for (variable, value) in [("CENOTE_HOST", "2"), ("CENOTE_HOST_FILE", "id")] {
        let mut command = here.command(["get", "./p", "k"]);
        let output = command.env(variable, value).output().unwrap();
        assert_eq!(output.stdout, b"alone", "{output:?}");
    }
    // What is supervised is on this host, too.
    let cenote = env!("CARGO_BIN_EXE_cenote");
    for on in [&[][..], &["--on", "env"]] {
        let words = [&["run"], on, &["--", cenote, "get", "./p", "k"]].concat();
        let output = here.command(words).env("CENOTE_HOST", "2").output().unwrap();
        assert_eq!(output.stdout, b"alone", "{output:?}");
    }
    let mut command = here.command(["get", "./p", "k"]);
    let output = command.env("CENOTE_HOST", "two").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");

    let mut monitor = Running::start(
        &here,
        "monitor ./p --host 1 --one-machine --poll 16ms --missed 2 --json",
    );
    monitor.line();
    assert_eq!(monitor.line()["event"], "leads");
    assert!(here.fails(1, "agent ./p --host 1").contains("an agent already"));
    agent.signal(libc::SIGKILL);
    let suspected = monitor.line();
    assert_eq!(
        (&suspected["event"], &suspected["host"]),
        (&"suspected".into(), &2.into())
    );
    assert_eq!(monitor.line()["event"], "moved");
    drop(agent);

    let mut again = Running::start(&here, "agent ./p --host 2 --json");
    assert_eq!(again.line()["generation"], 1);
    let stat = here.json("stat ./p --host 2");
    let hosts = stat["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), &hosts[1]["phase"]), (2, &"up".into()));
    assert!(here.ok("stat ./p --host 2").contains("generation 1"));
    assert_eq!(again.ends(), Some(0));
    assert_eq!(monitor.ends(), Some(0));
    // No host is up any more: the pool is this machine's alone.
    assert_eq!(here.ok("get ./p k"), "alone");
    assert!(here.ok("fsck ./p").contains("clean"));
    here.fails(2, "monitor ./p --host 1 --one-machine --poll 0");
    here.fails(2, "monitor ./p --host 1 --one-machine --missed 0");
    assert!(here.fails(2, "monitor ./p --host 1").contains("--one-machine"));
    here.fails(2, "monitor ./p --host 1 --one-machine --fence true");
    if cfg!(not(feature = "etcd")) {
        assert!(
            here.fails(2, "monitor ./p --host 1 --one-machine --etcd a:1")
                .contains("--features etcd")
        );
    }
}

/// Two machines have the same host id, or one polls the other: kernels know nothing of each other's processes.
#[test]
fn another_machine_is_no_host_of_this_one() {
    let here = Here::new();
    here.ok("create ./p --size 1MiB --max 16MiB --hosts 4");
    here.ok("put ./p k alone");
    let mut agent = Running::start(&here, "agent ./p --host 2 --json");
    agent.line();
    std::fs::write(here.path("boot"), "00000000-0000-4000-8000-00000000beef\n").unwrap();
    let elsewhere = |line: &str| {
        let cenote = env!("CARGO_BIN_EXE_cenote");
        let script = format!("mount --bind ./boot /proc/sys/kernel/random/boot_id && exec {cenote} {line}");
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--mount", "sh", "-c", &script])
            .current_dir(here.path("."));
        command
    };
    match elsewhere("--version").output() {
        Ok(output) if output.status.success() => {}
        refused => {
            println!("nothing is tried: a mount namespace is refused ({refused:?})");
            return;
        }
    }
    for line in ["get ./p k --host 2", "put ./p k 1 --host 2", "agent ./p --host 2"] {
        let output = elsewhere(line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
        assert!(said.contains("another machine"), "{line}: {said}");
    }
    assert_eq!(here.ok("get ./p k --host 2"), "alone");

    // A monitor there kills no process here, and does not say that it has.
    let mut far = Running::of(elsewhere("monitor ./p --host 3 --one-machine --json"));
    far.line();
    assert_eq!(far.line()["event"], "leads");
    agent.signal(libc::SIGKILL);
    assert_eq!(far.line()["event"], "suspected");
    let failed = far.line();
    assert_eq!(failed["event"], "fence-failed", "{failed}");
    assert!(failed["why"].as_str().unwrap().contains("--fence"), "{failed}");
    assert_eq!(far.ends(), Some(0));
    // The kernel here knows that nothing of the host lives.
    let mut again = Running::start(&here, "agent ./p --host 2 --json");
    assert_eq!(again.line()["generation"], 1);
    assert_eq!(here.ok("get ./p k --host 2"), "alone");
    assert_eq!(again.ends(), Some(0));
    assert!(here.ok("fsck ./p").contains("clean"));
}

/// What is wrong with one host keeps no monitor from the others.
#[test]
fn a_damaged_host_is_told_and_the_others_are_watched() {
    let here = Here::new();
    here.ok("create ./p --hosts 8 --size 4MiB");
    let mut agent = Running::start(&here, "agent ./p --host 2 --json");
    agent.line();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(here.path("p"))
        .unwrap();
    let mut head = [0; HEADER_BYTES];
    file.read_exact_at(&mut head, 0).unwrap();
    let geometry = Geometry::new(Superblock::decode(&here.path("p"), &head).unwrap().parameters);
    file.write_all_at(&77u64.to_le_bytes(), geometry.host(1)).unwrap();

    let mut monitor = Running::start(&here, "monitor ./p --host 3 --one-machine --json");
    monitor.line();
    assert_eq!(monitor.line()["event"], "leads");
    let wrong = monitor.line();
    assert_eq!(
        (&wrong["event"], &wrong["host"]),
        (&"fence-failed".into(), &1.into())
    );
    agent.signal(libc::SIGKILL);
    for event in ["suspected", "moved"] {
        let told = monitor.line();
        assert_eq!((&told["event"], &told["host"]), (&event.into(), &2.into()));
    }
    file.write_all_at(&[0; 8], geometry.host(1)).unwrap();
    assert_eq!(monitor.ends(), Some(0));
}

#[test]
fn workers_leave_a_host_that_dies_and_come_back() {
    let here = Here::new();
    here.ok("create ./p --hosts 8 --size 4MiB");
    let mut agents = [1, 2].map(|host| Running::start(&here, &format!("agent ./p --host {host} --json")));
    agents.iter_mut().for_each(|agent| drop(agent.line()));
    let mut monitor = Running::start(&here, "monitor ./p --host 3 --one-machine --json");
    monitor.line();
    // What follows the program is the program's, `--json` too.
    for (code, words) in [
        (2, "--on env --pod-hosts 1,2"),
        (1, "--on env --on env --pod-hosts 1,99"),
    ] {
        let refused = here.run(&format!("run --pool ./p --host 3 {words} -- true"));
        assert_eq!(refused.code, Some(code), "{refused:?}");
    }

    let words = "run --pool ./p --host 3 --workers 2 --on WHERE=a --on WHERE=b --pod-hosts 1,2 -- sh -c";
    let prefix = |word: &str| match word.starts_with("WHERE") {
        true => format!("env {word}"),
        false => word.to_owned(),
    };
    let words: Vec<String> = words
        .split_whitespace()
        .map(prefix)
        .chain(["echo $CENOTE_WORKER $WHERE; exec sleep 600".to_owned()])
        .collect();
    let mut run = Running::of(here.command(words.iter().map(String::as_str)));
    let mut said = || {
        let mut line = String::new();
        run.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    };
    let mut began = [said(), said()];
    began.sort();
    assert_eq!(began, ["0 a", "1 b"]);
    // Killed, it is fenced; that is when its workers go.
    agents[0].signal(libc::SIGKILL);
    assert_eq!(said(), "0 b");
    agents[0] = Running::start(&here, "agent ./p --host 1 --json");
    agents[0].line();
    agents[1].signal(libc::SIGKILL);
    let mut again = [said(), said()];
    again.sort();
    assert_eq!(again, ["0 a", "1 a"]);
    // While there is no other host the workers stay; they go as soon as there is one.
    agents[0].signal(libc::SIGKILL);
    std::thread::sleep(std::time::Duration::from_millis(500));
    agents[1] = Running::start(&here, "agent ./p --host 2 --json");
    agents[1].line();
    let mut again = [said(), said()];
    again.sort();
    assert_eq!(again, ["0 b", "1 b"]);
    assert_eq!(run.ends(), Some(128 + libc::SIGTERM));
}
