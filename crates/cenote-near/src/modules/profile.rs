//! Costs of simulated modules and of the way to them, read from a TOML file.
//!
//! One is built in: `upmem`. A comment in the file says which figure of the paper each number is, or that it was
//! assumed. **Units** are part of the names; `_mb_` and `_gb_` are powers of ten.

use serde::Deserialize;

use super::Meter;

/// A profile. Every field must be given.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// A module's access to a word of its memory.
    pub access_ns: f64,
    /// Bytes that a module streams.
    pub module_mb_per_s: f64,
    /// A module's clock.
    pub module_mhz: f64,
    /// What a module's processor computes for each pointer that it follows.
    pub chase_cycles: f64,
    /// Bytes between the host and all modules together.
    pub host_gb_per_s: f64,
    /// A launch of modules, until the host knows that they are done, without what they compute.
    pub launch_us: f64,
    /// A step of the host; see [`Modules::host_steps`](super::Modules::host_steps).
    pub host_step_ns: f64,
    /// Cores that share the host's steps.
    pub host_cores: f64,
}

/// Why there is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// It is no TOML, or has other keys than a profile has.
    #[error("profile {name}: {error}. Every key must be given once; `upmem` shows them all")]
    Malformed {
        /// Which profile.
        name: String,
        /// What is wrong, with its line.
        error: String,
    },
    /// A value that nothing can cost.
    #[error("profile {name}: {key} is {value}; give a number above 0 and up to 1e6")]
    OutOfRange {
        /// Which profile.
        name: String,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
}

impl Profile {
    /// The built-in profile of a server with UPMEM memory.
    ///
    /// # Errors
    /// None: a test reads it.
    pub fn upmem() -> Result<Self, ProfileError> {
        Self::parse("upmem", include_str!("../../profiles/upmem.toml"))
    }

    /// A profile from TOML; the name is for errors.
    ///
    /// # Errors
    /// It is no profile, or a value is out of range.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| ProfileError::Malformed {
            name: name.to_owned(),
            error: error.to_string().trim_end().to_owned(),
        })?;
        for (key, value) in [
            ("access_ns", profile.access_ns),
            ("module_mb_per_s", profile.module_mb_per_s),
            ("module_mhz", profile.module_mhz),
            ("chase_cycles", profile.chase_cycles),
            ("host_gb_per_s", profile.host_gb_per_s),
            ("launch_us", profile.launch_us),
            ("host_step_ns", profile.host_step_ns),
            ("host_cores", profile.host_cores),
        ] {
            if !(value > 0.0 && value <= 1e6) {
                return Err(ProfileError::OutOfRange {
                    name: name.to_owned(),
                    key,
                    value: value.to_string(),
                });
            }
        }
        Ok(profile)
    }

    /// How long a module takes for what its meter shows, with so many bytes of commands and answers.
    pub(super) fn module_ns(&self, meter: &Meter, bytes: u64) -> f64 {
        meter.accesses as f64 * self.access_ns
            + meter.chases as f64 * self.chase_cycles * 1e3 / self.module_mhz
            + (meter.streamed + bytes) as f64 * 1e3 / self.module_mb_per_s
    }

    /// A launch.
    pub(super) fn launch_ns(&self) -> f64 {
        self.launch_us * 1e3
    }

    /// Bringing bytes between the host and modules.
    pub(super) fn way_ns(&self, bytes: u64) -> f64 {
        bytes as f64 / self.host_gb_per_s
    }

    /// So many steps of the host.
    pub(super) fn host_ns(&self, steps: u64) -> f64 {
        steps as f64 * self.host_step_ns / self.host_cores
    }

    /// Accesses of a module that take as long as bringing a byte from one module to another through the host: equation
    /// 4's factor.
    pub fn accesses_per_moved_byte(&self) -> f64 {
        2.0 / self.host_gb_per_s / self.access_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upmem_has_the_papers_figures() {
        let profile = Profile::upmem().unwrap();
        assert_eq!((profile.access_ns, profile.module_mb_per_s), (14.0, 630.0));
        assert_eq!((profile.host_gb_per_s, profile.launch_us), (25.0, 500.0));
    }

    #[test]
    fn errors_say_what_where_and_what_to_do() {
        let text = include_str!("../../profiles/upmem.toml");
        let error = |from: &str, to: &str| {
            Profile::parse("x.toml", &text.replace(from, to))
                .unwrap_err()
                .to_string()
        };
        assert!(error("launch_us", "launch").contains("unknown field `launch`"));
        assert_eq!(
            error("access_ns = 14", "access_ns = 0"),
            "profile x.toml: access_ns is 0; give a number above 0 and up to 1e6"
        );
    }
}
