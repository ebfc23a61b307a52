//! put, get, del and scan.

use std::process::Stdio;

use super::Here;

#[test]
fn a_key_lives_and_dies() {
    let here = Here::new();
    for kind in ["", " --noncoherent"] {
        let pool = format!("./p{}", kind.len());
        here.ok(&format!("create {pool}{kind}"));
        assert_eq!(here.ok(&format!("put {pool} k one")), "inserted\n");
        assert_eq!(here.ok(&format!("get {pool} k")), "one");
        assert_eq!(here.ok(&format!("put {pool} k two")), "replaced\n");
        assert!(
            here.fails(1, &format!("put {pool} k three --if-absent"))
                .contains("\"k\"")
        );
        assert_eq!(here.ok(&format!("put {pool} new -1 --if-absent")), "inserted\n");
        assert!(
            here.fails(1, &format!("put {pool} k three --expect one"))
                .contains("\"two\"")
        );
        assert!(
            here.fails(1, &format!("put {pool} none three --expect one"))
                .contains("no value")
        );
        assert_eq!(
            here.json(&format!("put {pool} k three --expect two"))["result"],
            "replaced"
        );
        assert_eq!(here.json(&format!("get {pool} k"))["value"], "three");
        assert_eq!(here.ok(&format!("put {pool} k else --map other")), "inserted\n");
        assert_eq!(here.ok(&format!("get {pool} k --map other")), "else");
        assert_eq!(here.ok(&format!("del {pool} k new")), "removed 2\n");
        assert!(here.fails(1, &format!("get {pool} k")).contains("no key \"k\""));
        assert!(
            here.fails(1, &format!("del {pool} k x"))
                .contains("\"k\", nor 1 others")
        );
        assert!(
            here.fails(1, &format!("get {pool} k --map none"))
                .contains("\"none\"")
        );
        assert_eq!(here.ok(&format!("fsck {pool}")).lines().last(), Some("clean"));
    }
}

#[test]
fn bytes_are_kept_as_they_are() {
    let here = Here::new();
    here.ok("create ./p");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(here.run_with("put ./p k -", &bytes).code, Some(0));
    assert_eq!(here.run("get ./p k").stdout, bytes);
    std::fs::write(here.path("file"), &bytes[1..]).unwrap();
    here.ok("put ./p k --file file");
    assert_eq!(here.run("get ./p k").stdout, &bytes[1..]);
    here.ok("put ./p empty --file /dev/null");
    assert_eq!(here.run("get ./p empty").stdout, b"");

    here.ok("put ./p 00fF 0a --hex");
    assert_eq!(here.ok("get ./p 00ff --hex"), "0a\n");
    assert_eq!(here.json("get ./p 00ff --hex")["key_hex"], "00ff");
    here.ok("put ./p 00ff 0b --hex --expect 0a");
    here.ok("del ./p 00ff --hex");
    here.fails(1, "get ./p 00ff --hex");
    here.fails(2, "get ./p 00f --hex");
    here.fails(2, "put ./p 00 zz --hex");
    here.fails(2, "put ./p k v --file file");
    here.fails(2, "put ./p k");
    here.fails(1, "put ./p k --file none");
    assert!(
        here.fails(1, &format!("put ./p {} v", "k".repeat(65_537)))
            .contains("65536")
    );
}

#[test]
fn scan_prints_pairs() {
    let here = Here::new();
    here.ok("create ./p");
    here.fails(1, "scan ./p");
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
        here.ok(&format!("put ./p {key} {value}"));
    }
    here.ok("put ./p 1b00 09ff --hex");
    let sorted = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        sorted(here.ok("scan ./p")),
        ["\\x1b\\x00\t\\t\\xff", "a\t1", "b\t2", "c\t3"]
    );
    assert_eq!(
        sorted(here.ok("scan ./p --keys-only")),
        ["\\x1b\\x00", "a", "b", "c"]
    );
    assert_eq!(
        sorted(here.ok("scan ./p --hex")),
        ["1b00\t09ff", "61\t31", "62\t32", "63\t33"]
    );
    assert_eq!(
        sorted(here.ok("scan ./p --json"))[0],
        r#"{"key":"\u001b\u0000","value_hex":"09ff"}"#
    );
    assert_eq!(here.ok("scan ./p --limit 2").lines().count(), 2);
    assert_eq!(here.ok("scan ./p --limit 0"), "");
}

#[test]
fn an_ordered_map_is_scanned_in_order() {
    let here = Here::new();
    for kind in ["", " --noncoherent"] {
        let pool = format!("./p{}", kind.len());
        here.ok(&format!("create {pool}{kind}"));
        for key in ["rome", "oslo", "paris", "a-longer-name", "madrid"] {
            assert_eq!(here.ok(&format!("put {pool} {key} 1 --ordered")), "inserted\n");
        }
        // Once it is there, its kind need not be said.
        assert_eq!(here.ok(&format!("put {pool} paris 2")), "replaced\n");
        assert_eq!(here.ok(&format!("get {pool} paris")), "2");
        assert_eq!(here.ok(&format!("del {pool} madrid")), "removed 1\n");
        assert_eq!(
            here.ok(&format!("scan {pool}")),
            "a-longer-name\t1\noslo\t1\nparis\t2\nrome\t1\n"
        );
        let keys = |line: &str| here.ok(&format!("scan {pool} --keys-only {line}"));
        assert_eq!(keys("--from oslo --to rome"), "oslo\nparis\n");
        assert_eq!(keys("--reverse --limit 2"), "rome\nparis\n");
        assert_eq!(keys("--reverse --from b --to paris"), "oslo\n");
        assert_eq!(keys("--from 70 --limit 1 --hex"), "7061726973\n");
        assert_eq!(keys("--from s"), "");
        assert_eq!(here.ok(&format!("export {pool} -")).lines().count(), 4);
        assert_eq!(here.json(&format!("stat {pool}"))["maps"][0]["keys"], 4);
        assert_eq!(here.ok(&format!("fsck {pool}")).lines().last(), Some("clean"));

        here.ok(&format!("put {pool} k v --map plain"));
        assert!(
            here.fails(2, &format!("scan {pool} --map plain --reverse"))
                .contains("order")
        );
        assert!(
            here.fails(1, &format!("put {pool} k v --map plain --ordered"))
                .contains("hash map")
        );
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let here = Here::new();
    here.ok("create ./p");
    let lines: String = (0..20_000).map(|n| format!("key {n}\tvalue {n}\n")).collect();
    assert_eq!(here.run_with("load ./p", lines.as_bytes()).code, Some(0));
    for line in [
        "scan ./p",
        "export ./p",
        "scan ./p --json",
        "get ./p nothing --map default --help",
    ] {
        let mut child = here
            .command(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ran = child.wait_with_output().unwrap();
        assert_eq!(
            (ran.status.code(), &ran.stderr[..]),
            (Some(0), &b""[..]),
            "{line}"
        );
    }
}
