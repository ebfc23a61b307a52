//! Lookups on memory without coherence, in units of a line.

use super::{More, Table, medians_of};
use crate::page::found::Found;
use crate::page::row::{Aim, Row, Unit};
use crate::subjects::Failure;
use crate::table::{grouped, median, ratio};

/// The form with all guidelines.
const BEST: &str = "P3";
/// What is counted of lines that come from memory if nothing is cached.
const FROM_MEMORY: [&str; 3] = ["sync_loads", "line_fetches", "protected_lines"];

pub fn table(result: &Found) -> Result<Table, Failure> {
    let (forms, line) = (result.at("forms")?, result.at("line_ns")?);
    let best = forms.item("form", BEST)?;
    let of = |series: &Found, way: &str| series.at(way)?.numbers();
    let hit = of(&best.at("hit_ns")?, "back_to_back")?;
    let unit = of(&line, "back_to_back")?;
    let counts = best.at("counts_hit")?;
    let counted = best.at("counted_operations")?.number()?;
    let mut fetched = 0.0;
    for count in FROM_MEMORY {
        fetched += counts.at(count)?.number()?;
    }
    let one_line = "one line: flush, fence, load:";
    let rows = vec![
        Row::beside(
            "a hit",
            Unit::Ns,
            &hit,
            one_line,
            &unit,
            Some(Aim::RatioAtMost(3.5)),
        ),
        Row::beside(
            "a hit whose key hangs on the last one",
            Unit::Ns,
            &of(&best.at("hit_ns")?, "dependent")?,
            one_line,
            &of(&line, "dependent")?,
            None,
        ),
        Row::alone(
            "fetched by a hit if nothing is cached, counted",
            Unit::Lines,
            &[fetched / counted],
            Some(Aim::AtMost(3.0)),
        ),
    ];
    let mut more = Vec::new();
    for form in forms.items()? {
        let hit = form.at("hit_ns")?;
        let figures = [
            of(&hit, "back_to_back")?,
            of(&hit, "dependent")?,
            form.at("insert_ns")?.numbers()?,
            vec![form.at("insert_mean_ns")?.number()?],
        ];
        let cells = figures.map(|figures| Unit::Ns.words(median(&figures)));
        let [hit, dependent, insert, mean] = cells;
        more.push(vec![
            form.at("form")?.text()?.to_owned(),
            hit,
            ratio(Some(form.at("hit_lines")?.number()?)),
            dependent,
            ratio(Some(form.at("hit_lines_dependent")?.number()?)),
            insert,
            ratio(Some(form.at("insert_lines")?.number()?)),
            mean,
        ]);
    }
    let head = [
        "guidelines",
        "hit",
        "lines",
        "dependent hit",
        "lines",
        "insert",
        "lines",
        "mean insert",
    ];
    Ok(Table {
        setting: format!(
            "{} records of 8-byte keys and values, hits uniform; {}",
            grouped(result.at("records")?.count()?),
            medians_of(hit.len() as u64)
        ),
        rows,
        more: Some(More {
            words: 1,
            head: head.to_vec(),
            rows: more,
        }),
    })
}
