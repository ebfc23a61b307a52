//! A row of a table: Cenote's figure, a peer's, their ratio, the aim, and whether it is met.
//!
//! The aims are arguments where the rows are made, in [`super::tables`].

use crate::table::{Style, median, nanoseconds, rate, ratio, table};
use serde_json::{Value, json};

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unit {
    /// Operations a second.
    Rate,
    Ns,
    Us,
    Ms,
    Bytes,
    /// Lines of memory.
    Lines,
    Percent,
    /// A number of nothing.
    Plain,
}

/// What is aimed at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// So many times the peer's figure, or more.
    RatioAtLeast(f64),
    /// So many times the peer's figure, or less.
    RatioAtMost(f64),
    /// A figure of ours in the row's unit, or less.
    AtMost(f64),
}

/// Where no peer is.
const NO_PEER: &str = "-";

/// A row.
#[derive(Debug, Clone)]
pub struct Row {
    what: String,
    unit: Unit,
    ours: Option<f64>,
    peer: String,
    ratio: Option<f64>,
    aim: Option<Aim>,
}

impl Unit {
    /// A figure with its unit.
    pub fn words(self, figure: Option<f64>) -> String {
        if figure.is_none() {
            return "-".to_owned();
        }
        match self {
            Self::Rate => format!("{}/s", rate(figure)),
            Self::Ns if figure.is_some_and(|ns| ns >= 9_999.5) => Self::Us.words(figure.map(|ns| ns / 1e3)),
            Self::Ns => format!("{} ns", nanoseconds(figure)),
            Self::Us => format!("{} µs", ratio(figure)),
            Self::Ms => format!("{} ms", ratio(figure)),
            Self::Bytes => format!("{} bytes", nanoseconds(figure)),
            Self::Lines => format!("{} lines", ratio(figure)),
            Self::Percent => format!("{} %", ratio(figure)),
            Self::Plain => ratio(figure),
        }
    }
}

impl Row {
    /// A figure that nothing is compared with: the median over the rounds.
    pub fn alone(what: impl Into<String>, unit: Unit, ours: &[f64], aim: Option<Aim>) -> Self {
        Self {
            what: what.into(),
            unit,
            ours: median(ours),
            peer: NO_PEER.to_owned(),
            ratio: None,
            aim,
        }
    }

    /// A figure beside a peer's. The ratio is taken within each round before its median is.
    pub fn beside(
        what: impl Into<String>,
        unit: Unit,
        ours: &[f64],
        peer: &str,
        theirs: &[f64],
        aim: Option<Aim>,
    ) -> Self {
        let ratios: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        let peer = match median(theirs) {
            None => format!("{peer}: not measured"),
            theirs => format!("{peer} {}", unit.words(theirs)),
        };
        Self {
            peer,
            ratio: median(&ratios),
            ..Self::alone(what, unit, ours, aim)
        }
    }

    /// The same with words instead of a measured peer.
    pub fn with_peer(self, peer: impl Into<String>) -> Self {
        Self {
            peer: peer.into(),
            ..self
        }
    }

    /// The same under another name.
    pub fn named(self, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            ..self
        }
    }

    /// Whether the aim is met; `None` if there is none or nothing was measured.
    pub fn met(&self) -> Option<bool> {
        match self.aim? {
            Aim::RatioAtLeast(bound) => Some(self.ratio? >= bound),
            Aim::RatioAtMost(bound) => Some(self.ratio? <= bound),
            Aim::AtMost(bound) => Some(self.ours? <= bound),
        }
    }

    fn aim_words(&self) -> String {
        match self.aim {
            None => String::new(),
            Some(Aim::RatioAtLeast(bound)) => format!("ratio at least {bound}"),
            Some(Aim::RatioAtMost(bound)) => format!("ratio at most {bound}"),
            Some(Aim::AtMost(bound)) => format!("at most {}", self.unit.words(Some(bound))),
        }
    }

    fn met_word(&self, style: Style) -> &'static str {
        match (self.aim, self.met()) {
            (None, _) => "",
            (Some(_), Some(true)) => "yes",
            (Some(_), Some(false)) if style == Style::Markdown => "**no**",
            (Some(_), Some(false)) => "no",
            (Some(_), None) => "not measured",
        }
    }

    fn cells(&self, style: Style) -> [String; 6] {
        [
            self.what.clone(),
            self.unit.words(self.ours),
            self.peer.clone(),
            ratio(self.ratio),
            self.aim_words(),
            self.met_word(style).to_owned(),
        ]
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "what": self.what,
            "cenote": self.unit.words(self.ours),
            "peer": self.peer,
            "ratio": self.ratio,
            "target": self.aim_words(),
            "met": self.met(),
        })
    }
}

