//! Clusters whose verbs go by libfabric: the tests of the other files again, as processes of this program.

use std::process::Command;

/// Runs tests whose names have a part, with verbs over libfabric.
fn again(part: &str, seconds: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([part, "--test-threads", "3"])
        .env("CENOTE_TEST_TRANSPORT", "ofi")
        .env("CENOTE_TEST_SECONDS", seconds)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && !said.contains(" 0 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn promises_are_kept() {
    again("promises::", "1");
}

#[test]
fn histories_are_linearizable() {
    again("histories::", "5");
}
