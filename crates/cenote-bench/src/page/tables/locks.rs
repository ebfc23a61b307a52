//! What it costs that a lock survives its owner.

use super::{More, Table, medians_of};
use crate::page::found::Found;
use crate::page::row::{Aim, Row, Unit};
use crate::subjects::Failure;
use crate::table::median;

const ROBUST: &str = "pthread, robust, shared";
const MUTEX: &str = "cenote mutex";
/// By whom, as in the result.
const BY: [&str; 3] = ["alone", "two threads", "two processes"];

pub fn table(result: &Found) -> Result<Table, Failure> {
    let locks = result.at("locks")?;
    let below_1 = Some(Aim::RatioAtMost(1.0));
    let at_most = |bound| Some(Aim::RatioAtMost(bound));
    let rows = vec![
        row(&locks, MUTEX, ROBUST, "alone", below_1)?,
        row(&locks, "cenote queue", ROBUST, "alone", below_1)?,
        row(
            &locks,
            "cenote rw, read",
            "pthread rwlock, read",
            "alone",
            at_most(1.5),
        )?,
        row(
            &locks,
            "cenote rw, write",
            "pthread rwlock, write",
            "alone",
            at_most(1.5),
        )?,
        row(&locks, "cenote spin", "plain test-and-set", "alone", None)?,
        row(&locks, "cenote queue", "plain MCS", "alone", None)?,
    ];
    let mut more = Vec::new();
    let mut rounds = 0;
    for lock in locks.items()? {
        let name = lock.at("lock")?.text()?;
        let mut cells = vec![name.to_owned()];
        for by in BY {
            let figures = pairs(&locks, name, by)?;
            rounds = rounds.max(figures.len());
            cells.push(Unit::Ns.words(median(&figures)));
        }
        more.push(cells);
    }
    Ok(Table {
        setting: format!(
            "a pair of lock and unlock with one increment between; {}",
            medians_of(rounds as u64)
        ),
        rows,
        more: Some(More {
            words: 1,
            head: ["lock"].into_iter().chain(BY).collect(),
            rows: more,
        }),
    })
}

/// A mutex beside the robust one of the C library.
pub fn mutex_row(result: &Found) -> Result<Row, Failure> {
    let row = row(&result.at("locks")?, MUTEX, ROBUST, "alone", None)?;
    Ok(row.named("lock and unlock a mutex that survives its owner"))
}

fn row(locks: &Found, lock: &str, peer: &str, by: &str, aim: Option<Aim>) -> Result<Row, Failure> {
    let [ours, theirs] = [lock, peer].map(|lock| pairs(locks, lock, by));
    let what = format!("{}, {by}", lock.trim_start_matches("cenote "));
    Ok(Row::beside(what, Unit::Ns, &ours?, peer, &theirs?, aim))
}

/// Nanoseconds a pair in each round.
fn pairs(locks: &Found, lock: &str, by: &str) -> Result<Vec<f64>, Failure> {
    let lock = locks.item("lock", lock)?;
    lock.at("pairs")?.item("by", by)?.at("rounds")?.numbers()
}
