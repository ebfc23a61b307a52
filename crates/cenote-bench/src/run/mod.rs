//! What a result says of its own run: the arguments, the build, the machine, when it was, and what else the machine
//! did.
//!
//! [`begin`] notes the load before anything is measured; [`Run::ended`] notes it again and adds the rest. Every JSON
//! that a command prints holds this as `run`, and `cenote-bench report` prints what it says beside the figures.

mod date;
mod machine;

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

pub use machine::Machine;

static LOAD_BEFORE: OnceLock<String> = OnceLock::new();

/// Where and how figures were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Of the command, without the program's name and without how to print.
    pub arguments: Vec<String>,
    /// The version of this crate.
    pub version: String,
    /// `release` or `debug`, and what the environment changed of the profile.
    pub build: String,
    /// The day it ended, in UTC.
    pub date: String,
    /// `/proc/loadavg` when it began and when it ended: what runs, this program included.
    pub load: [String; 2],
    /// What it ran on.
    pub machine: Machine,
}

/// Notes the load before anything is measured.
pub fn begin() {
    LOAD_BEFORE.get_or_init(load);
}

impl Run {
    /// The run of this process, which ends now.
    pub fn ended() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            arguments: spoken(std::env::args().skip(1)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: build(),
            date: date::of_days(now.as_secs() / 86_400),
            load: [LOAD_BEFORE.get_or_init(load).clone(), load()],
            machine: Machine::here(),
        }
    }

    /// Whether its figures are those of optimised code.
    pub fn is_optimised(&self) -> bool {
        self.build.starts_with("release")
    }

    /// Whether more was runnable before or after it than the processors and one of its own: then others ran too.
    pub fn is_disturbed(&self) -> bool {
        let most = (self.machine.processors + 1) as f64;
        let last_minute = |load: &String| load.split(' ').next().and_then(|word| word.parse::<f64>().ok());
        self.load.iter().filter_map(last_minute).any(|load| load > most)
    }
}

/// The arguments that say what is measured, and not how it is printed.
fn spoken(arguments: impl Iterator<Item = String>) -> Vec<String> {
    arguments
        .filter(|argument| argument != "--json" && argument != "--markdown")
        .collect()
}

/// The profile, and what overrides it.
fn build() -> String {
    match option_env!("CARGO_PROFILE_RELEASE_LTO") {
        _ if cfg!(debug_assertions) => "debug".to_owned(),
        Some(lto) => format!("release, LTO {lto}"),
        None => "release".to_owned(),
    }
}

/// The mean number of runnable threads in the last 1, 5 and 15 minutes.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_to_print_is_no_part_of_what_was_run() {
        let words = ["hash", "--json", "--rounds", "3", "--markdown"].map(str::to_owned);
        assert_eq!(spoken(words.into_iter()), ["hash", "--rounds", "3"]);
    }

    #[test]
    fn a_run_is_read_back_as_it_was_written() {
        begin();
        let run = Run::ended();
        let text = serde_json::to_string(&run).expect("it is plain data");
        assert_eq!(serde_json::from_str::<Run>(&text).ok(), Some(run.clone()));
        assert_eq!(run.load[1].split(' ').count(), 3, "{run:?}");
        assert_eq!(run.is_optimised(), !cfg!(debug_assertions));
    }

    #[test]
    fn who_has_more_company_than_processors_is_disturbed() {
        let mut run = Run::ended();
        run.machine.processors = 2;
        for (load, is_so) in [("3.00 9.00 9.00", false), ("3.01 0.00 0.00", true), ("", false)] {
            run.load = ["0.10 0.20 0.30".to_owned(), load.to_owned()];
            assert_eq!(run.is_disturbed(), is_so, "{load}");
        }
    }
}
