//! When redistribution pays, and when modules are even enough: the paper's equations 1 to 5, and what goes beyond them.

use super::load::POINT;

/// What no module has more than is even.
#[derive(Clone, Copy)]
pub(super) struct Even {
    /// What a part of an operation counts for, on average over loads: chance is as large as if all counted for so much.
    pub part: f64,
}

impl Even {
    /// The most that a module may have: a twentieth above the mean, or what chance gives to some if all are alike.
    pub fn most(self, mean: u64) -> u64 {
        let mean = mean as f64;
        (mean * 1.05).max(mean + (mean * self.part).sqrt()) as u64 + 1
    }

    /// Beyond this there is something to be done. Where nothing is known but one batch, chance must not explain it in
    /// thousands of modules.
    pub fn excess(self, mean: u64, known: bool) -> u64 {
        let mean = mean as f64;
        let deviations = if known { 3.0 } else { 5.0 };
        (mean * 1.25).max(mean + deviations * (mean * self.part).sqrt()) as u64
    }
}

/// Point operations that a load is.
fn ops(load: u64) -> f64 {
    load as f64 / POINT as f64
}

/// Equations 1 to 5, in accesses of a module. Loads are in point operations, scans' too, so equation 5 divides by those
/// alone.
pub(super) struct Prices {
    pub point: f64,
    pub depth: f64,
    /// Of a scan, for each key.
    pub scanned: f64,
    pub per_byte: f64,
    pub horizon: f64,
    pub round: f64,
}

impl Prices {
    /// Whether it pays to take a load from the busiest of the modules concerned, if that moves so many keys.
    pub fn pays(&self, benefit: u64, keys: u64) -> bool {
        let keys = keys as f64;
        let cost = self.point + (self.depth + keys * self.scanned) + keys * 16.0 * self.per_byte;
        ops(benefit) * self.horizon - cost / self.point > 0.0
    }

    /// Whether all that a plan takes from the busiest module pays for a round within the batch.
    pub fn pays_a_round(&self, benefit: u64) -> bool {
        ops(benefit) * self.point > self.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(horizon: f64) -> Prices {
        Prices {
            point: 10.0,
            depth: 11.0,
            scanned: 1.0,
            per_byte: 2.0 / 25.0 / 14.0,
            horizon,
            round: 5e5 / 14.0,
        }
    }

    #[test]
    fn a_move_pays_as_the_equations_say() {
        // 10 for a point operation, 11 + 1000 for the scan, 16,000 bytes at 0.0057 accesses each: 1112.4 accesses are
        // 111.2 operations.
        let paper = prices(1.0);
        assert!(!paper.pays(111 * POINT, 1000));
        assert!(paper.pays(112 * POINT, 1000));
        // In eight batches 14 a batch are enough.
        let lasting = prices(8.0);
        assert!(!lasting.pays(13 * POINT, 1000));
        assert!(lasting.pays(14 * POINT, 1000));
        assert!(!lasting.pays(0, 0));
    }

    #[test]
    fn a_round_pays_if_a_batch_saves_a_launch() {
        assert!(!prices(8.0).pays_a_round(3571 * POINT));
        assert!(prices(8.0).pays_a_round(3572 * POINT));
    }

    #[test]
    fn chance_is_no_excess() {
        let even = Even { part: POINT as f64 };
        // 100 operations of equal weight: one standard deviation is 10 of them.
        assert_eq!(even.excess(100 * POINT, true), 130 * POINT);
        assert_eq!(even.excess(100 * POINT, false), 150 * POINT);
        assert_eq!(even.most(100 * POINT), 110 * POINT + 1);
        // With many, a share of the mean is more than chance gives.
        assert_eq!(even.excess(10_000 * POINT, true), 12_500 * POINT);
    }
}
