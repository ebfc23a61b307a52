//! Planted releases that say nothing, and planted excuses.

use super::super::planted::{Planted, assert_one};
use super::*;

const PUT: &str = "crates/cenote/src/index/hash/put.rs";

/// What is found in a function with this body, in a file of a folder that is covered.
fn errors(test: &str, body: &str) -> Vec<String> {
    errors_in(test, PUT, &format!("//! Put.\nfn put() {{\n{body}\n}}\n"))
}

fn errors_in(test: &str, path: &str, text: &str) -> Vec<String> {
    Planted::new(&format!("releases-{test}"), &[(path, text)]).errors(check)
}

#[test]
fn every_operation_that_says_nothing_is_found() {
    let calls = [
        "word.store(mem, 1);",
        "words.store(at, 1);",
        "local.store(1);",
        "mem.store_line(at, line);",
        "self.word().store_seq_cst(mem, epoch);",
        "let before = self.0.swap(mem, node.0);",
        "if word.compare_exchange(mem, 0, 1).is_err() { f() }",
        "let _ = mem.compare_exchange_acquire(at, 0, 1);",
        "mem.fence_and_exchange(word.offset(), current, next,)?;",
        "mem.exchange_as_last_server(at, from.encode(), to.encode());",
        "COUNT.fetch_add(mem, 1);",
        "self.worker.mem().fetch_or(at, 1 << (frame % 64));",
        "mem.fetch_and(at, !bit);",
        "while !local.busy.exchange(FREE, HELD) {}",
        "self.clock.add(1);",
        "let f = |from, to| word.compare_exchange_acquire(mem, from, to).is_ok();",
    ];
    for (n, call) in calls.iter().enumerate() {
        assert_one(
            &errors(&format!("bare-{n}"), call),
            &format!("{PUT}:3: "),
            "does not say who acquires it",
        );
    }
}

#[test]
fn what_is_no_release_is_left_alone() {
    let others = "word.load(mem); cell.set(1); owned.set(mem, 1); self.announce(slot); record.exchange(mem, from, to);\n\
        passed.add(&visit); total.add(retired); \"word.store(mem, 1)\"; // word.store(mem, 1)\n\
        store(mem, 1); fn store_seq_cst(mem: M, at: u64) {} M::store_seq_cst(mem, 1, 2);";
    assert_eq!(errors("others", others), Vec::<String>::new());
    let release = "//! A.\nfn f() { word.store(mem, 1); }\n";
    for path in [
        "crates/cenote/src/memory/a.rs",
        "crates/cenote/src/store/a.rs",
        "crates/cenote/src/index/baseline/a.rs",
        "crates/cenote/src/pod/tests/a.rs",
        "crates/cenote/src/pod/a_tests.rs",
        "crates/cenote-cli/src/pod/a.rs",
    ] {
        assert_eq!(
            errors_in("elsewhere", path, release),
            Vec::<String>::new(),
            "{path}"
        );
    }
    let tests = "//! A.\n#[cfg(test)]\nmod tests {\n    fn f() { word.store(mem, 1); }\n}\n";
    assert_eq!(errors_in("tests", PUT, tests), Vec::<String>::new());
    for path in ["crates/cenote/src/pod/a.rs", "crates/cenote/src/sync/a.rs"] {
        assert_one(&errors_in("covered", path, release), path, "who acquires it");
    }
}

