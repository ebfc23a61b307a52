//! Curves over time, as SVG: a panel for each quantity, two in a row. Any quantities: it knows no figure of a paper.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;

use super::drawing::{COLOURS, Error, FONT, HEAD, WIDTH};

/// Pixels of a row of panels.
const HEIGHT: u32 = 300;

/// A plot of one quantity.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// In which unit.
    pub unit: String,
    /// Whether its axis is logarithmic; values of 0 are then left out.
    pub is_logarithmic: bool,
    /// What is drawn.
    pub curves: Vec<Curve>,
}

/// A line of a panel.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// Its points: time and value, in the order of time.
    pub points: Vec<(f64, f64)>,
}

/// Draws panels over a time in a unit.
pub fn svg(title: &str, time: &str, panels: &[Panel]) -> Result<String, Error> {
    let mut text = String::new();
    let rows = panels.len().div_ceil(2);
    let head = 2 * HEAD;
    {
        let size = (WIDTH, head.unsigned_abs() + rows as u32 * HEIGHT);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (above, below) = root.split_vertically(head);
        above.draw(&Text::new(title, (16, 8), (FONT, 20)))?;
        for (panel, plot) in panels.iter().zip(&below.split_evenly((rows, 2))) {
            draw(panel, time, plot)?;
        }
        root.present()?;
    }
    Ok(text)
}

fn draw(panel: &Panel, time: &str, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Error> {
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let end = points()
        .map(|point| point.0)
        .fold(0.0, f64::max)
        .max(f64::MIN_POSITIVE);
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    let mut builder = ChartBuilder::on(area);
    builder
        .margin(12)
        .caption(&panel.title, (FONT, 16))
        .x_label_area_size(34)
        .y_label_area_size(60);
    if panel.is_logarithmic {
        let positive = points().map(|point| point.1).filter(|value| *value > 0.0);
        let least = positive.fold(most.max(1.0), f64::min);
        let range = (least / 2.0..most.max(least) * 2.0).log_scale();
        fill(panel, time, builder.build_cartesian_2d(0.0..end, range)?)
    } else {
        let top = if most > 0.0 { most * 1.1 } else { 1.0 };
        fill(panel, time, builder.build_cartesian_2d(0.0..end, 0.0..top)?)
    }
}

/// The axes, the curves and what they are.
fn fill<'a, X, Y>(
    panel: &Panel,
    time: &str,
    mut chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
) -> Result<(), Error>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .x_desc(time)
        .y_desc(panel.unit.as_str())
        .axis_desc_style((FONT, 14))
        .label_style((FONT, 12))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (curve, colour) in panel.curves.iter().zip(COLOURS.into_iter().cycle()) {
        let shown = |(_, value): &(f64, f64)| !panel.is_logarithmic || *value > 0.0;
        let points = curve.points.iter().copied().filter(shown);
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(curve.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 12))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_and_curve_is_drawn() {
        let panel = |title: &str, is_logarithmic| Panel {
            title: title.to_owned(),
            unit: "us".to_owned(),
            is_logarithmic,
            curves: vec![
                Curve {
                    name: "rising".to_owned(),
                    points: (0..10).map(|n| (f64::from(n), f64::from(n * n))).collect(),
                },
                Curve {
                    name: "none".to_owned(),
                    points: Vec::new(),
                },
            ],
        };
        let panels = [panel("linear", false), panel("logarithmic", true)];
        let drawing = svg("title", "minutes", &panels).unwrap();
        for text in ["title", "linear", "logarithmic", "rising", "none", "minutes"] {
            assert!(drawing.contains(text), "{text}");
        }
        assert!(svg("nothing", "minutes", &[]).is_ok());
    }
}
