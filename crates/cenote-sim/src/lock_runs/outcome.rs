//! What a run has found.

/// What threads note of an acquisition of lock and data.
#[derive(Clone, Copy, Debug)]
pub struct Acquired {
    /// The thread's node.
    pub node: u32,
    /// When it began, in picoseconds.
    pub begun: u64,
    /// How long lock and data took, in picoseconds.
    pub time: u64,
    /// Whether the thread waited for the network.
    pub crossed: bool,
}

/// What a run has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Acquisitions of lock and data in the time that counts.
    pub operations: u64,
    /// The time that counts, in nanoseconds.
    pub time_ns: f64,
    /// All acquisitions for which the thread waited for the network.
    pub crossed: u64,
    /// Coherence transactions, of lines and directory locks.
    pub transactions: u64,
    /// Bytes that have passed nodes' links.
    pub bytes: u64,
    /// Acquisitions of each node, in the time that counts.
    by_node: Vec<u64>,
    /// How long each acquisition took, in nanoseconds, ascending.
    all_ns: Vec<f64>,
    /// The same for those for which the thread waited for the network.
    crossed_ns: Vec<f64>,
}

impl Outcome {
    /// What threads of so many nodes have noted, of which that from `warm` to `end` counts, in picoseconds.
    pub(super) fn of(noted: &[Acquired], nodes: u8, (warm, end): (u64, u64)) -> Self {
        let counts = |acquired: &&Acquired| (warm..end).contains(&acquired.begun);
        let ns = |acquired: &Acquired| acquired.time as f64 / 1e3;
        let mut all_ns: Vec<f64> = noted.iter().filter(counts).map(ns).collect();
        let crossed = noted.iter().filter(counts).filter(|acquired| acquired.crossed);
        let mut crossed_ns: Vec<f64> = crossed.map(ns).collect();
        let mut by_node = vec![0; nodes.into()];
        for acquired in noted.iter().filter(counts) {
            by_node[acquired.node as usize] += 1;
        }
        all_ns.sort_by(f64::total_cmp);
        crossed_ns.sort_by(f64::total_cmp);
        Self {
            operations: all_ns.len() as u64,
            time_ns: (end - warm) as f64 / 1e3,
            crossed: noted.iter().filter(|acquired| acquired.crossed).count() as u64,
            by_node,
            all_ns,
            crossed_ns,
            ..Self::default()
        }
    }

    /// Acquisitions a microsecond, that is millions a second.
    pub fn mops(&self) -> f64 {
        self.operations as f64 * 1e3 / self.time_ns
    }

    /// What the node with the fewest acquisitions has of a fair share, in per cent.
    pub fn least_share(&self) -> Option<f64> {
        let least = self.by_node.iter().min()?;
        let mean = self.operations as f64 / self.by_node.len() as f64;
        (self.operations != 0).then(|| *least as f64 * 100.0 / mean)
    }

    /// Coherence transactions for each acquisition that waited for the network.
    pub fn transactions_each(&self) -> Option<f64> {
        (self.crossed != 0).then(|| self.transactions as f64 / self.crossed as f64)
    }

    /// Mean time of acquisitions that waited for the network, in microseconds.
    pub fn crossed_mean_us(&self) -> Option<f64> {
        let count = self.crossed_ns.len();
        (count != 0).then(|| self.crossed_ns.iter().sum::<f64>() / count as f64 / 1e3)
    }

    /// The time within which this share of all acquisitions were done, in microseconds.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let last = self.all_ns.len().checked_sub(1)?;
        Some(self.all_ns[(share * last as f64).round() as usize] / 1e3)
    }
}
