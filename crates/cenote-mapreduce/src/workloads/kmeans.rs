//! K-means, by Lloyd's iterations, with whole numbers: sums do not depend on the order in which workers add them up.
//!
//! Input: `CENOTEKM`; the number of dimensions (8 bytes, little-endian); the number of points (8); the points, 4 bytes
//! a coordinate, signed. The first centres are points evenly spread over the file. An iteration has two phases: parts
//! of the points are assigned to their nearest centres and summed up; one task makes new centres of the sums. A centre
//! without points stays. When nothing has changed, the phases that are left do nothing.
//!
//! The output has a line for each cluster: how many points, and the coordinates of the centre.

use std::io::Write;

use crate::codec::{Reader, i32s, i64s};
use crate::error::{Error, Result};
use crate::input::{Input, part};
use crate::job::{Data, Job, copied, damaged};

pub const MAGIC: &[u8; 8] = b"CENOTEKM";
const HEADER: u64 = 24;
const DIMENSIONS_MAX: u64 = 4096;

pub struct KMeans {
    input: Input,
    grain: u64,
    dimensions: usize,
    points: u64,
    clusters: usize,
    iterations: usize,
}

/// What an iteration ends with.
struct Centres {
    /// 1 if they are those of the last iteration.
    has_converged: bool,
    /// How many points each has.
    counts: Vec<i64>,
    /// Coordinates of all, one after the other.
    coordinates: Vec<i64>,
}

impl KMeans {
    pub fn new(input: Input, grain: u64, clusters: u32, iterations: u32) -> Result<Self> {
        let refuse = |at, why: &str| Error::input(input.path(), at, why);
        let header = input.read(0..HEADER.min(input.len()))?;
        let mut header = Reader(&header);
        let is_ours = header.bytes(8).is_some_and(|magic| magic == MAGIC);
        let (dimensions, points) = match (is_ours, header.u64(), header.u64()) {
            (true, Some(dimensions), Some(points)) => (dimensions, points),
            _ => return Err(refuse(0, "points begin with CENOTEKM and two numbers")),
        };
        let len = dimensions.checked_mul(4).and_then(|len| len.checked_mul(points));
        if !(1..=DIMENSIONS_MAX).contains(&dimensions) || len.is_none_or(|len| len != input.len() - HEADER) {
            return Err(refuse(
                8,
                "the numbers of points and of dimensions do not fit the file",
            ));
        }
        if clusters == 0 || iterations == 0 || iterations > 1000 || points < u64::from(clusters) {
            return Err(Error::Setting(
                "there are at least one cluster, as many points as clusters, and 1 to 1000 iterations",
            ));
        }
        Ok(Self {
            input,
            grain,
            dimensions: dimensions as usize,
            points,
            clusters: clusters as usize,
            iterations: iterations as usize,
        })
    }

    fn tasks(&self) -> u64 {
        self.points.div_ceil(self.grain)
    }

    /// Points of a range, their coordinates one after the other.
    fn read(&self, points: std::ops::Range<u64>) -> Result<Vec<i32>> {
        let len = 4 * self.dimensions as u64;
        let bytes = self
            .input
            .read(HEADER + points.start * len..HEADER + points.end * len)?;
        Ok(i32s(&bytes).collect())
    }

    /// The centres that an iteration begins with.
    fn centres(&self, iteration: usize, data: &dyn Data) -> Result<Centres> {
        if iteration > 0 {
            let phase = 2 * iteration - 1;
            return self
                .decode(&copied(data, phase, 0)?)
                .ok_or_else(damaged(phase, 0));
        }
        let mut coordinates = Vec::new();
        for n in 0..self.clusters as u64 {
            let point = (u128::from(n) * u128::from(self.points) / self.clusters as u128) as u64;
            coordinates.extend(self.read(point..point + 1)?.into_iter().map(i64::from));
        }
        Ok(Centres {
            has_converged: false,
            counts: vec![0; self.clusters],
            coordinates,
        })
    }

