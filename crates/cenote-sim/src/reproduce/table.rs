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
        Charted::Panels(_) | Charted::Over { .. } => {
            for quantity in quantities(figure) {
                write(&mut text, &panels(figure, quantity), |column| column < 2);
                text.push('\n');
            }
            write(&mut text, &numbers(figure), |column| matches!(column, 0 | 2));
        }
        Charted::Cases(_) => write(&mut text, &cases(figure), |column| column == 0),
    }
    if !text.ends_with("\n\n") {
        text.push('\n');
    }
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

/// A line for each number that the paper has too; none at all if it has none.
fn numbers(figure: &Figure) -> Vec<Vec<String>> {
    let head = [
        "",
        figure.charted.axis(),
        "",
        "paper",
        figure.origin.name(),
        "ratio",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in &figure.rows {
        if let (Some(paper), Some(ours)) = (row.paper, row.ours) {
            let most = row
                .paper_most
                .map_or(String::new(), |most| format!(" to {}", number(most)));
            lines.push(vec![
                [row.panel, row.case].join(if row.panel.is_empty() { "" } else { ": " }),
                row.threads.to_string(),
                format!("{}, {}", row.quantity.name, row.quantity.unit),
                number(paper) + &most,
                number(ours),
                row.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
            ]);
        }
    }
    if lines.len() == 1 {
        lines.clear();
    }
    lines
}

/// A line for each case of each panel, a column for each number of threads.
fn panels(figure: &Figure, quantity: Quantity) -> Vec<Vec<String>> {
    let rows: Vec<&Row> = figure
        .rows
        .iter()
        .filter(|row| row.quantity == quantity)
        .collect();
    let mut threads: Vec<u32> = rows.iter().map(|row| row.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let unit = format!("{}, {}", quantity.name, quantity.unit);
    let axis = figure.charted.axis();
    let head = threads.iter().map(|threads| format!("{threads} {axis}"));
    let mut lines = vec![[unit, String::new()].into_iter().chain(head).collect()];
    let mut cases: Vec<(&str, &str)> = rows.iter().map(|row| (row.panel, row.case)).collect();
    cases.dedup();
    for (panel, case) in cases {
        let cell = |threads: &u32| {
            let is_wanted = |row: &&&Row| (row.panel, row.case, row.threads) == (panel, case, *threads);
            let found = rows.iter().find(is_wanted).and_then(|row| row.ours);
            found.map_or(String::new(), number)
        };
        let names = [panel.to_owned(), case.to_owned()];
        lines.push(names.into_iter().chain(threads.iter().map(cell)).collect());
    }
    lines
}

/// All quantities of a figure, each once.
fn quantities(figure: &Figure) -> Vec<Quantity> {
    let mut quantities = Vec::new();
    for row in &figure.rows {
        if !quantities.contains(&row.quantity) {
            quantities.push(row.quantity);
        }
    }
    quantities
}

/// A line for each case, with the paper's numbers behind ours.
fn cases(figure: &Figure) -> Vec<Vec<String>> {
    let quantities = quantities(figure);
    let mut cases: Vec<&str> = Vec::new();
    for row in &figure.rows {
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
        Some(paper) => {
            let most = row.paper_most.map(|most| format!(" to {}", number(most)));
            format!("{ours} ({}{})", number(paper), most.unwrap_or_default())
        }
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
