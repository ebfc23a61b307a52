//! Costs of operations on a simulated machine, read from a TOML file.
//!
//! A profile is all that virtual time knows of hardware. Five are built in: `dram`, `dram-remote`, `cxl-local`,
//! `cxl-remote` and `cxl-remote-wide`. They have the figures of pcc-indexes (sections 5 and 7.1) as far as it gives
//! any; a comment in each file says which figure a number comes from, or how it was derived, or that it was assumed.
//!
//! **Units.** They are part of the names: `_ns` are nanoseconds, `_gib_per_s` are 2³⁰ bytes a second. Fractions are
//! allowed; [`Clock`](crate::clock::Clock) turns all into whole picoseconds once, before the run.
//!
//! **Limits.** All hosts of a pod are alike, and so are all devices.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;

use serde::Deserialize;

use crate::machine::{Capacity, LINE};

/// A profile. Every field but the name must be given.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is called: the name, or the path, that it was loaded by.
    #[serde(skip)]
    pub name: String,
    /// Capacity of a host's cache, for the shape of a machine; see [`Profile::cache_lines`].
    pub cache_bytes: u64,
    /// Capacity of what a thread has beside that for what it alone writes: its record, and its lists.
    pub own_cache_bytes: u64,
    /// A cached access to a line that is present.
    pub hit_ns: f64,
    /// The same, of a line that threads share: it may be in no cache of the thread's own core.
    pub shared_hit_ns: f64,
    /// A cached access to a line that is absent, when no other thread uses the memory.
    pub miss_ns: f64,
    /// A line that comes from another host's cache, where hardware keeps caches coherent; one at a time for each line.
    pub transfer_ns: f64,
    /// Such a line that has come to be written stays for up to so long, though others wait for it.
    pub retention_ns: f64,
    /// Lines that one host moves through its cache, both ways.
    pub host_bandwidth_gib_per_s: f64,
    /// Lines that one device moves, for all hosts.
    pub device_bandwidth_gib_per_s: f64,
    /// Devices; the pool is spread over them by pages of 4 KiB.
    pub devices: u32,
    /// A sync load, or a line fetched afresh, when no other thread wants it.
    pub sync_load_ns: f64,
    /// A sync store, when no other thread wants the line.
    pub sync_store_ns: f64,
    /// How long a memory controller keeps others waiting for the same line, out of a sync load's or store's time.
    pub same_address_service_ns: f64,
    /// A compare-exchange or another read-modify-write, when its queue is empty.
    pub exchange_ns: f64,
    /// Queues for compare-exchanges; a hash of the address chooses one.
    pub exchange_queues: u32,
    /// How long a compare-exchange keeps its queue busy, out of its time.
    pub exchange_service_ns: f64,
    /// From the beginning of a write-back to its completion.
    pub write_back_ns: f64,
    /// From the beginning of a flush to its completion.
    pub flush_ns: f64,
    /// A fence that has nothing to wait for.
    pub fence_ns: f64,
    /// What a thread computes between two operations.
    pub compute_ns: f64,
    /// A system call.
    pub kernel_ns: f64,
    /// A moment that a thread waits between two polls of a word.
    pub pause_ns: f64,
    /// A message's way from one machine to another. No operation on memory takes it.
    pub network_ns: f64,
}

/// The built-in profiles: their names and texts.
const BUILT_IN: [(&str, &str); 5] = [
    ("dram", include_str!("../profiles/dram.toml")),
    ("dram-remote", include_str!("../profiles/dram-remote.toml")),
    ("cxl-local", include_str!("../profiles/cxl-local.toml")),
    ("cxl-remote", include_str!("../profiles/cxl-remote.toml")),
    (
        "cxl-remote-wide",
        include_str!("../profiles/cxl-remote-wide.toml"),
    ),
];

/// What is outside is taken for a mistake. With these, virtual time lasts for thousands of millions of operations.
const TIMES_NS: RangeInclusive<f64> = 0.0..=1e6;
const BANDWIDTHS_GIB_PER_S: RangeInclusive<f64> = 1e-3..=1e6;
const COUNTS: RangeInclusive<u32> = 1..=1 << 20;

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Neither a built-in profile nor a file.
    #[error("there is no profile {name:?}: {error}. Give the path of a TOML file, or one of {}", Profile::names().join(", "))]
    Missing {
        /// What was asked for.
        name: String,
        /// What the file system said.
        error: String,
    },
    /// It is no TOML, or has other keys than a profile has.
    #[error("profile {name}: {error}. Every key must be given once; the built-in profiles show them all")]
    Malformed {
        /// Which profile.
        name: String,
        /// What is wrong, with its line.
        error: String,
    },
    /// A value that nothing can cost.
    #[error("profile {name}: {key} is {value}; give {wanted}")]
    OutOfRange {
        /// Which profile.
        name: String,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
}

/// Bytes that the file of a profile has at most.
const FILE_MAX: u64 = 64 << 10;

