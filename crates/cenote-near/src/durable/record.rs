//! What a batch has changed, and how the log has it.
//!
//! A record is: the length of its changes in 4 bytes, its number in 8, the CRC-32C of both and of the changes in 4, the
//! changes. A change is a byte, 1 for bound and 0 for not bound any more, the key, and the value if it is bound.
//! Numbers are little-endian, and ascend by one from record to record.

use std::collections::BTreeMap;

use crate::device::command::Reader;
use crate::map::{Answer, Operation};

use super::{Fault, planted};

/// Bytes before the changes.
pub(super) const HEADER: usize = 16;

/// Changes in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes(Vec<u8>);

impl Changes {
    /// Those operations that took effect.
    pub fn of(operations: &[Operation], answers: &[Answer]) -> Self {
        let mut changes = Self::default();
        for (operation, answer) in operations.iter().zip(answers) {
            match (*operation, answer) {
                (Operation::Insert(key, value), Answer::Insert { existing: None }) => {
                    changes.bind(key, value)
                }
                (
                    Operation::CompareSwap { key, expected, value },
                    Answer::CompareSwap { before: Some(before) },
                ) if *before == expected && value != expected => {
                    changes.bind(key, value);
                }
                (Operation::Delete(key), Answer::Delete { removed: Some(_) }) => {
                    changes.0.push(0);
                    changes.0.extend_from_slice(&key.to_le_bytes());
                }
                _ => {}
            }
        }
        changes
    }

    fn bind(&mut self, key: u64, value: u64) {
        self.0.push(1);
        self.0.extend_from_slice(&key.to_le_bytes());
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is nothing else in it.
    pub fn can_be_read(&self) -> bool {
        let mut rest = Reader(&self.0);
        while let Some(bound) = rest.byte() {
            let value = if bound == 1 { 8 } else { 0 };
            if bound > 1 || rest.bytes(8 + value).is_none() {
                return false;
            }
        }
        true
    }

    /// Makes the changes. What cannot be read has been refused before.
    pub fn apply(&self, pairs: &mut BTreeMap<u64, u64>) {
        let mut rest = Reader(&self.0);
        while let Some(bound) = rest.byte() {
            match (bound, rest.long()) {
                (1, Some(key)) => pairs.extend(rest.long().map(|value| (key, value))),
                (_, Some(key)) => {
                    pairs.remove(&key);
                }
                _ => return,
            }
        }
    }
}

/// A batch's changes with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub number: u64,
    pub changes: Changes,
}

/// A record's bytes. None if there are too many for its length.
pub(super) fn bytes(number: u64, changes: &Changes) -> Option<Vec<u8>> {
    let len = u32::try_from(changes.0.len()).ok()?;
    let mut bytes = Vec::with_capacity(HEADER + changes.0.len());
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), &changes.0);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(&changes.0);
    Some(bytes)
}

/// The number of a record that may be at the beginning of bytes; none if it would be longer than these, or has no
/// changes.
pub(super) fn number_of(bytes: &[u8]) -> Option<u64> {
    let mut rest = Reader(bytes);
    let (len, number) = (rest.word()? as usize, rest.long()?);
    (len >= 9 && bytes.len() - HEADER.min(bytes.len()) >= len).then_some(number)
}

/// The record at the beginning of bytes, and how long it is; none if there is none that is whole.
pub(super) fn read(bytes: &[u8]) -> Option<(Record, usize)> {
    let mut rest = Reader(bytes);
    let (len, number, sum) = (rest.word()? as usize, rest.long()?, rest.word()?);
    let changes = rest.bytes(len)?;
    let found = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), changes);
    let whole = found == sum || planted(Fault::Unchecked);
    let record = || Record {
        number,
        changes: Changes(changes.to_vec()),
    };
    whole.then(|| (record(), HEADER + len))
}
