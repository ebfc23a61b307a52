//! A store in this process's memory, for tests.

use std::cell::{Cell, RefCell};

use super::consistency::{self, Condition};
use super::input::{Input, Terminals};
use super::layout::{District, Layout, UNDO};
use super::load;
use super::scale::Scale;
use super::transactions::{Output, execute};
use crate::error::{Error, Result};
use crate::lock::{Former, Lock};
use crate::words::{Words, WordsMut};

/// The district that tests look at.
pub const FIRST: District = District {
    warehouse: 1,
    district: 1,
};

/// A store that was loaded.
#[derive(Clone)]
pub struct Memory {
    pub layout: Layout,
    pub all: Vec<u64>,
}

impl Memory {
    pub fn loaded(scale: Scale, seed: u64) -> Self {
        let layout = Layout::new(scale).unwrap();
        let mut memory = Self {
            layout,
            all: vec![0; (layout.bytes() / 8) as usize],
        };
        load::load(&layout, &mut memory.words(), seed, 1).unwrap();
        memory
    }

    pub fn words(&mut self) -> WordsMut<'_> {
        WordsMut::new(bytemuck::cast_slice_mut(&mut self.all), &mut [])
    }

    pub fn run(&mut self, input: &Input) -> Result<Output> {
        let layout = self.layout;
        execute(&layout, &mut self.words(), input, 77)
    }

    /// Runs so many transactions of the standard mix.
    pub fn run_mix(&mut self, terminals: &mut Terminals, transactions: u64) {
        for _ in 0..transactions {
            let input = terminals.next_input();
            match self.run(&input) {
                Err(Error::Full { warehouse, .. }) => {
                    let delivered = self.run(&Input::Delivery {
                        warehouse,
                        carrier: 1,
                    });
                    assert_ne!(delivered.unwrap(), Output::Delivered(0));
                    self.run(&input).unwrap();
                }
                outcome => drop(outcome.unwrap()),
            }
        }
    }

    pub fn get(&self, at: u64) -> u64 {
        self.all[at as usize]
    }

    pub fn set(&mut self, at: u64, value: u64) {
        self.all[at as usize] = value;
    }

    /// All but the header and the undo record.
    pub fn rows(&self) -> &[u64] {
        &self.all[8 + UNDO.len() as usize..]
    }

    /// The conditions that do not hold, each once.
    pub fn violated(&mut self) -> Vec<Condition> {
        let layout = self.layout;
        let found = consistency::check(&layout, &self.words()).unwrap();
        let mut conditions: Vec<Condition> = found.iter().map(|found| found.condition).collect();
        conditions.sort();
        conditions.dedup();
        conditions
    }
}

/// A lock over it that one thread uses, and that can be told of a death.
pub struct Alone {
    pub memory: RefCell<Memory>,
    pub died: Cell<bool>,
    /// Whether readers are told once too, as a lock without readers does it.
    pub tells_once: bool,
    /// Shared and exclusive holds so far.
    pub holds: Cell<(u64, u64)>,
}

impl Alone {
    pub fn over(memory: Memory) -> Self {
        Self {
            memory: RefCell::new(memory),
            died: Cell::new(false),
            tells_once: false,
            holds: Cell::new((0, 0)),
        }
    }

    fn former(&self) -> Former {
        match self.died.get() {
            true => Former::Died,
            false => Former::Unlocked,
        }
    }
}

impl Lock for &Alone {
    fn read<R>(&self, inside: impl FnOnce(&Words<'_>, Former) -> Result<R>) -> Result<R> {
        let (shared, exclusive) = self.holds.get();
        self.holds.set((shared + 1, exclusive));
        let former = self.former();
        if self.tells_once {
            self.died.set(false);
        }
        inside(&self.memory.borrow_mut().words().as_words(), former)
    }

    fn write<R>(&self, inside: impl FnOnce(&mut WordsMut<'_>, Former) -> Result<R>) -> Result<R> {
        let (shared, exclusive) = self.holds.get();
        self.holds.set((shared, exclusive + 1));
        let done = inside(&mut self.memory.borrow_mut().words(), self.former());
        self.died.set(false);
        done
    }
}
