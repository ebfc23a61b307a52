//! Settings of a map, and the shifts of its subranges, which follow from them.

/// Settings of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Bits of a key in which the keys of a finest subrange differ: 1 to 63.
    pub finest_shift: u8,
    /// Bits from one shift to the next; 0 for as many as there are modules, as the paper has it. Fewer bits leave fewer
    /// subranges, and take more probes.
    pub split_bits: u8,
    /// A subrange with so few keys may be pulled though it is not of the finest shift.
    pub pull_keys: u64,
    /// Pairs that are pulled at most, but for those that turn out to have no room in any module.
    pub pulled_max: u64,
    /// Subranges that the host keeps account of: no split goes beyond, and what is beyond is merged.
    pub entries_max: usize,
    /// Batches in a row with little load, after which a region is merged, and a pulled subrange goes back.
    pub cold_batches: u32,
    /// Whether subranges are redistributed. Without it the map is divided by ranges of equal width, for ever.
    pub adaptive: bool,
    /// Whether what a batch does to a key several times is one command, and modules are asked once for scans that it
    /// repeats.
    pub repeats: bool,
    /// Whether an insert where no subrange is makes the finest one, as the paper has it. Else it makes the one that
    /// splits have left there.
    pub finest_gaps: bool,
    /// A module's memory.
    pub module_bytes: u64,
    /// Accesses of a module that take as long as bringing a byte to another module, for equation 4.
    pub accesses_per_moved_byte: f64,
    /// Accesses of a module that take as long as a launch.
    pub accesses_per_round: f64,
    /// Batches for which a redistribution is expected to be of use. The paper counts one.
    pub horizon: u32,
    /// Decides heights.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            finest_shift: 4,
            split_bits: 5,
            pull_keys: 4,
            pulled_max: 1 << 20,
            entries_max: 1 << 20,
            cold_batches: 8,
            adaptive: true,
            repeats: true,
            finest_gaps: false,
            module_bytes: 64 << 20,
            // A byte goes through 25 GB/s twice; an access takes 14 ns.
            accesses_per_moved_byte: 2.0 / 25.0 / 14.0,
            // 0.5 ms.
            accesses_per_round: 5e5 / 14.0,
            horizon: 8,
            seed: 1,
        }
    }
}

/// The shifts for so many modules, descending.
pub(super) fn shifts(config: &Config, modules: usize) -> Vec<u8> {
    // One coarsest subrange for each module; where that cannot be, enough for modules to have about as many.
    let regions = if modules.is_power_of_two() {
        modules
    } else {
        modules.saturating_mul(8).next_power_of_two()
    };
    let bits = regions.trailing_zeros() as u8;
    let step = match config.split_bits {
        0 => bits.max(1),
        bits => bits,
    };
    let mut shift = 64u8.saturating_sub(bits).max(config.finest_shift);
    let mut shifts = vec![shift];
    while shift > config.finest_shift {
        shift = shift.saturating_sub(step).max(config.finest_shift);
        shifts.push(shift);
    }
    shifts
}
