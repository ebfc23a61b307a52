//! `cargo xtask test`: every check that must pass, one step after the other; stops at the first that fails.

use crate::{api, deny, null_device, packages, process, programs, python, tidy};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SOAK_RUNS: u64 = 20;
const SOAK_SECONDS: u64 = 60;
const SMOKE_SECONDS: u64 = 10;
/// Cases of each test that damages pools, in a soak: a case takes some tenths of a second, and several tests have as
/// many.
const SOAK_CASES: [(&str, u64); 3] = [
    ("damage", 5_000),
    ("damage_ordered", 20_000),
    ("damage_live", 4_000),
];
/// How long a soak's torture by damage takes, on each memory.
const SOAK_DAMAGE_SECONDS: u64 = 1_800;
/// No part of a soak takes longer.
const SOAK_LIMIT: Duration = Duration::from_secs(6 * 60 * 60);
/// No build takes longer, from nothing and beside other work.
const BUILD_LIMIT: Duration = Duration::from_secs(45 * 60);
/// All features, so that one build has everything that is tested: crash points and planted faults are nothing until
/// they are asked for.
const FEATURES: &str = "--features cenote/crash-points,cenote-sim/mutants,cenote-replica/mutants,cenote-cli/etcd,cenote-cli/ofi,cenote-cli/tls";
/// What is tortured: `--map`, and what it means.
const MAPS: [(&str, &str); 3] = [
    ("hash", "hash maps"),
    ("ordered", "ordered maps"),
    ("objects", "object stores"),
];

/// What the command line asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    quick: bool,
    soak: bool,
    /// A suite of the Python package that is all that runs.
    only: Option<python::Suite>,
    seed: u64,
}

impl Options {
    /// Reads the arguments after `test`; the error is a sentence for the user.
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options {
            quick: false,
            soak: false,
            only: None,
            seed: 1,
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--soak" => options.soak = true,
                "--lmcache" => options.only = Some(python::Suite::Lmcache),
                "--ray" => options.only = Some(python::Suite::Ray),
                "--seed" => {
                    let value = arguments.next().ok_or("`--seed` needs a number")?;
                    options.seed = value
                        .parse()
                        .map_err(|_| format!("`--seed {value}` is not a number"))?;
                }
                other => return Err(format!("`test` knows no argument `{other}`")),
            }
        }
        if options.quick && options.soak {
            return Err("`--quick` and `--soak` contradict each other".into());
        }
        Ok(options)
    }
}

struct Step {
    name: String,
    work: Work,
}

enum Work {
    Packages,
    Tidy,
    Deny,
    Api,
    /// The arguments of one cargo command.
    Cargo(Vec<String>),
    /// The arguments of a cargo command that may take hours, how many cases its test has, and the first of them.
    Soak(Vec<String>, u64, u64),
    /// All test programs that cargo builds with these arguments.
    Programs {
        /// Of `cargo test`.
        arguments: Vec<String>,
        /// Whether those that take minutes are left out.
        quick: bool,
    },
    /// Tests of the Python package.
    Python(python::Suite),
    /// The planted faults that take few seeds, by the program that was built with the tests.
    Mutants,
    /// The arguments of the command that was built with the tests.
    Cenote(Vec<String>),
}

impl Step {
    fn cargo(name: &str, arguments: &str) -> Step {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Step {
            name: name.into(),
            work: Work::Cargo(arguments),
        }
    }

    fn cenote(name: &str, arguments: &str) -> Step {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Step {
            name: name.into(),
            work: Work::Cenote(arguments),
        }
    }

    fn soak(name: &str, arguments: &str, cases: u64, seed: u64) -> Step {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Step {
            name: name.into(),
            work: Work::Soak(arguments, cases, seed),
        }
    }

    /// What a person types to run this step alone.
    fn command_line(&self) -> String {
        match &self.work {
            Work::Packages => "apt-get install, if something is missing".into(),
            Work::Tidy => "cargo xtask tidy".into(),
            Work::Deny => "cargo xtask deny".into(),
            Work::Api => "cargo xtask api".into(),
            Work::Cargo(arguments) => format!("cargo {}", arguments.join(" ")),
            Work::Programs { arguments, .. } => format!("cargo test {} --tests", arguments.join(" ")),
            Work::Soak(arguments, 0, _) => format!("cargo {}", arguments.join(" ")),
            Work::Soak(arguments, cases, seed) => format!(
                "CENOTE_TEST_SEED={seed} CENOTE_DAMAGE_CASES={cases} cargo {}",
                arguments.join(" ")
            ),
            Work::Python(python::Suite::Package) => "cargo xtask python".into(),
            Work::Python(python::Suite::Lmcache) => "cargo xtask test --lmcache".into(),
            Work::Python(python::Suite::Ray) => "cargo xtask test --ray".into(),
            Work::Mutants => "cargo xtask mutants --quick".into(),
            Work::Cenote(arguments) => format!("cargo run -p cenote-cli -- {}", arguments.join(" ")),
        }
    }

