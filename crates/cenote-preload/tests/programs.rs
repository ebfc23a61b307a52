//! An unmodified C program under the preloaded library: its process-shared locks survive their owners, its private ones
//! are libc's.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use cenote_programs::{built, compile, run, texts};

fn source(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c")).join(name)
}

struct Scene {
    folder: tempfile::TempDir,
    program: PathBuf,
}

fn scene() -> Scene {
    scene_of("shared.c")
}

/// A folder with a program.
fn scene_of(name: &str) -> Scene {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let program = folder.path().join("program");
    compile(&source(name), &program, &[]);
    Scene { folder, program }
}

impl Scene {
    fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(what.split_whitespace())
            .env("LD_PRELOAD", built("libcenote_preload.so"))
            .env("CENOTE_POOL", self.pool());
        command
    }

    fn run(&self, what: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = self.command(what);
        run(command.envs(variables.iter().copied()), Duration::from_secs(120))
    }
}

#[test]
fn the_others_go_on_when_a_writer_is_killed() {
    let scene = scene();
    let output = scene.run("count", &[]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out, "counted 4000\n");
    // Once: the next writer has ended it.
    assert_eq!(err.matches("died while it was writing").count(), 1, "{err}");
    let mode = std::fs::metadata(scene.pool()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// What the test above finds is not there without the library.
#[test]
fn without_the_library_they_wait_for_ever() {
    let scene = scene();
    let mut command = Command::new("timeout");
    command
        .args(["--signal=KILL", "2"])
        .arg(&scene.program)
        .arg("count");
    let output = run(&mut command, Duration::from_secs(60));
    assert!(!output.status.success());
    assert_eq!(texts(&output).0, "");
}

#[test]
fn the_other_calls_and_private_locks() {
    let scene = scene();
    let (out, err) = texts(&scene.run("rest", &[]));
    assert_eq!(out, "all is well\n", "{err}");
}

/// Ends a process, also when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn programs_that_have_a_file_in_common() {
    let scene = scene();
    let file = scene.folder.path().join("file");
    let mut holder = scene.command("hold");
    let mut holder = Running(holder.arg(&file).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = [0; 6];
    holder.0.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    drop(holder);
    let mut taker = scene.command("take");
    let (out, err) = texts(&run(taker.arg(&file), Duration::from_secs(60)));
    assert_eq!(out, "taken\n", "{err}");
    assert_eq!(err.matches("died while it was writing").count(), 1, "{err}");
}

#[test]
fn destructors_of_a_thread_may_unlock() {
    let scene = scene();
    let (out, err) = texts(&scene.run("leave", &[]));
    assert_eq!((out.as_str(), err.as_str()), ("all is well\n", ""));
}

#[test]
fn what_a_death_leads_to_is_a_setting() {
    let scene = scene();
    let owner_dead = libc::EOWNERDEAD;
    let (out, err) = texts(&scene.run("dead", &[]));
    assert_eq!(out, "returned 0\n", "{err}");
    let (out, err) = texts(&scene.run("dead", &[("CENOTE_OWNER_DEAD", "tell")]));
    assert_eq!(out, format!("returned {owner_dead}\n"), "{err}");
    let output = scene.run("dead", &[("CENOTE_OWNER_DEAD", "abort")]);
    assert!(!output.status.success());
    assert_eq!(texts(&output).0, "");
    // Lines go to a file.
    let log = scene.folder.path().join("log");
    let (out, err) = texts(&scene.run("dead", &[("CENOTE_LOG", log.to_str().unwrap())]));
    assert_eq!((out.as_str(), err.as_str()), ("returned 0\n", ""));
    let lines = std::fs::read_to_string(log).unwrap();
    assert_eq!(lines.matches("died while it was writing").count(), 1, "{lines}");
}

#[test]
fn without_a_pool_nothing_is_replaced() {
    let scene = scene();
    let mut limited = Command::new("timeout");
    limited
        .args(["--signal=KILL", "1"])
        .arg(&scene.program)
        .arg("dead");
    limited
        .env("LD_PRELOAD", built("libcenote_preload.so"))
        .env_remove("CENOTE_POOL");
    let output = run(&mut limited, Duration::from_secs(60));
    assert!(!output.status.success());
}

#[test]
fn a_pool_that_has_no_lock_left_says_so() {
    let scene = scene();
    let output = scene.run("rest", &[("CENOTE_LOCKS", "4")]);
    let (out, err) = texts(&output);
    assert!(!output.status.success(), "{out}");
    assert!(
        err.contains("pthread_rwlock_init") && err.contains("CENOTE_LOCKS"),
        "{err}"
    );
}

#[test]
fn careless_programs_are_refused_and_go_on() {
    let scene = scene_of("hostile.c");
    let (out, err) = texts(&scene.run("", &[]));
    assert_eq!(out, "all is well\n", "{err}");
    assert!(err.contains("the lock was destroyed"), "{err}");
}

#[test]
fn children_that_are_made_while_the_pool_is_opened_open_it() {
    for _ in 0..3 {
        let scene = scene_of("hostile.c");
        let (out, err) = texts(&scene.run("forks", &[]));
        assert_eq!(out, "all is well\n", "{err}");
    }
}

#[test]
fn numbers_of_locks_that_are_taken_too_late_come_back() {
    let scene = scene_of("hostile.c");
    let (out, err) = texts(&scene.run("strays", &[("CENOTE_LOCKS", "4")]));
    assert_eq!(out, "all is well\n", "{err}");
}

/// `CENOTE_SEED` repeats a run, `CENOTE_SECONDS` says how long it lasts.
#[test]
fn processes_are_killed_at_any_moment() {
    let variable = |name: &str, default: u64| std::env::var(name).map_or(default.to_string(), |value| value);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = variable("CENOTE_SEED", now.unwrap().as_secs() % 1_000_000);
    let scene = scene_of("hostile.c");
    let log = scene.folder.path().join("log");
    let what = format!("{} {seed}", variable("CENOTE_SECONDS", 3));
    let variables = [
        ("CENOTE_OWNER_DEAD", "tell"),
        ("CENOTE_LOG", log.to_str().unwrap()),
    ];
    let (out, err) = texts(&scene.run(&what, &variables));
    assert!(out.contains("all is well\n"), "CENOTE_SEED={seed}: {out}{err}");
}

#[test]
fn answers_are_those_of_libcs_locks() {
    let scene = scene_of("compared.c");
    for seed in 1..=3 {
        let output = scene.run(&format!("{seed} 3000"), &[]);
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
    }
}

/// Also in a child that has left the folder in which the program began.
#[test]
fn the_path_of_the_pool_is_that_of_the_start() {
    let scene = scene_of("hostile.c");
    let mut command = scene.command("leaves");
    command
        .current_dir(scene.folder.path())
        .env("CENOTE_POOL", "./pool");
    let (out, err) = texts(&run(&mut command, Duration::from_secs(60)));
    assert_eq!(out, "all is well\n", "{err}");
    assert!(scene.pool().exists());
}

#[test]
fn variables_that_say_nothing_are_told() {
    let scene = scene_of("compared.c");
    let variables = [
        ("CENOTE_LOCKS", "many"),
        ("CENOTE_THREADS", "1"),
        ("CENOTE_OWNER_DEAD", "never"),
        ("CENOTE_PRIVATE", "yes"),
    ];
    let output = scene.run("1 100", &variables);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    for (name, value) in variables {
        let told = format!("{name} is {value:?}, not ");
        assert_eq!(err.matches(&told).count(), 1, "{told}: {err}");
    }
}
