//! What recorded transactions did under a lock: which lines they touched, in their order. Threads replay it.
//!
//! The transactions ran one after the other when they were recorded, as they do under one lock. So they are replayed in
//! that order too, whichever threads come: the transaction of a number is that of the thread that asks for the lock as
//! the one of that number. After the last one the first follows.

use std::collections::HashMap;

use cenote::sync::directory::queue::Permission;
use cenote_locked::words::{LINE_WORDS, Touch};

/// Bytes of a line in recorded touches.
const RECORDED: u64 = LINE_WORDS * 8;

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// What it has the lock for.
    pub wants: Permission,
    /// What it has touched under it.
    pub touches: Vec<Touch>,
}

/// Transactions that were recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// In their order.
    pub transactions: Vec<Transaction>,
    /// How long each computes beside.
    pub computes_ns: u64,
}

/// A line that is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// Its number among those that the script touches.
    pub line: u32,
    /// What it is touched for.
    pub wants: Permission,
    /// Bytes of it that the transaction uses so.
    pub bytes: u64,
}

/// A script on lines of a network. Lines that are not touched are left out.
pub(super) struct Lines {
    /// How many lines are touched.
    pub count: u32,
    /// What each transaction touches.
    pub transactions: Vec<(Permission, Vec<Access>)>,
}

impl Lines {
    /// Of lines of so many bytes, 64 or more.
    pub fn of(script: &Script, line_bytes: u64) -> Self {
        let mut numbers = HashMap::new();
        let transactions = script.transactions.iter();
        let transactions = transactions
            .map(|transaction| {
                let accesses = accesses(&transaction.touches, line_bytes, &mut numbers);
                (transaction.wants, accesses)
            })
            .collect();
        Self {
            count: numbers.len() as u32,
            transactions,
        }
    }
}

fn accesses(touches: &[Touch], line_bytes: u64, numbers: &mut HashMap<u64, u32>) -> Vec<Access> {
    let mut accesses: Vec<Access> = Vec::new();
    let mut places = HashMap::new();
    for touch in touches {
        let line = u64::from(touch.line) * RECORDED / line_bytes;
        let next = numbers.len() as u32;
        let line = *numbers.entry(line).or_insert(next);
        let place = *places.entry((line, touch.writes)).or_insert_with(|| {
            accesses.push(Access {
                line,
                wants: match touch.writes {
                    true => Permission::Exclusive,
                    false => Permission::Shared,
                },
                bytes: 0,
            });
            accesses.len() - 1
        });
        accesses[place].bytes += RECORDED;
    }
    accesses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_of_a_line_are_one_access_to_read_and_one_to_write() {
        let touch = |line, writes| Touch { line, writes };
        let touches = vec![
            touch(64, false),
            touch(65, false),
            touch(65, true),
            touch(3, true),
            touch(66, true),
        ];
        let script = Script {
            transactions: vec![Transaction {
                wants: Permission::Exclusive,
                touches,
            }],
            computes_ns: 0,
        };
        let access = |line, wants, bytes| Access { line, wants, bytes };
        let (shared, exclusive) = (Permission::Shared, Permission::Exclusive);
        let pages = Lines::of(&script, 4096);
        let wanted = [
            access(0, shared, 128),
            access(0, exclusive, 128),
            access(1, exclusive, 64),
        ];
        assert_eq!((pages.count, &pages.transactions[0].1[..]), (2, &wanted[..]));
        let lines = Lines::of(&script, 64);
        assert_eq!((lines.count, lines.transactions[0].1.len()), (4, 5));
    }
}
