//! Where a lock service listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a lock service listens: `unix:PATH` for processes of one machine, `HOST:PORT` for others as well. Port 0 is
/// any that is free.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A host and a TCP port, as in `10.0.0.7:7411`, `[::1]:7411` or `memory-node:7411`.
    Tcp(String),
}

/// Text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address of a lock service; one is unix:PATH or HOST:PORT")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err(wrong()),
                false => Ok(Self::Unix(path.into())),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        match !host.is_empty() && port.parse::<u16>().is_ok() {
            true => Ok(Self::Tcp(text.to_owned())),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

impl serde::Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in [
            "unix:/run/locks",
            "unix:locks",
            "10.0.0.7:7411",
            "[::1]:0",
            "memory-node:7411",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "7411",
            ":7411",
            "host:",
            "host:port",
            "host:70000",
            "/run/locks",
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("unix:PATH"), "{error}");
        }
    }
}
