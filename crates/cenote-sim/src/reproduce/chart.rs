//! A figure's chart: one of its quantities over the number of threads, as SVG. Lines are simulated, circles are the paper's.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Figure, ReproduceError, Row};

const WIDTH: u32 = 800;
/// Height of the plot alone.
const HEIGHT: u32 = 420;
/// Height of a line of text above it.
const LINE: i32 = 22;
const FONT: &str = "sans-serif";
const COLOURS: [RGBColor; 4] = [
    RGBColor(0x1b, 0x6c, 0xa8),
    RGBColor(0xc4, 0x4e, 0x1a),
    RGBColor(0x3a, 0x8a, 0x3a),
    RGBColor(0x7a, 0x4a, 0x9a),
];

type Error = Box<dyn std::error::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub fn svg(figure: &Figure) -> Result<String, ReproduceError> {
    let mut text = String::new();
    draw(figure, &mut text).map_err(|error| ReproduceError::Chart {
        name: figure.name,
        error: error.to_string(),
    })?;
    Ok(text)
}

fn draw(figure: &Figure, text: &mut String) -> Result<(), Error> {
    let charted = |row: &&Row| row.quantity == figure.charted;
    let rows: Vec<&Row> = figure.rows.iter().filter(charted).collect();
    let mut cases: Vec<&str> = rows.iter().map(|row| row.case).collect();
    cases.dedup();
    let curves: Vec<(&str, RGBColor)> = cases.into_iter().zip(COLOURS.into_iter().cycle()).collect();

    let head = (LINE * (curves.len() as i32 + 2)).unsigned_abs();
    let root = SVGBackend::with_string(text, (WIDTH, head + HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let (above, below) = root.split_vertically(head);
    legend(figure, &curves, &above)?;
    plot(figure, &rows, &curves, &below)?;
    root.present()?;
    Ok(())
}

/// The title, and a line for each curve.
fn legend(figure: &Figure, curves: &[(&str, RGBColor)], area: &Area) -> Result<(), Error> {
    let title = format!("{}: {} ({})", figure.name, figure.title, figure.origin);
    area.draw(&Text::new(title, (16, 8), (FONT, 20)))?;
    for (n, (case, colour)) in curves.iter().enumerate() {
        let y = LINE * (n as i32 + 1) + 16;
        area.draw(&PathElement::new([(16, y), (46, y)], colour.stroke_width(2)))?;
        area.draw(&Text::new(format!("{case}, simulated"), (56, y - 7), (FONT, 17)))?;
    }
    let y = LINE * (curves.len() as i32 + 1) + 16;
    area.draw(&Circle::new((31, y), 4, BLACK.stroke_width(2)))?;
    area.draw(&Text::new(
        format!("{}, same colours", figure.source),
        (56, y - 7),
        (FONT, 17),
    ))?;
    Ok(())
}

fn plot(figure: &Figure, rows: &[&Row], curves: &[(&str, RGBColor)], area: &Area) -> Result<(), Error> {
    let threads_max = rows.iter().map(|row| row.threads).max().unwrap_or(1);
    let values = || {
        rows.iter()
            .flat_map(|row| [Some(row.simulated), row.paper])
            .flatten()
    };
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0..threads_max + 4, (least / 2.0..most * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("threads")
        .y_desc(format!("{}, {}", figure.charted.name, figure.charted.unit))
        .axis_desc_style((FONT, 17))
        .label_style((FONT, 15))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for &(case, colour) in curves {
        let of_case = || rows.iter().filter(move |row| row.case == case);
        let simulated = of_case().map(|row| (row.threads, row.simulated));
        chart.draw_series(LineSeries::new(simulated, colour.stroke_width(2)))?;
        let paper = of_case().filter_map(|row| row.paper.map(|value| (row.threads, value)));
        chart.draw_series(paper.map(|point| Circle::new(point, 4, colour.stroke_width(2))))?;
    }
    Ok(())
}
