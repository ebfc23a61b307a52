//! What a second process adds.

use super::{Table, medians_of};
use crate::page::found::Found;
use crate::page::row::{Aim, Row, Unit};
use crate::processes::KINDS;
use crate::subjects::Failure;
use crate::table::grouped;

/// What two processes are to do, of what one does, for the first of [`KINDS`].
const AIMS: [Option<Aim>; KINDS.len()] = [
    Some(Aim::RatioAtLeast(1.7)),
    Some(Aim::RatioAtLeast(1.7)),
    None,
    None,
];

pub fn table(result: &Found) -> Result<Table, Failure> {
    let kinds = result.at("kinds")?;
    let mut rows = Vec::new();
    let mut rounds = 0;
    for ((kind, name), aim) in KINDS.into_iter().zip(AIMS) {
        let kind = kinds.item("kind", kind)?;
        let [one, two] =
            ["one_per_second", "two_per_second"].map(|who| kind.at(who)?.at("rounds")?.numbers());
        let (one, two) = (one?, two?);
        rounds = two.len() as u64;
        let what = format!("{name}: two processes at once");
        rows.push(Row::beside(what, Unit::Rate, &two, "one process", &one, aim));
    }
    Ok(Table {
        setting: format!(
            "{} records of 8-byte keys and values, zipfian 0.99, one coherent pool; {}",
            grouped(result.at("records")?.count()?),
            medians_of(rounds)
        ),
        rows,
        more: None,
    })
}
