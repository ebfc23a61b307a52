//! How soon a death is known: of a process, of a host, of the server of exchanges.

use super::Table;
use crate::page::found::Found;
use crate::page::row::{Row, Unit};
use crate::subjects::Failure;
use crate::table::median;

/// What Lupin's paper has for detection, and for the notification that follows, in microseconds.
const PAPER_US: [f64; 2] = [175.0, 106.0];
/// Places of the quantiles in the result of `detection`.
const QUANTILES: [(usize, &str); 2] = [(0, "median"), (2, "p99")];

/// A process that is killed.
pub fn detection(result: &Found) -> Result<Table, Failure> {
    let mut rows = Vec::new();
    for case in result.at("cases")?.items()? {
        let mebibytes = case.at("touched_mib")?.count()?;
        let paper = [Some(PAPER_US[0]), None, Some(PAPER_US[0] + PAPER_US[1])];
        for (figure, paper) in case.at("figures")?.items()?.iter().zip(paper) {
            let name = figure.at("name")?.text()?;
            for (place, quantile) in QUANTILES {
                let what = format!("{mebibytes} MiB touched, {name}: {quantile}");
                let row = Row::alone(what, Unit::Us, &[quantile_us(figure, place)?], None);
                rows.push(match paper {
                    Some(us) if place == 0 => row.with_peer(format!("the paper has {us} µs")),
                    _ => row,
                });
            }
        }
    }
    Ok(Table {
        setting: format!(
            "microseconds from just before `kill -9`; {} kills of each case, {} members that are told, each a process, {} \
             busy processes",
            result.at("kills")?.count()?,
            result.at("members")?.count()?,
            result.at("busy")?.count()?
        ),
        rows,
        more: None,
    })
}

/// How soon a process's death is seen.
pub fn detection_row(result: &Found) -> Result<Row, Failure> {
    let first = result.at("cases")?.place(0)?;
    let us = [quantile_us(&first.at("figures")?.item("name", "detected")?, 0)?];
    let row = Row::alone(
        "from `kill -9` until others know of the death, median",
        Unit::Us,
        &us,
        None,
    );
    Ok(row.with_peer(format!("Lupin's paper: {} µs", PAPER_US[0])))
}

fn quantile_us(figure: &Found, place: usize) -> Result<f64, Failure> {
    figure.at("us")?.place(place)?.number()
}

/// A host that is killed or stopped.
pub fn hosts(result: &Found) -> Result<Table, Failure> {
    let mut rows = Vec::new();
    for step in result.at("times")?.items()? {
        let (host, until) = (step.at("host")?.text()?, step.at("until")?.text()?);
        let ms = step.at("rounds_ms")?.numbers()?;
        rows.push(Row::alone(
            format!("{host}, until {until}: median"),
            Unit::Ms,
            &ms,
            None,
        ));
        let most = ms.iter().copied().reduce(f64::max);
        rows.push(Row::alone(
            format!("{host}, until {until}: most"),
            Unit::Ms,
            most.as_slice(),
            None,
        ));
    }
    Ok(Table {
        setting: format!(
            "milliseconds from the failure of a host (processes of one machine stand for it); {} rounds of each way to \
             fail, {} threads that compute meanwhile",
            result.at("rounds")?.count()?,
            result.at("load_threads")?.count()?
        ),
        rows,
        more: None,
    })
}

/// The server of exchanges that is killed.
pub fn takeover(result: &Found) -> Result<Table, Failure> {
    let mut rows = Vec::new();
    for times in result.at("times")?.items()? {
        let whose = times.at("longest")?.text()?;
        let ms = times.at("ms")?.numbers()?;
        for (what, ms) in [
            ("median", median(&ms)),
            ("most", ms.iter().copied().reduce(f64::max)),
        ] {
            rows.push(Row::alone(
                format!("longest exchange {whose}: {what}"),
                Unit::Ms,
                ms.as_slice(),
                None,
            ));
        }
    }
    Ok(Table {
        setting: format!(
            "{} processes exchange without pause while the one that executes exchanges is killed; {} rounds",
            result.at("clients")?.count()?,
            result.at("rounds")?.count()?
        ),
        rows,
        more: None,
    })
}
