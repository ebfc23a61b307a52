//! The ordered map and stores that processes share: LMDB by several of them, redb by one, as it allows no more.

use super::{More, Table, medians_of};
use crate::page::found::Found;
use crate::page::row::Aim;
use crate::page::stores::{GET, LOAD, Stores, UPDATE};
use crate::subjects::Failure;
use crate::table::grouped;

pub fn table(result: &Found) -> Result<Table, Failure> {
    let all = Stores::read(&result.at("all")?)?;
    let one = Stores::read(&result.at("one")?)?;
    let row = |stores: &Stores, what: &str, column, peer: &str, bound| {
        stores.row(what, column, &[peer], Some(Aim::RatioAtLeast(bound)))
    };
    let rows = vec![
        row(&all, "inserts a second by processes, to LMDB", LOAD, "LMDB", 10.0),
        row(&all, "updates by processes, to LMDB", UPDATE, "LMDB", 10.0),
        row(
            &all,
            "gets by processes, to LMDB with a get a transaction",
            GET,
            "LMDB, a txn an operation",
            3.0,
        ),
        row(
            &all,
            "gets by processes, to LMDB in one transaction",
            GET,
            "LMDB, one txn",
            3.0,
        ),
        row(&one, "inserts by one process, to redb", LOAD, "redb", 10.0),
        row(&one, "updates by one process, to redb", UPDATE, "redb", 10.0),
        row(
            &one,
            "gets by one process, to redb with a get a transaction",
            GET,
            "redb, a txn an operation",
            3.0,
        ),
        row(
            &one,
            "gets by one process, to redb in one transaction",
            GET,
            "redb, one txn",
            3.0,
        ),
    ];
    let (head, cells) = all.medians();
    Ok(Table {
        setting: format!(
            "{}, {} records of 8-byte keys and values before the first round, keys chosen uniformly; operations a second, \
             {}; the second table is of all processes at once",
            result.at("all")?.at("setting")?.text()?,
            grouped(all.records),
            medians_of(all.rounds)
        ),
        rows,
        more: Some(More {
            words: 2,
            head,
            rows: cells,
        }),
    })
}
