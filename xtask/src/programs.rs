//! Runs all test programs of the workspace, as many at a time as there are processors. Cargo runs one after the other,
//! and many of ours wait most of the time, or use one processor.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use crate::process;
use crate::test::cargo;

/// Those that take minutes. They begin first, so that no processor waits for one of them at the end.
const LONG: [&str; 11] = [
    "crash",
    "cli",
    "crash_locks",
    "hosts",
    "runs",
    "exhaustive",
    "killed",
    "damaged",
    "library",
    "maps",
    "processes",
];

/// Those of them that a quick run has all the same.
const LONG_AND_QUICK: [&str; 2] = ["library", "maps"];

/// Those whose tests run in so many parts, each a process of its own. Threads that the simulator kills run no
/// destructors, so what they have on the heap stays until the process ends: all tests of `runs` in one process would
/// need some 20 GB.
const IN_PARTS: [(&str, usize); 1] = [("runs", 8)];

/// A test program, or a part of its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    /// Its package and its name.
    name: String,
    file: PathBuf,
    /// Its package's folder, where it runs.
    folder: PathBuf,
    /// The tests of this part; empty if it has all.
    tests: Vec<String>,
}

/// Runs all programs that `cargo test` with these arguments builds, or those that take no minutes. The error names those
/// that failed; what they printed has been printed.
pub fn run(root: &Path, arguments: &[String], quick: bool) -> Result<(), String> {
    let output = Command::new(cargo())
        .arg("test")
        .args(arguments)
        .args(["--no-run", "--message-format=json"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo failed ({})", output.status));
    }
    let mut programs = in_order(programs(&String::from_utf8_lossy(&output.stdout)));
    if quick {
        programs.retain(|program| !takes_minutes(program));
    }
    let programs: Vec<Program> = programs
        .into_iter()
        .map(in_parts)
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    if programs.is_empty() {
        return Err("cargo names no test program".into());
    }
    let (left, failed) = (Mutex::new(programs.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().expect("no lane panics").next();
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let begun = Instant::now();
                    let (outcome, printed) = run_one(program);
                    let seconds = begun.elapsed().as_secs_f64();
                    let mut failed = failed.lock().expect("no lane panics");
                    match outcome {
                        Ok(()) => println!(
                            "{:32} passed in {seconds:6.1} s{}",
                            program.name,
                            counts(&printed)
                        ),
                        Err(why) => {
                            println!("{printed}\n{}, after {seconds:.1} s: {why}", program.name);
                            failed.push(program.name.clone());
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no lane panics");
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{} of {} programs failed: {}",
            failed.len(),
            programs.len(),
            failed.join(", ")
        )),
    }
}

/// Runs one, and returns what it printed.
fn run_one(program: &Program) -> (Result<(), String>, String) {
    let mut printed = String::new();
    let outcome = captured(program, &mut printed);
    (outcome, printed)
}

fn captured(program: &Program, printed: &mut String) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    // Of its own: parts of one program run at the same time.
    let name = program.name.replace([' ', ','], "-");
    let path = program.file.with_file_name(format!("{name}.printed"));
    let mut file = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(text)?;
    let mut command = Command::new(&program.file);
    if !program.tests.is_empty() {
        command.arg("--exact").args(&program.tests);
    }
    command
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(text)?)
        .stderr(file.try_clone().map_err(text)?);
    let outcome = process::run(command, process::LIMIT_DEFAULT).map_err(|failure| failure.to_string());
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(text)?;
    *printed = String::from_utf8_lossy(&bytes).into_owned();
    std::fs::remove_file(&path).map_err(text)?;
    outcome
}

/// The programs that cargo's messages name.
fn programs(messages: &str) -> Vec<Program> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter_map(|message: serde_json::Value| program(&message))
        .collect()
}

fn program(message: &serde_json::Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.file_name()?.to_str()?;
    let target = message["target"]["name"].as_str()?;
    Some(Program {
        name: format!("{package} {target}"),
        file: message["executable"].as_str()?.into(),
        folder: folder.into(),
        tests: Vec::new(),
    })
}

