//! The `line` command: what it costs this machine to fetch a line of 64 bytes from memory past its caches.
//!
//! Random lines of a mapped file are flushed, a fence waits for that, and a word of each is loaded: one line, then
//! several lines under one fence. Two forms are measured. *Back to back*, the next flush may begin while the last load
//! is on its way, as between the lookups of a benchmark's loop; its figure for one line is the unit. *Dependent*, the
//! place of an access hangs on the word loaded before it, so that none begins before the last has ended, as between the
//! steps of one lookup. `load` is the dependent form without flush and fence: an ordinary miss, if the file is much
//! larger than the cache. The file is unlinked before it is measured and nothing is left behind.
//!
//! Time is read once for every few accesses; what is reported is the median over all of these.

use crate::subjects::Failure;
use crate::table::Output;
#[cfg(target_arch = "x86_64")]
use crate::table::{Style, table};
use clap::Args;
#[cfg(target_arch = "x86_64")]
use serde_json::json;
use std::path::PathBuf;

/// The options of `line`.
#[derive(Args)]
pub struct Options {
    /// Bytes of the mapping, such as 512MiB or 1GiB.
    #[arg(long, default_value = "1GiB", value_parser = size)]
    size: usize,
    /// The directory of the file.
    #[arg(long, default_value = "/dev/shm")]
    directory: PathBuf,
    /// Accesses for each figure.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    ops: u64,
    /// The seed from which the lines are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// Parses a size such as `64MiB`; at least one page.
pub fn size(text: &str) -> Result<usize, String> {
    let split = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => {
            return Err(format!(
                "unknown unit \"{unit}\": known are B, KiB, MiB, GiB and TiB"
            ));
        }
    };
    let bytes = digits
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes >= 4096 => Ok(bytes / 4096 * 4096),
        Some(_) => Err("at least 4KiB are needed".to_owned()),
        None => Err(format!("\"{text}\" is not a size")),
    }
}

