//! Medians and ratios as aligned text, as Markdown and as JSON.

use crate::table::{Style, grouped, median, rate, ratio, table};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The subject whose ratios to all others are printed.
pub const OURS: &str = "cenote";

/// A report's figures and how they came about.
pub struct Report {
    /// `hash`, `ordered` or `together`.
    pub command: &'static str,
    /// Who did the operations.
    pub setting: String,
    /// What the column of loads holds.
    pub loading: &'static str,
    /// How keys are chosen.
    pub choice: &'static str,
    pub records: u64,
    pub rounds: u32,
    pub operations: u64,
    pub batch: u64,
    pub seed: u64,
    pub seconds: f64,
    pub rows: Vec<Row>,
}

/// One subject.
pub struct Row {
    pub name: &'static str,
    pub form: &'static str,
    /// Why it was not measured.
    pub missing: Option<String>,
    /// What each round measured.
    pub rounds: Vec<Round>,
}

/// A subject's figures in one round, where there are any: operations a second, and memory.
#[derive(Clone, Copy, Default)]
pub struct Round {
    /// Inserts into an empty store.
    pub load: Option<f64>,
    /// Single reads.
    pub get: Option<f64>,
    /// Keys read in batches.
    pub get_many: Option<f64>,
    /// Writes of existing keys.
    pub update: Option<f64>,
    /// Scans of some keys in order.
    pub scan: Option<f64>,
    /// Memory that holds the records.
    pub bytes_per_record: Option<f64>,
}

/// A column of the tables.
type Column = fn(&Round) -> Option<f64>;

/// The columns in their order; the names are those of the JSON output.
const COLUMNS: [(&str, Column); 6] = [
    ("load_per_second", |round| round.load),
    ("get_per_second", |round| round.get),
    ("get_many_per_second", |round| round.get_many),
    ("update_per_second", |round| round.update),
    ("scan_per_second", |round| round.scan),
    ("bytes_per_record", |round| round.bytes_per_record),
];

impl Round {
    /// The best way to read: batched where there is such a call and it is faster.
    pub fn best_get(&self) -> Option<f64> {
        let single = self.get?;
        Some(self.get_many.map_or(single, |batched| batched.max(single)))
    }
}

impl Row {
    fn is_ours(&self) -> bool {
        self.name == OURS
    }

    fn figures(&self, column: Column) -> Vec<f64> {
        self.rounds.iter().filter_map(column).collect()
    }

    fn cells(&self) -> Vec<String> {
        let cell = |(index, (_, column)): (usize, &(&str, Column))| match median(&self.figures(*column)) {
            Some(bytes) if index == COLUMNS.len() - 1 => format!("{bytes:.0}"),
            figure => rate(figure),
        };
        COLUMNS.iter().enumerate().map(cell).collect()
    }

    /// The medians of our figures divided by this row's of the same round.
    fn ratios(&self, ours: &Self) -> [Option<f64>; COLUMNS.len()] {
        let of = |ours_column: Column, column: Column| {
            let pairs = ours.rounds.iter().zip(&self.rounds);
            let ratios: Vec<f64> = pairs
                .filter_map(|(a, b)| Some(ours_column(a)? / column(b)?))
                .collect();
            median(&ratios)
        };
        COLUMNS.map(|(name, column)| match name {
            "get_many_per_second" => of(column, Round::best_get),
            _ => of(column, column),
        })
    }
}

impl Report {
    /// Whether its tables have a column.
    fn has(&self, column: &str) -> bool {
        match column {
            "scan_per_second" => self.command == "ordered",
            "bytes_per_record" => self.command != "together",
            "get_many_per_second" => self.command == "hash",
            _ => true,
        }
    }

    /// The tables, with a line that says what was measured.
    pub fn text(&self, style: Style) -> String {
        let mut text = format!(
            "{} records of 8-byte keys and values, {}; medians of {} round{}; {} s in all\n\
             load: {}; get, update: {}; seed {}; operations a second\n\n",
            grouped(self.records),
            self.setting,
            self.rounds,
            if self.rounds == 1 { "" } else { "s" },
            self.seconds.round(),
            self.loading,
            self.choice,
            self.seed
        );
        let many = format!("get_many({})", self.batch);
        let shown: Vec<bool> = COLUMNS.iter().map(|(name, _)| self.has(name)).collect();
        let shown = |cells: Vec<String>| -> Vec<String> {
            let (words, figures) = cells.split_at(2);
            let figures = figures.iter().zip(&shown).filter(|(_, shown)| **shown);
            words
                .iter()
                .chain(figures.map(|(cell, _)| cell))
                .cloned()
                .collect()
        };
        let titles = |first: &str| -> Vec<String> {
            let all = [
                first, "how", "load", "get", &many, "update", "scan(50)", "B/record",
            ];
            shown(all.map(str::to_owned).to_vec())
        };
        let head = titles("store");
        let rows = self.rows.iter().map(|row| match &row.missing {
            None => (vec![row.name.to_owned(), row.form.to_owned()], row.cells()),
            Some(reason) => (
                vec![row.name.to_owned(), reason.clone()],
                vec!["-".to_owned(); COLUMNS.len()],
            ),
        });
        table(
            &mut text,
            style,
            2,
            &head.iter().map(String::as_str).collect::<Vec<_>>(),
            &rows
                .map(|(left, right)| shown([left, right].concat()))
                .collect::<Vec<_>>(),
        );
        for ours in self
            .rows
            .iter()
            .filter(|row| row.is_ours() && row.missing.is_none())
        {
            let _ = writeln!(
                text,
                "\nRatios of {} ({}) to the others; get_many to their best way to read\n",
                ours.name, ours.form
            );
            let head = titles("to");
            let peers = self
                .rows
                .iter()
                .filter(|row| !row.is_ours() && row.missing.is_none());
            let rows: Vec<Vec<String>> = peers
                .map(|row| {
                    let ratios = row.ratios(ours).into_iter().map(ratio);
                    let words = [row.name.to_owned(), row.form.to_owned()];
                    shown(words.into_iter().chain(ratios).collect())
                })
                .collect();
            let head: Vec<&str> = head.iter().map(String::as_str).collect();
            table(&mut text, style, 2, &head, &rows);
        }
        text
    }

