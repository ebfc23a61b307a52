//! Redis over a unix socket, without pipelining: each get and put is one round trip to a server.
//!
//! The server is this run's own: no persistence, no TCP port, a socket in a temporary directory that is removed as
//! soon as the client is connected. It is killed and waited for when the subject is dropped, and the kernel kills
//! it if this process dies before that.

use super::{Failure, Limits, Session, Subject, temporary};
use redis::{Connection, cmd};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const MISSING: &str = "redis-server not installed: apt-get install redis-server";

/// Longer than any start that succeeds.
const START_MAX: Duration = Duration::from_secs(10);

/// A server and a connection to it.
pub struct Redis {
    server: Server,
    connection: Connection,
    /// What the server used before it held a record.
    bytes_empty: u64,
}

/// A running server; killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill, only to wait for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Subject for Redis {
    const NAME: &'static str = "Redis";
    const FORM: &'static str = "unix socket, one round trip an operation";
    const LIMITS: Limits = Limits {
        inserts: 20_000,
        gets: 20_000,
        updates: 20_000,
    };
    const BATCHES: bool = true;

    type Session<'s> = &'s mut Connection;

    fn create() -> Result<Self, Failure> {
        let directory = temporary("redis", &std::env::temp_dir())?;
        let socket = directory.path().join("redis.sock");
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
            "--unixsocket",
        ]);
        command.arg(&socket).arg("--dir").arg(directory.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let mut server = match command.spawn() {
            Ok(child) => Server(child),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Failure::Missing(MISSING.into()));
            }
            Err(error) => return Err(error.into()),
        };
        let client = redis::Client::open(format!("redis+unix://{}", socket.display()))?;
        let started = Instant::now();
        let mut connection = loop {
            let error = match client.get_connection() {
                Ok(connection) => break connection,
                Err(error) => error,
            };
            if let Some(status) = server.0.try_wait()? {
                return Err(Failure::Broken(format!(
                    "redis-server ended while it started: {status}"
                )));
            }
            if started.elapsed() > START_MAX {
                return Err(Failure::Broken(format!("redis-server does not answer: {error}")));
            }
            sleep(Duration::from_millis(5));
        };
        directory.close()?;
        let bytes_empty = used_memory(&mut connection)?;
        Ok(Self {
            server,
            connection,
            bytes_empty,
        })
    }

    fn session(&mut self) -> Result<Self::Session<'_>, Failure> {
        if let Some(status) = self.server.0.try_wait()? {
            return Err(Failure::Broken(format!("redis-server ended: {status}")));
        }
        Ok(&mut self.connection)
    }

    fn bytes(&mut self) -> Result<Option<u64>, Failure> {
        Ok(Some(
            used_memory(&mut self.connection)?.saturating_sub(self.bytes_empty),
        ))
    }
}

/// The bytes that the server's allocator has handed out.
fn used_memory(connection: &mut Connection) -> Result<u64, Failure> {
    let text: String = cmd("INFO").arg("memory").query(connection)?;
    text.lines()
        .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok())
        .ok_or_else(|| Failure::Broken("redis-server does not tell its used_memory".into()))
}

/// The value in an answer's 8 bytes.
fn decode(answer: Option<Vec<u8>>) -> Result<Option<u64>, Failure> {
    let Some(bytes) = answer else { return Ok(None) };
    match <[u8; 8]>::try_from(bytes) {
        Ok(bytes) => Ok(Some(u64::from_ne_bytes(bytes))),
        Err(bytes) => Err(Failure::Broken(format!(
            "redis-server gives {} bytes for 8",
            bytes.len()
        ))),
    }
}

impl Session for &mut Connection {
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        self.put(key, value)
    }

    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        Ok(cmd("SET")
            .arg(&key.to_ne_bytes())
            .arg(&value.to_ne_bytes())
            .query(self)?)
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        decode(cmd("GET").arg(&key.to_ne_bytes()).query(self)?)
    }

    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), Failure> {
        let mut command = cmd("MGET");
        for key in keys {
            command.arg(&key.to_ne_bytes());
        }
        let answers: Vec<Option<Vec<u8>>> = command.query(self)?;
        if answers.len() != keys.len() {
            return Err(Failure::Broken(format!(
                "{} answers to {} keys",
                answers.len(),
                keys.len()
            )));
        }
        for (value, answer) in values.iter_mut().zip(answers) {
            *value = decode(answer)?;
        }
        Ok(())
    }

    fn fill(&mut self, records: &[(u64, u64)]) -> Result<(), Failure> {
        for records in records.chunks(1_000) {
            let mut command = cmd("MSET");
            for (key, value) in records {
                command.arg(&key.to_ne_bytes()).arg(&value.to_ne_bytes());
            }
            let () = command.query(self)?;
        }
        Ok(())
    }
}