/// Measures and prints.
#[cfg(target_arch = "x86_64")]
pub fn run(options: &Options) -> Result<(), Failure> {
    let figures = x86_64::measure(&options.directory, options.size, options.ops, options.seed)?;
    options.output.print(
        || {
            json!({
                "command": "line",
                "size": options.size,
                "seed": options.seed,
                "instruction": figures.instruction,
                "load_ns": figures.load_ns,
                "flush_fence_load_ns": figures.back_to_back_ns[0],
                "back_to_back_ns": figures.back_to_back_ns,
                "dependent_ns": figures.dependent_ns,
            })
        },
        |style| text(options, &figures, style),
    );
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn text(options: &Options, figures: &x86_64::Figures, style: Style) -> String {
    let mut rows = vec![vec![
        "load".to_owned(),
        "-".to_owned(),
        format!("{:.0}", figures.load_ns),
    ]];
    let pairs = figures.back_to_back_ns.iter().zip(figures.dependent_ns);
    for (index, (back_to_back, dependent)) in pairs.enumerate() {
        let lines = if index == 0 {
            "1 line".to_owned()
        } else {
            format!("{} lines", index + 1)
        };
        rows.push(vec![
            format!("{} + mfence + load, {lines}", figures.instruction),
            format!("{back_to_back:.0}"),
            format!("{dependent:.0}"),
        ]);
    }
    let mut text = format!("random lines of {} MiB, medians in ns\n\n", options.size >> 20);
    let head = ["access", "back to back", "dependent"];
    table(&mut text, style, 1, &head, &rows);
    text
}

/// Says that this architecture is not measured.
#[cfg(not(target_arch = "x86_64"))]
pub fn run(_options: &Options) -> Result<(), Failure> {
    Err(Failure::Broken("`line` measures x86-64 only".to_owned()))
}

#[cfg(target_arch = "x86_64")]
pub use x86_64::{GROUP, Unit};

/// The measurement itself.
#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use crate::subjects::Failure;
    use crate::table::median;
    // The flush is this file's own, and not the library's, because it is what the library is compared with.
    use core::arch::asm;
    use core::arch::x86_64::__cpuid_count;
    #[allow(
        clippy::disallowed_types,
        reason = "a file of its own that no pool has to do with"
    )]
    use memmap2::{Advice, MmapMut};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::hint::black_box;
    use std::path::Path;
    use std::time::Instant;

    const LINE: usize = 64;

    /// Accesses between two readings of the clock: few enough that interruptions hit few groups, enough that the
    /// reading itself does not show.
    pub const GROUP: usize = 32;

    /// Medians in nanoseconds.
    pub struct Figures {
        /// The flush that the CPU has.
        pub instruction: &'static str,
        /// A dependent load.
        pub load_ns: f64,
        /// Flush, fence and load of one to four lines, whose places are known beforehand.
        pub back_to_back_ns: [f64; 4],
        /// The same, each waiting for the one before.
        pub dependent_ns: [f64; 4],
    }

    /// The unit of comparison, for measuring it between other things.
    pub struct Unit {
        #[allow(clippy::disallowed_types, reason = "as above")]
        mapping: MmapMut,
        optimised: bool,
    }

    impl Unit {
        /// Makes a file in `directory`, full of zeros and without a name.
        pub fn new(directory: &Path, size: usize) -> Result<Self, Failure> {
            let file = tempfile::tempfile_in(directory)?;
            // Reserved first: a full file system is an error here, and not a signal later.
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size as u64)?;
            // SAFETY: the file has no name any more, so that nobody else can change or shorten it.
            #[allow(clippy::disallowed_types, reason = "as above")]
            let mut mapping = unsafe { MmapMut::map_mut(&file)? };
            // A wish: without huge pages the figures hold the page walks as well.
            let _ = mapping.advise(Advice::HugePage);
            mapping.fill(0);
            Ok(Self {
                mapping,
                optimised: __cpuid_count(7, 0).ebx & (1 << 23) != 0,
            })
        }

        fn memory(&self) -> Memory {
            Memory {
                start: self.mapping.as_ptr(),
            }
        }

        /// Draws that many lines.
        pub fn draw(&self, operations: u64, seed: u64) -> Vec<usize> {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let lines = self.mapping.len() / LINE;
            (0..operations)
                .map(|_| rng.random_range(0..lines) * LINE)
                .collect()
        }

        /// Flushes, fences and loads these lines one by one and adds what each group of [`GROUP`] took, in
        /// nanoseconds a line. `dependent`: none begins before the last has ended.
        pub fn fetch_each(&self, places: &[usize], dependent: bool, into: &mut Vec<f64>) {
            let memory = self.memory();
            match (self.optimised, dependent) {
                (true, true) => group_ns(places, 1, into, |p, carried| memory.fetch::<true>(p, carried)),
                (true, false) => group_ns(places, 1, into, |p, _| memory.fetch::<true>(p, 0)),
                (false, true) => group_ns(places, 1, into, |p, carried| memory.fetch::<false>(p, carried)),
                (false, false) => group_ns(places, 1, into, |p, _| memory.fetch::<false>(p, 0)),
            }
        }
    }

    /// Measures on a new file in `directory`.
    pub fn measure(directory: &Path, size: usize, operations: u64, seed: u64) -> Result<Figures, Failure> {
        let unit = Unit::new(directory, size)?;
        let places = unit.draw(operations, seed);
        if unit.optimised {
            Ok(unit.memory().figures::<true>(&places, "clflushopt"))
        } else {
            Ok(unit.memory().figures::<false>(&places, "clflush"))
        }
    }

    /// What each group of accesses to `lines` lines took, an access. Every word loaded is zero and is carried into
    /// the next access.
    fn group_ns(
        places: &[usize],
        lines: usize,
        into: &mut Vec<f64>,
        mut fetch: impl FnMut(&[usize], usize) -> usize,
    ) {
        let mut carried = 0;
        for group in places.chunks_exact(GROUP * lines) {
            let start = Instant::now();
            for places in group.chunks_exact(lines) {
                carried = fetch(places, carried);
            }
            black_box(carried);
            into.push(start.elapsed().as_nanos() as f64 / GROUP as f64);
        }
    }

    /// The median over the groups.
    fn median_ns(places: &[usize], lines: usize, fetch: impl FnMut(&[usize], usize) -> usize) -> f64 {
        let mut figures = Vec::with_capacity(places.len() / (GROUP * lines));
        group_ns(places, lines, &mut figures, fetch);
        median(&figures).unwrap_or(f64::NAN)
    }

    /// A mapping full of zeros.
    struct Memory {
        start: *const u8,
    }

    impl Memory {
        fn figures<const OPTIMISED: bool>(&self, places: &[usize], instruction: &'static str) -> Figures {
            let fetch = |places: &[usize], carried| self.fetch::<OPTIMISED>(places, carried);
            Figures {
                instruction,
                load_ns: median_ns(places, 1, |places, carried| self.load(places[0] ^ carried)),
                back_to_back_ns: [1, 2, 3, 4]
                    .map(|lines| median_ns(places, lines, |places, _| fetch(places, 0))),
                dependent_ns: [1, 2, 3, 4].map(|lines| median_ns(places, lines, fetch)),
            }
        }

        #[inline(always)]
        fn load(&self, place: usize) -> usize {
            // SAFETY: `place` is a multiple of 64 below the mapping's size, and the mapping outlives this.
            unsafe { self.start.add(place).cast::<usize>().read_volatile() }
        }

        /// Flushes the lines, waits, loads a word of each.
        #[inline(always)]
        #[allow(
            clippy::disallowed_macros,
            reason = "the unit of comparison, independent of the library's flush"
        )]
        fn fetch<const OPTIMISED: bool>(&self, places: &[usize], carried: usize) -> usize {
            for place in places {
                // SAFETY: flushing a line of the mapping changes no value; the CPU has the instruction.
                unsafe {
                    let line = self.start.add(place ^ carried);
                    if OPTIMISED {
                        asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                    } else {
                        asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags));
                    }
                }
            }
            // SAFETY: a fence has no precondition.
            unsafe { asm!("mfence", options(nostack, preserves_flags)) };
            places
                .iter()
                .fold(0, |words, place| words | self.load(place ^ carried))
        }
    }
}

