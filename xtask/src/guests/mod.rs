//! `cargo xtask guests`: two virtual machines with kernels of their own share a pool. An agent is killed, guests are
//! stopped and switched off. Acknowledged writes must be there, the other guest must go on, and no guest may write
//! after its fence. See `docs/guests.md`.
//!
//! A control run has a fence that lies: the checks must see the writes after it.

mod cpio;
mod image;
mod judge;
mod machine;
mod plan;
mod pod;
mod report;
mod told;
mod trial;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::packages;
pub use plan::Plan;
use trial::{Row, Trial};

/// What the folders of runs are called, with the id of the process behind it.
const PREFIX: &str = "cenote-guests-";
/// Where they are: what guests share should be memory.
const PLACE: &str = "/dev/shm";

/// Runs the plan; the exit code says whether all is well.
pub fn run(root: &Path, plan: &Plan) -> ExitCode {
    match try_run(root, plan) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo xtask guests: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(root: &Path, plan: &Plan) -> Result<bool, String> {
    let progress = |text: &str| match plan.json {
        true => eprintln!("{text}"),
        false => println!("{text}"),
    };
    progress(&packages::install_missing(image::NEEDED)?);
    let folder = Folder::make()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let image = image::make(root, &target.join("guests"), &folder.0)?;
    progress(&format!(
        "two guests on {}, each with a kernel {}",
        version()?,
        image.release
    ));
    let tell = |row: &Row| match plan.json {
        true => println!("{}", report::json(row)),
        false => println!("{}", report::line(row)),
    };
    let mut rows = Vec::new();
    let trial = |memory, noncoherent, tells| Trial {
        image: &image,
        memory,
        noncoherent,
        tells,
        folder: &folder.0,
        tell: &tell,
    };
    if plan.told {
        for (&memory, &noncoherent) in plan.pods() {
            for tells in [false, true] {
                println!(
                    "{}",
                    told::told(&trial(memory, noncoherent, tells))?.line(plan.json)
                );
            }
        }
        return Ok(true);
    }
    if !plan.json {
        println!("{}", report::HEAD);
    }
    for (&memory, &noncoherent) in plan.pods() {
        rows.extend(trial(memory, noncoherent, false).run()?);
    }
    let mut is_seen = true;
    if plan.control {
        let writes = trial(plan.memories[0], plan.noncoherent[0], false).control()?;
        is_seen = writes > 0;
        let said = match is_seen {
            true => "as it must be",
            false => "so these checks see nothing",
        };
        progress(&format!(
            "control, a fence that lies: {writes} writes were seen after it, {said}"
        ));
    }
    let bad = rows.iter().filter(|row| !row.is_good()).count();
    progress(&format!("{} cases, {bad} of them bad", rows.len()));
    Ok(bad == 0 && is_seen)
}

/// What QEMU calls itself.
fn version() -> Result<String, String> {
    let said = output_of(Command::new("qemu-system-x86_64").arg("--version"))?;
    Ok(said.lines().next().unwrap_or("QEMU").to_owned())
}

/// Runs a command to its end, and returns what it prints; an error has what it says.
fn output_of(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{name} could not be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed ({}): {}", output.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The folder of a run, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    /// Makes one, and removes those of runs that were killed.
    fn make() -> Result<Self, String> {
        let place = Path::new(PLACE);
        let entries = std::fs::read_dir(place).map_err(|error| format!("{PLACE}: {error}"))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let process = name.strip_prefix(PREFIX).and_then(|id| id.parse::<u32>().ok());
            if process.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
                // Somebody else may remove it at the same time.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let folder = place.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next run removes what is left.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
