//! agent and monitor, and what commands do on a pool that is a pod's.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Stdio};

use super::Here;

/// An agent or a monitor that is running.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    fn start(here: &Here, line: &str) -> Self {
        let mut child = here
            .command(line.split_whitespace())
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
        // SAFETY: a child of ours that nobody has waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
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
fn agents_beat_and_monitors_fence() {
    let here = Here::new();
    here.ok("create ./p --hosts 8 --size 4MiB");
    here.ok("put ./p k alone");
    here.fails(1, "agent ./p --host 0");
    here.fails(2, "agent ./p --host 8");
    here.fails(1, "get ./p k --host 2");

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

    let mut monitor = Running::start(&here, "monitor ./p --host 1 --poll 16ms --missed 2 --json");
    monitor.line();
    assert_eq!(monitor.line()["event"], "leads");
    assert!(here.fails(1, "agent ./p --host 1").contains("an agent already"));
    agent.signal(libc::SIGKILL);
    let accused = monitor.line();
    assert_eq!(
        (&accused["event"], &accused["host"]),
        (&"accused".into(), &2.into())
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
    // Nobody is up any more: the pool is this machine's alone.
    assert_eq!(here.ok("get ./p k"), "alone");
    assert!(here.ok("fsck ./p").contains("clean"));
    here.fails(2, "monitor ./p --host 1 --poll 0");
    here.fails(2, "monitor ./p --host 1 --missed 0");
    if cfg!(not(feature = "etcd")) {
        assert!(
            here.fails(2, "monitor ./p --host 1 --etcd a:1")
                .contains("--features etcd")
        );
    }
}
