//! Allocation beside `malloc` and the figures of Lupin's paper.

use super::{More, Table, medians_of};
use crate::page::found::Found;
use crate::page::row::{Aim, Row, Unit};
use crate::subjects::Failure;
use crate::table::median;

/// What the paper has for an allocation and for a free of a large block, in microseconds.
const PAPER_US: [f64; 2] = [1.6, 2.0];
const MEMORIES: [(&str, &str); 3] = [
    ("coherent", "coherent"),
    ("noncoherent", "`noncoherent` backend"),
    ("malloc", "malloc"),
];

pub fn table(result: &Found) -> Result<Table, Failure> {
    let mut rows = Vec::new();
    let mut rounds = 0;
    for pair in result.at("pairs")?.items()? {
        let bytes = pair.at("bytes")?.count()?;
        let ours = pair.at("cenote_ns")?.at("rounds")?.numbers()?;
        let theirs = pair.at("malloc_ns")?.at("rounds")?.numbers()?;
        rounds = ours.len() as u64;
        let what = format!("allocate and free, {bytes} bytes");
        let aim = Some(Aim::AtMost(15.0));
        rows.push(Row::beside(what, Unit::Ns, &ours, "malloc", &theirs, aim));
    }
    let put = result.at("put_remove_ns")?.at("rounds")?.numbers()?;
    rows.push(Row::alone("put and remove of a new key", Unit::Ns, &put, None));
    let mut more = Vec::new();
    for block in result.at("blocks")?.items()? {
        let mebibytes = block.at("mebibytes")?.count()?;
        let us = |memory: &str, call: &str| -> Result<Vec<f64>, Failure> {
            let ns = block.at(memory)?.at(call)?.numbers()?;
            Ok(ns.into_iter().map(|ns| ns / 1e3).collect())
        };
        for ((call, what), paper) in [("allocate_ns", "allocate"), ("free_ns", "free")]
            .into_iter()
            .zip(PAPER_US)
        {
            let ours = us("coherent", call)?;
            let row = Row::alone(
                format!("{what} a block of {mebibytes} MiB"),
                Unit::Us,
                &ours,
                Some(Aim::AtMost(paper)),
            );
            rows.push(row.with_peer(format!("the paper has {}", Unit::Us.words(Some(paper)))));
        }
        for (memory, name) in MEMORIES {
            let [allocate, free] = ["allocate_ns", "free_ns"].map(|call| us(memory, call));
            let cells = [median(&allocate?), median(&free?)].map(|us| Unit::Us.words(us));
            more.push(
                [format!("{mebibytes} MiB"), name.to_owned()]
                    .into_iter()
                    .chain(cells)
                    .collect(),
            );
        }
    }
    Ok(Table {
        setting: medians_of(rounds),
        rows,
        more: Some(More {
            words: 2,
            head: vec!["block", "memory", "allocate", "free"],
            rows: more,
        }),
    })
}
