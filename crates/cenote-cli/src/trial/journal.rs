//! A worker's journal: an ordinary file outside the pool, written with `pwrite`, so that what was written outlives a
//! `kill -9` of the worker.
//!
//! Before each write to the pool comes an intent (what is about to change, from what, to what), after it the
//! acknowledgement: the key's entry with the intent's number. An intent whose number its key's entry does not have
//! was in flight when the worker died. No record crosses a page of the file: the kernel writes one wholly or not at
//! all.
//!
//! | offset | |
//! |---|---|
//! | 0 | what the worker has measured, up to a page |
//! | 4096 | the last 1,024 intents, 64 bytes each |
//! | 69632 | an entry of 16 bytes for each key of each family |

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::content::{Keyspace, mix};

const RING_AT: u64 = 4096;
const RING: u64 = 1024;
const ENTRIES_AT: u64 = RING_AT + RING * 64;

/// What is known of a key: its value's version (0: there is none) and era, and the last operation on it.
///
/// For counters and ledgers, `version` counts the acknowledged increments, and `era` those whose outcome is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The version of its value; 0 if there is none.
    pub version: u32,
    /// How often the key was given up for a fresh one.
    pub era: u32,
    /// The number of the last operation on it.
    pub sequence: u64,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    Put,
    Insert,
    Replace,
    Remove,
    Count,
}

/// An operation that is about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent<F> {
    pub sequence: u64,
    pub action: Action,
    pub family: F,
    pub index: u32,
    /// The entry before it.
    pub before: Entry,
    /// The entry if it happens.
    pub after: Entry,
}

impl<F: Keyspace> Intent<F> {
    fn encode(&self) -> [u8; 64] {
        let mut words = [0u64; 8];
        words[0] = self.sequence;
        words[1] = u64::from(self.index) << 16 | u64::from(self.family.number()) << 8 | self.action as u64;
        words[2] = u64::from(self.before.version) << 32 | u64::from(self.before.era);
        words[3] = self.before.sequence;
        words[4] = u64::from(self.after.version) << 32 | u64::from(self.after.era);
        words[5] = self.after.sequence;
        words[7] = words[..7].iter().fold(1, |sum, word| mix(sum ^ word));
        let mut bytes = [0; 64];
        bytes
            .chunks_mut(8)
            .zip(words)
            .for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let words: Vec<u64> = words(bytes).collect();
        if words.len() != 8 || words[7] != words[..7].iter().fold(1, |sum, word| mix(sum ^ word)) {
            return None;
        }
        let entry = |n: usize| Entry {
            version: (words[n] >> 32) as u32,
            era: words[n] as u32,
            sequence: words[n + 1],
        };
        Some(Self {
            sequence: words[0],
            action: [
                Action::Put,
                Action::Insert,
                Action::Replace,
                Action::Remove,
                Action::Count,
            ]
            .get(words[1] as usize & 0xff)
            .copied()?,
            family: F::of((words[1] >> 8) as u8)?,
            index: (words[1] >> 16) as u32,
            before: entry(2),
            after: entry(4),
        })
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
}

/// An open journal, with the entries in memory.
pub struct Journal<F> {
    file: File,
    entries: Vec<Vec<Entry>>,
    last: Option<Intent<F>>,
}

impl<F: Keyspace> Journal<F> {
    /// Where a worker's journal is.
    pub fn path(folder: &Path, worker: u32) -> PathBuf {
        folder.join(format!("journal-{worker}"))
    }

    /// Makes a worker's journal.
    pub fn create(folder: &Path, worker: u32) -> io::Result<()> {
        File::create_new(Self::path(folder, worker))?.set_len(offset_of::<F>(F::ALL.len(), 0))
    }

    /// Opens a worker's journal, as its worker or to read it.
    pub fn open(folder: &Path, worker: u32) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(Self::path(folder, worker))?;
        let mut entries = Vec::new();
        for &family in F::ALL {
            let mut bytes = vec![0; family.keys() as usize * 16];
            file.read_exact_at(&mut bytes, offset_of::<F>(usize::from(family.number()), 0))?;
            let read = bytes.as_chunks::<16>().0.iter().map(|bytes| {
                let (state, sequence) = bytes.split_at(8);
                let state = words(state).next().unwrap_or(0);
                let sequence = words(sequence).next().unwrap_or(0);
                Entry {
                    version: (state >> 32) as u32,
                    era: state as u32,
                    sequence,
                }
            });
            entries.push(read.collect());
        }
        let mut journal = Self {
            file,
            entries,
            last: None,
        };
        journal.last = journal.history()?.pop();
        Ok(journal)
    }

