//! What it costs to have a lock and what it covers again, and to hand both over.

use super::{Table, medians_of};
use crate::page::found::Found;
use crate::page::row::{Aim, Row, Unit};
use crate::subjects::Failure;

const COHERENT: &str = "cenote, coherent";
const NONCOHERENT: &str = "cenote, noncoherent";
const ROBUST: &str = "pthread, robust";

pub fn table(result: &Found) -> Result<Table, Failure> {
    let again = Some(Aim::AtMost(60.0));
    let mut rows = Vec::new();
    for (ours, aim) in [(COHERENT, None), (NONCOHERENT, again)] {
        for (what, figures, peer) in [
            ("again, to write", "again_to_write", "pthread rwlock"),
            ("again, to read", "again_to_read", "pthread rwlock"),
            ("a handover", "handover", ROBUST),
        ] {
            let aim = aim.filter(|_| figures != "handover");
            rows.push(row(result, (ours, peer), what, figures, aim)?);
        }
    }
    let rounds = figures_of(result, ROBUST, "handover")?.len();
    Ok(Table {
        setting: format!(
            "a lock and 4 KiB under it, in a pool: taken again by the process that had it last; handed over between two processes, each of which adds 1 to all words, \
             where the C library's locks have them copied out and back; {}",
            medians_of(rounds as u64)
        ),
        rows,
        more: None,
    })
}

/// A handover beside the robust mutex of the C library.
pub fn handover_row(result: &Found) -> Result<Row, Failure> {
    let row = row(result, (COHERENT, ROBUST), "a handover", "handover", None)?;
    Ok(row.named("hand a lock and 4 KiB over to another process"))
}

fn row(
    result: &Found,
    (ours, peer): (&str, &str),
    what: &str,
    figures: &str,
    aim: Option<Aim>,
) -> Result<Row, Failure> {
    let [mine, theirs] = [ours, peer].map(|lock| figures_of(result, lock, figures));
    let what = format!("{}: {what}", ours.trim_start_matches("cenote, "));
    Ok(Row::beside(what, Unit::Ns, &mine?, peer, &theirs?, aim))
}

fn figures_of(result: &Found, lock: &str, figures: &str) -> Result<Vec<f64>, Failure> {
    let lock = result.at("locks")?.item("lock", lock)?;
    lock.at(figures)?.at("rounds")?.numbers()
}
