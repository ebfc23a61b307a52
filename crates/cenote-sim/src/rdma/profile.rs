//! Costs of a network of memory nodes, read from a TOML file. One is built in: `rdma`. Units are parts of the names;
//! [`Costs`] has times as whole picoseconds.

use serde::Deserialize;

use super::Time;
use crate::profile::ProfileError;

/// A profile. Every field but the name must be given.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdmaProfile {
    /// What it is called.
    #[serde(skip)]
    pub name: String,
    /// A message's way from one card to another.
    pub one_way_ns: f64,
    /// So much later at most.
    pub jitter_ns: f64,
    /// A client gives a batch to its card.
    pub post_ns: f64,
    /// Each further verb of the batch.
    pub verb_ns: f64,
    /// From the last completion until the client has it.
    pub poll_ns: f64,
    /// Millions of verbs that a card begins a second.
    pub nic_mverbs_per_s: f64,
    /// Bandwidth of a card in each direction.
    pub nic_gbit_per_s: f64,
    /// Millions of atomic verbs that a card executes a second.
    pub nic_matomics_per_s: f64,
    /// Bytes of a message beside its data.
    pub header_bytes: u64,
    /// A core's time for a request.
    pub request_ns: f64,
    /// Cores of a memory node that serve requests.
    pub node_cores: u32,
    /// The same of a metadata server.
    pub server_cores: u32,
    /// Clients that share a machine, and its card.
    pub clients_per_machine: u32,
    /// After so long a verb counts as unknown.
    pub deadline_us: f64,
    /// From one heartbeat of a client to the next.
    pub heartbeat_us: f64,
}

const BUILT_IN: (&str, &str) = ("rdma", include_str!("../../profiles/rdma.toml"));

impl RdmaProfile {
    /// The profile `rdma`.
    pub fn rdma() -> Result<Self, ProfileError> {
        Self::parse(BUILT_IN.0, BUILT_IN.1)
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
            ("one_way_ns", self.one_way_ns),
            ("jitter_ns", self.jitter_ns),
            ("post_ns", self.post_ns),
            ("verb_ns", self.verb_ns),
            ("poll_ns", self.poll_ns),
            ("request_ns", self.request_ns),
        ];
        for (key, value) in times {
            if !(0.0..=1e6).contains(&value) {
                return refuse(key, value.to_string(), "nanoseconds from 0 to 1e6");
            }
        }
        for (key, value) in [
            ("deadline_us", self.deadline_us),
            ("heartbeat_us", self.heartbeat_us),
        ] {
            if !(1.0..=1e7).contains(&value) {
                return refuse(key, value.to_string(), "microseconds from 1 to 1e7");
            }
        }
        let rates = [
            ("nic_mverbs_per_s", self.nic_mverbs_per_s),
            ("nic_gbit_per_s", self.nic_gbit_per_s),
            ("nic_matomics_per_s", self.nic_matomics_per_s),
        ];
        for (key, value) in rates {
            if !(1e-3..=1e6).contains(&value) {
                return refuse(key, value.to_string(), "a rate from 0.001 to 1e6");
            }
        }
        let counts = [
            ("node_cores", self.node_cores),
            ("server_cores", self.server_cores),
            ("clients_per_machine", self.clients_per_machine),
        ];
        for (key, value) in counts {
            if !(1..=1024).contains(&value) {
                return refuse(key, value.to_string(), "a number from 1 to 1024");
            }
        }
        Ok(())
    }
}

/// A profile's numbers: times in picoseconds, the others as they are.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Between two cards.
    pub one_way: Time,
    /// Later at most.
    pub jitter: Time,
    /// A batch.
    pub post: Time,
    /// A further verb.
    pub verb: Time,
    /// The end of a batch.
    pub poll: Time,
    /// A card begins a verb.
    pub begin: Time,
    /// A byte at a card.
    pub byte: f64,
    /// An atomic verb at a card.
    pub atomic: Time,
    /// Bytes beside the data.
    pub header: u64,
    /// A core's part of a request.
    pub request: Time,
    /// A verb is unknown then.
    pub deadline: Time,
    /// Between heartbeats.
    pub heartbeat: Time,
}

impl Costs {
    /// The numbers of a profile.
    pub fn of(profile: &RdmaProfile) -> Self {
        let ps = |ns: f64| (ns * 1e3).round() as Time;
        // A million a second is one in a microsecond.
        let each = |millions: f64| (1e6 / millions).round() as Time;
        Self {
            one_way: ps(profile.one_way_ns),
            jitter: ps(profile.jitter_ns),
            post: ps(profile.post_ns),
            verb: ps(profile.verb_ns),
            poll: ps(profile.poll_ns),
            begin: each(profile.nic_mverbs_per_s),
            // A Gbit a second is a bit a nanosecond.
            byte: 8e3 / profile.nic_gbit_per_s,
            atomic: each(profile.nic_matomics_per_s),
            header: profile.header_bytes,
            request: ps(profile.request_ns),
            deadline: ps(profile.deadline_us * 1e3),
            heartbeat: ps(profile.heartbeat_us * 1e3),
        }
    }

    /// How long a message with so many bytes of data takes at a card.
    pub fn transfer(&self, data: usize) -> Time {
        ((data as u64 + self.header) as f64 * self.byte) as Time
    }
}

#[cfg(test)]
mod tests {
    use super::{BUILT_IN, RdmaProfile};

    #[test]
    fn the_built_in_profile_is_complete_and_others_are_refused() {
        assert_eq!(RdmaProfile::rdma().unwrap().name, "rdma");
        let text = BUILT_IN.1.replace("one_way_ns = 800", "one_way_ns = -1");
        let error = RdmaProfile::parse("x", &text).unwrap_err().to_string();
        assert!(error.contains("one_way_ns is -1"), "{error}");
        let text = BUILT_IN.1.replace("node_cores = 1", "node_cores = 0");
        assert!(RdmaProfile::parse("x", &text).is_err());
        let text = BUILT_IN.1.replace("post_ns = 200", "");
        assert!(RdmaProfile::parse("x", &text).is_err());
    }
}
