//! TPC-C on the store with one lock.

use std::path::Path;
use std::time::{Duration, Instant};

use cenote_locked::Error;
use cenote_locked::tpcc::{Input, Layout, Output, Repairs, Scale, Store, Terminals};
use cenote_locked::words::{Load, Words};

use super::locks::{AnyLock, Kind, Sizes, failure, open};
use super::{Application, Done, Share};
use crate::subjects::Failure;

/// The scale of the small store.
pub const SMALL: Scale = Scale::small(1);
/// Words of a page of 4 KiB.
const WORDS_OF_PAGE: usize = 512;
/// Transactions between two readings of the clock.
const GROUP: u64 = 16;
/// What transactions are dated with at first.
const LOADED: u64 = 1;

/// A store.
pub struct Tpcc {
    store: Store<AnyLock>,
    scale: Scale,
}

impl Tpcc {
    /// Opens a store, which is made and loaded if there is a seed for that.
    pub fn open(folder: &Path, kind: Kind, scale: Scale, load: Option<u64>) -> Result<Self, Failure> {
        let layout = Layout::new(scale).map_err(failure)?;
        let sizes = Sizes {
            locks: 1,
            regions: [layout.bytes(), 0],
        };
        let locks = open(folder, "store", kind, &sizes, load.is_some())?;
        let lock = locks.into_iter().next();
        let lock = lock.ok_or_else(|| Failure::Broken("there is no lock".to_owned()))?;
        let store = match load {
            Some(seed) => Store::load(lock, scale, seed, LOADED),
            None => Store::open(lock, scale),
        };
        Ok(Self {
            store: store.map_err(failure)?,
            scale,
        })
    }

    /// What it has found of owners that died.
    pub fn repairs(&self) -> Repairs {
        self.store.repairs()
    }

    /// Executes a transaction; a Delivery first if there is no room for its order. Returns whether it has entered an
    /// order.
    pub fn execute(&self, input: &Input, date: u64) -> Result<bool, Failure> {
        let output = match self.store.run(input, date) {
            Err(Error::Full { warehouse, .. }) => {
                let delivery = Input::Delivery {
                    warehouse,
                    carrier: 1,
                };
                self.store.run(&delivery, date).map_err(failure)?;
                // Others may have taken the room meanwhile.
                match self.store.run(input, date) {
                    Err(Error::Full { .. }) => return Ok(false),
                    output => output,
                }
            }
            output => output,
        };
        Ok(matches!(output.map_err(failure)?, Output::Ordered { .. }))
    }
}

impl Application for Tpcc {
    fn counted(&self) -> Result<u64, Failure> {
        self.store.orders_entered().map_err(failure)
    }

    fn map(&self) -> Result<(), Failure> {
        let read = |words: &Words<'_>| {
            let each = (0..words.covered()).step_by(WORDS_OF_PAGE);
            each.map(|at| words.load(at))
                .try_fold(0, |sum, word| Ok(sum ^ word?))
        };
        let sum: u64 = self.store.read(read).map_err(failure)?;
        std::hint::black_box(sum);
        Ok(())
    }

    fn work(&self, time: Duration, share: Share) -> Result<Done, Failure> {
        let mut terminals = Terminals::new(self.scale, share.seed, share.worker);
        let mut inputs = Vec::with_capacity(GROUP as usize);
        let mut done = Done::default();
        let mut spent = Duration::ZERO;
        while spent < time {
            // Drawn while the clock stands.
            inputs.clear();
            inputs.extend((0..GROUP).map(|_| terminals.next_input()));
            let begun = Instant::now();
            for input in &inputs {
                done.counted += u64::from(self.execute(input, LOADED + done.operations)?);
                done.operations += 1;
            }
            spent += begun.elapsed();
        }
        done.ns = spent.as_nanos() as u64;
        Ok(done)
    }

    fn check(&self) -> Result<(), Failure> {
        match self.store.check().map_err(failure)?.first() {
            None => Ok(()),
            Some(violation) => Err(Failure::Broken(violation.to_string())),
        }
    }
}
