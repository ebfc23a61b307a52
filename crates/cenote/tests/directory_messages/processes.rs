//! Three processes over Unix sockets. One is killed while it has the lock: the others go on, and are told.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cenote::Acquired;
use cenote::remote::{Address, Error, LockClient, LockService, RwLock, ServiceOptions};

/// What the lock covers: what nobody may find, and a count.
type Value = [u64; 2];
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
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.filter_map(|line| Some(line.ok()?.split_once("SAYS ")?.1.to_owned()));
    (child, said)
}

/// Forks a child that lives longer than the test waits for anything. It must not keep its parent alive in the eyes of
/// the directory, nor act for it.
fn outlive(lock: &RwLock<Value>) {
    // SAFETY: the child calls nothing that needs another thread or a lock that one may have had.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_refused = lock.read().err() == Some(Error::Forked);
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

/// Serves, forks a child that drops its copy of the service, and another one that lives on; then waits to be killed.
fn serve_and_fork(address: &Address) {
    let mut options = ServiceOptions::default();
    options.lease = Duration::from_secs(1);
    let service = LockService::start(&options).unwrap();
    service.listen(address).unwrap();
    // SAFETY: the child only drops the service, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(service);
        // SAFETY: no destructor of the parent's runs.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid, and the child is this process's.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child that dropped its copy");
    println!("SAYS serves");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    // SAFETY: the child calls nothing that needs another thread or a lock that one may have had.
    if unsafe { libc::fork() } == 0 {
        // SAFETY: the child closes what it has inherited, sleeps, and ends; no destructor of the parent's runs.
        unsafe {
            (0..3).for_each(|descriptor| _ = libc::close(descriptor));
            libc::sleep(OUTLIVES as u32);
            libc::_exit(0);
        }
    }
    println!("SAYS forked");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_service_that_is_killed_is_gone_although_its_child_lives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory");
    let address = Address::Unix(path.clone());
    let (mut serves, mut said) = child(&path, "serves");
    assert_eq!(said.next().as_deref(), Some("serves"));
    let client = LockClient::connect(&address).unwrap();
    let lock = client.rwlock::<Value>("stock").unwrap();
    let guard = lock.write().unwrap();
    writeln!(serves.stdin.take().unwrap()).unwrap();
    assert_eq!(said.next().as_deref(), Some("forked"));
    serves.kill().unwrap();
    serves.wait().unwrap();
    let killed = Instant::now();
    while !matches!(guard.verify(), Err(Error::Disconnected)) {
        assert!(
            killed.elapsed() < Duration::from_secs(OUTLIVES / 2),
            "{:?}",
            guard.verify()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    // Its address is free.
    let service = LockService::start(&ServiceOptions::default()).unwrap();
    service.listen(&address).unwrap();
}

/// What a process does that the test below starts; otherwise nothing.
#[test]
fn one_of_three() {
    let Ok(path) = std::env::var(SOCKET) else {
        return;
    };
    if std::env::var(PART).unwrap() == "serves" {
        return serve_and_fork(&Address::Unix(path.into()));
    }
    let client = LockClient::connect(&Address::Unix(path.into())).unwrap();
    let lock = client.rwlock::<Value>("stock").unwrap();
    if std::env::var(PART).unwrap() == "dies" {
        let mut guard = lock.write().unwrap();
        guard[0] = 99;
        guard.set_note(4711).unwrap();
        outlive(&lock);
        println!("SAYS holds");
        std::thread::sleep(Duration::from_secs(600));
    }
    let mut told = 0;
    for _ in 0..TIMES {
        let mut guard = lock.write().unwrap();
        told += u64::from(matches!(guard.acquired(), Acquired::Recovered { note: 4711, .. }));
        guard[1] += 1;
        assert_eq!(guard[0], 0, "what the dead one wrote was not handed over");
    }
    drop(lock);
    client.close().unwrap();
    println!("SAYS told {told}");
}

#[test]
fn one_is_killed_while_it_has_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory");
    let address = Address::Unix(path.clone());
    let service = LockService::start(&ServiceOptions::default()).unwrap();
    service.listen(&address).unwrap();

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
    let client = service.client("").unwrap();
    let lock = client.existing_rwlock::<Value>("stock").unwrap();
    assert_eq!(*lock.read().unwrap(), [0, 2 * TIMES]);
}