/// The table of rows, without the columns that no row has anything in.
pub fn text(rows: &[Row], style: Style) -> String {
    let has_aims = rows.iter().any(|row| row.aim.is_some());
    let has_peers = rows.iter().any(|row| row.peer != NO_PEER);
    some_columns(
        rows,
        [true, true, has_peers, has_peers, has_aims, has_aims],
        style,
    )
}

/// The table of rows without the aims.
pub fn text_without_aims(rows: &[Row], style: Style) -> String {
    some_columns(rows, [true, true, true, true, false, false], style)
}

fn some_columns(rows: &[Row], shown: [bool; 6], style: Style) -> String {
    let head = ["what", "Cenote", "peer", "ratio", "aim", "met"];
    let head: Vec<&str> = head
        .iter()
        .zip(shown)
        .filter_map(|(cell, shown)| shown.then_some(*cell))
        .collect();
    let row = |row: &Row| {
        let cells = row.cells(style).into_iter().zip(shown);
        cells.filter_map(|(cell, shown)| shown.then_some(cell)).collect()
    };
    let cells: Vec<Vec<String>> = rows.iter().map(row).collect();
    let mut text = String::new();
    table(&mut text, style, 1, &head, &cells);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_rounds_and_aims_are_of_ratios_or_figures() {
        let aim = |aim| {
            Row::beside(
                "x",
                Unit::Ns,
                &[6.0, 9.0, 30.0],
                "peer",
                &[10.0, 10.0, 20.0],
                Some(aim),
            )
        };
        let rows = [
            aim(Aim::RatioAtLeast(0.9)),
            aim(Aim::RatioAtLeast(0.91)),
            aim(Aim::RatioAtMost(0.9)),
            aim(Aim::AtMost(8.9)),
        ];
        assert_eq!(rows[0].ratio, Some(0.9));
        let met: Vec<_> = rows.iter().map(Row::met).collect();
        assert_eq!(met, [Some(true), Some(false), Some(true), Some(false)]);
        let text = text(&rows, Style::Markdown);
        assert!(text.contains("| 9.0 ns | peer 10.0 ns |  0.90 |"), "{text}");
        assert!(text.contains("at most 8.9 ns | **no**"), "{text}");
        assert!(!super::text(&rows, Style::Plain).contains('*'));
    }

    #[test]
    fn figures_have_their_units() {
        let words = [
            Unit::Rate.words(Some(10_123_456.0)),
            Unit::Ns.words(Some(6.84)),
            Unit::Ns.words(Some(247_915.0)),
            Unit::Bytes.words(Some(34.9)),
            Unit::Percent.words(None),
        ];
        assert_eq!(words, ["10.1 M/s", "6.8 ns", "248 µs", "34.9 bytes", "-"]);
    }

    #[test]
    fn what_was_not_measured_meets_no_aim() {
        let row = Row::beside(
            "x",
            Unit::Rate,
            &[1.0],
            "Redis",
            &[],
            Some(Aim::RatioAtLeast(30.0)),
        );
        assert_eq!(row.met(), None);
        let table = text(&[row], Style::Markdown);
        assert!(
            table.contains("Redis: not measured") && table.contains("| not measured |"),
            "{table}"
        );
        let without = text(&[Row::alone("x", Unit::Us, &[], None)], Style::Plain);
        assert_eq!(without, "what  Cenote\nx          -\n");
    }
}
