//! `cenote fsck`: checks a pool and accounts for every byte of it.

use std::fmt::Write;
use std::process::ExitCode;

use cenote::report::MapKind;
use cenote::{FsckReport, Options};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Output, bytes, count};
use crate::pool::{PoolArg, on_pool};
use crate::source::{ReadArg, on_source};

/// Arguments.
///
/// The exit code is 1 if anything is wrong. While other processes write to the pool, figures may be inconsistent, and
/// what they do may look like damage. Such a check is repeated up to five times; if they wrote during each, the answer
/// is that nothing is certain, with exit code 1.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pool: PoolArg,
    /// Free what is leaked; only while no other process has the pool open
    #[arg(long, conflicts_with = "read_only")]
    repair: bool,
    #[command(flatten)]
    read: ReadArg,
}

#[derive(Serialize)]
struct Answer<'r> {
    clean: bool,
    #[serde(flatten)]
    report: &'r FsckReport,
}

/// Checks the pool.
pub fn run(args: Args, out: &Output) -> Result<ExitCode, Failure> {
    let path = args.pool.existing()?;
    let report = if args.repair {
        on_pool!(&path, &Options::default(), |pool| pool.fsck_and_repair())
    } else {
        on_source!(&path, args.read, out, |source| source.fsck())
    };
    // Also where the answer is that others have the pool open: that is no misuse.
    let report = report.map_err(|error| Failure::failed(error.to_string()))?;
    let clean = report.is_clean();
    out.result(
        &Answer {
            clean,
            report: &report,
        },
        |answer| text(answer.report),
    )?;
    Ok(ExitCode::from(u8::from(!clean)))
}

/// The report, one section after the other. Writing to a string does not fail, so what `writeln!` returns is dropped.
fn text(report: &FsckReport) -> String {
    let mut text = String::new();
    figures(report, &mut text);
    contents(report, &mut text);
    repairs(report, &mut text);
    problems(report, &mut text);
    circumstances(report, &mut text);
    verdict(report, &mut text);
    text
}

/// Where its bytes are.
fn figures(report: &FsckReport, text: &mut String) {
    for (what, number) in [
        ("reachable", report.reachable_bytes),
        ("free", report.free_bytes),
        ("given back", report.given_back_bytes),
        ("retired", report.retired_bytes),
        ("held", report.held_bytes),
        ("overhead", report.overhead_bytes),
        ("leaked", report.leaked_bytes),
        ("committed", report.committed_bytes),
    ] {
        let _ = writeln!(
            text,
            "{what:<10} {:>18} bytes  {:>10}",
            count(number),
            bytes(number)
        );
    }
}

/// What is in it: maps, object stores, task lists.
fn contents(report: &FsckReport, text: &mut String) {
    for map in &report.maps {
        let places = match map.kind {
            MapKind::Ordered => format!("{} nodes", count(map.nodes)),
            MapKind::Hash => format!("{} slots, {} chain lines", count(map.slots), count(map.lines)),
        };
        let _ = writeln!(
            text,
            "map {:?}: {} keys in {places}, {} level{}",
            map.name,
            count(map.keys),
            map.levels,
            if map.levels == 1 { "" } else { "s" },
        );
    }
    for store in &report.objects {
        let found = &store.found;
        let _ = write!(
            text,
            "objects {:?}: {} of {} bytes, {} without a name",
            store.name,
            count(found.objects),
            count(found.bytes),
            count(found.unnamed),
        );
        let _ = match store.removed {
            0 => writeln!(text),
            removed => writeln!(text, "; repaired: {} removed", count(removed)),
        };
    }
    if report.dropped > 0 {
        let _ = writeln!(
            text,
            "{} maps or object stores were dropped and are still in use",
            count(report.dropped)
        );
    }
    for list in &report.tasks {
        let _ = writeln!(
            text,
            "tasks {:?}: {} of {} done, {} results",
            list.name,
            count(list.done),
            count(list.tasks),
            count(list.results),
        );
    }
}

/// What was repaired.
fn repairs(report: &FsckReport, text: &mut String) {
    if report.repaired_bytes > 0 {
        let _ = writeln!(
            text,
            "repaired: {} bytes were leaked and are free now",
            count(report.repaired_bytes)
        );
    }
    if report.repaired_places > 0 {
        let _ = writeln!(
            text,
            "repaired: records of {} places that no worker has were damaged and are in order now",
            count(report.repaired_places)
        );
    }
    for name in &report.repaired_names {
        let _ = writeln!(text, "repaired: a damaged name is {name:?} now");
    }
}

/// What is wrong, and what was not checked.
fn problems(report: &FsckReport, text: &mut String) {
    for problem in &report.problems {
        let _ = writeln!(text, "problem: {problem}");
    }
    for what in &report.unchecked {
        let _ = writeln!(text, "not checked: {what}");
    }
}

/// What may have changed the figures meanwhile.
fn circumstances(report: &FsckReport, text: &mut String) {
    if report.other_processes > 0 {
        let _ = writeln!(
            text,
            "{} other processes have the pool open",
            report.other_processes
        );
    }
    if report.unrecovered_processes > 0 {
        let _ = writeln!(
            text,
            "{} processes died and nobody has recovered them: what they had begun may look like damage",
            report.unrecovered_processes
        );
    }
    if report.without_place {
        let _ = writeln!(
            text,
            "read without a place{}: nobody was recovered and nothing freed before",
            match report.other_processes {
                0 => "",
                _ => " in a pool that others use",
            }
        );
    }
}

/// Whether it is clean; if not, what to do.
fn verdict(report: &FsckReport, text: &mut String) {
    let _ = match (report.is_clean(), report.problems.is_empty()) {
        (true, _) => writeln!(text, "clean"),
        _ if report.is_uncertain => writeln!(
            text,
            "not certain: other processes wrote meanwhile, and that may look like this; try again while they do not"
        ),
        (false, true) => writeln!(
            text,
            "not clean: memory is leaked; `cenote fsck --repair` frees it"
        ),
        (false, false) => writeln!(
            text,
            "not clean: {} problems; {}export what can be read",
            report.problems.len(),
            match report.leaked_bytes {
                0 => "",
                _ => "what seems leaked may belong to what is damaged, and is kept; ",
            },
        ),
    };
}
