//! A figure as text: the numbers that the paper has too.

use std::fmt::Write;

use super::Figure;

pub fn text(figure: &Figure) -> String {
    let head = ["", "threads", "", "paper", "simulated", "ratio"].map(str::to_owned);
    let mut lines = vec![head];
    for row in &figure.rows {
        if let (Some(paper), Some(ratio)) = (row.paper, row.ratio) {
            lines.push([
                row.case.to_owned(),
                row.threads.to_string(),
                format!("{}, {}", row.quantity.name, row.quantity.unit),
                number(paper),
                number(row.simulated),
                format!("{ratio:.2}"),
            ]);
        }
    }
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = format!(
        "{}: {} ({})\n{}\n\n",
        figure.name, figure.title, figure.origin, figure.source
    );
    for line in &lines {
        let cells = line
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                // Words to the left, numbers to the right.
                if matches!(column, 0 | 2) {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  "));
    }
    text.push('\n');
    for note in &figure.notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

/// Three digits, or all before the point.
fn number(value: f64) -> String {
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
    fn numbers_have_three_digits() {
        assert_eq!(
            [383.2, 29.856, 9.0, 0.28, 0.0061].map(number),
            ["383", "29.9", "9.00", "0.280", "0.0061"]
        );
    }
}
