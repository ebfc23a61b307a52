//! The stores of a result that `hash`, `ordered` or `together` has written.

use super::found::Found;
use super::row::{Aim, Row, Unit};
use crate::report::OURS;
use crate::subjects::Failure;
use crate::table::{median, nanoseconds, rate};

/// Columns of the result, and their titles.
const COLUMNS: [(&str, &str); 6] = [
    ("load_per_second", "load"),
    ("get_per_second", "get"),
    ("get_many_per_second", "get_many"),
    ("update_per_second", "update"),
    ("scan_per_second", "scan(50)"),
    ("bytes_per_record", "bytes a record"),
];
/// Places in [`COLUMNS`].
pub const LOAD: usize = 0;
pub const GET: usize = 1;
pub const GET_MANY: usize = 2;
pub const UPDATE: usize = 3;
pub const SCAN: usize = 4;
pub const BYTES: usize = 5;

/// A store, and the rounds of each column.
#[derive(Debug)]
struct Store {
    name: String,
    form: String,
    missing: Option<String>,
    rounds: [Vec<f64>; COLUMNS.len()],
}

/// All stores of a result.
#[derive(Debug)]
pub struct Stores {
    stores: Vec<Store>,
    /// Rounds that were asked for.
    pub rounds: u64,
    /// Records in each store.
    pub records: u64,
}

impl Store {
    fn is(&self, name: &str, form: &str) -> bool {
        self.name == name && self.form.contains(form)
    }

    /// The rounds of a column; of [`GET_MANY`], the best way to read.
    fn best(&self, column: usize) -> Vec<f64> {
        let rounds = &self.rounds[column];
        if column != GET_MANY {
            return rounds.clone();
        }
        let single = &self.rounds[GET];
        let batched = |round: usize| rounds.get(round).copied().unwrap_or(0.0);
        (0..single.len())
            .map(|round| single[round].max(batched(round)))
            .collect()
    }
}

impl Stores {
    /// Reads them.
    pub fn read(result: &Found) -> Result<Self, Failure> {
        let mut stores = Vec::new();
        for subject in result.at("subjects")?.items()? {
            let mut rounds: [Vec<f64>; COLUMNS.len()] = Default::default();
            for ((column, _), rounds) in COLUMNS.iter().zip(&mut rounds) {
                *rounds = subject.at(column)?.at("rounds")?.numbers()?;
            }
            stores.push(Store {
                name: subject.at("name")?.text()?.to_owned(),
                form: subject.at("form")?.text()?.to_owned(),
                missing: subject.at("missing")?.text_if_any()?.map(str::to_owned),
                rounds,
            });
        }
        Ok(Self {
            stores,
            rounds: result.at("rounds")?.count()?,
            records: result.at("records")?.count()?,
        })
    }

    /// Our coherent map beside the best of some peers in each round. A peer is a name, or `name, part of its form`.
    pub fn row(&self, what: &str, column: usize, peers: &[&str], aim: Option<Aim>) -> Row {
        let peers: Vec<&Store> = peers
            .iter()
            .flat_map(|peer| {
                let (name, form) = peer.split_once(", ").unwrap_or((peer, ""));
                self.stores.iter().filter(move |store| store.is(name, form))
            })
            .collect();
        let figures: Vec<(&Store, Vec<f64>)> =
            peers.iter().map(|store| (*store, store.best(column))).collect();
        let best_of = |round: usize| {
            let of_round = figures
                .iter()
                .filter_map(|(_, figures)| figures.get(round).copied());
            of_round.reduce(f64::max)
        };
        let best: Vec<f64> = (0..).map_while(best_of).collect();
        let named = figures
            .iter()
            .filter_map(|(store, figures)| Some((store, median(figures)?)))
            .reduce(|a, b| if b.1 > a.1 { b } else { a });
        let unit = if column == BYTES { Unit::Bytes } else { Unit::Rate };
        let row = Row::beside(what, unit, self.ours(column), "", &best, aim);
        row.with_peer(match (named, peers.first()) {
            (Some((store, figure)), _) => format!("{} {}", store.name, unit.words(Some(figure))),
            (None, Some(store)) => format!(
                "{}: {}",
                store.name,
                store.missing.as_deref().unwrap_or("no figure")
            ),
            (None, None) => "not measured".to_owned(),
        })
    }

