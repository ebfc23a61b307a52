//! What all charts are drawn with.

use plotters::coord::Shift;
use plotters::prelude::*;

pub const WIDTH: u32 = 800;
/// Height of a line of text above it.
pub const HEAD: i32 = 22;
pub const FONT: &str = "sans-serif";
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1b, 0x6c, 0xa8),
    RGBColor(0xc4, 0x4e, 0x1a),
    RGBColor(0x3a, 0x8a, 0x3a),
    RGBColor(0x7a, 0x4a, 0x9a),
    RGBColor(0x8a, 0x6a, 0x1a),
    RGBColor(0x60, 0x60, 0x60),
];

pub type Error = Box<dyn std::error::Error>;
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
