//! group: members of several processes, the death of one, tokens.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use super::Here;

#[test]
fn the_others_are_told_who_dies() {
    let here = Here::new();
    here.ok("create ./p");
    assert!(here.fails(1, "group list ./p workers").contains("no group"));
    here.ok("group create ./p workers --token sesame");
    assert!(
        here.fails(1, "group join ./p workers --id a --token guess")
            .contains("token")
    );
    here.fails(2, "group join ./p workers --token sesame");
    let start = |line: &str| {
        let mut child = here
            .command(line.split_whitespace())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    let (mut zero, mut events) = start("--json group join ./p workers --id zero --token sesame");
    let mut next = || -> (String, String) {
        let event: Value = serde_json::from_str(&events.next().unwrap().unwrap()).unwrap();
        let word = |name: &str| event[name].as_str().unwrap().to_owned();
        (word("kind"), word("member"))
    };
    let mut expect = |kind: &str, member: &str| assert_eq!(next(), (kind.to_owned(), member.to_owned()));
    expect("joined", "zero");
    let (mut one, mut lines) = start("group join ./p workers --id one --token sesame");
    lines.next().unwrap().unwrap();
    here.ok("group join ./p workers --id two --token sesame --count 1");
    expect("joined", "one");
    expect("joined", "two");
    expect("left", "two");
    one.kill().unwrap();
    one.wait().unwrap();
    expect("died", "one");
    zero.kill().unwrap();
    zero.wait().unwrap();
    // A watcher is not notified of the past, and no member is notified of the watcher.
    assert_eq!(here.ok("group watch ./p workers --token sesame --timeout 0"), "");
    let text = here.ok("group list ./p workers --token sesame");
    assert!(text.contains("died") && text.contains("left"), "{text}");
    let stat = here.json("stat ./p");
    assert_eq!(stat["groups"][0]["members"], 0);
    let steps = stat["recent"].as_array().unwrap();
    assert!(
        steps.iter().any(|recovery| recovery["done"][0] == "groups"),
        "{stat}"
    );
    here.ok("fsck ./p");
}
