//! Whether a figure stays flat over a run: the Theil–Sen slope over its checkpoints, and the Mann–Kendall test of
//! whether it is one.
//!
//! The first tenth of a run is its warm-up and does not count. A figure *rises* if the slope over the whole run exceeds
//! the bound, and a rise like that is unlikely to be noise. What falls is as good as flat. With fewer than [`LEAST`]
//! checkpoints nothing is said.

use serde::Serialize;

use super::checkpoint::Checkpoint;
use super::meter::Kind;

/// The fewest checkpoints after the warm-up for a verdict.
pub const LEAST: usize = 8;
const WARM_UP: f64 = 0.1;
/// The Mann–Kendall score above which a rise is unlikely to be noise: one in a thousand.
const UNLIKELY: f64 = 3.09;

/// What is to stay flat, and within what.
struct Watched {
    name: &'static str,
    unit: &'static str,
    /// The rise over the run that is allowed, in parts of the median.
    share: f64,
    /// A rise that is allowed in any case.
    least: f64,
    of: fn(&Checkpoint) -> Option<f64>,
}

const MIB: f64 = (1 << 20) as f64;

const WATCHED: [Watched; 11] = [
    Watched {
        name: "committed",
        unit: "MiB",
        share: 0.1,
        least: 1.0,
        of: |at| Some(at.memory.committed_bytes as f64 / MIB),
    },
    Watched {
        name: "file",
        unit: "MiB",
        share: 0.1,
        least: 1.0,
        of: |at| Some(at.memory.file_bytes as f64 / MIB),
    },
    Watched {
        name: "retired",
        unit: "MiB",
        share: 0.25,
        least: 4.0,
        of: |at| Some(at.memory.retired_bytes as f64 / MIB),
    },
    Watched {
        name: "nodes per 1,000 keys",
        unit: "nodes",
        share: 0.25,
        least: 20.0,
        of: |at| {
            let (nodes, keys) = at.nodes_and_keys();
            (keys > 0).then(|| nodes as f64 * 1e3 / keys as f64)
        },
    },
    Watched {
        name: "put p99.9",
        unit: "us",
        share: 0.5,
        least: 20.0,
        of: |at| at.latency(Kind::Put).map(|put| put.p999_us),
    },
    Watched {
        name: "first p50",
        unit: "us",
        share: 0.25,
        least: 1.0,
        of: |at| at.latency(Kind::First).map(|first| first.p50_us),
    },
    Watched {
        name: "first p99",
        unit: "us",
        share: 0.5,
        least: 5.0,
        of: |at| at.latency(Kind::First).map(|first| first.p99_us),
    },
    Watched {
        name: "last p50",
        unit: "us",
        share: 0.25,
        least: 1.0,
        of: |at| at.latency(Kind::Last).map(|last| last.p50_us),
    },
    Watched {
        name: "last p99",
        unit: "us",
        share: 0.5,
        least: 5.0,
        of: |at| at.latency(Kind::Last).map(|last| last.p99_us),
    },
    Watched {
        name: "get p99.9",
        unit: "us",
        share: 0.5,
        least: 20.0,
        of: |at| at.latency(Kind::Get).map(|get| get.p999_us),
    },
    Watched {
        name: "remove p99.9",
        unit: "us",
        share: 0.5,
        least: 20.0,
        of: |at| at.latency(Kind::Remove).map(|remove| remove.p999_us),
    },
];

/// How a figure went.
#[derive(Clone, Debug, Serialize)]
pub struct Trend {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its median after the warm-up.
    pub median: f64,
    /// Its slope, in units an hour.
    pub slope_per_hour: f64,
    /// What the slope comes to over the run.
    pub rise: f64,
    /// What it may come to.
    pub bound: f64,
    /// The Mann–Kendall score.
    pub score: f64,
    /// Checkpoints that count.
    pub checkpoints: usize,
    /// Whether it rises; unknown if there are too few checkpoints.
    pub rises: Option<bool>,
}

