//! Where pools and their liveness locks may lie. `cargo xtask guests` tests pools on devices.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::Here;

#[test]
fn what_cannot_hold_a_pool_is_refused_with_a_word_on_what_to_do() {
    let here = Here::new();
    std::fs::create_dir(here.path("folder")).unwrap();
    let made = Command::new("mkfifo").arg(here.path("pipe")).status().unwrap();
    assert!(made.success());
    for (place, word) in [
        ("/dev/null", "no DAX device"),
        ("./folder", "name a file in it"),
        ("./pipe", "pipe"),
    ] {
        for line in [
            "create",
            "stat",
            "agent --host 1",
            "monitor --one-machine --host 1",
        ] {
            let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
            let refused = here.fails(1, &format!("{command} {place} {rest}"));
            assert!(refused.contains(place) && refused.contains(word), "{refused}");
        }
    }
    // A device of 4 KiB, as sysfs has it.
    let tiny = "/sys/kernel/mm/transparent_hugepage/enabled";
    assert!(here.fails(1, &format!("create {tiny}")).contains("too small"));
    // Files are not overwritten whatever one says.
    assert!(here.fails(2, "create ./p --overwrite").contains("devices"));
    here.ok("create ./p");
    assert!(here.fails(1, "create ./p --overwrite").contains("already"));
}

#[test]
fn liveness_locks_may_lie_on_another_file() {
    let here = Here::new();
    here.ok("create ./p --hosts 4 --lock-file locks");
    let mode = std::fs::metadata(here.path("locks"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut agent = here
        .command("agent ./p --host 1 --lock-file locks --health agent.sock".split(' '))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = agent.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    assert!(line.contains("is up"), "{line}");
    here.ok("put ./p k v --host 1 --lock-file locks");
    // By other locks no process would see which processes live.
    assert!(here.fails(1, "put ./p k w --host 1").contains("lock file"));
    let mut command = here.command(["get", "./p", "k", "--host", "1"]);
    let read = command.env("CENOTE_LOCK_FILE", "locks").output().unwrap();
    assert_eq!(read.stdout, b"v", "{read:?}");
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(
        here.fails(1, "create ./q --lock-file no/such/folder")
            .contains("liveness locks")
    );
}
