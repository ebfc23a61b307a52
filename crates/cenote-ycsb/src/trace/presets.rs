//! Presets that imitate clusters of Twitter's caches by their published figures.
//!
//! Source of every figure: the table `stat/2020Mar.md` of <https://github.com/twitter/cache-trace> (CC BY 4.0), which
//! goes with J. Yang, Y. Yue and R. Vinayak, "A large scale analysis of hundreds of in-memory cache clusters at
//! Twitter", OSDI 2020. Its columns key size, value size (means, in bytes), request rate (thousands a second), mean
//! frequency, operation and Zipf alpha are those of [`PRESETS`], row by row. Reads are get and gets, inserts are add,
//! deletes are delete; everything else, and what the published shares leave of 1, is a write.
//!
//! Clusters 5, 43 and 46 have no alpha in the table and are left out. Only means of sizes are published, so all keys
//! have one size, and all values. Alpha is 0 for clusters whose keys hardly occur twice, and for cluster 35, whose
//! keys do; both are taken as published.

use super::error::Error;
use super::sizes::Sizes;
use super::synthetic::Synthetic;
use std::str::FromStr;

/// The published figures of one cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preset {
    /// Its number in the table.
    pub cluster: u32,
    /// Mean bytes of a key.
    pub key_size: u32,
    /// Mean bytes of a value.
    pub value_size: u32,
    /// Thousands of requests in a second.
    pub rate: f64,
    /// How often a key is asked for in the whole trace, on average.
    pub frequency: f64,
    /// The share of reads.
    pub reads: f64,
    /// The share of inserts.
    pub inserts: f64,
    /// The share of deletes.
    pub deletes: f64,
    /// The zipf exponent.
    pub exponent: f64,
}

/// Seconds that the traces span: a week.
const SPAN: f64 = 7.0 * 86_400.0;

impl Preset {
    /// As it is named on the command line: `cluster26`.
    pub fn name(&self) -> String {
        format!("cluster{}", self.cluster)
    }

    /// Keys of the whole recorded trace: its requests by the mean frequency.
    pub fn keys(&self) -> u64 {
        ((self.rate * 1e3 * SPAN / self.frequency) as u64).max(1)
    }

    /// A trace of so many operations with this cluster's figures.
    ///
    /// With an exponent of 1 or more the keys are as many as in the whole recorded trace: the tail of such a
    /// distribution hardly matters, and how many keys occur follows from the exponent. With a smaller one they are as
    /// many as make the mean frequency the published one, for most of the keys occur.
    pub fn spec(&self, operations: u64) -> Synthetic {
        let keys = if self.exponent < 1.0 {
            (operations as f64 / self.frequency) as u64
        } else {
            self.keys()
        };
        Synthetic {
            operations,
            keys: keys.max(1),
            reads: self.reads,
            inserts: self.inserts,
            deletes: self.deletes,
            exponent: self.exponent,
            key_size: Sizes::fixed(self.key_size),
            value_size: Sizes::fixed(self.value_size),
            per_second: (self.rate * 1e3) as u64,
            ..Synthetic::default()
        }
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        PRESETS
            .into_iter()
            .find(|preset| preset.name() == text)
            .ok_or_else(|| {
                let known: Vec<_> = PRESETS.iter().map(|preset| preset.cluster.to_string()).collect();
                Error::Unfit(format!(
                    "unknown preset {text:?}: known are cluster and one of {}",
                    known.join(", ")
                ))
            })
    }
}

/// One row of the table: cluster, key size, value size, rate, frequency, reads, inserts, deletes, exponent.
type Row = (u32, u32, u32, f64, f64, f64, f64, f64, f64);

const fn preset(row: Row) -> Preset {
    let (cluster, key_size, value_size, rate, frequency, reads, inserts, deletes, exponent) = row;
    Preset {
        cluster,
        key_size,
        value_size,
        rate,
        frequency,
        reads,
        inserts,
        deletes,
        exponent,
    }
}

