//! The ordered map beside ordered maps of one process, LMDB, redb and a tree in a pool.

use super::{More, Table, medians_of};
use crate::page::found::Found;
use crate::page::row::{Aim, Row};
use crate::page::stores::{GET, LOAD, SCAN, Stores, UPDATE};
use crate::subjects::Failure;
use crate::table::grouped;

const SCC: &[&str] = &["scc::TreeIndex"];
const SKIP: &[&str] = &["crossbeam::SkipMap"];
const CONCURRENT: &[&str] = &["concurrent-map"];
const OLC: &[&str] = &["BTreeOLC"];
const LMDB: &[&str] = &["LMDB, a txn an operation"];
const REDB: &[&str] = &["redb, a txn an operation"];

pub fn table(result: &Found) -> Result<Table, Failure> {
    let stores = Stores::read(result)?;
    let row = |what: &str, column, peers: &[&str], bound| {
        stores.row(what, column, peers, Some(Aim::RatioAtLeast(bound)))
    };
    let rows = vec![
        row("single gets a second, to scc::TreeIndex", GET, SCC, 2.0),
        row("single gets, to crossbeam's SkipMap", GET, SKIP, 3.0),
        row("single gets, to BTreeOLC in a pool", GET, OLC, 1.0),
        row("scans of 50 keys, to concurrent-map", SCAN, CONCURRENT, 1.0),
        row("inserts, to LMDB with a put a transaction", LOAD, LMDB, 10.0),
        row("updates, to LMDB with a put a transaction", UPDATE, LMDB, 10.0),
        row("single gets, to LMDB with a get a transaction", GET, LMDB, 3.0),
        row("inserts, to redb with a put a transaction", LOAD, REDB, 10.0),
        row("updates, to redb with a put a transaction", UPDATE, REDB, 10.0),
        row("single gets, to redb with a get a transaction", GET, REDB, 3.0),
    ];
    let (head, cells) = stores.medians();
    Ok(Table {
        setting: format!(
            "{} records of 8-byte keys and values, keys chosen uniformly, one thread; operations a second, {}",
            grouped(stores.records),
            medians_of(stores.rounds)
        ),
        rows,
        more: Some(More {
            words: 2,
            head,
            rows: cells,
        }),
    })
}

/// Single gets beside scc.
pub fn get_row(result: &Found) -> Result<Row, Failure> {
    let what = "ordered map: single gets a second";
    Ok(Stores::read(result)?.row(what, GET, SCC, None))
}
