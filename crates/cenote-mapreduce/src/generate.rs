//! Inputs of about any size, the same from a seed on every machine.

use std::io::Write;

use crate::error::{Error, Result};
use crate::numbers::Numbers;
use crate::workloads::{MATRIX_MAGIC, POINTS_MAGIC, Workload};

/// Words of a generated text.
const VOCABULARY: u64 = 50_000;
/// Dimensions of generated points, and clusters that they lie in.
const DIMENSIONS: u64 = 8;
const CLUSTERS: u64 = 16;
/// Bytes of a piece that may occur again in what is to be deduplicated.
const PIECE: u64 = 96 << 10;

/// Writes an input of about so many bytes for a workload.
pub fn generate(workload: Workload, bytes: u64, seed: u64, output: &mut dyn Write) -> Result<()> {
    let mut numbers = Numbers::new(seed);
    let write = match workload {
        Workload::Wordcount => text,
        Workload::Kmeans => points,
        Workload::Matrix => matrices,
        Workload::Histogram => image,
        Workload::Blackscholes => options,
        Workload::Dedup => repeated,
    };
    write(bytes, &mut numbers, output).map_err(Error::Output)
}

/// A word of a vocabulary in which few words are frequent.
fn word(numbers: &mut Numbers) -> String {
    let skewed = numbers.unit().powi(4);
    let mut n = (skewed * VOCABULARY as f64) as u64 + 1;
    let mut word = String::new();
    while n > 0 {
        word.push(char::from(b'a' + (n % 26) as u8));
        n /= 26;
    }
    word
}

fn text(bytes: u64, numbers: &mut Numbers, output: &mut dyn Write) -> std::io::Result<()> {
    let mut done = 0;
    while done < bytes {
        let mut line = String::new();
        for n in 0..12 {
            let next = word(numbers);
            line.push_str(if n == 0 { "" } else { " " });
            match numbers.below(10) {
                0 => line.push_str(&next.to_uppercase()),
                1 => line.push_str(&format!("{next},")),
                _ => line.push_str(&next),
            }
        }
        line.push_str(".\n");
        done += line.len() as u64;
        output.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn points(bytes: u64, numbers: &mut Numbers, output: &mut dyn Write) -> std::io::Result<()> {
    let count = (bytes / (4 * DIMENSIONS)).max(4 * CLUSTERS);
    output.write_all(POINTS_MAGIC)?;
    output.write_all(&DIMENSIONS.to_le_bytes())?;
    output.write_all(&count.to_le_bytes())?;
    let centres: Vec<i32> = (0..CLUSTERS * DIMENSIONS)
        .map(|_| numbers.below(2_000_000) as i32 - 1_000_000)
        .collect();
    for _ in 0..count {
        let cluster = (numbers.below(CLUSTERS) * DIMENSIONS) as usize;
        for centre in &centres[cluster..cluster + DIMENSIONS as usize] {
            // About normally distributed.
            let apart: i64 = (0..4).map(|_| numbers.below(200_000) as i64 - 100_000).sum();
            output.write_all(&(centre + apart as i32).to_le_bytes())?;
        }
    }
    Ok(())
}

fn matrices(bytes: u64, numbers: &mut Numbers, output: &mut dyn Write) -> std::io::Result<()> {
    let rows = ((bytes / 8) as f64).sqrt().max(1.0) as u64;
    output.write_all(MATRIX_MAGIC)?;
    output.write_all(&rows.to_le_bytes())?;
    for _ in 0..2 * rows * rows {
        let number = numbers.below(2_000) as i32 - 1_000;
        output.write_all(&number.to_le_bytes())?;
    }
    Ok(())
}

/// A BMP whose width is no multiple of four, so that rows are filled up.
fn image(bytes: u64, numbers: &mut Numbers, output: &mut dyn Write) -> std::io::Result<()> {
    const WIDTH: u32 = 1021;
    let row = (3 * WIDTH).next_multiple_of(4);
    let rows = (bytes / u64::from(row)).clamp(1, (u64::from(u32::MAX) - 54) / u64::from(row)) as u32;
    let mut header = b"BM".to_vec();
    for word in [
        54 + rows * row,
        0,
        54,
        40,
        WIDTH,
        rows,
        24 << 16 | 1,
        0,
        rows * row,
        2835,
        2835,
        0,
        0,
    ] {
        header.extend_from_slice(&word.to_le_bytes());
    }
    output.write_all(&header)?;
    let mut line = vec![0; row as usize];
    for _ in 0..rows {
        let base = numbers.next();
        for (n, byte) in line[..3 * WIDTH as usize].iter_mut().enumerate() {
            // Colours of a row are near each other.
            let shade = (base >> (n % 3 * 8)) as u8;
            *byte = shade.wrapping_add(numbers.below(64) as u8);
        }
        output.write_all(&line)?;
    }
    Ok(())
}

fn options(bytes: u64, numbers: &mut Numbers, output: &mut dyn Write) -> std::io::Result<()> {
    let mut done = 0;
    while done < bytes {
        let spot = 10.0 + 190.0 * numbers.unit();
        let strike = spot * (0.7 + 0.6 * numbers.unit());
        let line = format!(
            "{spot:.2} {strike:.2} {:.4} {:.3} {:.2} {}\n",
            0.01 + 0.09 * numbers.unit(),
            0.05 + 0.6 * numbers.unit(),
            0.05 + 3.0 * numbers.unit(),
            if numbers.below(2) == 0 { "C" } else { "P" },
        );
        done += line.len() as u64;
        output.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// Text and noise, of which about half was there before, at any other place.
fn repeated(bytes: u64, numbers: &mut Numbers, output: &mut dyn Write) -> std::io::Result<()> {
    let (mut done, mut pieces) = (0, Vec::<u64>::new());
    while done < bytes {
        let seed = match numbers.below(2) {
            0 if !pieces.is_empty() => pieces[numbers.below(pieces.len() as u64) as usize],
            _ => numbers.next(),
        };
        pieces.push(seed);
        let mut piece = Vec::new();
        let mut own = Numbers::new(seed);
        let len = PIECE / 2 + own.below(PIECE);
        match own.below(4) {
            0 => piece.extend((0..len).map(|_| own.next() as u8)),
            _ => text(len, &mut own, &mut piece)?,
        }
        piece.truncate((bytes - done) as usize);
        done += piece.len() as u64;
        output.write_all(&piece)?;
    }
    Ok(())
}
