//! What a cluster is compared with: a Redis server with one replica, on this machine, which this process starts and
//! ends.
//!
//! A write counts as done when the replica has it, as in a cluster of two copies: `SET`, and `WAIT 1` in the same
//! message. Both servers keep all in memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::Failure;

const PROGRAM: &str = "redis-server";
/// How long the servers may take to begin, and the replica to have what the primary has.
const BEGIN: Duration = Duration::from_secs(20);
/// How often it is tried to find a port that nobody takes meanwhile.
const ATTEMPTS: u32 = 5;

/// A server, which ends with this.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(folder: &Path, replica_of: Option<u16>) -> Result<Self, Failure> {
        for _ in 0..ATTEMPTS {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .and_then(|listener| listener.local_addr())
                .map_err(Failure::io("a free port"))?
                .port();
            let mut command = Command::new(PROGRAM);
            command
                .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
                .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
                .args(["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"])
                .current_dir(folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if let Some(primary) = replica_of {
                command.args(["--replicaof", &format!("127.0.0.1 {primary}")]);
            }
            let child = command.spawn().map_err(|error| {
                Failure::failed(format!(
                    "{PROGRAM}: {error}; --redis needs it: apt-get install redis-server"
                ))
            })?;
            let mut server = Self { child, port };
            if server.answers()? {
                return Ok(server);
            }
        }
        Err(Failure::failed(format!("{PROGRAM} ends as soon as it has begun")))
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Whether it is there, which may take a moment; `false` if it has ended.
    fn answers(&mut self) -> Result<bool, Failure> {
        let begun = Instant::now();
        while begun.elapsed() < BEGIN {
            if self.child.try_wait().map_err(Failure::io(PROGRAM))?.is_some() {
                return Ok(false);
            }
            if TcpStream::connect(self.address()).is_ok() {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Failure::failed(format!(
            "{PROGRAM} does not listen at {}",
            self.address()
        )))
    }
}

/// A primary and its replica.
pub struct Redis {
    line: BufReader<TcpStream>,
    _replica: Server,
    _primary: Server,
    _folder: tempfile::TempDir,
}

fn strange(said: &str) -> Failure {
    Failure::failed(format!("{PROGRAM} answers {:?}", said.trim_end()))
}

impl Redis {
    /// Starts both, and waits until the replica has what is written.
    pub fn start() -> Result<Self, Failure> {
        let folder = tempfile::tempdir().map_err(Failure::io("a folder for redis-server"))?;
        let primary = Server::start(folder.path(), None)?;
        let replica = Server::start(folder.path(), Some(primary.port))?;
        let stream = TcpStream::connect(primary.address()).map_err(Failure::io(PROGRAM))?;
        stream.set_nodelay(true).map_err(Failure::io(PROGRAM))?;
        stream
            .set_read_timeout(Some(BEGIN))
            .map_err(Failure::io(PROGRAM))?;
        let mut redis = Self {
            line: BufReader::new(stream),
            _replica: replica,
            _primary: primary,
            _folder: folder,
        };
        let begun = Instant::now();
        while redis.set_at(b"begun", b"", 100)? == 0 {
            if begun.elapsed() > BEGIN {
                return Err(Failure::failed(format!(
                    "the replica of {PROGRAM} does not follow"
                )));
            }
        }
        Ok(redis)
    }

    /// Sets a key, and waits until the replica has it.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        match self.set_at(key, value, 10_000)? {
            0 => Err(Failure::failed(format!(
                "the replica of {PROGRAM} does not follow"
            ))),
            _ => Ok(()),
        }
    }

    /// Sets a key. Returns how many replicas have it, after so many milliseconds at most.
    fn set_at(&mut self, key: &[u8], value: &[u8], wait: u32) -> Result<u32, Failure> {
        let mut message = Vec::new();
        encode(&mut message, &[b"SET", key, value]);
        encode(&mut message, &[b"WAIT", b"1", wait.to_string().as_bytes()]);
        self.send(&message)?;
        let done = self.said()?;
        if done != "+OK\r\n" {
            return Err(strange(&done));
        }
        let count = self.said()?;
        let number = count
            .strip_prefix(':')
            .and_then(|count| count.trim_end().parse().ok());
        number.ok_or_else(|| strange(&count))
    }

    /// The value of a key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let mut message = Vec::new();
        encode(&mut message, &[b"GET", key]);
        self.send(&message)?;
        let head = self.said()?;
        if head == "$-1\r\n" {
            return Ok(None);
        }
        let len = head
            .strip_prefix('$')
            .and_then(|len| len.trim_end().parse::<usize>().ok());
        let len = len.ok_or_else(|| strange(&head))?;
        let mut value = vec![0; len + 2];
        self.line.read_exact(&mut value).map_err(Failure::io(PROGRAM))?;
        value.truncate(len);
        Ok(Some(value))
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Failure> {
        self.line
            .get_mut()
            .write_all(message)
            .map_err(Failure::io(PROGRAM))
    }

    fn said(&mut self) -> Result<String, Failure> {
        let mut said = String::new();
        self.line.read_line(&mut said).map_err(Failure::io(PROGRAM))?;
        Ok(said)
    }
}

/// A command, as Redis reads it.
fn encode(message: &mut Vec<u8>, words: &[&[u8]]) {
    message.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        message.extend(format!("${}\r\n", word.len()).bytes());
        message.extend_from_slice(word);
        message.extend_from_slice(b"\r\n");
    }
}
