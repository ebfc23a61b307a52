//! Planted faults for the check of style.

use super::super::planted::{Planted, assert_one};
use super::*;

const FILE: &str = "crates/cenote/src/a.rs";

/// The errors in one Rust file that has a good header.
fn errors_in(test: &str, body: &str) -> Vec<String> {
    let text = format!("//! A file.\n{body}\n");
    Planted::new(test, &[(FILE, &text)]).errors(check)
}

#[test]
fn a_tidy_tree_has_no_findings() {
    let text = "//! A file.\n\n// SAFETY: none is needed.\nunsafe { f() }\n#[ignore = \"slow\"]\nfn t() {}\n";
    let planted = Planted::new(
        "style-good",
        &[
            (FILE, text),
            ("README.md", "# A\n\nSay `TODO` never.\n"),
            ("a/b.toml", "[a]\n"),
            ("empty.md", ""),
        ],
    );
    assert_eq!(planted.errors(check), Vec::<String>::new());
    assert_eq!(planted.warnings(check), Vec::<String>::new());
}

#[test]
fn a_missing_header_is_found_where_headers_are_due() {
    for (index, path) in [
        "crates/a/src/b.rs",
        "xtask/src/b.rs",
        "examples/b.rs",
        "fuzz/b.rs",
    ]
    .iter()
    .enumerate()
    {
        for (kind, text) in [
            "fn f() {}\n",
            "//!\n//! late\n",
            "// a comment\n",
            "/// doc\nfn f() {}\n",
            "",
        ]
        .iter()
        .enumerate()
        {
            let planted = Planted::new(&format!("style-header-{index}-{kind}"), &[(path, text)]);
            assert_one(&planted.errors(check), &format!("{path}:1: "), "module doc");
        }
    }
    assert!(
        Planted::new("style-header-elsewhere", &[("docs/a.rs", "fn f() {}\n")])
            .errors(check)
            .is_empty()
    );
}

#[test]
fn a_module_beside_its_folder_is_found_and_the_root_of_a_test_is_fine() {
    let planted = Planted::new(
        "style-beside",
        &[
            ("crates/a/src/b.rs", "//! A module.\nmod c;\n"),
            ("crates/a/src/b/c.rs", "//! A part of it.\n"),
            ("crates/a/src/d/mod.rs", "//! A module.\nmod e;\n"),
            ("crates/a/src/d/e.rs", "//! A part of it.\n"),
            ("crates/a/tests/f.rs", "//! A test.\n"),
            ("crates/a/tests/f/g.rs", "//! A part of it.\n"),
        ],
    );
    assert_one(
        &planted.errors(check),
        "crates/a/src/b.rs:1: ",
        "beside its folder",
    );
}

#[test]
fn a_long_file_warns_and_a_longer_one_fails() {
    let text = |lines: usize| format!("//! A file.\n{}", "// x\n".repeat(lines - 1));
    for (lines, warnings, errors) in [(600, 0, 0), (601, 1, 0), (1000, 1, 0), (1001, 0, 1)] {
        let planted = Planted::new(&format!("style-length-{lines}"), &[(FILE, &text(lines))]);
        assert_eq!(
            (planted.warnings(check).len(), planted.errors(check).len()),
            (warnings, errors),
            "{lines}"
        );
    }
}

#[test]
fn leftover_macros_are_found_in_code_only() {
    assert_one(
        &errors_in("style-todo", "\nfn f() { todo!() }"),
        "crates/cenote/src/a.rs:3: ",
        "`todo!`",
    );
    assert_one(
        &errors_in("style-unimplemented", "fn f() { unimplemented!(\"x\") }"),
        FILE,
        "`unimplemented!`",
    );
    assert_one(&errors_in("style-dbg", "fn f() { std::dbg!(1) }"), FILE, "`dbg!`");
    assert!(
        errors_in(
            "style-macro-words",
            "// never dbg!( here\nconst A: &str = \"todo!(\";"
        )
        .is_empty()
    );
}

#[test]
fn markers_are_found_in_comments_and_documents() {
    for (index, marker) in MARKERS.iter().enumerate() {
        let errors = errors_in(&format!("style-marker-{index}"), &format!("// {marker}: later"));
        assert_one(&errors, "crates/cenote/src/a.rs:2: ", marker);
        let planted = Planted::new(
            &format!("style-marker-md-{index}"),
            &[("a.md", &format!("\n({marker})\n"))],
        );
        assert_one(&planted.errors(check), "a.md:2: ", marker);
    }
    assert!(
        errors_in(
            "style-marker-part",
            "// mktemp XXXXXX\nconst TODO_LIST: &str = \"TODO\";"
        )
        .is_empty()
    );
}

