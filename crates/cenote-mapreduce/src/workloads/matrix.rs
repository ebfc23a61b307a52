//! The product of two square matrices of whole numbers.
//!
//! Input: `CENOTEMM`; the number of rows (8 bytes, little-endian); the first matrix, row by row, 4 bytes a number,
//! signed; the second. One phase: each task makes some rows of the product. Output: `CENOTEMP`, the number of rows, and
//! the product with 8 bytes a number; it wraps where 64 bits are not enough.

use std::io::Write;
use std::sync::OnceLock;

use crate::codec::{Reader, i32s};
use crate::error::{Error, Result};
use crate::input::{Input, part};
use crate::job::{Data, Job};

pub const MAGIC: &[u8; 8] = b"CENOTEMM";
const PRODUCT_MAGIC: &[u8; 8] = b"CENOTEMP";
const HEADER: u64 = 16;
const ROWS_MAX: u64 = 1 << 15;

pub struct Product {
    input: Input,
    grain: u64,
    rows: u64,
    /// The second matrix, read once a process.
    second: OnceLock<Vec<i32>>,
}

impl Product {
    pub fn new(input: Input, grain: u64) -> Result<Self> {
        let header = input.read(0..HEADER.min(input.len()))?;
        let mut reader = Reader(&header);
        let is_ours = reader.bytes(8).is_some_and(|magic| magic == MAGIC);
        let rows = reader
            .u64()
            .filter(|rows| is_ours && (1..=ROWS_MAX).contains(rows));
        let rows =
            rows.ok_or_else(|| Error::input(input.path(), 0, "matrices begin with CENOTEMM and their size"))?;
        if input.len() != HEADER + 8 * rows * rows {
            return Err(Error::input(input.path(), 8, "the size does not fit the file"));
        }
        Ok(Self {
            input,
            grain,
            rows,
            second: OnceLock::new(),
        })
    }

    fn numbers(&self, first: u64, count: u64) -> Result<Vec<i32>> {
        let bytes = self
            .input
            .read(HEADER + 4 * first..HEADER + 4 * (first + count))?;
        Ok(i32s(&bytes).collect())
    }

    fn second(&self) -> Result<&[i32]> {
        if let Some(second) = self.second.get() {
            return Ok(second);
        }
        let square = self.rows * self.rows;
        let read = self.numbers(square, square)?;
        Ok(self.second.get_or_init(|| read))
    }
}

impl Job for Product {
    fn phases(&self) -> Vec<u64> {
        vec![self.rows.div_ceil(self.grain)]
    }

    fn run(&self, _phase: usize, task: u64, _data: &dyn Data) -> Result<Vec<u8>> {
        let width = self.rows as usize;
        let rows = part(task, self.grain, self.rows);
        let first = self.numbers(rows.start * self.rows, (rows.end - rows.start) * self.rows)?;
        let second = self.second()?;
        let mut result = Vec::with_capacity(8 * first.len());
        let mut sums = vec![0i64; width];
        for row in first.chunks_exact(width) {
            sums.fill(0);
            for (a, column) in row.iter().zip(second.chunks_exact(width)) {
                for (sum, b) in sums.iter_mut().zip(column) {
                    *sum = sum.wrapping_add(i64::from(*a) * i64::from(*b));
                }
            }
            result.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        }
        Ok(result)
    }

    fn finish(&self, data: &dyn Data, output: &mut dyn Write) -> Result<()> {
        output
            .write_all(PRODUCT_MAGIC)
            .and_then(|()| output.write_all(&self.rows.to_le_bytes()))
            .map_err(Error::Output)?;
        for task in 0..self.phases()[0] {
            data.result(0, task, &mut |rows| output.write_all(rows).map_err(Error::Output))?;
        }
        Ok(())
    }
}
