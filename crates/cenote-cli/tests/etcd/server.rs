//! An etcd of one member on free ports of the loopback, with its data in a temporary folder.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::started::{kill, until_ended};
use super::until;

/// Ports may be taken between when they are found free and when etcd binds them.
const ATTEMPTS: u32 = 5;

pub struct Etcd {
    child: Child,
    port: u16,
    _data: tempfile::TempDir,
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
        let (clients, peers) = (
            format!("http://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{peer}"),
        );
        let child = Command::new("etcd")
            .args([
                "--name",
                "one",
                "--logger",
                "zap",
                "--log-level",
                "error",
                "--data-dir",
            ])
            .arg(data.path().join("member"))
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
            });
        let mut etcd = Self {
            child,
            port,
            _data: data,
        };
        let mut has_ended = false;
        until("etcd listens", || {
            has_ended = etcd.child.try_wait().unwrap().is_some();
            has_ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        // One that cannot bind its second port ends a moment after it has bound the first.
        has_ended |= until_ended(&mut etcd.child, Duration::from_millis(200)).is_some();
        (!has_ended).then_some(etcd)
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