#[test]
fn whitespace_is_checked_in_every_kind_of_file() {
    for (index, path) in ["crates/a.rs", "a.md", "a.toml"].iter().enumerate() {
        let fault = |name: &str, text: &str| {
            Planted::new(
                &format!("style-space-{index}-{name}"),
                &[(path, &format!("//! A\n{text}"))],
            )
            .errors(check)
        };
        assert_one(&fault("tab", "\tx\n"), &format!("{path}:2: "), "tab");
        assert_one(
            &fault("trailing", "x\ny \n"),
            &format!("{path}:3: "),
            "end of the line",
        );
        assert_one(
            &fault("carriage", "x\r\n"),
            &format!("{path}:2: "),
            "end of the line",
        );
        assert_one(&fault("end", "x"), &format!("{path}:2: "), "no line end");
    }
}

#[test]
fn unsafe_without_a_reason_is_found() {
    assert_one(
        &errors_in("style-unsafe", "fn f() { unsafe { g() } }"),
        FILE,
        "`unsafe {`",
    );
    assert_one(
        &errors_in("style-unsafe-impl", "unsafe impl Send for A {}"),
        FILE,
        "`unsafe impl`",
    );
    assert_one(
        &errors_in("style-unsafe-far", "// SAFETY: far\n\n\n\nunsafe { g() }"),
        FILE,
        "`unsafe {`",
    );
    assert_one(
        &errors_in("style-unsafe-string", "f(\"// SAFETY: x\");\nunsafe { g() }"),
        FILE,
        "`unsafe {`",
    );
    assert_one(
        &errors_in(
            "style-unsafe-other",
            "// SAFETY: x\n// y\nlet a = 1;\nlet b = 1;\nlet c = 1;\nunsafe { g() }",
        ),
        FILE,
        "`unsafe {`",
    );
}

#[test]
fn unsafe_with_a_reason_is_fine() {
    assert!(
        errors_in(
            "style-unsafe-near",
            "// SAFETY: near\nlet a =\n    f(\n        unsafe { g() });"
        )
        .is_empty()
    );
    assert!(errors_in("style-unsafe-same", "unsafe { g() } // SAFETY: here").is_empty());
    assert!(
        errors_in(
            "style-unsafe-long",
            "// SAFETY: a\n// b\n// c\n// d\n// e\n// f\nunsafe { g() }"
        )
        .is_empty()
    );
    assert!(errors_in("style-unsafe-fn", "unsafe fn f() {}\n// unsafe { in words }").is_empty());
}

#[test]
fn ignored_tests_need_a_reason() {
    for (index, attribute) in [
        "#[ignore]",
        "#[ignore = \"\"]",
        "#[cfg_attr(miri, ignore)]",
        "#[ignore = \" \"]",
    ]
    .iter()
    .enumerate()
    {
        let errors = errors_in(
            &format!("style-ignore-{index}"),
            &format!("#[test]\n{attribute}\nfn t() {{}}"),
        );
        assert_one(&errors, "crates/cenote/src/a.rs:3: ", "without a reason");
    }
    for (index, attribute) in [
        "#[ignore = \"slow\"]",
        "#[cfg_attr(miri, ignore = \"slow\")]",
        "#[other(ignore)]",
    ]
    .iter()
    .enumerate()
    {
        assert!(errors_in(&format!("style-ignore-good-{index}"), attribute).is_empty());
    }
}

#[test]
fn a_file_that_is_not_text_is_found() {
    let planted = Planted::new("style-bytes", &[]);
    planted.write("crates/a.rs", b"//! \xff\n");
    assert_one(
        &planted.errors(|tree| tree.unreadable()),
        "crates/a.rs:1: ",
        "UTF-8",
    );
}

#[test]
fn generated_folders_are_left_alone() {
    let planted = Planted::new(
        "style-generated",
        &[("target/a.md", "\t"), ("fuzz/target/a.rs", "\t")],
    );
    assert!(planted.errors(check).is_empty());
}

#[test]
fn code_spans_are_cut_out() {
    assert_eq!(without_code_spans("a `b` c `d` e"), "a ` c ` e");
    assert_eq!(without_code_spans("a `b"), "a `b");
    assert_eq!(without_code_spans("plain"), "plain");
}
