//! A C program with several processes, linked with the shared and with the static library; and the documented example.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{built, compile, succeed};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What a program that is linked with the static library needs besides.
const STATIC: &[&str] = &["-lpthread", "-ldl", "-lm", "-lrt", "-lgcc_s", "-lutil"];

fn build_and_run(source: &Path, is_static: bool) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let program = folder.path().join("program");
    let include = format!("-I{ROOT}/include");
    let library = built(match is_static {
        true => "libcenote_ffi.a",
        false => "libcenote_ffi.so",
    });
    let rpath = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    let mut arguments = vec![include.as_str(), library.to_str().unwrap(), "-pthread"];
    match is_static {
        true => arguments.extend(STATIC),
        false => arguments.push(&rpath),
    }
    compile(source, &program, &arguments);
    let mut command = Command::new(&program);
    command.arg(folder.path().join("pool"));
    let said = succeed(&mut command, Duration::from_secs(120));
    assert!(said.contains("all is well"), "{said}");
}

#[test]
fn processes_in_c_with_the_shared_library() {
    build_and_run(&Path::new(ROOT).join("tests/c/processes.c"), false);
}

#[test]
fn processes_in_c_with_the_static_library() {
    build_and_run(&Path::new(ROOT).join("tests/c/processes.c"), true);
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

/// The example in the documentation compiles and runs.
#[test]
fn the_documented_example() {
    let page = std::fs::read_to_string(format!("{ROOT}/../../docs/c-interface.md")).unwrap();
    let example = page
        .split("```c\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("example.c");
    std::fs::write(&source, example.expect("the page has an example in C")).unwrap();
    build_and_run(&source, false);
}
