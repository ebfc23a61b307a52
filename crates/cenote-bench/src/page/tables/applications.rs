//! A hash table and a store under locks of several kinds.

use super::{Table, medians_of};
use crate::page::found::Found;
use crate::page::row::{Row, Unit};
use crate::subjects::Failure;

const PEER: &str = "pthread rwlock";

pub fn table(result: &Found) -> Result<Table, Failure> {
    let measured = result.at("rows")?.items()?;
    let mut rows = Vec::new();
    let mut rounds = 0;
    for of in &measured {
        let (case, lock) = (of.at("application")?.text()?, of.at("lock")?.text()?);
        if lock == PEER {
            continue;
        }
        let ours = of.at("rounds")?.numbers()?;
        let theirs = rounds_of(&measured, case)?;
        rounds = rounds.max(ours.len());
        rows.push(Row::beside(
            format!("{case}: {lock}"),
            Unit::Rate,
            &ours,
            PEER,
            &theirs,
            None,
        ));
    }
    Ok(Table {
        setting: format!(
            "operations or transactions a second by two processes; {}",
            medians_of(rounds as u64)
        ),
        rows,
        more: None,
    })
}

/// What the peer has in a case; nothing if it was not measured.
fn rounds_of(measured: &[Found], case: &str) -> Result<Vec<f64>, Failure> {
    for of in measured {
        if of.at("application")?.text()? == case && of.at("lock")?.text()? == PEER {
            return of.at("rounds")?.numbers();
        }
    }
    Ok(Vec::new())
}
