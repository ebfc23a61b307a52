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
    Ok(cenote_cluster::store::read_token(path)?)
}

/// Makes a token that nobody can guess, in a file that only this user can read.
pub fn make_token(path: &Path) -> Result<String, Failure> {
    let mut drawn = [0; DRAWN];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut drawn))
        .map_err(Failure::io("/dev/urandom"))?;
    let token = to_hex(&drawn);
    write_secret(path, &format!("{token}\n"))?;
    Ok(token)
}

/// Writes a file that must not exist, and that only this user can read.
pub fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(Failure::io(path.display()))
}
