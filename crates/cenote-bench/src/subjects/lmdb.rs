//! LMDB through heed: a B-tree in a memory-mapped file on tmpfs, one writer at a time, readers on a snapshot.
//!
//! Both forms use integer keys (LMDB's own comparison for them) and no syncing, since tmpfs has no disk to sync to. One
//! put is one transaction, for it must be visible to other processes when it returns. A thread keeps its place in the
//! table of readers, which is LMDB's way unless it is asked for another: a read transaction then takes no lock. They
//! differ in
//!
//! - `FAST = false`: pages are written with `write`, so that the mapping is read-only and no stray store of the
//!   process can damage the file; each get and scan has its own transaction and sees all that was written before it.
//! - `FAST = true`, LMDB at its fastest: pages are changed in the mapping (a write map, and memory is not cleared),
//!   without that protection; all gets and scans share one transaction, on a snapshot that does not move. (To sync the
//!   mapping asynchronously, `MAPASYNC`, is more work than not to sync it.)
//!
//! The directory is removed as soon as LMDB has it open, so that nothing is left behind however the run ends.

use super::{Failure, Limits, Session, Shared, Subject, temporary};
use heed::types::U64;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, IntegerComparator, RoTxn, WithTls};
use std::path::Path;

type Native = U64<heed::byteorder::NativeEndian>;
type Table = Database<Native, Native, IntegerComparator>;

/// The address space of the mapping; the file only grows to what it holds.
const MAP_BYTES: usize = 16 << 30;

/// LMDB in one of the two forms.
pub struct Lmdb<const FAST: bool> {
    env: Env,
    table: Table,
}

/// One thread's use of LMDB.
pub struct Transactions<'s, const FAST: bool> {
    env: &'s Env,
    table: Table,
    /// The transaction of all reads since the last put, if `FAST`.
    snapshot: Option<RoTxn<'s, WithTls>>,
}

/// An environment in a directory of this run's own, in one of the two forms.
pub fn environment(directory: &Path, fast: bool) -> Result<Env, Failure> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    let flags = match fast {
        true => EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP | EnvFlags::NO_MEM_INIT,
        false => EnvFlags::NO_SYNC,
    };
    // SAFETY: the flags give up what only a crash of the machine or a stray store would need; the environment is this
    // run's own and nothing but LMDB, by this call, opens or changes its files.
    Ok(unsafe {
        options.flags(flags);
        options.open(directory)?
    })
}

impl<const FAST: bool> Subject for Lmdb<FAST> {
    const NAME: &'static str = "LMDB";
    const FORM: &'static str = if FAST {
        "heed, NOSYNC WRITEMAP, one txn for all reads"
    } else {
        "heed, NOSYNC, a txn an operation"
    };
    const LIMITS: Limits = Limits {
        inserts: 50_000,
        gets: 400_000,
        updates: 25_000,
    };

    const SCANS: bool = true;

    type Session<'s> = Transactions<'s, FAST>;

    fn create() -> Result<Self, Failure> {
        let shared = Path::new("/dev/shm");
        let directory = match shared.is_dir() {
            true => temporary("lmdb", shared)?,
            false => temporary("lmdb", &std::env::temp_dir())?,
        };
        let lmdb = Self::create_in(directory.path())?;
        directory.close()?;
        Ok(lmdb)
    }

    fn session(&mut self) -> Result<Self::Session<'_>, Failure> {
        Ok(Transactions {
            env: &self.env,
            table: self.table,
            snapshot: None,
        })
    }

    fn bytes(&mut self) -> Result<Option<u64>, Failure> {
        // The pages of the tree; those that LMDB keeps for reuse are not counted, which favours it.
        let txn = self.env.read_txn()?;
        let stat = self.table.stat(&txn)?;
        let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
        Ok(Some(pages as u64 * u64::from(stat.page_size)))
    }
}

impl<const FAST: bool> Shared for Lmdb<FAST> {
    fn create_in(directory: &Path) -> Result<Self, Failure> {
        let env = environment(directory, FAST)?;
        let mut txn = env.write_txn()?;
        let table = env
            .database_options()
            .types::<Native, Native>()
            .key_comparator::<IntegerComparator>()
            .create(&mut txn)?;
        txn.commit()?;
        Ok(Self { env, table })
    }

    fn open_in(directory: &Path) -> Result<Self, Failure> {
        // Creates what is not there, and only that.
        Self::create_in(directory)
    }
}

impl<'s, const FAST: bool> Transactions<'s, FAST> {
    /// The transaction of all reads.
    fn snapshot(&mut self) -> Result<&RoTxn<'s, WithTls>, Failure> {
        Ok(match &mut self.snapshot {
            Some(txn) => txn,
            none => none.insert(self.env.read_txn()?),
        })
    }
}

fn sum(table: Table, txn: &RoTxn<'_>, from: u64, count: usize) -> Result<u64, Failure> {
    let mut sum = 0u64;
    for pair in table.range(txn, &(from..))?.take(count) {
        sum = sum.wrapping_add(pair?.1);
    }
    Ok(sum)
}

impl<const FAST: bool> Session for Transactions<'_, FAST> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        self.put(key, value)
    }

    #[inline]
    fn put(&mut self, key: u64, value: u64) -> Result<(), Failure> {
        // A snapshot kept open would stop LMDB from reusing pages.
        self.snapshot = None;
        let mut txn = self.env.write_txn()?;
        self.table.put(&mut txn, &key, &value)?;
        Ok(txn.commit()?)
    }

    #[inline]
    fn get(&mut self, key: u64) -> Result<Option<u64>, Failure> {
        let table = self.table;
        match FAST {
            true => Ok(table.get(self.snapshot()?, &key)?),
            false => Ok(table.get(&*self.env.read_txn()?, &key)?),
        }
    }

    #[inline]
    fn scan(&mut self, from: u64, count: usize) -> Result<u64, Failure> {
        let table = self.table;
        match FAST {
            true => sum(table, self.snapshot()?, from, count),
            false => sum(table, &*self.env.read_txn()?, from, count),
        }
    }

    fn fill(&mut self, records: &[(u64, u64)]) -> Result<(), Failure> {
        self.snapshot = None;
        let mut txn = self.env.write_txn()?;
        for (key, value) in records {
            self.table.put(&mut txn, key, value)?;
        }
        Ok(txn.commit()?)
    }
}
