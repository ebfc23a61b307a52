//! A chart of panels: one quantity over the number of threads or another axis, in a small plot for each workload, two
//! in a row. A case has the same colour in all of them.

use plotters::prelude::*;

use super::drawing::{Area, COLOURS, Error, FONT, HEAD};
use super::{Figure, Quantity, Row};

/// Pixels of a row of panels.
const HEIGHT: u32 = 240;

fn charted(figure: &Figure, quantity: Quantity) -> Vec<&Row> {
    figure
        .rows
        .iter()
        .filter(|row| row.quantity == quantity)
        .collect()
}

/// What a figure has of something, each once, in order.
fn each(rows: &[&Row], of: fn(&Row) -> &'static str) -> Vec<&'static str> {
    let mut found = Vec::new();
    for row in rows {
        if !found.contains(&of(row)) {
            found.push(of(row));
        }
    }
    found
}

/// Lines of the legend, and pixels of all panels.
pub fn size(figure: &Figure, quantity: Quantity) -> (i32, u32) {
    let rows = charted(figure, quantity);
    let panels = each(&rows, |row| row.panel).len() as u32;
    (
        each(&rows, |row| row.case).len() as i32,
        panels.div_ceil(2) * HEIGHT,
    )
}

/// A line for each case.
pub fn legend(figure: &Figure, quantity: Quantity, area: &Area) -> Result<(), Error> {
    let cases = each(&charted(figure, quantity), |row| row.case);
    for ((n, case), colour) in (0i32..).zip(cases).zip(COLOURS.into_iter().cycle()) {
        let y = HEAD * (n + 1) + 16;
        area.draw(&PathElement::new([(16, y), (46, y)], colour.stroke_width(2)))?;
        let text = format!("{case}, {}", figure.origin.name());
        area.draw(&Text::new(text, (56, y - 7), (FONT, 17)))?;
    }
    Ok(())
}

pub fn draw(figure: &Figure, quantity: Quantity, area: &Area) -> Result<(), Error> {
    let rows = charted(figure, quantity);
    let panels = each(&rows, |row| row.panel);
    let cases = each(&rows, |row| row.case);
    let plots = area.split_evenly((panels.len().div_ceil(2), 2));
    for (panel, plot) in panels.into_iter().zip(&plots) {
        let here: Vec<&Row> = rows.iter().copied().filter(|row| row.panel == panel).collect();
        let values = || here.iter().filter_map(|row| row.ours);
        let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        let threads_max = here.iter().map(|row| row.threads).max().unwrap_or(1);
        let mut chart = ChartBuilder::on(plot)
            .margin(12)
            .caption(panel, (FONT, 16))
            .x_label_area_size(34)
            .y_label_area_size(56)
            .build_cartesian_2d(0..threads_max + 4, (least / 2.0..most * 2.0).log_scale())?;
        chart
            .configure_mesh()
            .x_desc(figure.charted.axis())
            .y_desc(quantity.unit)
            .axis_desc_style((FONT, 14))
            .label_style((FONT, 12))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (case, colour) in cases.iter().zip(COLOURS.into_iter().cycle()) {
            let points = here.iter().filter(|row| row.case == *case);
            let line = points.filter_map(|row| row.ours.map(|value| (row.threads, value)));
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        }
    }
    Ok(())
}
