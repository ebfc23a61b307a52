//! redb: a copy-on-write B-tree in a file on tmpfs, one writer at a time, readers on a snapshot. One process has it open.
//!
//! One put is one transaction without durability, as tmpfs has no disk to sync to; each get and scan has its own and sees
//! all that was written before it. The file is removed as soon as redb has it open.

use super::{Failure, Limits, Session, Subject, temporary};
use redb::{Database, Durability, ReadableDatabase, ReadableTableMetadata, TableDefinition, TableStats};
use std::path::Path;

const TABLE: TableDefinition<u64, u64> = TableDefinition::new("bench");

/// A redb database.
pub struct Redb(Database);

impl Subject for Redb {
    const NAME: &'static str = "redb";
    const FORM: &'static str = "no durability, a txn an operation";
    const LIMITS: Limits = Limits {
        inserts: 20_000,
        gets: 200_000,
        updates: 10_000,
    };
    const SCANS: bool = true;

    type Session<'s> = &'s Database;

    fn create() -> Result<Self, Failure> {
        let directory = temporary("redb", Path::new("/dev/shm"))?;
        let database = Database::create(directory.path().join("data"))?;
        directory.close()?;
        let txn = database.begin_write()?;
        txn.open_table(TABLE)?;
        txn.commit()?;
        Ok(Self(database))
    }

    fn session(&mut self) -> Result<Self::Session<'_>, Failure> {
        Ok(&self.0)
    }

    fn bytes(&mut self) -> Result<Option<u64>, Failure> {
        // The pages of the tree; those that are kept for reuse are not counted, which favours it.
        let stats: TableStats = self.0.begin_read()?.open_table(TABLE)?.stats()?;
        Ok(Some(
            stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes(),
        ))
    }
}

impl Session for &Database {
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        self.put(key, value)
    }

    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        self.fill(&[(key, value)])
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        let table = self.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key)?.map(|value| value.value()))
    }

    fn scan(&mut self, from: u64, count: usize) -> Result<u64, Failure> {
        let table = self.begin_read()?.open_table(TABLE)?;
        let mut sum = 0u64;
        for pair in table.range(from..)?.take(count) {
            sum = sum.wrapping_add(pair?.1.value());
        }
        Ok(sum)
    }

    fn fill(&mut self, records: &[(u64, u64)]) -> Result<(), Failure> {
        let mut txn = self.begin_write()?;
        txn.set_durability(Durability::None)?;
        {
            let mut table = txn.open_table(TABLE)?;
            for (key, value) in records {
                table.insert(key, value)?;
            }
        }
        Ok(txn.commit()?)
    }
}
