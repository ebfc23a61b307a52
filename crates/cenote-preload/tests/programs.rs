//! An unmodified C program under the preloaded library: its process-shared locks survive their owners, its private ones are libc's.

mod common;

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::{built, run, succeed};

/// Compiles a C program.
fn compile(source: &Path, program: &Path) {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command
        .args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-o",
        ])
        .arg(program)
        .arg(source);
    succeed(&mut command, Duration::from_secs(120));
}

struct Scene {
    folder: tempfile::TempDir,
    program: PathBuf,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let program = folder.path().join("shared");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/shared.c");
    compile(source.as_ref(), &program);
    Scene { folder, program }
}

impl Scene {
    fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(what)
            .env("LD_PRELOAD", built("libcenote_preload.so"))
            .env("CENOTE_POOL", self.pool());
        command
    }

    fn run(&self, what: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = self.command(what);
        run(command.envs(variables.iter().copied()), Duration::from_secs(120))
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
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
