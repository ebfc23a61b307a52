//! Workers of TPC-C's small store that are killed beside one that goes on: this process. It is the next owner of the
//! lock, is told that the last one died, and rolls back what that has left. Then all conditions of consistency hold; so
//! again and again.

use std::path::Path;
use std::time::{Duration, Instant};

use cenote_locked::tpcc::{Repairs, Terminals};
use serde_json::{Value, json};

use super::locks::Kind;
use super::tpcc::{SMALL, Tpcc};
use super::{Application, CASES, Case, Options, Share, is_wanted, start};
use crate::parts::Part;
use crate::progress::tell;
use crate::subjects::{Failure, check, temporary};
use crate::table::{Style, table};

/// Workers at a time.
const WORKERS: u64 = 2;
/// How long workers live at least.
const LIFE: Duration = Duration::from_millis(5);

/// What came of a kind of lock.
struct Outcome {
    kind: Kind,
    transactions: u64,
    repairs: Repairs,
}

/// Kills, checks and prints.
pub fn run(options: &Options, kills: u32) -> Result<(), Failure> {
    let (n, name) = (0..)
        .zip(CASES)
        .find_map(|(n, (name, case))| matches!(case, Case::Tpcc(SMALL)).then_some((n, name)))
        .ok_or_else(|| Failure::Broken("there is no small store".to_owned()))?;
    let mut outcomes = Vec::new();
    for kind in Kind::ALL {
        if kind.survives() && is_wanted(options, name, kind) {
            outcomes.push(of_kind(options, (n, kind), kills)?);
        }
    }
    check(
        !outcomes.is_empty(),
        "no kind of lock that survives its owner has such a name",
    )?;
    tell("");
    options.output.print(
        || json_of(&outcomes, kills),
        |style| {
            format!(
                "TPC-C on the small store, {kills} workers killed, {WORKERS} at a time, beside one that goes on; all conditions of consistency hold each time\n\n{}",
                text_of(&outcomes, style)
            )
        },
    );
    Ok(())
}

fn of_kind(options: &Options, (n, kind): (usize, Kind), kills: u32) -> Result<Outcome, Failure> {
    let directory = temporary("applications", Path::new("/dev/shm"))?;
    let folder = directory.path();
    let store = Tpcc::open(folder, kind, SMALL, Some(options.seed))?;
    let worker = |number: u64| {
        let share = Share {
            seed: options.seed,
            worker: 1 + number,
            workers: WORKERS,
        };
        let mut part = start(folder, (n, kind), options, (0, share))?;
        part.is_ready()?;
        part.say("go")?;
        Ok::<_, Failure>(part)
    };
    let mut terminals = Terminals::new(SMALL, options.seed, 0);
    let mut transactions = 0;
    let mut killed = 0;
    while killed < u64::from(kills) {
        tell(&format!("{}: {killed} killed", kind.name()));
        let mut workers = (killed..killed + WORKERS)
            .map(worker)
            .collect::<Result<Vec<_>, _>>()?;
        let begun = Instant::now();
        while begun.elapsed() < LIFE {
            store.execute(&terminals.next_input(), 1 + transactions)?;
            transactions += 1;
        }
        // Then this process is the next owner.
        workers.iter_mut().try_for_each(Part::kill)?;
        killed += WORKERS;
        store.check()?;
    }
    Ok(Outcome {
        kind,
        transactions,
        repairs: store.repairs(),
    })
}

fn text_of(outcomes: &[Outcome], style: Style) -> String {
    let rows: Vec<Vec<String>> = outcomes
        .iter()
        .map(|of| {
            vec![
                of.kind.name().to_owned(),
                of.transactions.to_string(),
                of.repairs.told.to_string(),
                of.repairs.rolled_back.to_string(),
            ]
        })
        .collect();
    let mut text = String::new();
    let head = ["lock", "its transactions", "notified of a death", "rolled back"];
    table(&mut text, style, 1, &head, &rows);
    text
}

fn json_of(outcomes: &[Outcome], kills: u32) -> Value {
    let rows: Vec<Value> = outcomes
        .iter()
        .map(|of| {
            json!({
                "lock": of.kind.name(),
                "transactions": of.transactions,
                "notified": of.repairs.told,
                "rolled_back": of.repairs.rolled_back,
            })
        })
        .collect();
    json!({ "command": "applications", "killed": kills, "rows": rows })
}
