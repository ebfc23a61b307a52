//! How often each value of each colour occurs in an image: a BMP with 24 bits a pixel, a binary PPM (P6) with 8 bits a
//! colour; in any other file, how often each byte occurs.
//!
//! Phase 0 counts parts of the pixels, phase 1 adds them up. The output has a line for each value that occurs: the
//! channel, the value, how often.

use std::io::Write;

use crate::codec::{Reader, i64s};
use crate::error::{Error, Result};
use crate::input::{Input, part};
use crate::job::{Data, Job, copied, damaged};

/// Bytes in which a header must end.
const HEADER_MAX: u64 = 4096;

/// Where pixels are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pixels {
    from: u64,
    /// Bytes of a row, with what fills it up.
    row: u64,
    /// Bytes of a row's pixels.
    used: u64,
    rows: u64,
    /// The names of the channels, in the order of their bytes.
    channels: &'static [&'static str],
}

pub struct Histogram {
    input: Input,
    pixels: Pixels,
    /// Rows of a task.
    grain: u64,
}

impl Histogram {
    pub fn new(input: Input, grain: u64) -> Result<Self> {
        let head = input.read(0..HEADER_MAX.min(input.len()))?;
        let pixels = match (head.get(..2), input.len()) {
            (Some(b"BM"), _) => bmp(&head),
            (Some(b"P6"), _) => ppm(&head),
            (_, len) => Some(Pixels {
                from: 0,
                row: 1,
                used: 1,
                rows: len,
                channels: &["byte"],
            }),
        };
        let end = |pixels: &Pixels| pixels.row.checked_mul(pixels.rows)?.checked_add(pixels.from);
        let pixels = pixels
            .filter(|pixels| end(pixels).is_some_and(|end| end <= input.len()))
            .ok_or_else(|| {
                Error::input(
                    input.path(),
                    0,
                    "not a BMP with 24 bits a pixel, and not a PPM with 8 bits a colour",
                )
            })?;
        let grain = (grain / pixels.row.max(1)).max(1);
        Ok(Self { input, pixels, grain })
    }

    fn tasks(&self) -> u64 {
        self.pixels.rows.div_ceil(self.grain).max(1)
    }

    fn count(&self, task: u64) -> Result<Vec<u8>> {
        let Pixels { from, row, used, .. } = self.pixels;
        let rows = part(task, self.grain, self.pixels.rows);
        let bytes = self.input.read(from + rows.start * row..from + rows.end * row)?;
        // Counts of adjacent pixels go to different tables, so that equal ones do not wait for each other.
        let mut tables = [[[0u32; 256]; 3]; 2];
        let mut count = |bytes: &[u8]| match self.pixels.channels.len() {
            3 => {
                for (n, pixel) in bytes.chunks_exact(3).enumerate() {
                    let table = &mut tables[n % 2];
                    table[0][usize::from(pixel[0])] += 1;
                    table[1][usize::from(pixel[1])] += 1;
                    table[2][usize::from(pixel[2])] += 1;
                }
            }
            _ => {
                for (n, byte) in bytes.iter().enumerate() {
                    tables[n % 2][0][usize::from(*byte)] += 1;
                }
            }
        };
        match row == used {
            true => count(&bytes),
            false => bytes
                .chunks_exact(row as usize)
                .for_each(|bytes| count(&bytes[..used as usize])),
        }
        let [first, second] = tables;
        let sums = first.iter().flatten().zip(second.iter().flatten());
        Ok(sums
            .flat_map(|(a, b)| (i64::from(*a) + i64::from(*b)).to_le_bytes())
            .collect())
    }

    fn add_up(&self, data: &dyn Data) -> Result<Vec<u8>> {
        let mut sums = vec![0i64; 3 * 256];
        for task in 0..self.tasks() {
            data.result(0, task, &mut |result| {
                if result.len() != 8 * sums.len() {
                    return Err(damaged(0, task)());
                }
                sums.iter_mut().zip(i64s(result)).for_each(|(sum, n)| *sum += n);
                Ok(())
            })?;
        }
        Ok(sums.into_iter().flat_map(i64::to_le_bytes).collect())
    }
}

/// A Windows bitmap's pixels; rows are filled up to whole words.
fn bmp(head: &[u8]) -> Option<Pixels> {
    let word = |at: usize| Reader(head.get(at..)?).u32();
    let (from, width, height) = (word(10)?, word(18)?, word(22)? as i32);
    let (planes_and_bits, compression) = (word(26)?, word(30)?);
    let used = 3 * u64::from(width);
    (planes_and_bits == 24 << 16 | 1 && compression == 0 && width > 0 && width < 1 << 24).then(|| Pixels {
        from: u64::from(from),
        row: used.next_multiple_of(4),
        used,
        // Negative: the first row is the highest.
        rows: u64::from(height.unsigned_abs()),
        channels: &["blue", "green", "red"],
    })
}

/// A portable pixmap's pixels.
fn ppm(head: &[u8]) -> Option<Pixels> {
    let mut at = 2;
    let mut numbers = [0u64; 3];
    for number in &mut numbers {
        loop {
            match head.get(at)? {
                b'#' => at += head.get(at..)?.iter().position(|byte| *byte == b'\n')?,
                byte if byte.is_ascii_whitespace() => at += 1,
                _ => break,
            }
        }
        let len = head.get(at..)?.iter().position(|byte| !byte.is_ascii_digit())?;
        *number = std::str::from_utf8(&head[at..at + len]).ok()?.parse().ok()?;
        at += len;
    }
    let [width, rows, most] = numbers;
    let row = width.checked_mul(3).filter(|row| *row > 0 && *row < 1 << 32)?;
    (1..256).contains(&most).then(|| Pixels {
        from: at as u64 + 1,
        row,
        used: row,
        rows,
        channels: &["red", "green", "blue"],
    })
}

impl Job for Histogram {
    fn phases(&self) -> Vec<u64> {
        vec![self.tasks(), 1]
    }

    fn run(&self, phase: usize, task: u64, data: &dyn Data) -> Result<Vec<u8>> {
        match phase {
            0 => self.count(task),
            _ => self.add_up(data),
        }
    }

    fn finish(&self, data: &dyn Data, output: &mut dyn Write) -> Result<()> {
        let sums: Vec<i64> = i64s(&copied(data, 1, 0)?).collect();
        for (channel, sums) in self.pixels.channels.iter().zip(sums.chunks(256)) {
            for (value, count) in sums.iter().enumerate().filter(|(_, count)| **count > 0) {
                writeln!(output, "{channel} {value} {count}").map_err(Error::Output)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let pixels = ppm(b"P6 # a comment\n 3\t2\n255\nxxxxxxxxxxxxxxxxxx").unwrap();
        assert_eq!((pixels.from, pixels.row, pixels.rows), (24, 9, 2));
        for bad in [&b"P6 3 2 65535\n"[..], b"P6 3", b"P6 0 2 255\n", b"P6 x"] {
            assert_eq!(ppm(bad), None);
        }
        assert_eq!(bmp(b"BM too short"), None);
    }
}
