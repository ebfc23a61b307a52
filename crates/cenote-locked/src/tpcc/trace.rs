//! What transactions touch: the transactions' own code runs on a store of its own, in this process's memory, whose
//! words note which lines are touched. For simulators, which replay it.

use super::input::{Kind, Terminals};
use super::layout::Layout;
use super::load;
use super::scale::Scale;
use super::transactions::execute;
use crate::error::{Error, Result};
use crate::words::{Recorder, Touch, WordsMut};

/// What a transaction has touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Its kind.
    pub kind: Kind,
    /// Lines of 64 bytes of the store, in the order of first touch.
    pub touches: Vec<Touch>,
}

/// Executes so many transactions of the standard mix, one after the other, on a store that was just loaded; all from a
/// seed. One that finds a district full is left out.
///
/// Cost: memory for the store, [`Layout::bytes`].
///
/// Errors: [`Error::Setting`].
pub fn trace(scale: Scale, seed: u64, transactions: usize) -> Result<Vec<Traced>> {
    let layout = Layout::new(scale)?;
    let mut memory = vec![0_u64; (layout.bytes() / 8) as usize];
    let mut words = WordsMut::new(bytemuck::cast_slice_mut(&mut memory), &mut []);
    load::load(&layout, &mut words, seed, 1)?;
    let mut recorder = Recorder::new(words);
    let mut terminals = Terminals::new(scale, seed, 0);
    let mut all = Vec::with_capacity(transactions);
    for date in 1..=transactions as u64 {
        let input = terminals.next_input();
        match execute(&layout, &mut recorder, &input, date) {
            Ok(_) => all.push(Traced {
                kind: input.kind(),
                touches: recorder.take(),
            }),
            Err(Error::Full { .. }) => drop(recorder.take()),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_the_same_from_the_same_seed_and_write_where_transactions_do() {
        let traced = trace(Scale::small(2), 3, 300).unwrap();
        assert_eq!(traced, trace(Scale::small(2), 3, 300).unwrap());
        assert_ne!(traced, trace(Scale::small(2), 4, 300).unwrap());
        for kind in Kind::ALL {
            let mut of_kind = traced.iter().filter(|traced| traced.kind == kind).peekable();
            assert!(of_kind.peek().is_some(), "{kind:?}");
            for traced in of_kind {
                assert!(!traced.touches.is_empty());
                let writes = traced.touches.iter().any(|touch| touch.writes);
                assert_eq!(writes, !kind.is_read_only(), "{kind:?}");
            }
        }
    }
}
