//! The keys of a run, and what their values are like. Each key has one writer.

use crate::trial::content::Keyspace;

/// The largest value.
pub const VALUE_MAX: u64 = 4 << 20;
/// Sizes of ballast.
const BALLAST: [u64; 2] = [16 << 10, 512 << 10];

/// A kind of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Family {
    /// A range that moves up: pushed behind its last, popped at `first`. An ordered map for each worker.
    Up,
    /// A range that moves down: pushed before its first, popped at `last`. An ordered map for each worker.
    Down,
    /// Many small pairs of a hash map.
    BulkHash,
    /// Many small pairs of an ordered map.
    BulkOrdered,
    /// Values of 0 bytes to 4 MiB in a hash map.
    Values,
    /// Values of 16 to 512 KiB in an ordered map, as many as the pool takes.
    Ballast,
}

impl Family {
    /// Those whose keys are used again and again in ever new eras.
    pub const QUEUES: [Self; 2] = [Self::Up, Self::Down];

    /// Whether its map is an ordered one.
    pub fn is_ordered(self) -> bool {
        !matches!(self, Self::BulkHash | Self::Values)
    }

    /// The name of its map, as a worker uses it.
    pub fn map_name(self, worker: u32) -> String {
        match self {
            Self::Up => format!("up-{worker}"),
            Self::Down => format!("down-{worker}"),
            Self::BulkHash => "bulk-hash".to_owned(),
            Self::BulkOrdered => "bulk-ordered".to_owned(),
            Self::Values => "values".to_owned(),
            Self::Ballast => "ballast".to_owned(),
        }
    }

    /// Writes a key into `into`. Those of queues depend on the era: how often the place in the journal was used.
    pub fn key(self, worker: u32, index: u32, era: u32, into: &mut Vec<u8>) {
        into.clear();
        let counter = u64::from(era) * u64::from(self.keys()) + u64::from(index);
        match self {
            Self::Up => into.extend_from_slice(&((1 << 63) + counter).to_be_bytes()),
            Self::Down => into.extend_from_slice(&((1 << 63) - 1 - counter).to_be_bytes()),
            _ => into.extend_from_slice(&(u64::from(worker) << 32 | u64::from(index)).to_be_bytes()),
        }
    }
}

impl Keyspace for Family {
    const ALL: &'static [Self] = &[
        Self::Up,
        Self::Down,
        Self::BulkHash,
        Self::BulkOrdered,
        Self::Values,
        Self::Ballast,
    ];

    fn number(self) -> u8 {
        self as u8
    }

    fn keys(self) -> u32 {
        [4096, 4096, 1 << 16, 1 << 16, 1024, 8192][self as usize]
    }

    fn len(self, base: u64) -> usize {
        let even = |least: u64, most: u64| (least + base % (most - least + 1)) as usize;
        match self {
            Self::Up | Self::Down => even(8, 120),
            Self::BulkHash | Self::BulkOrdered => even(8, 64),
            Self::Values => logarithmic(base, [1, VALUE_MAX]) - 1,
            Self::Ballast => logarithmic(base, BALLAST),
        }
    }
}

/// A size whose logarithm is evenly spread.
fn logarithmic(base: u64, [least, most]: [u64; 2]) -> usize {
    let share = (base >> 11) as f64 / (1u64 << 53) as f64;
    let (least, most) = (least as f64, most as f64);
    (least * (most / least).powf(share)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::content::mix;

    #[test]
    fn sizes_are_spread_over_all_powers_of_two() {
        let mut powers = [0; 23];
        for n in 0..10_000u64 {
            let len = Family::Values.len(mix(n));
            assert!(len < VALUE_MAX as usize);
            powers[(len + 1).ilog2() as usize] += 1;
            let ballast = Family::Ballast.len(mix(n)) as u64;
            assert!((BALLAST[0]..=BALLAST[1]).contains(&ballast));
        }
        assert!(powers[..22].iter().all(|&count| count > 300), "{powers:?}");
    }

    #[test]
    fn queues_move_in_one_direction() {
        let (mut one, mut next) = (Vec::new(), Vec::new());
        for (family, up) in [(Family::Up, true), (Family::Down, false)] {
            family.key(1, family.keys() - 1, 6, &mut one);
            family.key(1, 0, 7, &mut next);
            assert_eq!(one < next, up);
        }
    }
}
