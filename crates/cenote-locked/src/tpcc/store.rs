//! A store under a lock, as one thread has it open: transactions, and the repair of what a dead owner has left.

use std::cell::Cell;

use super::consistency::{self, Violation};
use super::input::Input;
use super::layout::{Layout, UNDO};
use super::load;
use super::rows::district;
use super::scale::Scale;
use super::transactions::{Output, execute, read_only};
use crate::error::Result;
use crate::lock::{Former, Lock};
use crate::words::{Load, Words, WordsMut};

/// What a thread has found of owners that died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// How often the lock said that its last owner had died.
    pub told: u64,
    /// How often a transaction was rolled back that its owner had not ended.
    pub rolled_back: u64,
}

/// What a reader has found.
enum Seen<R> {
    Whole(R),
    /// Someone may have half changed it, and how the last owner has ended.
    ToRepair(Former),
}

/// A store, as one thread has it open.
///
/// ```
/// # fn main() -> Result<(), cenote_locked::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// use cenote::{Options, Pool};
/// use cenote_locked::tpcc::{Layout, Scale, Store, Terminals};
///
/// let scale = Scale::small(1);
/// let pool: Pool = Pool::create(&path, &Options::default())?;
/// let bytes = Layout::new(scale)?.bytes();
/// let store = Store::load(pool.regions_builder("store").region(bytes).open()?, scale, 1, 0)?;
/// let mut terminals = Terminals::new(scale, 1, 0);
/// for second in 0..10 {
///     println!("{:?}", store.run(&terminals.next_input(), second)?);
/// }
/// assert!(store.check()?.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Store<L> {
    layout: Layout,
    lock: L,
    repairs: Cell<Repairs>,
}

impl<L: Lock> Store<L> {
    /// Opens a store that was loaded with this scale.
    ///
    /// Errors: [`Error::Setting`](crate::Error::Setting), [`Error::NotLoaded`](crate::Error::NotLoaded),
    /// [`Error::OtherSizes`](crate::Error::OtherSizes), [`Error::Beyond`](crate::Error::Beyond), what the lock refuses
    /// with.
    pub fn open(lock: L, scale: Scale) -> Result<Self> {
        let layout = Layout::new(scale)?;
        lock.read(|words, _| layout.check_header(words))?;
        Ok(Self::new(layout, lock))
    }

    /// Loads a store from a seed, over whatever was there; dates are this one. The lock covers [`Layout::bytes`] or
    /// more.
    ///
    /// Errors: [`Error::Setting`](crate::Error::Setting), [`Error::Beyond`](crate::Error::Beyond), what the lock
    /// refuses with.
    pub fn load(lock: L, scale: Scale, seed: u64, date: u64) -> Result<Self> {
        let layout = Layout::new(scale)?;
        lock.write(|words, _| load::load(&layout, words, seed, date.max(1)))?;
        Ok(Self::new(layout, lock))
    }

    fn new(layout: Layout, lock: L) -> Self {
        Self {
            layout,
            lock,
            repairs: Cell::default(),
        }
    }

    /// Where everything is in it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The lock.
    pub fn lock(&self) -> &L {
        &self.lock
    }

    /// What this thread has found of owners that died.
    pub fn repairs(&self) -> Repairs {
        self.repairs.get()
    }

    /// Executes a transaction wholly, or not at all. Order-Status and Stock-Level take the lock shared, the others
    /// exclusively. A date of 0 is taken for 1, as 0 says that there is none.
    ///
    /// Errors: [`Error::Full`](crate::Error::Full), which a Delivery for the warehouse cures;
    /// [`Error::NoSuch`](crate::Error::NoSuch), [`Error::Damaged`](crate::Error::Damaged), what the lock refuses with.
    pub fn run(&self, input: &Input, date: u64) -> Result<Output> {
        if input.kind().is_read_only()
            && let Some(output) = self.read(|words| read_only(&self.layout, words, input))?
        {
            return Ok(output);
        }
        self.write(|words| execute(&self.layout, words, input, date.max(1)))
    }

    /// The conditions of consistency that do not hold, with the lock shared. Reads the whole store several times.
    ///
    /// Errors: [`Error::Damaged`](crate::Error::Damaged), what the lock refuses with.
    pub fn check(&self) -> Result<Vec<Violation>> {
        self.read(|words| consistency::check(&self.layout, words))
    }

    /// How many orders were entered since the load.
    ///
    /// Errors: as [`Store::read`].
    pub fn orders_entered(&self) -> Result<u64> {
        let loaded = u64::from(self.layout.scale().customers);
        self.read(|words| {
            self.layout.districts().try_fold(0, |entered, of| {
                let next = words.load(self.layout.district(of)? + district::NEXT_ORDER)?;
                Ok(entered + next.saturating_sub(loaded + 1))
            })
        })
    }

    /// Runs with the words, which no transaction has half changed, to read.
    ///
    /// Errors: what the closure returns; [`Error::Damaged`](crate::Error::Damaged), what the lock refuses with.
    pub fn read<R>(&self, mut inside: impl FnMut(&Words<'_>) -> Result<R>) -> Result<R> {
        loop {
            let seen = self.lock.read(|words, former| {
                if former == Former::Died || UNDO.count(words)? != 0 {
                    return Ok(Seen::ToRepair(former));
                }
                inside(words).map(Seen::Whole)
            })?;
            match seen {
                Seen::Whole(seen) => return Ok(seen),
                // A reader does not write: it repairs as a writer that changes nothing else, and begins again.
                Seen::ToRepair(former) => self.write_told(former, |_| Ok(()))?,
            }
        }
    }

    /// Runs with the words, which no transaction has half changed, alone. A caller that changes more than a transaction
    /// does keeps what it needs to repair that.
    ///
    /// Errors: as [`Store::read`].
    pub fn write<R>(&self, inside: impl FnOnce(&mut WordsMut<'_>) -> Result<R>) -> Result<R> {
        self.write_told(Former::Unlocked, inside)
    }

    /// The same by who was told before how the last owner has ended. A lock without readers says it once.
    fn write_told<R>(&self, told: Former, inside: impl FnOnce(&mut WordsMut<'_>) -> Result<R>) -> Result<R> {
        self.lock.write(|words, former| {
            let mut repairs = self.repairs.get();
            repairs.told += u64::from([told, former].contains(&Former::Died));
            repairs.rolled_back += u64::from(UNDO.roll_back(words)? != 0);
            self.repairs.set(repairs);
            self.layout.check_header(words)?;
            inside(words)
        })
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
