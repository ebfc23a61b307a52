//! The hash map beside maps of one process, LMDB and Redis.

use super::{More, Table, medians_of};
use crate::page::found::Found;
use crate::page::row::{Aim, Row};
use crate::page::stores::{BYTES, GET, GET_MANY, LOAD, Stores, UPDATE};
use crate::subjects::Failure;
use crate::table::grouped;

/// Maps of one process.
const MAPS: &[&str] = &["dashmap", "scc::HashIndex"];
const LMDB: &[&str] = &["LMDB, a txn an operation"];
const REDIS: &[&str] = &["Redis"];

pub fn table(result: &Found) -> Result<Table, Failure> {
    let stores = Stores::read(result)?;
    let row = |what: &str, column, peers: &[&str], aim| stores.row(what, column, peers, Some(aim));
    let at_least = Aim::RatioAtLeast;
    let rows = vec![
        row(
            "single gets a second, to the better map",
            GET,
            MAPS,
            at_least(0.6),
        ),
        row(
            "gets in batches, to the better map's best way",
            GET_MANY,
            MAPS,
            at_least(1.0),
        ),
        row("load from empty, to the better map", LOAD, MAPS, at_least(0.4)),
        row(
            "inserts, to LMDB with a put a transaction",
            LOAD,
            LMDB,
            at_least(50.0),
        ),
        row(
            "updates, to LMDB with a put a transaction",
            UPDATE,
            LMDB,
            at_least(50.0),
        ),
        row(
            "single gets, to LMDB with a get a transaction",
            GET,
            LMDB,
            at_least(5.0),
        ),
        row(
            "single gets, to LMDB at its fastest",
            GET,
            &["LMDB"],
            at_least(5.0),
        ),
        row("single gets, to Redis", GET, REDIS, at_least(30.0)),
        row("inserts, to Redis", LOAD, REDIS, at_least(30.0)),
        row("updates, to Redis", UPDATE, REDIS, at_least(30.0)),
        row(
            "memory for a record",
            BYTES,
            &["scc::HashIndex"],
            Aim::AtMost(64.0),
        ),
    ];
    let (head, cells) = stores.medians();
    Ok(Table {
        setting: format!(
            "{} records of 8-byte keys and values, zipfian 0.99, one thread; operations a second, {}",
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

/// Single gets beside a peer.
pub fn get_row(result: &Found, peer: &str) -> Result<Row, Failure> {
    let what = "hash map: single gets a second";
    Ok(Stores::read(result)?.row(what, GET, &[peer], None))
}

/// Updates beside a peer.
pub fn update_row(result: &Found, peer: &str) -> Result<Row, Failure> {
    let what = "hash map: updates a second";
    Ok(Stores::read(result)?.row(what, UPDATE, &[peer], None))
}
