//! C programs: several processes with both libraries, careless ones, ones that are killed; and the documented examples.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cenote_programs::{built, compile, succeed};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What a program that is linked with the static library needs besides.
const STATIC: &[&str] = &["-lpthread", "-ldl", "-lm", "-lrt", "-lgcc_s", "-lutil"];

/// Builds a program and runs it in a folder of its own, with these arguments behind the path of a pool that is not
/// there.
fn build_and_run(source: &Path, is_static: bool, arguments: &[&str]) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let program = folder.path().join("program");
    let include = format!("-I{ROOT}/include");
    let library = built(match is_static {
        true => "libcenote_ffi.a",
        false => "libcenote_ffi.so",
    });
    let rpath = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    let mut linked = vec![include.as_str(), library.to_str().unwrap()];
    match is_static {
        true => linked.extend(STATIC),
        false => linked.push(&rpath),
    }
    compile(source, &program, &linked);
    let mut command = Command::new(&program);
    command.arg(folder.path().join("pool")).args(arguments);
    let said = succeed(&mut command, Duration::from_secs(120));
    assert!(said.contains("all is well"), "{said}");
}

fn source(name: &str) -> PathBuf {
    Path::new(ROOT).join("tests/c").join(name)
}

#[test]
fn processes_in_c_with_the_shared_library() {
    build_and_run(&source("processes.c"), false, &[]);
}

#[test]
fn processes_in_c_with_the_static_library() {
    build_and_run(&source("processes.c"), true, &[]);
}

#[test]
fn processes_share_what_directory_locks_cover() {
    build_and_run(&source("dlock.c"), false, &[]);
}

#[test]
fn objects_of_threads_and_processes() {
    build_and_run(&source("objects.c"), false, &[]);
}

#[test]
fn careless_programs_are_refused_and_go_on() {
    build_and_run(&source("hostile.c"), false, &[]);
}

/// `CENOTE_SEED` repeats a run, `CENOTE_SECONDS` says how long it lasts.
#[test]
fn processes_are_killed_at_any_moment() {
    let variable = |name: &str, default: u64| std::env::var(name).map_or(default.to_string(), |value| value);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = variable("CENOTE_SEED", now.unwrap().as_secs() % 1_000_000);
    // Shown if the test fails.
    println!("CENOTE_SEED={seed}");
    build_and_run(
        &source("kills.c"),
        false,
        &[&variable("CENOTE_SECONDS", 3), &seed],
    );
}

/// C++ takes the header as well.
#[test]
fn the_header_in_cxx() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source.cc");
    std::fs::write(
        &source,
        "#include <cenote.h>\nint (*call)(cenote_rwlock *) = cenote_rwlock_unlock;\n",
    )
    .unwrap();
    let mut command = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    command
        .args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .arg(format!("-I{ROOT}/include"))
        .arg(source);
    succeed(&mut command, Duration::from_secs(60));
}

/// The examples in the documentation compile and run.
#[test]
fn the_documented_examples() {
    let page = std::fs::read_to_string(format!("{ROOT}/../../docs/c-interface.md")).unwrap();
    let examples: Vec<&str> = page
        .split("```c\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("example.c");
        std::fs::write(&source, example).unwrap();
        build_and_run(&source, false, &[]);
    }
}
