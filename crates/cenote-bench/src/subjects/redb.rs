//! redb: a copy-on-write B-tree in a file on tmpfs, one writer at a time, readers on a snapshot. One process has it
//! open, and holds a lock on the file meanwhile.
//!
//! One put is one transaction without durability, as tmpfs has no disk to sync to. The forms differ in the reads:
//!
//! - `LONG = false`: each get and scan has its own transaction and sees all that was written before it;
//! - `LONG = true`: all share one, and the table opened in it, on a snapshot that does not move.
//!
//! The file is removed as soon as redb has it open.

use super::{Failure, Limits, Session, Shared, Subject, temporary};
use redb::{
    Database, DatabaseError, Durability, ReadOnlyTable, ReadableDatabase, ReadableTableMetadata,
    TableDefinition, TableStats,
};
use std::path::Path;

const TABLE: TableDefinition<u64, u64> = TableDefinition::new("bench");

/// A redb database, in one of the two forms.
pub struct Redb<const LONG: bool>(Database);

/// One thread's use of redb.
pub struct Transactions<'s, const LONG: bool> {
    database: &'s Database,
    /// The table of all reads since the last put, if `LONG`.
    snapshot: Option<ReadOnlyTable<u64, u64>>,
}

impl<const LONG: bool> Subject for Redb<LONG> {
    const NAME: &'static str = "redb";
    const FORM: &'static str = if LONG {
        "no durability, one txn for all reads"
    } else {
        "no durability, a txn an operation"
    };
    const LIMITS: Limits = Limits {
        inserts: 20_000,
        gets: 200_000,
        updates: 10_000,
    };
    const SCANS: bool = true;

    type Session<'s> = Transactions<'s, LONG>;

    fn create() -> Result<Self, Failure> {
        let directory = temporary("redb", Path::new("/dev/shm"))?;
        let redb = Self::create_in(directory.path())?;
        directory.close()?;
        Ok(redb)
    }

    fn session(&mut self) -> Result<Self::Session<'_>, Failure> {
        Ok(Transactions {
            database: &self.0,
            snapshot: None,
        })
    }

    fn bytes(&mut self) -> Result<Option<u64>, Failure> {
        // The pages of the tree; those that are kept for reuse are not counted, which favours it.
        let stats: TableStats = self.0.begin_read()?.open_table(TABLE)?.stats()?;
        Ok(Some(
            stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes(),
        ))
    }
}

impl<const LONG: bool> Shared for Redb<LONG> {
    fn create_in(directory: &Path) -> Result<Self, Failure> {
        let database = match Database::create(directory.join("data")) {
            Err(DatabaseError::DatabaseAlreadyOpen) => {
                return Err(Failure::Missing("one process only".to_owned()));
            }
            other => other?,
        };
        let txn = database.begin_write()?;
        txn.open_table(TABLE)?;
        txn.commit()?;
        Ok(Self(database))
    }

    fn open_in(directory: &Path) -> Result<Self, Failure> {
        // Creates what is not there, and only that.
        Self::create_in(directory)
    }
}

impl<const LONG: bool> Transactions<'_, LONG> {
    /// Calls `read` with the table as it is now, or as it was at the first read since the last put.
    #[inline]
    fn read<R>(
        &mut self,
        read: impl FnOnce(&ReadOnlyTable<u64, u64>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        match &mut self.snapshot {
            Some(table) => read(table),
            none => {
                let table = self.database.begin_read()?.open_table(TABLE)?;
                match LONG {
                    true => read(none.insert(table)),
                    false => read(&table),
                }
            }
        }
    }
}

impl<const LONG: bool> Session for Transactions<'_, LONG> {
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        self.put(key, value)
    }

    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        self.fill(&[(key, value)])
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        self.read(|table| Ok(table.get(key)?.map(|value| value.value())))
    }

    fn scan(&mut self, from: u64, count: usize) -> Result<u64, Failure> {
        self.read(|table| {
            let mut sum = 0u64;
            for pair in table.range(from..)?.take(count) {
                sum = sum.wrapping_add(pair?.1.value());
            }
            Ok(sum)
        })
    }

    fn fill(&mut self, records: &[(u64, u64)]) -> Result<(), Failure> {
        // A snapshot kept open would stop redb from reusing pages.
        self.snapshot = None;
        let mut txn = self.database.begin_write()?;
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
