//! Values that threads hold while they and others go on. Held values must not change.

use cenote::Value;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Log, below, random};
use crate::exec::{Context, Held, SimMemory};

/// Most operations of the own thread over which a value is held.
const OPERATIONS_MAX: u64 = 4;

/// What one thread holds: at most one value.
pub struct Holding<'m, const C: bool> {
    random: Xoshiro256PlusPlus,
    held: Option<One<'m, C>>,
}

struct One<'m, const C: bool> {
    value: Value<'m, SimMemory<C>>,
    held: Held,
    first: Vec<u8>,
    left: u64,
}

impl<'m, const C: bool> Holding<'m, C> {
    /// A thread's, of a run's seed. What it draws leaves the thread's operations as they are.
    pub fn new(seed: u64, context: &Context<C>) -> Self {
        Self {
            random: random(seed ^ 0x4845_4c44, context.thread()),
            held: None,
        }
    }

    /// Between two operations: looks for something to hold, by a number, or holds it for one more, or gives it back.
    pub fn go_on(
        &mut self,
        context: &Context<C>,
        log: &Log,
        find: impl FnOnce(u64) -> Option<Value<'m, SimMemory<C>>>,
    ) {
        match &mut self.held {
            Some(one) if one.left > 0 => one.left -= 1,
            Some(_) => self.give_back(context, log),
            None if below(&mut self.random, 8) == 0 => {
                let number = below(&mut self.random, u64::MAX);
                self.held = find(number).map(|value| One {
                    held: context.hold(&value),
                    first: value.to_vec(),
                    left: below(&mut self.random, OPERATIONS_MAX),
                    value,
                });
            }
            None => {}
        }
    }

    /// Whether a value is held.
    pub fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// Gives back what is held.
    pub fn give_back(&mut self, context: &Context<C>, log: &Log) {
        if let Some(one) = self.held.take() {
            if one.value[..] != one.first {
                log.fault(format!(
                    "a value that was held is {:x?} and was {:x?}",
                    &one.value[..],
                    one.first
                ));
            }
            context.release(one.held);
        }
    }
}