    /// Everything, with each round's figures.
    pub fn json(&self) -> Value {
        let ours: Vec<&Row> = self.rows.iter().filter(|row| row.is_ours()).collect();
        let subject = |row: &Row| {
            let mut object = json!({ "name": row.name, "form": row.form, "missing": row.missing });
            for (name, column) in COLUMNS {
                let figures = row.figures(column);
                object[name] = json!({ "median": median(&figures), "rounds": figures });
            }
            if !row.is_ours() {
                let ratios = ours.iter().map(|ours| {
                    let named = COLUMNS.iter().zip(row.ratios(ours));
                    let named: Map<String, Value> = named
                        .map(|((name, _), ratio)| ((*name).to_owned(), json!(ratio)))
                        .collect();
                    json!({ "of": ours.form, "ratios": named })
                });
                object["ratios"] = ratios.collect();
            }
            object
        };
        json!({
            "command": self.command,
            "setting": self.setting,
            "records": self.records,
            "rounds": self.rounds,
            "operations": self.operations,
            "batch": self.batch,
            "seed": self.seed,
            "seconds": self.seconds,
            "subjects": self.rows.iter().map(subject).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &'static str, factor: f64) -> Row {
        let round = |load: f64| Round {
            load: Some(load * factor),
            get: Some(20e6 * factor),
            get_many: None,
            update: Some(700.0 * factor),
            scan: None,
            bytes_per_record: Some(34.4),
        };
        Row {
            name,
            form: "so",
            missing: None,
            rounds: [1e6, 3e6, 2e6].map(round).to_vec(),
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        Report {
            command: "hash",
            choice: "zipfian 0.99",
            setting: "one thread".to_owned(),
            loading: "into an empty map",
            records: 1_000_000,
            rounds: 3,
            operations: 5,
            batch: 32,
            seed: 1,
            seconds: 1.0,
            rows,
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round_and_to_the_best_way_to_read() {
        let round = |get, get_many| Round {
            get: Some(get),
            get_many,
            ..Round::default()
        };
        let row = |name, rounds| Row {
            name,
            form: "so",
            missing: None,
            rounds,
        };
        let ours = row(
            OURS,
            vec![
                round(1.0, Some(8.0)),
                round(100.0, Some(80.0)),
                round(1.0, Some(8.0)),
            ],
        );
        let peer = row(
            "peer",
            vec![
                round(2.0, Some(4.0)),
                round(100.0, Some(40.0)),
                round(4.0, Some(2.0)),
            ],
        );
        assert_eq!(peer.ratios(&ours), [None, Some(0.5), Some(2.0), None, None, None]);
    }

    #[test]
    fn tables_have_ratios_of_ours_and_reasons_for_gaps() {
        let mut missing = row("gone", 1.0);
        missing.missing = Some("not installed".to_owned());
        missing.rounds.clear();
        let report = report(vec![row(OURS, 2.0), row("peer", 1.0), missing]);
        let text = report.text(Style::Plain);
        assert!(text.contains("not installed"), "{text}");
        let ratios = text.split("Ratios").nth(1).expect("ratios follow");
        let peer = ratios
            .lines()
            .find(|line| line.starts_with("peer"))
            .expect("a row of the peer");
        assert_eq!(
            peer.split_whitespace().collect::<Vec<_>>(),
            ["peer", "so", "2.00", "2.00", "-", "2.00", "1.00"]
        );
        assert!(!ratios.contains("gone"));
        let json = report.json();
        assert_eq!(json["subjects"][1]["load_per_second"]["median"], 2e6);
        assert_eq!(
            json["subjects"][1]["ratios"][0]["ratios"]["update_per_second"],
            2.0
        );
        assert_eq!(json["subjects"][2]["missing"], "not installed");
    }

    #[test]
    fn markdown_has_a_rule_and_equal_columns() {
        let text = report(vec![row("peer", 1.0)]).text(Style::Markdown);
        let bars: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.matches('|').count())
            .collect();
        assert_eq!(bars, [8, 8, 8]);
        assert!(text.contains("-: |"), "{text}");
    }
}
