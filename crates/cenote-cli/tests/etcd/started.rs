//! A command that runs beside the test, and what it has printed so far.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

type Lines = Arc<Mutex<Vec<Value>>>;

pub struct Started {
    child: RefCell<Child>,
    told: Lines,
    warned: Lines,
}

impl Started {
    pub fn new(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            told: collect(child.stdout.take().unwrap()),
            warned: collect(child.stderr.take().unwrap()),
            child: child.into(),
        }
    }

    /// What it has printed to standard output.
    pub fn told(&self) -> Vec<Value> {
        self.told.lock().unwrap().clone()
    }

    /// What it has printed to standard error.
    pub fn warned(&self) -> Vec<Value> {
        self.warned.lock().unwrap().clone()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.borrow().id()
    }

    pub fn signal(&self, signal: i32) {
        kill(&self.child.borrow(), signal);
    }

    /// Waits until it has ended by itself; its exit code.
    pub fn ended(&self) -> Option<i32> {
        until_ended(&mut self.child.borrow_mut(), super::DEADLINE).expect("it ends")
    }

    /// Has it end in order; its exit code.
    pub fn ends(&self) -> Option<i32> {
        self.signal(libc::SIGTERM);
        until_ended(&mut self.child.borrow_mut(), super::DEADLINE).expect("it ends")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
        if std::thread::panicking() {
            eprintln!("told {:?}\nwarned {:?}", self.told(), self.warned());
        }
    }
}

fn collect(pipe: impl Read + Send + 'static) -> Lines {
    let lines = Lines::default();
    let theirs = lines.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
            theirs.lock().unwrap().push(value);
        }
    });
    lines
}

/// The answer on a health socket, if a process answers.
pub fn ask(socket: &Path) -> Option<Value> {
    let mut text = String::new();
    UnixStream::connect(socket).ok()?.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// The exit code of a child that ends in time; inside, `None` if a signal ended it.
pub fn until_ended(child: &mut Child, timeout: Duration) -> Option<Option<i32>> {
    let start = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return Some(status.code()),
            None if start.elapsed() > timeout => return None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Sends a signal to a child that has not been waited for.
pub fn kill(child: &Child, signal: i32) {
    let signal = Signal::from_named_raw(signal).unwrap();
    kill_process(Pid::from_child(child), signal).unwrap();
}
