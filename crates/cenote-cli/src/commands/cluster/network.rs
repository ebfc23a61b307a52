//! How verbs go to the memory nodes: `--network`.

use cenote_cluster::{Credentials, Transport};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// TCP: a thread of the node executes each verb
    #[default]
    Tcp,
    /// libfabric: a card executes them, or libfabric in the node
    Ofi,
}

impl Network {
    /// What the library calls it; fails if this program cannot do it.
    pub fn transport(self) -> Result<Transport, Failure> {
        match self {
            Self::Tcp => Ok(Transport::Tcp),
            Self::Ofi if cfg!(feature = "ofi") => Ok(Transport::Ofi),
            Self::Ofi => Err(Failure::misuse(
                "--network ofi: this program was built without libfabric; build it with --features ofi, which needs the packages libfabric-dev and pkg-config",
            )),
        }
    }

    /// Fails where it would send openly what these credentials encrypt.
    pub fn allows(self, credentials: &Credentials) -> Result<(), Failure> {
        match self {
            Self::Ofi if credentials.encrypts() => Err(Failure::misuse(
                "--tls-cert and --network ofi do not go together: libfabric sends keys and values as they are",
            )),
            _ => Ok(()),
        }
    }

    /// The same as an argument.
    pub fn argument(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Ofi => "ofi",
        }
    }
}
