//! A figure's chart, as SVG: a quantity over the number of threads, or [bars](super::bars). Circles are the paper's,
//! lines and bars are ours.

use plotters::prelude::*;

use super::drawing::{Area, COLOURS, Error, FONT, HEAD, WIDTH};
use super::{Charted, Figure, Quantity, ReproduceError, Row, bars, panels};

/// Height of the plot alone.
const HEIGHT: u32 = 420;

pub fn svg(figure: &Figure) -> Result<String, ReproduceError> {
    let mut text = String::new();
    draw(figure, &mut text).map_err(|error| ReproduceError::Chart {
        name: figure.name,
        error: error.to_string(),
    })?;
    Ok(text)
}

fn draw(figure: &Figure, text: &mut String) -> Result<(), Error> {
    let (rows, curves) = match figure.charted {
        Charted::Threads(quantity) => curves(figure, quantity),
        Charted::Panels(_) | Charted::Over { .. } | Charted::Cases(_) => (Vec::new(), Vec::new()),
    };
    let (lines, height) = match figure.charted {
        Charted::Threads(_) => (curves.len() as i32, HEIGHT),
        Charted::Panels(quantity) | Charted::Over { quantity, .. } => panels::size(figure, quantity),
        Charted::Cases(quantities) => (2, bars::height(figure, quantities)),
    };
    let head = (HEAD * (lines + 2)).unsigned_abs();
    let root = SVGBackend::with_string(text, (WIDTH, head + height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (above, below) = root.split_vertically(head);
    title(figure, lines, &above)?;
    match figure.charted {
        Charted::Threads(quantity) => {
            legend(figure, &curves, &above)?;
            plot(quantity, &rows, &curves, &below)?;
        }
        Charted::Panels(quantity) | Charted::Over { quantity, .. } => {
            panels::legend(figure, quantity, &above)?;
            panels::draw(figure, quantity, &below)?;
        }
        Charted::Cases(quantities) => {
            bars::legend(figure, quantities, &above)?;
            bars::draw(figure, quantities, &below)?;
        }
    }
    root.present()?;
    Ok(())
}

/// The rows of a quantity, and a colour for each of their cases.
fn curves(figure: &Figure, quantity: Quantity) -> (Vec<&Row>, Vec<(&str, RGBColor)>) {
    let rows: Vec<&Row> = figure
        .rows
        .iter()
        .filter(|row| row.quantity == quantity)
        .collect();
    let mut cases: Vec<&str> = rows.iter().map(|row| row.case).collect();
    cases.dedup();
    let curves = cases.into_iter().zip(COLOURS.into_iter().cycle()).collect();
    (rows, curves)
}

/// The title, and behind so many lines the one about the paper.
fn title(figure: &Figure, lines: i32, area: &Area) -> Result<(), Error> {
    let title = format!("{}: {} ({})", figure.name, figure.title, figure.provenance());
    area.draw(&Text::new(title, (16, 8), (FONT, 20)))?;
    let y = HEAD * (lines + 1) + 16;
    area.draw(&Circle::new((31, y), 4, BLACK.stroke_width(2)))?;
    let source = format!("{}, same colours", figure.source);
    area.draw(&Text::new(source, (56, y - 7), (FONT, 17)))?;
    Ok(())
}

/// A line for each curve.
fn legend(figure: &Figure, curves: &[(&str, RGBColor)], area: &Area) -> Result<(), Error> {
    for (n, (case, colour)) in curves.iter().enumerate() {
        let y = HEAD * (n as i32 + 1) + 16;
        area.draw(&PathElement::new([(16, y), (46, y)], colour.stroke_width(2)))?;
        let text = format!("{case}, {}", figure.origin.name());
        area.draw(&Text::new(text, (56, y - 7), (FONT, 17)))?;
    }
    Ok(())
}

fn plot(quantity: Quantity, rows: &[&Row], curves: &[(&str, RGBColor)], area: &Area) -> Result<(), Error> {
    let threads_max = rows.iter().map(|row| row.threads).max().unwrap_or(1);
    let values = || rows.iter().flat_map(|row| [row.ours, row.paper]).flatten();
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0..threads_max + 4, (least / 2.0..most * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("threads")
        .y_desc(format!("{}, {}", quantity.name, quantity.unit))
        .axis_desc_style((FONT, 17))
        .label_style((FONT, 15))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for &(case, colour) in curves {
        let of_case = || rows.iter().filter(move |row| row.case == case);
        let ours = of_case().filter_map(|row| row.ours.map(|value| (row.threads, value)));
        chart.draw_series(LineSeries::new(ours, colour.stroke_width(2)))?;
        let paper = of_case().filter_map(|row| row.paper.map(|value| (row.threads, value)));
        chart.draw_series(paper.map(|point| Circle::new(point, 4, colour.stroke_width(2))))?;
    }
    Ok(())
}
