//! A figure as text: a line for each number that the paper has too, or a line for each case.

use std::fmt::Write;

use super::{Charted, Figure, Quantity, Row};

pub fn text(figure: &Figure) -> String {
    let mut text = format!(
        "{}: {} ({})\n{}\n\n",
        figure.name,
        figure.title,
        figure.provenance(),
        figure.source
    );
    match figure.charted {
        Charted::Threads(_) => write(&mut text, &numbers(figure), |column| matches!(column, 0 | 2)),
        Charted::Cases(_) => write(&mut text, &cases(figure), |column| column == 0),
    }
    text.push('\n');
    for note in &figure.notes {
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {note}");
    }
    text
}

/// Lines of cells in columns: words to the left, numbers to the right.
fn write(text: &mut String, lines: &[Vec<String>], is_left: impl Fn(usize) -> bool) {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for line in lines {
        let cells = line
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match is_left(column) {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// A line for each number that the paper has too.
fn numbers(figure: &Figure) -> Vec<Vec<String>> {
    let head = ["", "threads", "", "paper", figure.origin.name(), "ratio"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in &figure.rows {
        if let (Some(paper), Some(ours), Some(ratio)) = (row.paper, row.ours, row.ratio) {
            lines.push(vec![
                row.case.to_owned(),
                row.threads.to_string(),
                format!("{}, {}", row.quantity.name, row.quantity.unit),
                number(paper),
                number(ours),
                format!("{ratio:.2}"),
            ]);
        }
    }
    lines
}

/// A line for each case, with the paper's numbers behind ours.
fn cases(figure: &Figure) -> Vec<Vec<String>> {
    let (mut quantities, mut cases): (Vec<Quantity>, Vec<&str>) = (Vec::new(), Vec::new());
    for row in &figure.rows {
        if !quantities.contains(&row.quantity) {
            quantities.push(row.quantity);
        }
        if !cases.contains(&row.case) {
            cases.push(row.case);
        }
    }
    let names = quantities.iter().map(|quantity| quantity.name.to_owned());
    let units = quantities.iter().map(|quantity| quantity.unit.to_owned());
    let mut lines = vec![
        std::iter::once(format!("{} (paper)", figure.origin.name()))
            .chain(names)
            .collect(),
        std::iter::once(String::new()).chain(units).collect(),
    ];
    for case in cases {
        let cell = |quantity: &Quantity| {
            let is_wanted = |row: &&Row| row.case == case && row.quantity == *quantity;
            figure.rows.iter().find(is_wanted).map_or(String::new(), pair)
        };
        lines.push(
            std::iter::once(case.to_owned())
                .chain(quantities.iter().map(cell))
                .collect(),
        );
    }
    lines
}

/// Our number, and the paper's.
fn pair(row: &Row) -> String {
    let ours = row.ours.map_or("not built".to_owned(), number);
    match row.paper {
        Some(paper) => format!("{ours} ({})", number(paper)),
        None => format!("{ours}  {:>4} ", "-"),
    }
}

/// Three digits, or all before the point.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    pub fn numbers_have_three_digits() {
        assert_eq!(
            [383.2, 29.856, 9.0, 0.28, 0.0061].map(number),
            ["383", "29.9", "9.00", "0.280", "0.0061"]
        );
    }
}
