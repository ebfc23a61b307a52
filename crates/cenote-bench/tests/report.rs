//! `cenote-bench report`: docs/benchmarks.md and README's rows are what it writes from docs/benchmarks; what is no
//! result is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cenote-bench"));
    command.args(arguments).current_dir(root());
    command.output().expect("it starts")
}

fn printed(arguments: &[&str]) -> String {
    let output = bench(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// The first line in which two texts differ.
fn difference(is: &str, wanted: &str) -> Option<String> {
    let (mut left, mut right) = (is.lines(), wanted.lines());
    (1..).find_map(|number| match (left.next(), right.next()) {
        (None, None) => Some(None),
        (a, b) if a == b => None,
        (a, b) => Some(Some(format!("line {number} is\n{a:?}\nand should be\n{b:?}"))),
    })?
}

/// What stands between the marks of README's results, if it has them.
fn between(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<!-- results -->\n")?;
    Some(rest.split_once("<!-- /results -->")?.0)
}

#[test]
fn the_page_is_what_report_writes() {
    let page = std::fs::read_to_string(root().join("docs/benchmarks.md")).expect("the page is there");
    if let Some(difference) = difference(&page, &printed(&["report", "docs/benchmarks"])) {
        panic!(
            "docs/benchmarks.md is not what its results say: {difference}\nrun: cargo run --release -p cenote-bench -- report \
             docs/benchmarks --out docs/benchmarks.md"
        );
    }
}

#[test]
fn the_rows_of_readme_are_what_report_prints() {
    let rows = printed(&["report", "docs/benchmarks", "--readme"]);
    assert!(
        (8..=12).contains(&rows.lines().filter(|line| line.starts_with('|')).count()),
        "{rows}"
    );
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README is there");
    let Some(found) = between(&readme) else { return };
    if let Some(difference) = difference(found.trim(), rows.trim()) {
        panic!(
            "README.md's results are not what was measured: {difference}\nrun: cargo run --release -p cenote-bench -- report \
             docs/benchmarks --readme\nand put what it prints between <!-- results --> and <!-- /results -->"
        );
    }
}

#[test]
fn a_difference_is_seen() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    let found = difference("a\nb\n", "a\nc\n").expect("they differ");
    assert!(found.starts_with("line 2 is"), "{found}");
    assert!(difference("a\n", "a\nb\n").is_some());
    assert_eq!(
        between("x\n<!-- results -->\nrows\n<!-- /results -->\n"),
        Some("rows\n")
    );
    assert_eq!(between("no marks"), None);
}

#[test]
fn misuse_is_told_from_failure() {
    for (arguments, status, said) in [
        (&["report"][..], 2, "required arguments were not provided"),
        (
            &["report", "docs/benchmarks", "--readme", "--out", "x"],
            2,
            "cannot be used with",
        ),
        (&["all", "--only", "fig13"], 2, "[possible values: hash,"),
        (&["all", "--report", "x"], 2, "--results"),
        (&["report", "nowhere.json"], 1, "nowhere.json: cannot be read"),
        (
            &["report", "crates/cenote-bench/Cargo.toml"],
            1,
            "Cargo.toml: is no JSON",
        ),
        (
            &["report", "docs/benchmarks", "docs/benchmarks/hash.json"],
            1,
            "are both of \"hash\"",
        ),
        (
            &["report", "docs/benchmarks", "--out", "/nowhere/x"],
            1,
            "/nowhere/x: cannot be written",
        ),
        (
            &["report", "docs/benchmarks/locks.json", "--readme"],
            1,
            "needs a result of hash",
        ),
    ] {
        let output = bench(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}

#[test]
fn a_result_with_a_gap_says_where() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("hash.json");
    let text =
        std::fs::read_to_string(root().join("docs/benchmarks/hash.json")).expect("the result is there");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    value["subjects"][1]["get_per_second"]["rounds"][0] = serde_json::Value::Null;
    std::fs::write(&path, value.to_string()).expect("there is room");
    let path = path.to_string_lossy();
    let output = bench(&["report", &path]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("subjects[1].get_per_second.rounds[0] is no number"),
        "{error}"
    );
    assert!(error.contains(&format!("-- hash --json > {path}")), "{error}");
}

#[test]
fn all_keeps_results_that_report_reads_or_refuses_if_the_build_was_not_optimised() {
    let folder = tempfile::tempdir().expect("there is room");
    let (results, page) = (folder.path().join("results"), folder.path().join("page.md"));
    let (results, page) = (results.to_string_lossy(), page.to_string_lossy());
    let arguments = [
        "all",
        "--only",
        "exchange",
        "--rounds",
        "1",
        "--results",
        &results,
        "--report",
        &page,
    ];
    let output = bench(&arguments);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.contains("by a server in another process: one process"),
        "{output:?}"
    );
    assert!(Path::new(&*results).join("exchange.json").exists());
    if cfg!(debug_assertions) {
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("was measured by a debug build"), "{error}");
    } else {
        let page = std::fs::read_to_string(&*page).expect("the page was written");
        assert!(
            page.contains("-- exchange --rounds 1`") && page.contains("Not measured."),
            "{page}"
        );
    }
}
