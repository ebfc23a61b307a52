//! An etcd of one member on free ports of the loopback, with its data in a temporary folder.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::started::{kill, until_ended};
use super::until;

/// Ports may be taken between when they are found free and when etcd binds them.
const ATTEMPTS: u32 = 5;

pub struct Etcd {
    child: Child,
    port: u16,
    peer: u16,
    data: tempfile::TempDir,
}

impl Etcd {
    pub fn start() -> Self {
        (0..ATTEMPTS)
            .find_map(|_| Self::attempt())
            .expect("etcd ends as soon as it is started")
    }

    fn attempt() -> Option<Self> {
        let data = tempfile::Builder::new()
            .prefix("cenote-etcd-data-")
            .tempdir_in("/dev/shm")
            .unwrap();
        // Both are bound at the same time, so that they differ.
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [port, peer] = free.map(|listener| listener.local_addr().unwrap().port());
        let mut etcd = Self {
            child: launch(data.path(), port, peer),
            port,
            peer,
            data,
        };
        etcd.listens().then_some(etcd)
    }

    /// Kills it, and starts it again after a while, with what it had.
    #[allow(dead_code, reason = "the tests of clusters use it")]
    pub fn restart(&mut self, after: Duration) {
        self.signal(libc::SIGKILL);
        self.child.wait().unwrap();
        std::thread::sleep(after);
        let has_begun = (0..ATTEMPTS).any(|_| {
            self.child = launch(self.data.path(), self.port, self.peer);
            self.listens()
        });
        assert!(has_begun, "etcd does not start again");
    }

    /// Waits until it listens; `false` if it has ended.
    fn listens(&mut self) -> bool {
        let mut has_ended = false;
        until("etcd listens", || {
            has_ended = self.child.try_wait().unwrap().is_some();
            has_ended || TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        // One that cannot bind its second port ends a moment after it has bound the first.
        has_ended |= until_ended(&mut self.child, Duration::from_millis(200)).is_some();
        !has_ended
    }

    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn signal(&self, signal: i32) {
        kill(&self.child, signal);
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(data: &Path, port: u16, peer: u16) -> Child {
    let (clients, peers) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{peer}"),
    );
    Command::new("etcd")
        .args([
            "--name",
            "one",
            "--logger",
            "zap",
            "--log-level",
            "error",
            "--data-dir",
        ])
        .arg(data.join("member"))
        .args([
            "--listen-client-urls",
            &clients,
            "--advertise-client-urls",
            &clients,
        ])
        .args([
            "--listen-peer-urls",
            &peers,
            "--initial-advertise-peer-urls",
            &peers,
        ])
        .args(["--initial-cluster", &format!("one={peers}")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| match error.kind() {
            ErrorKind::NotFound => {
                panic!("there is no program `etcd`; install the Debian package etcd-server")
            }
            _ => panic!("etcd: {error}"),
        })
}
