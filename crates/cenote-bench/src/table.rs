//! Tables of figures, as aligned text or Markdown, and how a figure is written.

use crate::run::Run;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;

/// How a command prints what it measured.
#[derive(Args, Clone, Copy, Default)]
pub struct Output {
    /// Prints JSON, with every round's figures.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Prints tables in Markdown.
    #[arg(long)]
    markdown: bool,
}

impl Output {
    /// Prints one of the two; to the JSON it adds the [`Run`].
    pub fn print(self, json: impl FnOnce() -> Value, text: impl FnOnce(Style) -> String) {
        if self.json {
            let mut value = json();
            value["run"] = json!(Run::ended());
            println!("{value}");
        } else if self.markdown {
            print!("{}", text(Style::Markdown));
        } else {
            print!("{}", text(Style::Plain));
        }
    }
}

/// How tables look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Aligned columns.
    Plain,
    /// Markdown.
    Markdown,
}

/// The middle figure; of an even number, the mean of the two in the middle.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// A rate with three digits, such as `25.1 M` or `71.3 k`.
pub fn rate(figure: Option<f64>) -> String {
    let Some(figure) = figure else {
        return "-".to_owned();
    };
    let (scaled, unit) = match figure {
        _ if figure >= 999_500.0 => (figure / 1e6, " M"),
        _ if figure >= 999.5 => (figure / 1e3, " k"),
        _ => (figure, ""),
    };
    let digits = if scaled >= 99.95 { 0 } else { 1 };
    format!("{scaled:.digits$}{unit}")
}

/// A ratio with about three digits, such as `0.62` or `140`.
pub fn ratio(figure: Option<f64>) -> String {
    let Some(figure) = figure else {
        return "-".to_owned();
    };
    let digits = match figure {
        _ if figure >= 99.95 => 0,
        _ if figure >= 9.995 => 1,
        _ => 2,
    };
    format!("{figure:.digits$}")
}

/// Digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A table whose first `words` columns are words and whose others are figures.
pub fn table(text: &mut String, style: Style, words: usize, head: &[&str], rows: &[Vec<String>]) {
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            rows.iter()
                .map(|row| row[column].len())
                .chain([head[column].len()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let (start, between, end) = if style == Style::Markdown {
        ("| ", " | ", " |")
    } else {
        ("", "  ", "")
    };
    let mut line = |cells: &[String]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                _ if column < words => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        let _ = writeln!(text, "{start}{}{end}", padded.join(between));
    };
    line(&head.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
    if style == Style::Markdown {
        let rules = widths.iter().enumerate().map(|(column, &width)| match column {
            _ if column < words => "-".repeat(width),
            _ => format!("{}:", "-".repeat(width - 1)),
        });
        line(&rules.collect::<Vec<_>>());
    }
    rows.iter().for_each(|row| line(row));
}

/// Parses a number such as `1000000`, `50k` or `10M`; at least 1.
pub fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1_000),
        None => text
            .strip_suffix('M')
            .map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("\"{text}\" is not a number such as 1000000, 50k or 10M"))
}

/// Nanoseconds with a digit behind the point where it matters.
pub fn nanoseconds(figure: Option<f64>) -> String {
    match figure {
        Some(figure) if figure < 99.95 => format!("{figure:.1}"),
        Some(figure) => format!("{figure:.0}"),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn numbers_have_units() {
        let read = ["7", "50k", "10M"].map(|text| count(text).ok());
        assert_eq!(read, [Some(7), Some(50_000), Some(10_000_000)]);
        for wrong in [
            "",
            "0",
            "k",
            "1m",
            "-1",
            "99999999999999999999",
            "99999999999999M",
        ] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_read_well() {
        let rates: Vec<String> = [25_123_456.0, 140e6, 71_300.0, 999_600.0, 12.0]
            .into_iter()
            .map(|figure| rate(Some(figure)))
            .collect();
        assert_eq!(rates, ["25.1 M", "140 M", "71.3 k", "1.0 M", "12.0"]);
        let ratios: Vec<String> = [Some(0.6), Some(12.34), Some(140.2), None]
            .into_iter()
            .map(ratio)
            .collect();
        assert_eq!(ratios, ["0.60", "12.3", "140", "-"]);
        assert_eq!(grouped(1_000_000), "1,000,000");
        assert_eq!(grouped(12), "12");
    }
}