impl Profile {
    /// The names of the built-in profiles.
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// A built-in profile by its name, else the file at this path.
    pub fn load(name: &str) -> Result<Self, ProfileError> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            return Self::parse(name, text);
        }
        let mut text = String::new();
        let read = File::open(name).and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text));
        let missing = |error: &dyn fmt::Display| ProfileError::Missing {
            name: name.to_owned(),
            error: error.to_string(),
        };
        match read {
            Ok(len) if len as u64 > FILE_MAX => {
                Err(missing(&format_args!("it has more than {FILE_MAX} bytes")))
            }
            Ok(_) => Self::parse(name, &text),
            Err(error) => Err(missing(&error)),
        }
    }

    /// A profile from TOML; the name is for errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        let mut profile: Self = toml::from_str(text).map_err(|error| ProfileError::Malformed {
            name: name.to_owned(),
            error: error.to_string().trim_end().to_owned(),
        })?;
        name.clone_into(&mut profile.name);
        profile.check(name)?;
        Ok(profile)
    }

    /// Lines that the cache of a host with so many threads has room for.
    pub fn cache_lines(&self, threads: u32) -> Capacity {
        let lines = |bytes: u64| usize::try_from(bytes / LINE).unwrap_or(usize::MAX);
        Capacity {
            shared: lines(self.cache_bytes),
            own: lines(self.own_cache_bytes.saturating_mul(threads.into())),
        }
    }

    fn check(&self, name: &str) -> Result<(), ProfileError> {
        let refuse = |key, value: String, wanted| {
            Err(ProfileError::OutOfRange {
                name: name.to_owned(),
                key,
                value,
                wanted,
            })
        };
        for (key, value) in self.times() {
            if !TIMES_NS.contains(&value) {
                return refuse(key, value.to_string(), "nanoseconds from 0 to 1e6");
            }
        }
        for (key, value) in [
            ("host_bandwidth_gib_per_s", self.host_bandwidth_gib_per_s),
            ("device_bandwidth_gib_per_s", self.device_bandwidth_gib_per_s),
        ] {
            if !BANDWIDTHS_GIB_PER_S.contains(&value) {
                return refuse(key, value.to_string(), "GiB a second from 1e-3 to 1e6");
            }
        }
        for (key, value) in [
            ("devices", self.devices),
            ("exchange_queues", self.exchange_queues),
        ] {
            if !COUNTS.contains(&value) {
                return refuse(key, value.to_string(), "a number from 1 to 1048576");
            }
        }
        if self.cache_bytes < LINE {
            return refuse("cache_bytes", self.cache_bytes.to_string(), "64 bytes or more");
        }
        if self.own_cache_bytes < LINE {
            return refuse(
                "own_cache_bytes",
                self.own_cache_bytes.to_string(),
                "64 bytes or more",
            );
        }
        Ok(())
    }

    fn times(&self) -> [(&'static str, f64); 17] {
        [
            ("hit_ns", self.hit_ns),
            ("shared_hit_ns", self.shared_hit_ns),
            ("miss_ns", self.miss_ns),
            ("transfer_ns", self.transfer_ns),
            ("retention_ns", self.retention_ns),
            ("sync_load_ns", self.sync_load_ns),
            ("sync_store_ns", self.sync_store_ns),
            ("same_address_service_ns", self.same_address_service_ns),
            ("exchange_ns", self.exchange_ns),
            ("exchange_service_ns", self.exchange_service_ns),
            ("write_back_ns", self.write_back_ns),
            ("flush_ns", self.flush_ns),
            ("fence_ns", self.fence_ns),
            ("compute_ns", self.compute_ns),
            ("kernel_ns", self.kernel_ns),
            ("pause_ns", self.pause_ns),
            ("network_ns", self.network_ns),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_are_complete() {
        for name in Profile::names() {
            let profile = Profile::load(name).unwrap();
            assert!(profile.cache_lines(1).shared > 1 << 20, "{name}");
        }
    }

    #[test]
    fn errors_say_what_where_and_what_to_do() {
        let error = |from: &str, to: &str| {
            let text = BUILT_IN[2].1.replace(from, to);
            assert_ne!(text, BUILT_IN[2].1, "{from}");
            Profile::parse("x.toml", &text).unwrap_err().to_string()
        };
        let unknown = error("\nhit_ns =", "\nhit_us =");
        assert!(
            unknown.contains("line ") && unknown.contains("unknown field `hit_us`"),
            "{unknown}"
        );
        let missing = error("\nhit_ns =", "\n# hit_ns =");
        assert!(
            missing.contains("missing field `hit_ns`") && missing.contains("built-in"),
            "{missing}"
        );
        let negative = error("\nhit_ns = ", "\nhit_ns = -");
        assert_eq!(
            negative,
            "profile x.toml: hit_ns is -5; give nanoseconds from 0 to 1e6"
        );
        let none = error("exchange_queues = 4096", "exchange_queues = 0");
        assert_eq!(
            none,
            "profile x.toml: exchange_queues is 0; give a number from 1 to 1048576"
        );
        let slow = error(
            "device_bandwidth_gib_per_s = ",
            "device_bandwidth_gib_per_s = nan # ",
        );
        assert!(slow.contains("is NaN; give GiB a second"), "{slow}");
        let nowhere = Profile::load("./no/such.toml").unwrap_err().to_string();
        assert!(
            nowhere.contains("no profile \"./no/such.toml\"") && nowhere.contains("cxl-remote"),
            "{nowhere}"
        );
    }
}