    fn run(&self, root: &Path) -> Result<(), String> {
        let mut limit = process::LIMIT_DEFAULT;
        let mut command = match &self.work {
            Work::Packages => {
                return packages::install_missing(packages::NEEDED).map(|outcome| println!("{outcome}"));
            }
            Work::Tidy => return tidy::run(root).then_some(()).ok_or_else(|| "found errors".into()),
            Work::Api => {
                return api::run(root, false)
                    .then_some(())
                    .ok_or_else(|| "the interface has changed".into());
            }
            Work::Python(suite) => return python::run(root, *suite),
            Work::Deny => return deny::run(root).then_some(()).ok_or_else(|| "found errors".into()),
            Work::Programs { arguments, quick } => return programs::run(root, arguments, *quick),
            Work::Cargo(arguments) => {
                limit = BUILD_LIMIT;
                let mut command = Command::new(cargo());
                command.args(arguments);
                command
            }
            Work::Soak(arguments, cases, seed) => {
                limit = SOAK_LIMIT;
                let mut command = Command::new(cargo());
                command.args(arguments);
                if *cases > 0 {
                    command
                        .env("CENOTE_TEST_SEED", seed.to_string())
                        .env("CENOTE_DAMAGE_CASES", cases.to_string());
                }
                command
            }
            Work::Mutants => {
                let beside = std::env::current_exe().map_err(|error| error.to_string())?;
                let mut command = Command::new(beside.with_file_name("mutants"));
                // It finds its table from its crate's folder; without this the variable names the folder of `xtask`.
                command
                    .arg("--quick")
                    .env("CARGO_MANIFEST_DIR", root.join("crates/cenote-sim"));
                command
            }
            Work::Cenote(arguments) => {
                let beside = std::env::current_exe().map_err(|error| error.to_string())?;
                let mut command = Command::new(beside.with_file_name("cenote"));
                command.args(arguments);
                command
            }
        };
        command.current_dir(root);
        process::run(command, limit).map_err(|failure| failure.to_string())
    }
}

/// The cargo that started us, so that a chosen toolchain is kept.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Arguments of a run of torture.
fn torture(map: &str, seed: u64, seconds: u64) -> String {
    format!("torture --workers 4 --seconds {seconds} --seed {seed} --map {map} --json")
}

fn steps(options: &Options) -> Vec<Step> {
    if let Some(suite) = options.only {
        let name = match suite {
            python::Suite::Package => "the Python package",
            python::Suite::Lmcache => "the adapter for LMCache",
            python::Suite::Ray => "handles and the transport in Ray",
        };
        return vec![Step {
            name: name.into(),
            work: Work::Python(suite),
        }];
    }
    let mut steps = vec![
        Step {
            name: "system packages".into(),
            work: Work::Packages,
        },
        Step::cargo("format", "fmt --all --check"),
        Step {
            name: "tidy".into(),
            work: Work::Tidy,
        },
        Step {
            name: "dependencies".into(),
            work: Work::Deny,
        },
        Step::cargo(
            "clippy, what users have",
            "clippy --package cenote --package cenote-mapreduce --lib -- -D warnings",
        ),
        Step {
            name: "public interface".into(),
            work: Work::Api,
        },
        // The crates that have features; the next step looks at all.
        Step::cargo(
            "clippy, without features",
            "clippy --package cenote --package cenote-sim --package cenote-replica --package cenote-cli --all-targets -- -D warnings",
        ),
        Step::cargo(
            "clippy, all features",
            &format!("clippy --workspace --all-targets {FEATURES} -- -D warnings"),
        ),
        Step::cargo(
            "build of the tests",
            &format!("test --workspace {FEATURES} --no-run"),
        ),
        Step {
            name: "tests".into(),
            work: Work::Programs {
                arguments: format!("--workspace {FEATURES}")
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect(),
                quick: options.quick,
            },
        },
        Step::cargo(
            "examples in the documentation",
            &format!("test --workspace {FEATURES} --doc"),
        ),
        Step {
            name: "Python package".into(),
            work: Work::Python(python::Suite::Package),
        },
    ];
    if !options.quick {
        steps.push(Step {
            name: "mutants".into(),
            work: Work::Mutants,
        });
        for (map, noun) in MAPS {
            let arguments = torture(map, options.seed, SMOKE_SECONDS);
            let name = format!("torture, {noun}, seed {}", options.seed);
            steps.push(Step::cenote(&name, &arguments));
        }
        steps.push(Step::cenote("demo", "demo --json"));
    }
    if options.soak {
        steps.push(Step::cargo(
            "explorations with two preemptions",
            "test -p cenote-sim --release --test exhaustive -- --nocapture",
        ));
        for run in 0..SOAK_RUNS {
            let ((map, noun), seed) = (MAPS[run as usize % MAPS.len()], options.seed.wrapping_add(run));
            steps.push(Step::cargo(
                &format!("soak, {noun}, seed {seed}"),
                &format!(
                    "run --quiet --release -p cenote-cli -- {}",
                    torture(map, seed, SOAK_SECONDS)
                ),
            ));
        }
        for (test, cases) in SOAK_CASES {
            let arguments = format!(
                "test --release -p cenote --features crash-points --test damaged -- {test}:: --nocapture"
            );
            let seed = options.seed.wrapping_add(100_000);
            steps.push(Step::soak(
                &format!("soak of pools that are damaged, {test}"),
                &arguments,
                cases,
                seed,
            ));
        }
        for memory in ["", "--noncoherent"] {
            let (seconds, seed) = (SOAK_DAMAGE_SECONDS, options.seed);
            let arguments = format!(
                "run --quiet --release -p cenote-cli -- \
                 torture --damage --seconds {seconds} --workers 4 --seed {seed} --json {memory}"
            );
            steps.push(Step::soak(
                "soak of users of a pool that is damaged",
                &arguments,
                0,
                seed,
            ));
        }
    }
    steps
}

