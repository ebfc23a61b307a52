//! Costs of a network between nodes, a directory and a memory, read from a TOML file.
//!
//! Two are built in: `ethernet` and `cxl3`. A comment in each file says which figure of the paper a number comes from,
//! or that it was assumed. Units are parts of the names; [`Costs`] has all of them as whole picoseconds.

use serde::Deserialize;

use crate::profile::ProfileError;

/// A profile. Every field but the name must be given.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkProfile {
    /// What it is called.
    #[serde(skip)]
    pub name: String,
    /// Bytes of a line, the unit of coherence. A power of two, 64 or more.
    pub line_bytes: u64,
    /// A message's way between a node and the directory.
    pub hop_ns: f64,
    /// The same between the directory and the memory.
    pub memory_hop_ns: f64,
    /// How long the memory takes to find a line.
    pub memory_ns: f64,
    /// How long the directory takes for a message.
    pub directory_ns: f64,
    /// Bandwidth of a node's link, in each direction.
    pub node_gbit_per_s: f64,
    /// The same of the memory's link.
    pub memory_gbit_per_s: f64,
    /// Bytes of a message beside its data.
    pub header_bytes: u64,
    /// From a miss until its request leaves the node.
    pub fault_ns: f64,
    /// From an invalidation's arrival until its acknowledgement leaves the node.
    pub invalidate_ns: f64,
    /// An access to 64 bytes that the node has.
    pub hit_ns: f64,
    /// Lines that one thread waits for at once.
    pub outstanding: u32,
    /// What a lock service's manager takes for a request.
    pub service_ns: f64,
}

const BUILT_IN: [(&str, &str); 2] = [
    ("ethernet", include_str!("../../profiles/ethernet.toml")),
    ("cxl3", include_str!("../../profiles/cxl3.toml")),
];

impl NetworkProfile {
    /// The names of the built-in profiles.
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// A built-in profile by its name.
    pub fn load(name: &str) -> Result<Self, ProfileError> {
        match BUILT_IN.iter().find(|(built_in, _)| *built_in == name) {
            Some((_, text)) => Self::parse(name, text),
            None => Err(ProfileError::Missing {
                name: name.to_owned(),
                error: format!("networks are {}", Self::names().join(", ")),
            }),
        }
    }

    /// A profile from TOML; the name is for errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        let mut profile: Self = toml::from_str(text).map_err(|error| ProfileError::Malformed {
            name: name.to_owned(),
            error: error.to_string().trim_end().to_owned(),
        })?;
        name.clone_into(&mut profile.name);
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), ProfileError> {
        let refuse = |key, value: String, wanted| {
            Err(ProfileError::OutOfRange {
                name: self.name.clone(),
                key,
                value,
                wanted,
            })
        };
        let times = [
            ("hop_ns", self.hop_ns),
            ("memory_hop_ns", self.memory_hop_ns),
            ("memory_ns", self.memory_ns),
            ("directory_ns", self.directory_ns),
            ("fault_ns", self.fault_ns),
            ("invalidate_ns", self.invalidate_ns),
            ("hit_ns", self.hit_ns),
            ("service_ns", self.service_ns),
        ];
        for (key, value) in times {
            if !(0.0..=1e6).contains(&value) {
                return refuse(key, value.to_string(), "nanoseconds from 0 to 1e6");
            }
        }
        for (key, value) in [
            ("node_gbit_per_s", self.node_gbit_per_s),
            ("memory_gbit_per_s", self.memory_gbit_per_s),
        ] {
            if !(1e-2..=1e6).contains(&value) {
                return refuse(key, value.to_string(), "Gbit a second from 0.01 to 1e6");
            }
        }
        if !self.line_bytes.is_power_of_two() || !(64..=1 << 20).contains(&self.line_bytes) {
            return refuse(
                "line_bytes",
                self.line_bytes.to_string(),
                "a power of two from 64 to 1048576",
            );
        }
        if !(1..=1024).contains(&self.outstanding) {
            return refuse(
                "outstanding",
                self.outstanding.to_string(),
                "a number from 1 to 1024",
            );
        }
        Ok(())
    }
}

/// A profile's numbers, in picoseconds, and bytes as they are.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Between a node and the directory.
    pub hop: u64,
    /// Between the directory and the memory.
    pub memory_hop: u64,
    /// The memory's part.
    pub memory: u64,
    /// The directory's part.
    pub directory: u64,
    /// A byte on a node's link.
    pub node_byte: f64,
    /// A byte on the memory's link.
    pub memory_byte: f64,
    /// Bytes of a message beside its data.
    pub header: u64,
    /// Before a request leaves.
    pub fault: u64,
    /// Before an acknowledgement leaves.
    pub invalidate: u64,
    /// An access to 64 bytes that are there.
    pub hit: u64,
    /// Lines that one thread waits for at once.
    pub outstanding: u32,
    /// A manager's part.
    pub service: u64,
}

impl Costs {
    /// The numbers of a profile.
    pub fn of(profile: &NetworkProfile) -> Self {
        let ps = |ns: f64| (ns * 1e3).round() as u64;
        // A Gbit a second is a bit a nanosecond.
        let byte = |gbit_per_s: f64| 8e3 / gbit_per_s;
        Self {
            line_bytes: profile.line_bytes,
            hop: ps(profile.hop_ns),
            memory_hop: ps(profile.memory_hop_ns),
            memory: ps(profile.memory_ns),
            directory: ps(profile.directory_ns),
            node_byte: byte(profile.node_gbit_per_s),
            memory_byte: byte(profile.memory_gbit_per_s),
            header: profile.header_bytes,
            fault: ps(profile.fault_ns),
            invalidate: ps(profile.invalidate_ns),
            hit: ps(profile.hit_ns),
            outstanding: profile.outstanding,
            service: ps(profile.service_ns),
        }
    }

    /// Accesses to so many bytes that are there.
    pub fn hits(&self, bytes: u64) -> u64 {
        bytes.div_ceil(64).max(1) * self.hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_are_complete_and_others_are_refused() {
        for name in NetworkProfile::names() {
            assert_eq!(NetworkProfile::load(name).unwrap().name, name);
        }
        let error = NetworkProfile::load("pigeons").unwrap_err().to_string();
        assert!(error.contains("pigeons") && error.contains("ethernet"), "{error}");
        let text = BUILT_IN[0].1.replace("line_bytes = 4096", "line_bytes = 100");
        let error = NetworkProfile::parse("x", &text).unwrap_err().to_string();
        assert!(error.contains("line_bytes is 100"), "{error}");
        let text = BUILT_IN[0].1.replace("hop_ns = 2000", "hop_ns = -1");
        assert!(NetworkProfile::parse("x", &text).is_err());
    }
}
