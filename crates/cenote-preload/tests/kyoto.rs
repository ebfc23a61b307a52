//! Kyoto Cabinet, an application that is not ours, under the preloaded library: its own test programs, and programs of
//! which one process is killed.
//!
//! Debian's packages are installed where this may be done; else the tests are skipped, and say so.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cenote_programs::{built, compile, run, succeed};

const LIMIT: Duration = Duration::from_secs(240);

fn is_there() -> bool {
    Path::new("/usr/bin/kchashtest").exists() && Path::new("/usr/include/kchashdb.h").exists()
}

/// Why it cannot be used, if it cannot.
fn missing() -> Option<&'static str> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    MISSING
        .get_or_init(|| {
            if is_there() {
                return None;
            }
            let packages = ["libkyotocabinet-dev", "kyotocabinet-utils"];
            let mut command = Command::new("apt-get");
            command
                .args(["install", "-q", "-y", "--no-install-recommends"])
                .args(packages)
                .env("DEBIAN_FRONTEND", "noninteractive");
            if Command::new("apt-get").arg("--version").output().is_err() {
                return Some(format!("{packages:?} are not there, and there is no apt-get"));
            }
            let output = run(&mut command, LIMIT);
            (!is_there()).then(|| {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                format!("{packages:?} are not there, and cannot be installed: {said}")
            })
        })
        .as_deref()
}

/// Whether a test is skipped.
fn skips() -> bool {
    let missing = missing();
    if let Some(why) = missing {
        eprintln!("skipped: {why}");
    }
    missing.is_some()
}

/// A program that has its private locks taken over, too: Kyoto Cabinet has no others.
fn preloaded(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", built("libcenote_preload.so"))
        .env("CENOTE_POOL", folder.join("pool"))
        // A walk through a database takes up to 2,048 locks at a time.
        .env("CENOTE_THREADS", "4096")
        .env("CENOTE_PRIVATE", "1");
    command
}

/// Runs one of its test programs with arguments of which one is a database: `FILE`, with an ending where that says of
/// which kind it is.
fn passes(folder: &Path, line: &str) {
    let mut words = line.split_whitespace();
    let mut command = preloaded(words.next().unwrap(), folder);
    let mut file = None;
    for word in words {
        match word.strip_prefix("FILE") {
            Some(ending) => command.arg(file.insert(folder.join(format!("db{ending}")))),
            None => command.arg(word),
        };
    }
    let said = succeed(&mut command, LIMIT);
    assert!(said.contains("\nok\n"), "{line}: {said}");
    assert!(!said.contains("cenote-preload:"), "{line}: {said}");
    if let Some(file) = file {
        let _ = match file.is_dir() {
            true => std::fs::remove_dir_all(file),
            false => std::fs::remove_file(file),
        };
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn its_file_databases_pass_their_tests() {
    if skips() {
        return;
    }
    let folder = folder();
    for line in [
        "kchashtest order -th 4 FILE 2000",
        "kchashtest queue -th 4 -it 2 FILE 2000",
        "kchashtest wicked -th 4 -it 2 FILE 2000",
        "kchashtest tran -th 4 -it 2 FILE 1000",
        "kctreetest order -th 4 FILE 2000",
        "kctreetest wicked -th 4 -it 2 FILE 2000",
        "kctreetest tran -th 4 -it 2 FILE 1000",
        "kcpolytest wicked -th 4 -it 2 FILE.kct 1000",
        "kcdirtest wicked -th 4 -it 1 FILE 200",
    ] {
        passes(folder.path(), line);
    }
}

#[test]
fn its_databases_in_memory_pass_their_tests() {
    if skips() {
        return;
    }
    let folder = folder();
    for line in [
        "kcprototest order -th 4 10000",
        "kcprototest queue -th 4 -it 2 5000",
        "kcprototest wicked -th 4 -it 2 5000",
        "kcprototest wicked -tree -th 4 -it 2 5000",
        "kcprototest tran -th 4 -it 2 2000",
        "kccachetest wicked -th 4 -it 2 5000",
        "kcgrasstest wicked -th 4 -it 2 2000",
        "kcstashtest wicked -th 4 -it 2 5000",
    ] {
        passes(folder.path(), line);
    }
}

/// Ends a process, also when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many numbers of locks the pool has.
fn numbers(folder: &Path) -> u64 {
    match cenote::Pool::<cenote::Coherent>::open(folder.join("pool"), &Default::default()) {
        Ok(pool) => pool.existing_map("preload-numbers").map_or(0, |map| map.len()),
        Err(_) => 0,
    }
}

#[test]
fn a_process_that_is_killed_keeps_no_other_from_going_on() {
    if skips() {
        return;
    }
    let folder = folder();
    for seed in 0..3u64 {
        let mut other = preloaded("kcprototest", folder.path());
        other
            .args(["wicked", "-th", "4", "-it", "1000", "5000"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let before = numbers(folder.path());
        let other = Running(other.spawn().unwrap());
        // Until it has locks, however slow the machine is.
        let until = Instant::now() + LIMIT;
        while numbers(folder.path()) <= before {
            assert!(Instant::now() < until, "the program takes no locks");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(100 + 37 * seed));
        // Dropped, and so killed, in the middle of the next run.
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(other);
        });
        passes(folder.path(), "kcprototest wicked -th 4 -it 2 5000");
        killer.join().unwrap();
        passes(folder.path(), "kchashtest wicked -th 4 -it 1 FILE 1000");
    }
    // Those who were killed have left the numbers of their locks.
    let pool: cenote::Pool = cenote::Pool::open(folder.path().join("pool"), &Default::default()).unwrap();
    assert!(pool.map("preload-numbers").unwrap().len() >= 3);
    let report = pool.fsck().unwrap();
    assert!(
        report.problems.is_empty() && report.leaked.is_empty(),
        "{report:?}"
    );
}

#[test]
fn a_database_goes_on_when_the_owner_of_its_lock_is_killed() {
    if skips() {
        return;
    }
    let folder = folder();
    let program = folder.path().join("bank");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/bank.cc");
    compile(source.as_ref(), &program, &["-Wno-error", "-lkyotocabinet"]);
    for private in ["0", "1"] {
        let file = folder.path().join("bank.kch");
        let mut command = preloaded(program.to_str().unwrap(), folder.path());
        command
            .arg(&file)
            .args(["3", "20"])
            .env("CENOTE_PRIVATE", private);
        let said = succeed(&mut command, LIMIT);
        // The transaction of the killed one is undone by the database.
        assert!(said.contains("turns 60 sum 16000\n"), "{said}");
        assert_eq!(said.matches("died while it was writing").count(), 1, "{said}");
        std::fs::remove_file(&file).unwrap();
    }
}
