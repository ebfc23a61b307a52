//! Files that cannot grow, as on a full disk: the system refuses to write beyond a limit.

use std::path::Path;
use std::process::Command as Process;

use super::tests::{FOLDER, all, batch, map, model, small};
use super::{Durable, DurableError};

/// Batches until which a limit must have shown.
const BATCHES: u64 = 4_000;

/// Executes batches until one is refused, and says so.
#[test]
#[ignore = "run by the test beside it, with a limit"]
fn child() {
    let folder = std::env::var(FOLDER).unwrap();
    let mut opened = Durable::open(Path::new(&folder), map(4), small()).unwrap();
    let mut has_snapshot_failed = false;
    for number in 1..BATCHES {
        if let Err(refused) = opened.execute(&batch(number)) {
            assert!(matches!(refused, DurableError::File { .. }), "{refused}");
            let again = opened.execute(&batch(number)).unwrap_err();
            assert!(matches!(again, DurableError::NotLogged { .. }), "{again}");
            println!("refused after {}, {has_snapshot_failed}", number - 1);
            return;
        }
        has_snapshot_failed |= opened.snapshot_error().is_some();
    }
}

/// What children say that may write files of so many KiB at most: how many batches were acknowledged, and whether a
/// snapshot failed before one was refused.
fn fill(folder: &Path, kib: u32) -> (u64, bool) {
    // A write beyond the limit then fails, and does not end the process.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", 2 * kib);
    let said = Process::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "durable::full_tests::child",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    let refused = text.split_once("refused after ").map(|(_, rest)| rest);
    let mut words = refused
        .unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&said.stderr)))
        .split([',', ' ', '\n']);
    let acknowledged = words.next().unwrap().parse().unwrap();
    (acknowledged, words.nth(1) == Some("true"))
}

#[test]
fn what_was_acknowledged_on_a_full_disk_is_there() {
    // A log that is refused before it takes a snapshot, and snapshots that are.
    for (kib, snapshots) in [(16, false), (48, true), (100, true)] {
        let folder = tempfile::tempdir().unwrap();
        let (acknowledged, has_snapshot_failed) = fill(folder.path(), kib);
        assert!(acknowledged > 0, "{kib} KiB");
        assert_eq!(
            has_snapshot_failed, snapshots,
            "{kib} KiB, {acknowledged} batches"
        );
        let mut opened = Durable::open(folder.path(), map(4), small()).unwrap();
        let found = all(&mut opened);
        let which = (acknowledged..=acknowledged + 1).find(|batches| model(*batches) == found);
        let done = which.unwrap_or_else(|| panic!("{kib} KiB: not what {acknowledged} batches leave"));
        // With room again it goes on, and what was left is made good.
        opened.execute(&batch(done + 1)).unwrap();
        opened.snapshot().unwrap();
        drop(opened);
        let mut opened = Durable::open(folder.path(), map(4), small()).unwrap();
        assert_eq!(all(&mut opened), model(done + 1));
        assert!(!folder.path().join("snapshot.new").exists());
    }
}
