//! Limits on threads: an error, and never a panic.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::Here;

/// The user `nobody`.
const NOBODY: u32 = 65534;

/// Copies the command to where another user may come. A process of its own does it: had this one the copy open for
/// writing while another thread starts a process, that one would have it open for a moment too, and the kernel would
/// refuse to run it ("text file busy").
pub fn copy_of_the_command(to: &Path) {
    let status = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_cenote"))
        .arg(to)
        .status();
    assert!(status.unwrap().success(), "cp to {}", to.display());
}

/// A program run in a folder by an ordinary user: by this one, or if that is root by another, who then owns the folder.
pub fn as_ordinary_user(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Threads of a user, as the kernel counts them.
fn threads_of(user: u32) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let theirs = processes.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == user));
    theirs
        .map(|entry| std::fs::read_dir(entry.path().join("task")).map_or(0, Iterator::count))
        .sum()
}

#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let here = Here::new();
    let cenote = here.path("cenote");
    copy_of_the_command(&cenote);
    std::fs::set_permissions(here.0.path(), Permissions::from_mode(0o755)).unwrap();
    let mine = here.path("mine");
    std::fs::create_dir(&mine).unwrap();
    here.ok("mapreduce generate wordcount text --size 200KiB");
    here.ok("trace generate trace --operations 100");
    for (line, thread) in [
        ("bench --threads 60 --records 100", "bench"),
        (
            "mapreduce wordcount ../text --grain 1000 --threads --workers 60",
            "worker",
        ),
        ("replay ../trace --threads 60", "replay"),
        ("sim campaign --subjects hash --seeds 1 --jobs 60", "part"),
    ] {
        let mut told = Vec::new();
        // Other threads that the command needs may be the first that there are too many of.
        for more in [1, 2, 3, 4, 6, 8, 12, 20] {
            let user = match rustix::process::geteuid() {
                root if root.is_root() => NOBODY,
                user => user.as_raw(),
            };
            let limit = threads_of(user) + more;
            let mut command = as_ordinary_user(Path::new("prlimit"), &mine);
            command.arg(format!("--nproc={limit}")).arg(&cenote);
            let output = command.args(line.split_whitespace()).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!errors.contains("panicked"), "{line}, {limit}: {errors}");
            assert_eq!(output.status.code(), Some(1), "{line}, {limit}: {errors}");
            told.push(errors);
        }
        let wanted = format!("the thread `{thread}` cannot be started");
        assert!(
            told.iter().any(|errors| errors.contains(&wanted)),
            "{line}: {told:?}"
        );
    }
    let left = std::fs::read_dir("/dev/shm").unwrap().flatten();
    let left = left.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == NOBODY));
    assert_eq!(left.count(), 0);
}
