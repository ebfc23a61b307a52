//! A figure's chart: one of its quantities over the number of threads, as SVG. Lines are simulated, circles are the paper's.

use plotters::prelude::*;

use super::{Figure, ReproduceError, Row};

const SIZE: (u32, u32) = (800, 500);
const COLOURS: [RGBColor; 4] = [
    RGBColor(0x1b, 0x6c, 0xa8),
    RGBColor(0xc4, 0x4e, 0x1a),
    RGBColor(0x3a, 0x8a, 0x3a),
    RGBColor(0x7a, 0x4a, 0x9a),
];

pub fn svg(figure: &Figure) -> Result<String, ReproduceError> {
    let mut text = String::new();
    draw(figure, &mut text).map_err(|error| ReproduceError::Chart {
        name: figure.name,
        error: error.to_string(),
    })?;
    Ok(text)
}

fn draw(figure: &Figure, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let rows: Vec<&Row> = figure
        .rows
        .iter()
        .filter(|row| row.quantity == figure.charted)
        .collect();
    let mut cases: Vec<&str> = rows.iter().map(|row| row.case).collect();
    cases.dedup();
    let threads_max = rows.iter().map(|row| row.threads).max().unwrap_or(1);
    let values = rows
        .iter()
        .flat_map(|row| [Some(row.simulated), row.paper])
        .flatten();
    let (least, most) = values.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| {
        (least.min(value), most.max(value))
    });

    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            format!("{}: {} ({})", figure.name, figure.title, figure.origin),
            ("sans-serif", 16),
        )
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0..threads_max + 4, (least / 2.0..most * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("threads")
        .y_desc(format!("{}, {}", figure.charted.name, figure.charted.unit))
        .light_line_style(WHITE)
        .draw()?;
    for (case, colour) in cases.into_iter().zip(COLOURS.into_iter().cycle()) {
        let of_case = || rows.iter().filter(move |row| row.case == case);
        chart
            .draw_series(LineSeries::new(
                of_case().map(|row| (row.threads, row.simulated)),
                colour.stroke_width(2),
            ))?
            .label(format!("{case}, simulated"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        let of_paper = of_case().filter_map(|row| row.paper.map(|value| (row.threads, value)));
        chart
            .draw_series(of_paper.map(|point| Circle::new(point, 4, colour.stroke_width(2))))?
            .label(format!("{case}, paper"))
            .legend(move |(x, y)| Circle::new((x + 9, y), 4, colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}
