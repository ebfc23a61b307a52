//! Clusters whose verbs go by libfabric: tests of the other files again, in a process of this program.

use std::process::Command;

/// Runs those tests whose names have one of these parts, with verbs over libfabric; as many as there are parts.
fn again(parts: &[&str]) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(parts)
        .args(["--test-threads", "2"])
        .env("CENOTE_TEST_TRANSPORT", "ofi")
        .env("CENOTE_TEST_SECONDS", "4")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains(&format!(" {} passed", parts.len())),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_cluster_over_libfabric_does_what_one_over_tcp_does() {
    again(&[
        "promises::what_is_put_is_found_by_others",
        "promises::a_node_that_is_killed",
        "histories::histories_are_linearizable_under",
    ]);
}