/// Runs the steps and prints the time of each; true if all of them passed.
pub fn run(root: &Path, options: &Options) -> bool {
    let steps = steps(options);
    let start = Instant::now();
    let mut times: Vec<Duration> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!(
            "\n=== step {} of {}: {}: {}",
            index + 1,
            steps.len(),
            step.name,
            step.command_line()
        );
        let step_start = Instant::now();
        let outcome = null_device::restore().and_then(|()| step.run(root));
        let time = step_start.elapsed();
        times.push(time);
        if let Err(reason) = outcome {
            println!(
                "\n=== FAILED after {:.1} s at step {} of {}, {}: {reason}\n    repeat it alone: {}",
                start.elapsed().as_secs_f64(),
                index + 1,
                steps.len(),
                step.name,
                step.command_line()
            );
            return false;
        }
        println!("=== passed in {:.1} s", time.as_secs_f64());
    }
    println!(
        "\n=== all {} steps passed in {:.1} s",
        steps.len(),
        start.elapsed().as_secs_f64()
    );
    for (step, time) in steps.iter().zip(times) {
        println!("    {:8.1} s  {}", time.as_secs_f64(), step.name);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&arguments)
    }

    fn names(options: &Options) -> Vec<String> {
        steps(options).into_iter().map(|step| step.name).collect()
    }

    #[test]
    fn reads_flags_and_refuses_the_rest() {
        assert_eq!(
            parse(""),
            Ok(Options {
                quick: false,
                soak: false,
                only: None,
                seed: 1
            })
        );
        assert_eq!(
            parse("--soak --seed 7"),
            Ok(Options {
                quick: false,
                soak: true,
                only: None,
                seed: 7
            })
        );
        assert!(parse("--quik").is_err());
        assert!(parse("--seed").is_err());
        assert!(parse("--seed many").is_err());
        assert!(parse("--quick --soak").is_err());
    }

    #[test]
    fn a_suite_that_is_asked_for_is_all_that_runs() {
        assert_eq!(names(&parse("--lmcache").unwrap()), ["the adapter for LMCache"]);
        assert_eq!(
            names(&parse("--ray").unwrap()),
            ["handles and the transport in Ray"]
        );
    }

    #[test]
    fn quick_leaves_out_what_takes_minutes_and_soak_adds_seeds() {
        let usual = names(&parse("").unwrap());
        let quick = names(&parse("--quick").unwrap());
        let soak = steps(&parse("--soak --seed 100").unwrap());
        assert_eq!(usual[..quick.len()], quick);
        assert_eq!(
            usual[quick.len()..],
            [
                "mutants",
                "torture, hash maps, seed 1",
                "torture, ordered maps, seed 1",
                "torture, object stores, seed 1",
                "demo"
            ]
        );
        assert_eq!(soak.len(), usual.len() + 26);
        let lines: Vec<String> = soak[usual.len()..].iter().map(Step::command_line).collect();
        assert!(lines[20].ends_with("--seconds 60 --seed 119 --map ordered --json"));
        assert!(lines[21].starts_with("CENOTE_TEST_SEED=100100 CENOTE_DAMAGE_CASES=5000 cargo test"));
        assert!(lines[25].ends_with("--damage --seconds 1800 --workers 4 --seed 100 --json --noncoherent"));
    }
}
