//! A snapshot: a header of 8 bytes, the number of the last batch that it has in 8, how many pairs in 8, the pairs in
//! order, and the CRC-32C of all that in 4.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::device::command::{Pairs, Reader};

use super::log::replace;
use super::{DurableError, at};

/// What a snapshot begins with; the last byte is the format's version.
const MAGIC: [u8; 8] = *b"cnearsn\x01";

/// Replaces a folder's snapshot.
pub(super) fn write(folder: &Path, number: u64, pairs: &[(u64, u64)]) -> Result<(), DurableError> {
    replace(folder, "snapshot", |file| {
        let mut to = BufWriter::with_capacity(1 << 16, file);
        let mut sum = 0;
        let mut put = |bytes: &[u8]| {
            sum = crc32c::crc32c_append(sum, bytes);
            to.write_all(bytes)
        };
        put(&MAGIC)?;
        put(&number.to_le_bytes())?;
        put(&(pairs.len() as u64).to_le_bytes())?;
        for (key, value) in pairs {
            put(&key.to_le_bytes())?;
            put(&value.to_le_bytes())?;
        }
        to.write_all(&sum.to_le_bytes())?;
        to.flush()
    })
}

/// A folder's snapshot: the number of its last batch, and its pairs. Number 0 and none if there is no snapshot.
pub(super) fn read(folder: &Path) -> Result<(u64, BTreeMap<u64, u64>), DurableError> {
    let path = folder.join("snapshot");
    if !at(path.try_exists(), "look for", &path)? {
        return Ok((0, BTreeMap::new()));
    }
    let all = at(std::fs::read(&path), "read", &path)?;
    parse(&all).map_err(|what| DurableError::Damaged { path, at: 0, what })
}

fn parse(all: &[u8]) -> Result<(u64, BTreeMap<u64, u64>), &'static str> {
    let (rest, sum) = all.split_last_chunk::<4>().ok_or("it is too short")?;
    if !rest.starts_with(&MAGIC) {
        return Err("it does not begin as a snapshot of this version does");
    }
    if crc32c::crc32c(rest) != u32::from_le_bytes(*sum) {
        return Err("its checksum is that of other bytes");
    }
    let mut reader = Reader(&rest[MAGIC.len()..]);
    let head = reader.long().zip(reader.long());
    match head {
        Some((number, count)) if reader.0.len() as u64 == count.saturating_mul(16) => {
            Ok((number, Pairs(reader.0).collect()))
        }
        _ => Err("it has another number of pairs than it says"),
    }
}
