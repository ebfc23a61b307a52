//! Clients of an exchange server: they sleep while they wait for it, and go on when it goes on, or another server does.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cenote::memory::LocalWord;
use cenote::{Delegated, Options, Pool};

/// The name of the thread that asks, in a client.
const ASKS: &str = "asks";
/// The key that a client counts up.
const COUNT: &[u8] = b"count";

/// Waits until something is so, which must happen.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process that dies with the process that started it: a stopped one would keep all its clients waiting.
struct Part(Child);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This program again, once it has the pool open.
fn start(role: &str, pool: &Path) -> Part {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "exchange_waits::role", "--nocapture"])
        .env("CENOTE_WAITS_ROLE", role)
        .env("CENOTE_WAITS_POOL", pool)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("ready")), "{role} has ended");
    Part(child)
}

/// Whether the asking thread of a client sleeps now: it neither runs nor waits for a processor.
fn sleeps(client: &Part) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", client.0.id())).unwrap();
    let read = |thread: &Path, what| std::fs::read_to_string(thread.join(what)).unwrap_or_default();
    threads
        .flatten()
        .map(|thread| thread.path())
        .filter(|thread| read(thread, "comm").trim_end() == ASKS)
        .any(|thread| {
            let stat = read(&thread, "stat");
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('S'))
        })
}

fn signal(part: &Part, signal: i32) {
    // SAFETY: a child of this process.
    unsafe { libc::kill(part.0.id() as i32, signal) };
}

#[test]
fn who_waits_for_a_server_sleeps_and_goes_on_with_it_or_another() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    drop(Pool::<Delegated>::create(&path, &Options::default()).unwrap());
    // The first one to open it: it serves.
    let server = start("server", &path);
    let client = start("client", &path);
    let pool: Pool<Delegated> = Pool::open(&path, &Options::default()).unwrap();
    let map = pool.map("m").unwrap();
    // They end before the pool is closed, even if the test fails.
    let (server, client) = (server, client);
    let goes_on = |what| {
        let before = counted(&map);
        eventually(what, || counted(&map) > before);
    };
    goes_on("the client's work");

    signal(&server, libc::SIGSTOP);
    eventually("sleep", || sleeps(&client));
    signal(&server, libc::SIGCONT);
    goes_on("the client's work with the server that was stopped");

    drop(server);
    goes_on("the client's work with another server");

    drop(client);
    drop(map);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// The client's count.
fn counted(map: &cenote::store::Map<Delegated>) -> u64 {
    let value = map.get(COUNT).unwrap();
    value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()))
}

/// The other side; does nothing unless it is started as one.
#[test]
fn role() {
    let Ok(role) = std::env::var("CENOTE_WAITS_ROLE") else {
        return;
    };
    let path = std::env::var("CENOTE_WAITS_POOL").unwrap();
    let pool: Pool<Delegated> = Pool::open(path, &Options::default()).unwrap();
    println!("ready");
    if role == "client" {
        let work = move || {
            let map = pool.map("m").unwrap();
            for count in 1u64.. {
                map.put(COUNT, &count.to_le_bytes()).unwrap();
            }
        };
        let asks = std::thread::Builder::new().name(ASKS.to_owned()).spawn(work);
        asks.unwrap().join().unwrap();
    }
    std::thread::sleep(Duration::from_secs(600));
}

/// A process has two mailboxes here, and more threads. Each thread gets one in its turn: the others do not do thousands
/// of operations meanwhile.
#[test]
fn threads_that_share_boxes_all_get_on() {
    const OPERATIONS: u64 = 40_000;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = Pool::<Delegated>::create(folder.path().join("pool"), &Options::default()).unwrap();
    let done = LocalWord::new(0);
    let most = Mutex::new(0);
    std::thread::scope(|scope| {
        for key in 0..6 {
            let (pool, done, most) = (&pool, &done, &most);
            scope.spawn(move || {
                let map = pool.map("m").unwrap();
                loop {
                    let before = done.load();
                    if before >= OPERATIONS {
                        return;
                    }
                    map.put_u64(key, before).unwrap();
                    let meanwhile = done.add(1) - before;
                    let mut most = most.lock().unwrap();
                    *most = meanwhile.max(*most);
                }
            });
        }
    });
    let most = most.into_inner().unwrap();
    // A thread also waits for a processor, while others go on: on a busy machine for a quarter of this.
    assert!(
        most < OPERATIONS / 2,
        "{most} of {OPERATIONS} operations during one"
    );
}
