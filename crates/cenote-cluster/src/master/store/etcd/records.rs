//! A state as records, so that a change writes what it changes, and no value is large: etcd takes 1.5 MiB and 128 keys
//! at once, unless it is told otherwise.
//!
//! | record | |
//! |---|---|
//! | `head` | everything but what follows; how much of that there is; whose change it was |
//! | `cells`, `nodes` | cells of no client; the nodes |
//! | `regions/K` | 64 regions |
//! | `sessions/N/client`, `sessions/N/blocks/K` | a client, and 1,024 of its blocks |
//! | `orphans/K` | 1,024 blocks of clients that have gone |
//!
//! Numbers in names have leading zeros, so that the order of names is that of numbers.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::master::state::{Block, SessionState, State};

/// Records by their names.
pub type Records = BTreeMap<String, Vec<u8>>;

/// The record that every change writes.
pub const HEAD: &str = "head";
/// The form of these records.
const FORMAT: u32 = 1;
/// Regions of a record.
const REGIONS: usize = 64;
/// Blocks of a record.
const BLOCKS: usize = 1024;

/// Whose change it was, and which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stamp {
    /// The number of the master's term.
    pub term: u64,
    /// Changes grow by one, also over terms.
    pub change: u64,
}

/// What the first record has.
#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    stamp: Stamp,
    /// Regions, blocks of nobody, clients, and blocks of clients.
    counts: [usize; 4],
    state: State,
}

fn counts(state: &State) -> [usize; 4] {
    let blocks = state.sessions.values().map(|session| session.blocks.len());
    [
        state.regions.len(),
        state.orphans.len(),
        state.sessions.len(),
        blocks.sum(),
    ]
}

fn text(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| error.to_string())
}

fn put_parts<T: Serialize>(records: &mut Records, name: &str, values: &[T], by: usize) -> Result<(), String> {
    for (number, part) in values.chunks(by).enumerate() {
        records.insert(format!("{name}/{number:06}"), text(&part)?);
    }
    Ok(())
}

/// The records of a state.
pub fn records(state: &State, stamp: Stamp) -> Result<Records, String> {
    let mut records = Records::new();
    put_parts(&mut records, "regions", &state.regions, REGIONS)?;
    put_parts(&mut records, "orphans", &state.orphans, BLOCKS)?;
    for (number, session) in &state.sessions {
        let client = SessionState {
            name: session.name.clone(),
            cells: session.cells,
            blocks: Vec::new(),
            ended: session.ended,
        };
        records.insert(format!("sessions/{number:010}/client"), text(&client)?);
        let blocks = format!("sessions/{number:010}/blocks");
        put_parts(&mut records, &blocks, &session.blocks, BLOCKS)?;
    }
    records.insert("cells".to_owned(), text(&state.free_cells)?);
    records.insert("nodes".to_owned(), text(&state.nodes)?);
    let head = Head {
        format: FORMAT,
        stamp,
        counts: counts(state),
        state: State {
            regions: Vec::new(),
            nodes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            free_cells: Vec::new(),
            orphans: Vec::new(),
            ..state.clone()
        },
    };
    records.insert(HEAD.to_owned(), text(&head)?);
    Ok(records)
}

fn read<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("{name} is no record of a cluster: {error}"))
}

fn take<T: DeserializeOwned>(records: &mut Records, name: &str) -> Result<T, String> {
    let bytes = records.remove(name).ok_or_else(|| format!("{name} is missing"))?;
    read(name, &bytes)
}

/// Takes the parts of one list, of which none is missing.
fn take_parts<T: DeserializeOwned>(records: &mut Records, name: &str) -> Result<Vec<T>, String> {
    let mut values = Vec::new();
    for number in 0_u32.. {
        let part = format!("{name}/{number:06}");
        match records.remove(&part) {
            Some(bytes) => values.extend(read::<Vec<T>>(&part, &bytes)?),
            None => break,
        }
    }
    Ok(values)
}

