//! The load of each module as a line of bars.

/// Bars of a line.
const WIDTH: usize = 64;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The busiest module's load over the mean; 1 if there is none.
pub fn imbalance(loads: &[u64]) -> f64 {
    let busiest = loads.iter().max().copied().unwrap_or(0);
    let sum: u64 = loads.iter().sum();
    match sum {
        0 => 1.0,
        _ => busiest as f64 * loads.len() as f64 / sum as f64,
    }
}

/// A bar for each module, or for the busiest of several where there are more than fit into a line. The mean is a bar of
/// half the height; from twice the mean on bars are full.
pub fn line(loads: &[u64]) -> String {
    let mean = loads.iter().sum::<u64>() as f64 / loads.len().max(1) as f64;
    let bar = |some: &[u64]| {
        let busiest = some.iter().max().copied().unwrap_or(0) as f64;
        // Four of eight at the mean.
        let height = (busiest / mean.max(1e-9) * 4.0).round() as usize;
        BARS[height.clamp(1, BARS.len()) - 1]
    };
    loads
        .chunks(loads.len().div_ceil(WIDTH).max(1))
        .map(bar)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{imbalance, line};

    #[test]
    fn bars_are_relative_to_the_mean() {
        assert_eq!(line(&[10, 10, 10, 10]), "▄▄▄▄");
        assert_eq!(line(&[0, 0, 0, 40]), "▁▁▁█");
        assert_eq!(line(&[0, 0]), "▁▁");
        assert_eq!(line(&[]), "");
        assert_eq!(imbalance(&[0, 0, 0, 40]), 4.0);
        assert_eq!(imbalance(&[]), 1.0);
    }

    #[test]
    fn many_modules_share_bars() {
        let mut loads = vec![10; 1000];
        loads[999] = 10_000;
        let line = line(&loads);
        assert_eq!(line.chars().count(), 63);
        assert!(line.ends_with('█') && line.starts_with('▂'), "{line}");
    }
}
