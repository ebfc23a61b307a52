//! This host's id: the administrator gives it, and it stays the same when the machine restarts.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use crate::causes::Setting;
use crate::error::{Error, Result};

/// The variable that gives the id.
pub const HOST_VARIABLE: &str = "CENOTE_HOST";
/// The variable that names the file which gives it.
pub const HOST_FILE_VARIABLE: &str = "CENOTE_HOST_FILE";
/// That file, if the variable is not set.
pub const HOST_FILE: &str = "/etc/cenote/host";
/// The most bytes that the file may have.
const FILE_MAX: u64 = 4096;

const WHY: &str = "a host's id is a whole number; 0 stands for a machine that is no part of a pod";

/// The id of this host: `given`, or else what the environment says in `CENOTE_HOST`, or else the file that
/// `CENOTE_HOST_FILE` names, or else `/etc/cenote/host`. 0, a machine on its own, if there is none of these.
///
/// It is an error if the first source that exists does not hold a number: a host must never take the id of another.
///
/// Errors: [`Error::InvalidOption`](crate::Error::InvalidOption), [`Error::Io`](crate::Error::Io).
pub fn host_id(given: Option<u32>) -> Result<u32> {
    if let Some(id) = given {
        return Ok(id);
    }
    if let Ok(text) = std::env::var(HOST_VARIABLE) {
        return parse(Setting::HostVariable, &text);
    }
    let named = std::env::var_os(HOST_FILE_VARIABLE).map(PathBuf::from);
    let path = named.clone().unwrap_or_else(|| PathBuf::from(HOST_FILE));
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text));
    match read {
        Ok(len) if len as u64 > FILE_MAX => Err(Error::InvalidOption {
            option: Setting::HostFile,
            value: format!("more than {FILE_MAX} bytes"),
            why: WHY,
        }),
        Ok(_) => parse(Setting::HostFile, &text),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(Error::Io { path, source }),
    }
}

fn parse(option: Setting, text: &str) -> Result<u32> {
    text.trim().parse().map_err(|_| Error::InvalidOption {
        option,
        value: format!("{:?}", text.trim()),
        why: WHY,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers() {
        assert_eq!(host_id(Some(7)).unwrap(), 7);
        assert_eq!(parse(Setting::HostVariable, " 12\n").unwrap(), 12);
        for bad in ["", "-1", "host3", "1 2"] {
            assert!(parse(Setting::HostVariable, bad).is_err(), "{bad}");
        }
    }
}