/// Groups as on other architectures.
#[cfg(not(target_arch = "x86_64"))]
pub const GROUP: usize = 32;

/// The unit of comparison, which cannot be had here.
#[cfg(not(target_arch = "x86_64"))]
pub enum Unit {}

#[cfg(not(target_arch = "x86_64"))]
impl Unit {
    /// Says that this architecture is not measured.
    pub fn new(_directory: &std::path::Path, _size: usize) -> Result<Self, Failure> {
        Err(Failure::Missing("lines are measured on x86-64 only".to_owned()))
    }

    /// Draws nothing.
    pub fn draw(&self, _operations: u64, _seed: u64) -> Vec<usize> {
        match *self {}
    }

    /// Fetches nothing.
    pub fn fetch_each(&self, _places: &[usize], _dependent: bool, _into: &mut Vec<f64>) {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert_eq!(size("5000"), Ok(4096));
        assert!(size("1GB").is_err());
        assert!(size("12").is_err());
        assert!(size("MiB").is_err());
        assert!(size("99999999999TiB").is_err());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn fetching_past_the_caches_takes_time() {
        let directory = std::env::temp_dir();
        let figures = x86_64::measure(&directory, 4 << 20, 10_000, 1).expect("the file fits");
        assert!(
            figures.dependent_ns.iter().all(|&ns| ns > 10.0),
            "{:?}",
            figures.dependent_ns
        );
    }
}
