//! The secret that nodes, clients and the master of a cluster share.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::bytes::to_hex;
use crate::failure::Failure;

/// Bytes that are drawn for a new token.
const DRAWN: usize = 32;

/// Reads a token: the file's first line.
pub fn read_token(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(Failure::io(path.display()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    match token.len() {
        1..=cenote_cluster::wire::TOKEN_MAX => Ok(token.to_owned()),
        _ => Err(Failure::failed(format!(
            "{}: a token has 1 to {} bytes, on the first line",
            path.display(),
            cenote_cluster::wire::TOKEN_MAX
        ))),
    }
}

/// Makes a token that nobody can guess, in a file that only this user can read.
pub fn make_token(path: &Path) -> Result<String, Failure> {
    let failed = || Failure::io(path.display());
    let mut drawn = [0; DRAWN];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut drawn))
        .map_err(Failure::io("/dev/urandom"))?;
    let token = to_hex(&drawn);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed())?;
    writeln!(file, "{token}").map_err(failed())?;
    Ok(token)
}
