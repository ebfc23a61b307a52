//! Locks that many want at once.

use super::{More, Table, medians_of};
use crate::page::found::Found;
use crate::page::row::{Aim, Row, Unit};
use crate::subjects::Failure;
use crate::table::{median, ratio};
use crate::waiting::{KINDS, ROBUST, Seen};

/// The lock that the aims are of.
const MUTEX: usize = 0;

pub fn table(result: &Found) -> Result<Table, Failure> {
    let ms = result.at("ms")?.number()?;
    let by = result.at("by")?.text()?;
    let cases = result.at("rows")?.items()?;
    let figures: [fn(Seen, f64) -> f64; 3] = [
        |seen, ms| seen.holds as f64 * 1e3 / ms,
        |seen, _| seen.longest_over_mean(),
        |seen, ms| seen.cpu_ns as f64 / (ms * 1e4),
    ];
    let units = [Unit::Rate, Unit::Plain, Unit::Percent];
    let aims = [
        ("holds a second", Aim::RatioAtLeast(0.9)),
        ("longest wait over mean wait", Aim::RatioAtMost(1.0)),
        ("of a processor, of all together", Aim::RatioAtMost(1.0)),
    ];
    let (mut rows, mut more, mut rounds) = (Vec::new(), Vec::new(), 0);
    for case in &cases {
        let hold = case.at("hold_us")?.count()?;
        let parties = case.at("parties")?.count()?;
        let locks = case.at("locks")?;
        let seen = KINDS
            .map(|kind| -> Result<Vec<Seen>, Failure> { locks.item("lock", kind)?.at("rounds")?.read() });
        let seen = seen.into_iter().collect::<Result<Vec<_>, _>>()?;
        rounds = seen[MUTEX].len();
        let of = |kind: usize, figure: usize| -> Vec<f64> {
            seen[kind].iter().map(|&seen| figures[figure](seen, ms)).collect()
        };
        for (figure, (what, aim)) in aims.into_iter().enumerate() {
            let what = format!("{parties} {by}, {hold} µs a hold, mutex: {what}");
            let (ours, theirs) = (of(MUTEX, figure), of(ROBUST, figure));
            rows.push(Row::beside(
                what,
                units[figure],
                &ours,
                "robust pthread mutex",
                &theirs,
                Some(aim),
            ));
        }
        for (kind, name) in KINDS.into_iter().enumerate() {
            let mut cells = vec![parties.to_string(), format!("{hold} µs"), name.to_owned()];
            for (figure, unit) in units.into_iter().enumerate() {
                let (ours, theirs) = (of(kind, figure), of(ROBUST, figure));
                let ratios: Vec<f64> = ours
                    .iter()
                    .zip(&theirs)
                    .map(|(ours, theirs)| ours / theirs)
                    .collect();
                cells.push(unit.words(median(&ours)));
                cells.push(ratio(median(&ratios)));
            }
            more.push(cells);
        }
    }
    let head = vec![
        "parties",
        "hold",
        "lock",
        "holds/s",
        "to robust",
        "longest/mean",
        "to robust",
        "CPU",
        "to robust",
    ];
    Ok(Table {
        setting: format!(
            "holds of one lock, in which the holder sleeps, {ms} ms each; {}",
            medians_of(rounds as u64)
        ),
        rows,
        more: Some(More {
            words: 3,
            head,
            rows: more,
        }),
    })
}