#[test]
fn comments_of_the_statement_count() {
    let bodies = [
        "// PAIRS WITH: index::get\nword.store(mem, 1);",
        "word.store(mem, 1); // PAIRS WITH: index::get",
        "// Why.\n// PAIRS WITH: index::get\n// More of it.\nlet _ = self\n    .word()\n    .compare_exchange(mem, 0, 1);",
        "// NO PAIR: hint, and why\nword.store(mem, 1);",
        "if a(|x| { x })\n    // PAIRS WITH: index::get\n    && word.compare_exchange(mem, 0, 1).is_ok()\n{ f() }",
        "// PAIRS WITH: index::get\nlet _ = match M::COHERENT {\n    true => word.compare_exchange(mem, a, b),\n    false => mem.fence_and_exchange(at, a, b),\n};",
        "match a {\n    // NO PAIR: claim\n    A { b } => word.compare_exchange_acquire(mem, a, b),\n    // NO PAIR: count\n    _ => count.fetch_add(mem, 1),\n};",
        "let a = if b { c } else { d };\n// NO PAIR: unshared\nword.store(mem, a);",
    ];
    for (n, body) in bodies.iter().enumerate() {
        assert_eq!(errors(&format!("said-{n}"), body), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn comments_of_something_else_do_not() {
    let bodies = [
        ("// PAIRS WITH: index::get\n\nword.store(mem, 1);", 5),
        ("// PAIRS WITH: index::get\nf();\nword.store(mem, 1);", 5),
        ("// PAIRS WITH: index::get\nif a {\n    word.store(mem, 1);\n}", 5),
        (
            "// PAIRS WITH: index::get\nf(|| {\n    word.store(mem, 1);\n});",
            5,
        ),
        ("word.store(mem, 1);\n// PAIRS WITH: index::get", 3),
        ("// the mark `PAIRS WITH: index::get`\nword.store(mem, 1);", 4),
        (
            "// PAIRS WITH: index::get\nword.store(mem, 1);\nword.store(mem, 2);",
            5,
        ),
        (
            "match a {\n    // PAIRS WITH: index::get\n    A => word.store(mem, 1),\n    B => word.store(mem, 2),\n}",
            6,
        ),
    ];
    for (n, (body, line)) in bodies.iter().enumerate() {
        let found = errors(&format!("unsaid-{n}"), body);
        assert_one(&found, &format!("{PUT}:{line}: "), "who acquires it");
    }
}

#[test]
fn kinds_are_those_of_the_list() {
    assert_one(
        &errors("unknown", "// NO PAIR: obvious\nword.store(mem, 1);"),
        &format!("{PUT}:3: "),
        "`obvious`, which is no kind",
    );
    assert_one(
        &errors("none", "word.store(mem, 1); // NO PAIR:"),
        &format!("{PUT}:3: "),
        "which is no kind",
    );
    assert_one(
        &errors("claim", "// NO PAIR: claim\nword.store(mem, 1);"),
        &format!("{PUT}:3: "),
        "`store` releases, and is no claim",
    );
    assert_one(
        &errors("left", "// NO PAIR: hint\nword.load(mem);"),
        &format!("{PUT}:3: "),
        "stands at nothing that releases",
    );
}

#[test]
fn planted_faults_need_none() {
    let planted = "if mutant::is(Mutant::Early) {\n    word.store(mem, 1);\n} else { f(); }";
    assert_eq!(errors("mutant", planted), Vec::<String>::new());
    let planted = "mutant::also(Mutant::Early, || word.store(mem, f(1)));";
    assert_eq!(errors("mutant-also", planted), Vec::<String>::new());
    let planted = "mutant::also(Mutant::Early, || {\n    word.store(mem, f(1))\n});";
    assert_eq!(errors("mutant-block", planted), Vec::<String>::new());
    let beside = "mutant::also(Mutant::Early, || f(1));\n    word.store(mem, 1);";
    assert_one(
        &errors("mutant-beside", beside),
        &format!("{PUT}:4: "),
        "who acquires it",
    );
    for (n, condition) in [
        "!mutant::is(Mutant::Early)",
        "a || mutant::is(Mutant::Early)",
        "is(A)",
    ]
    .iter()
    .enumerate()
    {
        let body = format!("if {condition} {{\n    word.store(mem, 1);\n}}");
        assert_one(
            &errors(&format!("no-mutant-{n}"), &body),
            &format!("{PUT}:4: "),
            "who acquires it",
        );
    }
}