/// The state of these records, and whose change was the last.
pub fn state(mut records: Records) -> Result<(State, Stamp), String> {
    let Head {
        format,
        stamp,
        counts: expected,
        mut state,
    } = take(&mut records, HEAD)?;
    if format != FORMAT {
        return Err(format!(
            "it has form {format}, and this program reads form {FORMAT}"
        ));
    }
    state.free_cells = take(&mut records, "cells")?;
    state.nodes = take(&mut records, "nodes")?;
    state.regions = take_parts(&mut records, "regions")?;
    state.orphans = take_parts::<Block>(&mut records, "orphans")?;
    let clients: Vec<String> = records
        .keys()
        .filter(|name| name.ends_with("/client"))
        .cloned()
        .collect();
    for name in clients {
        let folder = name.trim_end_matches("/client");
        let number = folder.trim_start_matches("sessions/").parse();
        let number = number.map_err(|_| format!("{name} is no record of a cluster"))?;
        let mut session: SessionState = take(&mut records, &name)?;
        session.blocks = take_parts(&mut records, &format!("{folder}/blocks"))?;
        state.sessions.insert(number, session);
    }
    match records.keys().next() {
        None if counts(&state) == expected => Ok((state, stamp)),
        None => Err("the last record of a list is missing".to_owned()),
        Some(other) => Err(format!(
            "{other} belongs to nothing: a record before it is missing"
        )),
    }
}

/// What has to be put, and what to be removed, so that `old` becomes `new`.
pub fn difference<'r>(old: &'r Records, new: &'r Records) -> (Vec<(&'r str, &'r [u8])>, Vec<&'r str>) {
    let changed = new.iter().filter(|(name, bytes)| old.get(*name) != Some(bytes));
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    (
        changed
            .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
            .collect(),
        gone.map(String::as_str).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master::state::{Offer, Shape};

    const STAMP: Stamp = Stamp { term: 8, change: 3 };

    fn cluster() -> State {
        let offer = |port| Offer {
            address: ([127, 0, 0, 1], port).into(),
            memory: 1 << 30,
            incarnation: port.into(),
            outlives: false,
            mapped: false,
        };
        let shape = Shape {
            region_bytes: 4 << 20,
            block: 16 << 10,
            groups: 4,
            depth: 4,
            ..Shape::default()
        };
        State::new(shape, &[offer(1), offer(2), offer(3)]).unwrap()
    }

    #[test]
    fn states_survive_their_records() {
        let mut now = cluster();
        assert!(now.regions.len() > REGIONS);
        for n in 0..12 {
            let session = now.join(format!("client {n}")).unwrap().number;
            for given in 0..n * 300 {
                now.block(session, 64, given).unwrap();
            }
        }
        now.forget(12);
        assert!(now.orphans.len() > BLOCKS);
        now.add_node(Offer {
            address: ([127, 0, 0, 1], 9).into(),
            memory: 5,
            incarnation: 6,
            outlives: false,
            mapped: false,
        });
        assert_eq!(state(records(&now, STAMP).unwrap()), Ok((now, STAMP)));
    }

    #[test]
    fn a_record_that_is_missing_or_strange_is_told_of() {
        let mut now = cluster();
        let session = now.join("one".to_owned()).unwrap().number;
        for given in 0..2000 {
            now.block(session, 64, given).unwrap();
        }
        let whole = records(&now, STAMP).unwrap();
        for name in whole.keys() {
            let mut part = whole.clone();
            part.remove(name);
            assert!(state(part).is_err(), "without {name}");
            let mut part = whole.clone();
            part.insert(name.clone(), b"{".to_vec());
            assert!(state(part).unwrap_err().contains(name), "{name}");
        }
        assert_eq!(state(Records::new()), Err("head is missing".to_owned()));
    }

    #[test]
    fn a_change_writes_what_it_changes() {
        let mut now = cluster();
        let session = now.join("one".to_owned()).unwrap().number;
        let before = records(&now, STAMP).unwrap();
        now.block(session, 64, 0).unwrap();
        let after = records(&now, STAMP).unwrap();
        let (changed, gone) = difference(&before, &after);
        let names: Vec<&str> = changed.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            ["head", "regions/000000", "sessions/0000000001/blocks/000000"]
        );
        assert!(gone.is_empty());
        now.forget(session);
        let last = records(&now, STAMP).unwrap();
        let (_, gone) = difference(&after, &last);
        assert_eq!(gone.len(), 2);
    }
}