    fn ours(&self, column: usize) -> &[f64] {
        let ours = self
            .stores
            .iter()
            .find(|store| store.is(OURS, "") && !matches!(&*store.form, "noncoherent" | "updates in place"));
        ours.map_or(&[], |store| &store.rounds[column])
    }

    /// Head and rows of the table of all stores: medians of the columns that our store has.
    pub fn medians(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let shown: Vec<usize> = (0..COLUMNS.len())
            .filter(|&column| !self.ours(column).is_empty())
            .collect();
        let titles = shown.iter().map(|&column| COLUMNS[column].1);
        let head = ["store", "how"].into_iter().chain(titles).collect();
        let cell = |store: &Store, column: usize| match median(&store.rounds[column]) {
            bytes @ Some(_) if column == BYTES => nanoseconds(bytes),
            figure => rate(figure),
        };
        let row = |store: &Store| {
            let how = store.missing.as_ref().unwrap_or(&store.form);
            let words = [store.name.clone(), how.clone()];
            words
                .into_iter()
                .chain(shown.iter().map(|&column| cell(store, column)))
                .collect()
        };
        (head, self.stores.iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::found::Origin;
    use serde_json::{Value, json};

    fn subject(name: &str, form: &str, gets: &[f64], batched: &[f64]) -> Value {
        let none = json!({ "rounds": [] });
        json!({
            "name": name, "form": form, "missing": gets.is_empty().then_some("not installed"),
            "load_per_second": none, "get_per_second": { "rounds": gets }, "get_many_per_second": { "rounds": batched },
            "update_per_second": none, "scan_per_second": none, "bytes_per_record": none,
        })
    }

    fn stores() -> Stores {
        let value = json!({ "rounds": 3, "records": 5, "subjects": [
            subject("cenote", "noncoherent", &[1.0, 1.0, 1.0], &[]),
            subject("cenote", "coherent", &[6.0, 9.0, 10.0], &[20.0, 20.0, 20.0]),
            subject("dashmap", "fxhash", &[10.0, 5.0, 20.0], &[]),
            subject("scc::HashIndex", "fxhash", &[5.0, 10.0, 20.0], &[10.0, 40.0, 10.0]),
            subject("LMDB", "slow", &[1.0, 1.0, 1.0], &[]),
            subject("LMDB", "fast", &[2.0, 2.0, 2.0], &[]),
            subject("Redis", "socket", &[], &[]),
        ]});
        let origin = Origin {
            file: "x",
            command: "hash",
        };
        Stores::read(&Found::root(&value, origin)).expect("all is there")
    }

    fn ratio_and_peer(column: usize, peers: &[&str]) -> (Option<f64>, String) {
        let json = stores().row("x", column, peers, None).json();
        (
            json["ratio"].as_f64(),
            json["peer"].as_str().unwrap_or_default().to_owned(),
        )
    }

    #[test]
    fn ratios_are_to_the_best_of_each_round() {
        let maps = &["dashmap", "scc::HashIndex"];
        assert_eq!(ratio_and_peer(GET, maps).0, Some(0.6));
        assert_eq!(
            ratio_and_peer(GET_MANY, maps).0,
            Some(1.0),
            "the best way to read of each"
        );
        assert_eq!(
            ratio_and_peer(GET, &["LMDB, slow"]),
            (Some(9.0), "LMDB 1.0/s".to_owned())
        );
        assert_eq!(
            ratio_and_peer(GET, &["LMDB"]),
            (Some(4.5), "LMDB 2.0/s".to_owned())
        );
        assert_eq!(
            ratio_and_peer(GET, &["Redis"]),
            (None, "Redis: not installed".to_owned())
        );
    }

    #[test]
    fn the_table_has_the_columns_of_our_store() {
        let (head, rows) = stores().medians();
        assert_eq!(head, ["store", "how", "get", "get_many"]);
        assert_eq!(rows[6], ["Redis", "not installed", "-", "-"]);
        assert_eq!(rows[1], ["cenote", "coherent", "9.0", "20.0"]);
    }
}
