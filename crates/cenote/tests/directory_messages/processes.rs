//! Three processes over Unix sockets. One is killed while it has the lock: the others go on, and are told.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cenote::Acquired;
use cenote::sync::directory::messages::hub::DirectoryThread;
use cenote::sync::directory::messages::{Directory, RemoteError, RemoteLock, RemoteNode, socket};

const LOCK: u64 = 1;
/// Names the socket, to a process that is one of the three.
const SOCKET: &str = "CENOTE_TEST_DIRECTORY_SOCKET";
/// What the process does.
const PART: &str = "CENOTE_TEST_DIRECTORY_PART";
/// For so many seconds a child of the dead process lives on.
const OUTLIVES: u64 = 30;
/// How often each that survives writes.
const TIMES: u64 = 100;

fn child(path: &Path, part: &str) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::one_of_three", "--nocapture"])
        .env(SOCKET, path)
        .env(PART, part)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.filter_map(|line| Some(line.ok()?.split_once("SAYS ")?.1.to_owned()));
    (child, said)
}

/// Forks a child that lives longer than the test waits for anything. It must not keep its parent alive in the eyes of the directory, nor act for it.
fn outlive(lock: &RemoteLock) {
    // SAFETY: the child calls nothing that needs another thread or a lock that one may have had.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_refused = lock.read().err() == Some(RemoteError::Forked);
        // SAFETY: the child ends at once, or after some time; no destructor of the parent's runs.
        unsafe {
            if !is_refused {
                libc::kill(libc::getppid(), libc::SIGKILL);
            }
            // Who reads what the test writes does not wait for this process.
            (0..3).for_each(|descriptor| _ = libc::close(descriptor));
            libc::sleep(OUTLIVES as u32);
            libc::_exit(0);
        }
    }
    assert!(child > 0);
}

/// What a process does that the test below starts; otherwise nothing.
#[test]
fn one_of_three() {
    let Ok(path) = std::env::var(SOCKET) else {
        return;
    };
    let node = RemoteNode::new(socket::connect(Path::new(&path)).unwrap()).unwrap();
    let lock = RemoteLock::new(&node, LOCK);
    if std::env::var(PART).unwrap() == "dies" {
        let mut guard = lock.write().unwrap();
        guard[0] = 99;
        outlive(&lock);
        println!("SAYS holds");
        std::thread::sleep(Duration::from_secs(600));
    }
    let mut told = 0;
    for _ in 0..TIMES {
        let mut guard = lock.write().unwrap();
        told += u64::from(guard.acquired() != Acquired::Clean);
        let count = u64::from_le_bytes(guard[8..16].try_into().unwrap()) + 1;
        guard[8..16].copy_from_slice(&count.to_le_bytes());
        assert_eq!(guard[0], 0, "what the dead one wrote was not handed over");
    }
    println!("SAYS told {told}");
}

#[test]
fn one_is_killed_while_it_has_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory");
    let mut directory = Directory::new();
    directory.create(LOCK, vec![0; 64]);
    let directory = DirectoryThread::start(directory).unwrap();
    let _listener = socket::Listener::start(&path, directory.hub()).unwrap();

    let (mut dies, mut said) = child(&path, "dies");
    assert_eq!(said.next().as_deref(), Some("holds"));
    let others = [child(&path, "writes"), child(&path, "writes")];
    // They wait for it by now, or will.
    std::thread::sleep(Duration::from_millis(200));
    // `Child::kill` sends SIGKILL.
    let killed = Instant::now();
    dies.kill().unwrap();
    dies.wait().unwrap();
    let mut told = 0;
    for (mut process, mut said) in others {
        let line = said.next().expect("a survivor goes on");
        told += line.strip_prefix("told ").unwrap().parse::<u64>().unwrap();
        assert!(process.wait().unwrap().success());
    }
    assert!(killed.elapsed() < Duration::from_secs(OUTLIVES / 2));
    // Its successor is told, and everybody until that one has unlocked.
    assert_eq!(told, 1);
    let node = RemoteNode::new(socket::connect(&path).unwrap()).unwrap();
    let lock = RemoteLock::new(&node, LOCK);
    let guard = lock.read().unwrap();
    assert_eq!(u64::from_le_bytes(guard[8..16].try_into().unwrap()), 2 * TIMES);
}
