//! A chart of cases: two quantities of each as bars, side by side on one scale. Bars are ours, circles are the paper's.

use plotters::prelude::*;

use super::drawing::{Area, COLOURS, Error, FONT, HEAD, WIDTH};
use super::table::number;
use super::{Figure, Quantity, Row};

/// Pixels of one bar, and of a case with two.
const BAR: i32 = 15;
const CASE: i32 = 2 * BAR + 16;
/// Where bars begin, and the most that they take; their numbers follow.
const LEFT: i32 = 230;
const LONGEST: i32 = WIDTH as i32 - LEFT - 90;

/// The cases that have one of the quantities, each once.
fn cases(figure: &Figure, quantities: [Quantity; 2]) -> Vec<&'static str> {
    let mut cases = Vec::new();
    for row in figure
        .rows
        .iter()
        .filter(|row| quantities.contains(&row.quantity))
    {
        if !cases.contains(&row.case) {
            cases.push(row.case);
        }
    }
    cases
}

/// Pixels of all bars.
pub fn height(figure: &Figure, quantities: [Quantity; 2]) -> u32 {
    (CASE * cases(figure, quantities).len() as i32 + 16).unsigned_abs()
}

pub fn draw(figure: &Figure, quantities: [Quantity; 2], area: &Area) -> Result<(), Error> {
    let charted = |row: &&Row| quantities.contains(&row.quantity);
    let values = figure
        .rows
        .iter()
        .filter(charted)
        .flat_map(|row| [row.ours, row.paper]);
    let most = values.flatten().fold(f64::MIN_POSITIVE, f64::max);
    let pixels = |value: f64| LEFT + (value / most * f64::from(LONGEST)) as i32;
    for (n, case) in cases(figure, quantities).into_iter().enumerate() {
        let top = CASE * n as i32 + 8;
        area.draw(&Text::new(case, (16, top + BAR - 8), (FONT, 16)))?;
        for ((quantity, colour), y) in quantities.into_iter().zip(COLOURS).zip([top, top + BAR]) {
            let is_wanted = |row: &&Row| row.case == case && row.quantity == quantity;
            let Some(row) = figure.rows.iter().find(is_wanted) else {
                continue;
            };
            let (end, text) = match row.ours {
                Some(ours) => (pixels(ours), number(ours)),
                None => (LEFT, "not built".to_owned()),
            };
            area.draw(&Rectangle::new([(LEFT, y), (end, y + BAR - 2)], colour.filled()))?;
            let paper = row.paper.map(pixels);
            let behind = end.max(paper.unwrap_or(end)) + 10;
            area.draw(&Text::new(text, (behind, y - 1), (FONT, 14)))?;
            if let Some(x) = paper {
                area.draw(&Circle::new((x, y + BAR / 2 - 1), 4, BLACK.stroke_width(2)))?;
            }
        }
    }
    Ok(())
}

/// A line for each quantity, above the bars.
pub fn legend(figure: &Figure, quantities: [Quantity; 2], area: &Area) -> Result<(), Error> {
    for (n, (quantity, colour)) in quantities.into_iter().zip(COLOURS).enumerate() {
        let y = HEAD * (n as i32 + 1) + 16;
        area.draw(&Rectangle::new([(16, y - 6), (46, y + 6)], colour.filled()))?;
        let text = format!("{}, {}, {}", quantity.name, quantity.unit, figure.origin.name());
        area.draw(&Text::new(text, (56, y - 7), (FONT, 17)))?;
    }
    Ok(())
}