/// A program, in parts if it is one of those.
fn in_parts(program: Program) -> Result<Vec<Program>, String> {
    let is_it = |(target, _): &&(&str, usize)| program.name.rsplit(' ').next() == Some(target);
    let Some((_, count)) = IN_PARTS.iter().find(is_it) else {
        return Ok(vec![program]);
    };
    let listed = Command::new(&program.file)
        .arg("--list")
        .current_dir(&program.folder)
        .output()
        .map_err(|error| format!("{} does not list its tests: {error}", program.name))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(parts(&program, &listed, *count))
}

/// Tests that are neighbours are alike, so they go to different parts.
fn parts(program: &Program, listed: &str, count: usize) -> Vec<Program> {
    let tests: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    let part = |first: usize| Program {
        name: format!("{}, part {}", program.name, first + 1),
        tests: tests
            .iter()
            .skip(first)
            .step_by(count)
            .map(|name| (*name).to_owned())
            .collect(),
        ..program.clone()
    };
    (0..count.min(tests.len())).map(part).collect()
}

/// Those that take long first.
fn in_order(mut programs: Vec<Program>) -> Vec<Program> {
    let rank = |program: &Program| LONG.iter().position(|long| *long == target(program));
    programs.sort_by_key(|program| rank(program).unwrap_or(LONG.len()));
    programs
}

/// Whether a quick run goes without it.
fn takes_minutes(program: &Program) -> bool {
    LONG.contains(&target(program)) && !LONG_AND_QUICK.contains(&target(program))
}

/// The name of a program without its package's.
fn target(program: &Program) -> &str {
    program.name.rsplit(' ').next().unwrap_or_default()
}

/// How many tests have passed, by what a program printed; empty if it does not say.
fn counts(printed: &str) -> String {
    let results = printed
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. "));
    let counts: Vec<&str> = results.filter_map(|result| result.split(';').next()).collect();
    match counts.is_empty() {
        true => String::new(),
        false => format!(", {}", counts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"units"},"profile":{"test":true},"executable":"/t/units-1"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":false},"executable":"/t/a"}
{"reason":"compiler-artifact","manifest_path":"/w/b/Cargo.toml","target":{"name":"crash"},"profile":{"test":true},"executable":"/t/crash-2"}
{"reason":"build-finished","success":true}"#;

    #[test]
    fn programs_are_found_and_the_long_ones_begin() {
        let names: Vec<String> = in_order(programs(MESSAGES))
            .into_iter()
            .map(|program| program.name)
            .collect();
        assert_eq!(names, ["b crash", "a units"]);
        assert_eq!(
            programs(MESSAGES).iter().map(takes_minutes).collect::<Vec<_>>(),
            [false, true]
        );
    }

    #[test]
    fn each_test_is_in_one_part() {
        let program = programs(MESSAGES).remove(0);
        let parts = parts(
            &program,
            "a: test\nb: test\nc: test\nd: bench\n\n3 tests, 1 benchmark\n",
            2,
        );
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["a units, part 1", "a units, part 2"]);
        assert_eq!(
            (&parts[0].tests[..], &parts[1].tests[..]),
            (&["a".to_owned(), "c".to_owned()][..], &["b".to_owned()][..])
        );
    }

    #[test]
    fn counts_are_those_of_the_harness() {
        let printed = "test a ... ok\ntest result: ok. 3 passed; 0 failed; 1 ignored\n";
        assert_eq!(counts(printed), ", 3 passed");
        assert_eq!(counts("done"), "");
    }

    #[test]
    fn a_program_that_fails_is_told_with_what_it_printed() {
        let folder = std::env::temp_dir().join(format!("cenote-programs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("fails");
        std::fs::write(&file, "#!/bin/sh\necho what it printed; pwd; exit 3\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&file, mode).unwrap();
        let program = Program {
            name: "a fails".into(),
            file,
            folder: folder.clone(),
            tests: Vec::new(),
        };
        let (outcome, printed) = run_one(&program);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(outcome.unwrap_err().contains("exit status: 3"));
        assert!(printed.starts_with("what it printed\n") && printed.contains("cenote-programs-"));
    }
}
