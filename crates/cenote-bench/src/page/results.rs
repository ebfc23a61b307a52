//! Result files: the JSON that the commands print, read again and checked.
//!
//! A file is of one command, or of `all`, which holds those of several. What a table needs of it is checked where it is
//! needed, by [`Found`]; here it is checked that it is of a command that a table is of, that it says where it was
//! measured, and that optimised code was.

use super::found::{Found, Origin};
use super::tables::TABLES;
use crate::run::Run;
use crate::subjects::Failure;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A result of one command.
#[derive(Debug)]
pub struct ResultFile {
    file: String,
    /// One of [`TABLES`].
    pub command: &'static str,
    /// Where and how it was measured.
    pub run: Run,
    value: Value,
}

/// Results, at most one of each command.
#[derive(Debug, Default)]
pub struct Results(Vec<ResultFile>);

impl Results {
    /// Reads files; of a folder, all whose names end in `.json`.
    pub fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut results = Self::default();
        for path in paths {
            for file in files(path)? {
                let text = std::fs::read_to_string(&file).map_err(|error| unreadable(&file, &error))?;
                let name = file.display().to_string();
                let value = serde_json::from_str(&text).map_err(|error| no_json(&name, &error))?;
                results.add(&name, value)?;
            }
        }
        match results.0.iter().find(|result| !result.run.is_optimised()) {
            Some(result) => Err(Failure::Broken(format!(
                "{}: was measured by a {} build, whose figures mean nothing; {}",
                result.file,
                result.run.build,
                again(result.command)
            ))),
            None => Ok(results),
        }
    }

    /// Adds what a command has printed; `file` is what errors call it.
    pub fn add(&mut self, file: &str, value: Value) -> Result<(), Failure> {
        let origin = Origin { file, command: "all" };
        let command = Found::root(&value, origin).at("command")?.text()?;
        if command == "all" {
            let results = value.get("results").and_then(Value::as_array).cloned();
            return results
                .unwrap_or_default()
                .into_iter()
                .try_for_each(|value| self.add(file, value));
        }
        let Some((command, _)) = TABLES.iter().find(|(known, _)| *known == command) else {
            let known: Vec<&str> = TABLES.iter().map(|(known, _)| *known).collect();
            return Err(Failure::Broken(format!(
                "{file}: command is \"{command}\", which no table is of; give results of cenote-bench: {}",
                known.join(", ")
            )));
        };
        if let Some(other) = self.of(command) {
            return Err(Failure::Broken(format!(
                "{} and {file} are both of \"{command}\"; give one of them",
                other.file
            )));
        }
        let run = Found::root(&value, Origin { file, command }).at("run")?.read()?;
        self.0.push(ResultFile {
            file: file.to_owned(),
            command,
            run,
            value,
        });
        Ok(())
    }

    /// The result of a command.
    pub fn of(&self, command: &str) -> Option<&ResultFile> {
        self.0.iter().find(|result| result.command == command)
    }

    /// All of them.
    pub fn all(&self) -> &[ResultFile] {
        &self.0
    }
}

impl ResultFile {
    /// Its values.
    pub fn found(&self) -> Found<'_> {
        let origin = Origin {
            file: &self.file,
            command: self.command,
        };
        Found::root(&self.value, origin)
    }
}

/// How to measure something again.
fn again(command: &str) -> String {
    format!("measure again: cargo run --release -p cenote-bench -- {command} --json")
}

/// A file, or those of a folder in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
    let paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>();
    let mut files = paths.map_err(|error| unreadable(path, &error))?;
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    if files.is_empty() {
        return Err(Failure::Broken(format!(
            "{0}: holds no result (a file that ends in .json); measure: cargo run --release -p cenote-bench -- all --results \
             {0}",
            path.display()
        )));
    }
    Ok(files)
}

#[cold]
fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Broken(format!(
        "{}: cannot be read ({error}); give a file that `cenote-bench COMMAND --json` has printed, or a folder of such",
        path.display()
    ))
}

#[cold]
fn no_json(file: &str, error: &serde_json::Error) -> Failure {
    Failure::Broken(format!(
        "{file}: is no JSON ({error}); {} > {file}",
        again("COMMAND")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(command: &str, build: &str) -> Value {
        let mut run = serde_json::to_value(Run::ended()).expect("it is plain data");
        run["build"] = json!(build);
        json!({ "command": command, "run": run })
    }

    /// What is said of a file that holds this.
    fn said(text: &str) -> String {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("x.json");
        std::fs::write(&path, text).expect("there is room");
        let said = match Results::read(&[folder.path().to_owned()]) {
            Ok(results) => format!("{} read", results.all().len()),
            Err(error) => error.to_string(),
        };
        said.replace(&format!("{}", path.display()), "x.json")
    }

    #[test]
    fn what_is_no_result_is_refused_with_what_and_where_and_what_to_do() {
        let debug = result("hash", "debug").to_string();
        let half = r#"{"command":"hash","run":{"arguments":[]}}"#;
        for (text, parts) in [
            ("{", ["x.json: is no JSON (EOF", "--json > x.json"]),
            ("{}", ["x.json: command is missing", "measure again"]),
            (
                r#"{"command":3}"#,
                ["x.json: command is no text", "measure again"],
            ),
            (
                r#"{"command":"pcc/fig13"}"#,
                [
                    "command is \"pcc/fig13\"",
                    "no table is of; give results of cenote-bench: hash,",
                ],
            ),
            (
                r#"{"command":"hash"}"#,
                ["x.json: run is missing", "-- hash --json > x.json"],
            ),
            (
                half,
                [
                    "x.json: run cannot be read (missing field `version`)",
                    "-- hash --json",
                ],
            ),
            (
                &debug,
                ["x.json: was measured by a debug build", "-- hash --json"],
            ),
        ] {
            let said = said(text);
            assert!(parts.iter().all(|part| said.contains(part)), "{text}: {said}");
        }
    }

    #[test]
    fn results_of_all_are_those_of_its_commands_and_each_is_there_once() {
        let [hash, locks] = ["hash", "locks"].map(|command| result(command, "release, LTO fat"));
        let all = json!({ "command": "all", "results": [hash, locks] });
        assert_eq!(said(&all.to_string()), "2 read");
        let twice = json!({ "command": "all", "results": [hash, hash] });
        assert!(said(&twice.to_string()).contains("are both of \"hash\""));
    }

    #[test]
    fn a_folder_or_file_that_is_not_there_or_empty() {
        let folder = tempfile::tempdir().expect("there is room");
        for (path, part) in [
            (folder.path().to_owned(), "holds no result"),
            (folder.path().join("x.json"), "cannot be read"),
        ] {
            let error = Results::read(&[path]).expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