/// The trends of all figures that are to stay flat.
pub fn of(checkpoints: &[Checkpoint]) -> Vec<Trend> {
    WATCHED.iter().map(|watched| fit(watched, checkpoints)).collect()
}

fn fit(watched: &Watched, checkpoints: &[Checkpoint]) -> Trend {
    let end = checkpoints.last().map_or(0.0, |at| at.seconds);
    let counted = checkpoints.iter().filter(|at| at.seconds > end * WARM_UP);
    let points: Vec<(f64, f64)> = counted
        .filter_map(|at| Some((at.seconds, (watched.of)(at)?)))
        .collect();
    let median = median(points.iter().map(|(_, value)| *value).collect());
    let slope = slope(&points);
    let span = points.last().map_or(0.0, |last| last.0 - points[0].0);
    let (rise, bound) = (slope * span, (median * watched.share).max(watched.least));
    let score = score(&points);
    Trend {
        name: watched.name,
        unit: watched.unit,
        median,
        slope_per_hour: slope * 3600.0,
        rise,
        bound,
        score,
        checkpoints: points.len(),
        rises: (points.len() >= LEAST).then_some(rise > bound && score > UNLIKELY),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

fn pairs(points: &[(f64, f64)]) -> impl Iterator<Item = ((f64, f64), (f64, f64))> + '_ {
    let later = |n: usize| points[n + 1..].iter().copied();
    points
        .iter()
        .enumerate()
        .flat_map(move |(n, &point)| later(n).map(move |other| (point, other)))
}

/// The median of the slopes between any two points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let slopes = pairs(points).filter(|(from, to)| to.0 > from.0);
    median(
        slopes
            .map(|(from, to)| (to.1 - from.1) / (to.0 - from.0))
            .collect(),
    )
}

/// By how many standard deviations more pairs rise than fall, if there were no trend.
fn score(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let signs = pairs(points).map(|(from, to)| to.1.total_cmp(&from.1) as i64);
    let sum = signs.sum::<i64>() as f64;
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    if deviation > 0.0 { sum / deviation } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::content::mix;

    fn committed(values: impl Iterator<Item = f64>) -> Trend {
        let checkpoints: Vec<Checkpoint> = (1..)
            .zip(values)
            .map(|(n, value)| {
                let mut checkpoint = Checkpoint {
                    seconds: f64::from(n) * 30.0,
                    ..Checkpoint::default()
                };
                checkpoint.memory.committed_bytes = (value * MIB) as u64;
                checkpoint
            })
            .collect();
        of(&checkpoints).remove(0)
    }

    fn noise(n: u64) -> f64 {
        (mix(n) % 1000) as f64 / 1000.0 - 0.5
    }

    #[test]
    fn what_rises_is_seen_through_noise() {
        let trend = committed((0..100).map(|n| 100.0 + n as f64 / 4.0 + 5.0 * noise(n)));
        assert_eq!(trend.rises, Some(true), "{trend:?}");
        assert!((trend.slope_per_hour - 30.0).abs() < 5.0, "{trend:?}");
    }

    #[test]
    fn noise_outliers_warm_up_and_what_falls_are_no_rise() {
        let flat = committed((0..100).map(|n| 100.0 + 40.0 * noise(n)));
        assert_eq!(flat.rises, Some(false), "{flat:?}");
        let outliers = committed((0..100).map(|n| if n % 30 == 29 { 900.0 } else { 100.0 }));
        assert_eq!(outliers.rises, Some(false), "{outliers:?}");
        let warm_up = committed((0..100).map(|n| (n as f64 * 10.0).min(100.0)));
        assert_eq!(warm_up.rises, Some(false), "{warm_up:?}");
        let falling = committed((0..100).map(|n| 200.0 - n as f64));
        assert_eq!(falling.rises, Some(false), "{falling:?}");
    }

    #[test]
    fn few_checkpoints_tell_nothing() {
        assert_eq!(committed((0..5).map(f64::from)).rises, None);
        assert_eq!(committed(std::iter::empty()).rises, None);
    }
}