/// All clusters with a published exponent. Source: `stat/2020Mar.md` of twitter/cache-trace, the row of each cluster.
pub const PRESETS: [Preset; 51] = [
    preset((1, 80, 267, 11.4, 26574.9, 0.99, 0.0, 0.0, 2.6774)),
    preset((2, 21, 68, 12.15, 934.5, 1.0, 0.0, 0.0, 1.4908)),
    preset((3, 19, 120, 1.36, 91.4, 0.99, 0.0, 0.0, 1.6414)),
    preset((4, 67, 2439, 5.26, 26.5, 0.93, 0.0, 0.0, 1.1004)),
    preset((6, 44, 252, 12.61, 327.3, 0.98, 0.0, 0.0, 1.882)),
    preset((7, 17, 1936, 1.62, 72.9, 0.82, 0.0, 0.0, 1.0666)),
    preset((8, 23, 9497, 2.11, 1532.6, 0.5, 0.0, 0.0, 1.7366)),
    preset((9, 32, 39, 18.83, 463.9, 0.99, 0.0, 0.0, 1.6796)),
    preset((10, 22, 2333, 0.22, 2.0, 0.5, 0.5, 0.0, 0.0)),
    preset((11, 24, 170, 4.16, 45.7, 0.97, 0.02, 0.0, 1.4891)),
    preset((12, 44, 1030, 4.36, 1.3, 0.2, 0.0, 0.0, 0.3048)),
    preset((13, 44, 4266, 1.34, 1.6, 0.38, 0.0, 0.0, 0.4565)),
    preset((14, 96, 414, 5.81, 35.4, 0.65, 0.0, 0.22, 1.2959)),
    preset((15, 18, 102, 9.02, 1.0, 0.0, 0.0, 0.0, 0.0242)),
    preset((16, 18, 115, 17.51, 277.0, 0.93, 0.01, 0.0, 1.7862)),
    preset((17, 19, 212, 0.35, 60.8, 0.99, 0.0, 0.0, 2.1106)),
    preset((18, 18, 37, 26.4, 660.5, 0.97, 0.01, 0.0, 2.0994)),
    preset((19, 42, 101, 3.31, 4.7, 0.75, 0.0, 0.0, 0.735)),
    preset((20, 26, 55, 5.63, 29.7, 0.96, 0.03, 0.0, 1.3699)),
    preset((21, 25, 1, 2.18, 1.1, 0.0, 1.0, 0.0, 0.0521)),
    preset((22, 54, 4, 3.24, 4.3, 0.72, 0.0, 0.0, 0.7624)),
    preset((23, 35, 224, 8.69, 3.9, 0.36, 0.0, 0.02, 0.274)),
    preset((24, 32, 699, 5.29, 134.8, 0.99, 0.0, 0.0, 1.3726)),
    preset((25, 49, 28, 18.97, 662.7, 0.97, 0.02, 0.0, 0.9929)),
    preset((26, 122, 1745, 0.25, 13.0, 0.71, 0.0, 0.0, 0.6299)),
    preset((27, 66, 8, 24.55, 9.0, 0.85, 0.0, 0.0, 1.065)),
    preset((28, 45, 85, 9.05, 66.2, 0.91, 0.03, 0.0, 1.503)),
    preset((29, 36, 799, 10.73, 22.5, 0.86, 0.0, 0.0, 1.2323)),
    preset((30, 22, 689, 3.85, 154.4, 0.99, 0.0, 0.0, 1.4259)),
    preset((31, 41, 15, 2.52, 1.1, 0.06, 0.0, 0.0, 0.0)),
    preset((32, 41, 138, 7.35, 1.0, 0.02, 0.0, 0.0, 0.0)),
    preset((33, 24, 1118, 10.53, 254.5, 0.99, 0.0, 0.0, 1.354)),
    preset((34, 33, 322, 3.4, 49.4, 0.94, 0.0, 0.0, 1.1401)),
    preset((35, 19, 1796, 3.06, 14.8, 0.96, 0.0, 0.0, 0.0)),
    preset((36, 23, 78, 9.08, 46.8, 0.94, 0.04, 0.0, 1.2169)),
    preset((37, 72, 20134, 4.15, 3.8, 0.63, 0.0, 0.0, 0.4251)),
    preset((38, 41, 185, 2.52, 1.1, 0.06, 0.0, 0.0, 0.0)),
    preset((39, 41, 80, 2.52, 1.1, 0.06, 0.0, 0.0, 0.0)),
    preset((40, 44, 155, 6.26, 11.8, 0.5, 0.0, 0.0, 0.8551)),
    preset((41, 44, 171, 5.18, 11.8, 0.5, 0.0, 0.0, 0.8542)),
    preset((42, 40, 4703, 6.84, 229.9, 0.96, 0.04, 0.0, 1.5974)),
    preset((44, 25, 22, 9.41, 60.5, 0.98, 0.01, 0.0, 1.4084)),
    preset((45, 10, 120, 0.33, 2.9, 0.85, 0.15, 0.0, 0.6372)),
    preset((47, 44, 267, 9.54, 838.6, 1.0, 0.0, 0.0, 2.0637)),
    preset((48, 44, 70, 1.84, 3.5, 0.65, 0.0, 0.0, 0.8191)),
    preset((49, 44, 10658, 1.25, 154.2, 0.57, 0.0, 0.0, 1.5095)),
    preset((50, 18, 67485, 0.24, 22.1, 0.52, 0.0, 0.0, 1.2816)),
    preset((51, 44, 221, 10.4, 814.8, 0.9, 0.0, 0.0, 1.9745)),
    preset((52, 20, 273, 24.25, 32.6, 0.93, 0.04, 0.0, 1.2117)),
    preset((53, 36, 9213, 1.38, 27.6, 0.89, 0.0, 0.0, 1.2061)),
    preset((54, 19, 246, 0.65, 9.8, 0.97, 0.0, 0.0, 1.611)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_drawn() {
        for preset in PRESETS {
            assert_eq!(preset.name().parse::<Preset>().unwrap(), preset);
            let spec = preset.spec(1_000);
            assert_eq!(spec.records().unwrap().count(), 1_000, "{}", preset.name());
        }
        let error = "cluster5".parse::<Preset>().unwrap_err().to_string();
        assert!(error.contains("1, 2, 3, 4, 6"), "{error}");
    }
}