    /// The last intents, oldest first.
    pub fn history(&self) -> io::Result<Vec<Intent<F>>> {
        let mut bytes = vec![0; (RING * 64) as usize];
        self.file.read_exact_at(&mut bytes, RING_AT)?;
        let mut intents: Vec<Intent<F>> = bytes
            .as_chunks::<64>()
            .0
            .iter()
            .filter_map(|b| Intent::decode(b))
            .collect();
        intents.sort_by_key(|intent| intent.sequence);
        Ok(intents)
    }

    /// The number of the last operation that was intended.
    pub fn sequence(&self) -> u64 {
        self.last.map_or(0, |intent| intent.sequence)
    }

    /// The operation that was begun and not acknowledged.
    pub fn in_flight(&self) -> Option<Intent<F>> {
        self.last
            .filter(|intent| self.entry(intent.family, intent.index).sequence < intent.sequence)
    }

    /// A key's entry.
    pub fn entry(&self, family: F, index: u32) -> Entry {
        self.entries[usize::from(family.number())][index as usize]
    }

    /// All entries of a family.
    pub fn entries(&self, family: F) -> &[Entry] {
        &self.entries[usize::from(family.number())]
    }

    /// Writes an intent: `after` with the next number.
    pub fn intend(&mut self, action: Action, family: F, index: u32, after: Entry) -> io::Result<Intent<F>> {
        let sequence = self.sequence() + 1;
        let before = self.entry(family, index);
        let intent = Intent {
            sequence,
            action,
            family,
            index,
            before,
            after: Entry { sequence, ..after },
        };
        self.file
            .write_all_at(&intent.encode(), RING_AT + sequence % RING * 64)?;
        self.last = Some(intent);
        Ok(intent)
    }

    /// Acknowledges the last intent: the key is now as `entry` says.
    pub fn acknowledge(&mut self, intent: &Intent<F>, entry: Entry) -> io::Result<()> {
        let entry = Entry {
            sequence: intent.sequence,
            ..entry
        };
        let mut bytes = [0; 16];
        let state = u64::from(entry.version) << 32 | u64::from(entry.era);
        bytes[..8].copy_from_slice(&state.to_le_bytes());
        bytes[8..].copy_from_slice(&entry.sequence.to_le_bytes());
        self.file.write_all_at(
            &bytes,
            offset_of::<F>(usize::from(intent.family.number()), intent.index),
        )?;
        self.entries[usize::from(intent.family.number())][intent.index as usize] = entry;
        Ok(())
    }

    /// Writes what was measured.
    pub fn write_measures(&self, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(bytes.len() as u64 <= RING_AT, "the measures overflow their page");
        self.file.write_all_at(&bytes, 0)
    }

    /// Reads what was measured.
    pub fn read_measures(&self, count: usize) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; count * 8];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(words(&bytes).collect())
    }
}

fn offset_of<F: Keyspace>(family: usize, index: u32) -> u64 {
    let before: u32 = F::ALL.iter().take(family).map(|family| family.keys()).sum();
    ENTRIES_AT + u64::from(before + index) * 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Family {
        Words,
        Texts,
    }

    impl Keyspace for Family {
        const ALL: &'static [Self] = &[Self::Words, Self::Texts];

        fn number(self) -> u8 {
            self as u8
        }

        fn keys(self) -> u32 {
            2048
        }

        fn len(self, _: u64) -> usize {
            8
        }
    }

    #[test]
    fn a_journal_knows_what_was_in_flight() {
        let folder = tempfile::tempdir().unwrap();
        Journal::<Family>::create(folder.path(), 2).unwrap();
        let mut journal = Journal::<Family>::open(folder.path(), 2).unwrap();
        assert_eq!((journal.sequence(), journal.in_flight()), (0, None));
        for version in 1..3000 {
            let entry = Entry {
                version,
                era: 3,
                sequence: 0,
            };
            let intent = journal
                .intend(Action::Put, Family::Texts, version % 7, entry)
                .unwrap();
            journal.acknowledge(&intent, intent.after).unwrap();
        }
        let intent = journal
            .intend(Action::Remove, Family::Words, 5, Entry::default())
            .unwrap();
        let journal = Journal::<Family>::open(folder.path(), 2).unwrap();
        assert_eq!((journal.sequence(), journal.in_flight()), (3000, Some(intent)));
        assert_eq!(
            journal.entry(Family::Texts, 2999 % 7),
            Entry {
                version: 2999,
                era: 3,
                sequence: 2999
            }
        );
        assert_eq!(journal.history().unwrap().len(), 1024);
    }
}