    fn decode(&self, result: &[u8]) -> Option<Centres> {
        let mut reader = Reader(result);
        let has_converged = reader.u8()? != 0;
        let counts = i64s(reader.bytes(8 * self.clusters)?).collect();
        let coordinates = i64s(reader.bytes(8 * self.clusters * self.dimensions)?).collect();
        Some(Centres {
            has_converged,
            counts,
            coordinates,
        })
    }

    /// For each cluster, how many points of a part are nearest to its centre, and the sums of their coordinates.
    fn assign(&self, task: u64, centres: &Centres) -> Result<Vec<u8>> {
        let points = self.read(part(task, self.grain, self.points))?;
        let width = self.dimensions;
        let mut sums = vec![0i64; self.clusters * (1 + width)];
        for point in points.chunks_exact(width) {
            let mut nearest = (i64::MAX, 0);
            for (n, centre) in centres.coordinates.chunks_exact(width).enumerate() {
                let distance = point.iter().zip(centre).fold(0i64, |sum, (x, c)| {
                    let apart = i64::from(*x) - c;
                    sum.saturating_add(apart.saturating_mul(apart))
                });
                if distance < nearest.0 {
                    nearest = (distance, n);
                }
            }
            let sum = &mut sums[nearest.1 * (1 + width)..][..1 + width];
            sum[0] += 1;
            for (sum, x) in sum[1..].iter_mut().zip(point) {
                *sum += i64::from(*x);
            }
        }
        Ok(sums.into_iter().flat_map(i64::to_le_bytes).collect())
    }

    /// New centres of all parts' sums.
    fn move_centres(&self, phase: usize, before: &Centres, data: &dyn Data) -> Result<Vec<u8>> {
        let mut sums = vec![0i64; self.clusters * (1 + self.dimensions)];
        for task in 0..self.tasks() {
            data.result(phase - 1, task, &mut |result| {
                if result.len() != 8 * sums.len() {
                    return Err(damaged(phase - 1, task)());
                }
                sums.iter_mut().zip(i64s(result)).for_each(|(sum, n)| *sum += n);
                Ok(())
            })?;
        }
        let mut centres = before.coordinates.clone();
        let each = centres.chunks_exact_mut(self.dimensions);
        for (centre, sum) in each.zip(sums.chunks_exact(1 + self.dimensions)) {
            for (c, total) in centre.iter_mut().zip(&sum[1..]) {
                if sum[0] > 0 {
                    *c = total.div_euclid(sum[0]);
                }
            }
        }
        let counts = sums.iter().copied().step_by(1 + self.dimensions);
        let mut result = vec![u8::from(centres == before.coordinates)];
        result.extend(counts.chain(centres).flat_map(i64::to_le_bytes));
        Ok(result)
    }
}

impl Job for KMeans {
    fn phases(&self) -> Vec<u64> {
        [self.tasks(), 1].repeat(self.iterations)
    }

    fn run(&self, phase: usize, task: u64, data: &dyn Data) -> Result<Vec<u8>> {
        let before = self.centres(phase / 2, data)?;
        match (before.has_converged, phase % 2) {
            (true, 0) => Ok(Vec::new()),
            (true, _) => copied(data, phase - 2, 0),
            (false, 0) => self.assign(task, &before),
            (false, _) => self.move_centres(phase, &before, data),
        }
    }

    fn finish(&self, data: &dyn Data, output: &mut dyn Write) -> Result<()> {
        let last = self.centres(self.iterations, data)?;
        for (count, centre) in last
            .counts
            .iter()
            .zip(last.coordinates.chunks_exact(self.dimensions))
        {
            let coordinates: Vec<String> = centre.iter().map(i64::to_string).collect();
            writeln!(output, "{count} {}", coordinates.join(" ")).map_err(Error::Output)?;
        }
        Ok(())
    }
}
