//! Words of two regions; the undo record after every store; what a recorder notes.

use super::mortal::Mortal;
use super::*;
use crate::error::Error;

fn bytes(words: &mut [u64]) -> &mut [u8] {
    bytemuck::cast_slice_mut(words)
}

#[test]
fn words_go_through_both_regions_and_not_beyond() {
    let (mut first, mut rest) = ([1, 2, 3], [4, 5]);
    let mut words = WordsMut::new(bytes(&mut first), bytes(&mut rest));
    words.store(2, 30).unwrap();
    words.store(4, 50).unwrap();
    assert!(matches!(
        words.store(5, 6),
        Err(Error::Beyond { at: 5, covered: 5 })
    ));
    let all: Vec<u64> = (0..5).map(|at| words.load(at).unwrap()).collect();
    assert_eq!(all, [1, 2, 30, 4, 50]);
    let read = words.as_words();
    assert_eq!(read.words(1, 2).unwrap(), [2, 30]);
    assert_eq!(read.words(3, 2).unwrap(), [4, 50]);
    // No range lies in both, and none is longer than what there is.
    for (at, len) in [(2, 2), (3, 3), (5, 1), (0, u64::MAX), (u64::MAX, 2)] {
        assert!(read.words(at, len).is_err(), "{at} {len}");
    }
    assert!(read.load(u64::MAX).is_err());
}

#[test]
fn texts_are_cut_and_padded() {
    assert_eq!(text_in(&text_of::<1>(b"abc")), b"abc");
    assert_eq!(text_in(&text_of::<1>(b"abcdefghijk")), b"abcdefgh");
    assert_eq!(text_in(&text_of::<2>(b"")), b"");
}

const RECORD: Record = Record::new(0, 4);

/// Words whose stores swap places two by two, as if the compiler had done that.
struct Swapped<'w, W> {
    words: &'w mut W,
    kept: Option<(u64, u64)>,
}

impl<W: Load> Load for Swapped<'_, W> {
    fn covered(&self) -> u64 {
        self.words.covered()
    }

    fn load(&self, at: u64) -> Result<u64> {
        match self.kept {
            Some((kept, value)) if kept == at => Ok(value),
            _ => self.words.load(at),
        }
    }

    fn words(&self, at: u64, len: u64) -> Result<&[u64]> {
        self.words.words(at, len)
    }
}

impl<W: Store> Store for Swapped<'_, W> {
    fn store(&mut self, at: u64, value: u64) -> Result<()> {
        match self.kept.take() {
            None => self.kept = Some((at, value)),
            Some((first, kept)) => {
                self.words.store(at, value)?;
                self.words.store(first, kept)?;
            }
        }
        Ok(())
    }
}

#[test]
fn stores_that_swap_places_are_found_by_dying_among_them() {
    let torn = (0..12).any(|lives| {
        let mut store: Vec<u64> = (0..16).collect();
        store[0] = 0;
        let wanted = store[9..].to_vec();
        let mut words = WordsMut::new(bytes(&mut store), &mut []);
        let mut mortal = Mortal {
            words: &mut words,
            left: lives,
        };
        let mut swapped = Swapped {
            words: &mut mortal,
            kept: None,
        };
        let mut transaction = Transaction::begin(&mut swapped, RECORD).unwrap();
        let died = (10..13).try_for_each(|at| transaction.store(at, 0)).is_err();
        RECORD.roll_back(&mut words).unwrap();
        died && store[9..] != wanted
    });
    assert!(torn);
}

#[test]
fn a_transaction_stopped_after_any_store_is_rolled_back_from_any_of_its_steps() {
    let before: Vec<u64> = (0..16).collect();
    let change = |words: &mut Mortal<'_, WordsMut<'_>>| -> Result<()> {
        let mut transaction = Transaction::begin(words, RECORD)?;
        // The second one of a word, and one that changes nothing.
        for (at, value) in [(10, 100), (12, 120), (10, 101), (11, 11)] {
            transaction.store(at, value)?;
        }
        transaction.commit()
    };
    let mut steps = 0;
    for lives in 0.. {
        let mut store = before.clone();
        store[0] = 0;
        let wanted = store[9..].to_vec();
        let mut words = WordsMut::new(bytes(&mut store), &mut []);
        let mut mortal = Mortal {
            words: &mut words,
            left: lives,
        };
        if change(&mut mortal).is_ok() {
            assert_eq!(store[9..], [9, 101, 11, 120, 13, 14, 15]);
            assert_eq!(store[0], 0);
            steps = lives;
            break;
        }
        // Repairs die as well, after 0, 1, 2 stores and so on.
        for lives in 0.. {
            let mut mortal = Mortal {
                words: &mut words,
                left: lives,
            };
            if RECORD.roll_back(&mut mortal).is_ok() {
                break;
            }
        }
        assert_eq!(RECORD.count(&words).unwrap(), 0);
        assert_eq!(store[9..], wanted, "{lives} stores");
    }
    // Three pairs of three stores, three words, the end.
    assert_eq!(steps, 13);
}

#[test]
fn a_transaction_of_more_words_than_the_record_has_pairs_is_refused_and_can_be_rolled_back() {
    let mut store = vec![0; 32];
    let mut words = WordsMut::new(bytes(&mut store), &mut []);
    let mut transaction = Transaction::begin(&mut words, RECORD).unwrap();
    for at in 20..24 {
        transaction.store(at, 1).unwrap();
    }
    assert!(matches!(transaction.store(24, 1), Err(Error::UndoFull(4))));
    transaction.roll_back().unwrap();
    assert!(store[RECORD.len() as usize..].iter().all(|word| *word == 0));
}

#[test]
fn a_record_that_is_damaged_is_an_error_and_changes_nothing() {
    let mut store = vec![0; 32];
    store[0] = 5;
    let mut words = WordsMut::new(bytes(&mut store), &mut []);
    assert!(matches!(
        RECORD.roll_back(&mut words),
        Err(Error::Damaged { found: 5, .. })
    ));
    // A pair about the record itself.
    store[0] = 1;
    store[1] = 3;
    let mut words = WordsMut::new(bytes(&mut store), &mut []);
    assert!(matches!(
        RECORD.roll_back(&mut words),
        Err(Error::Damaged { found: 3, .. })
    ));
    // One about nothing.
    store[1] = 1 << 40;
    let mut words = WordsMut::new(bytes(&mut store), &mut []);
    assert!(matches!(RECORD.roll_back(&mut words), Err(Error::Beyond { .. })));
    assert_eq!(store[0], 1);
}

#[test]
fn a_recorder_notes_lines_in_the_order_of_first_touch() {
    let mut store = vec![0; 64];
    let mut recorder = Recorder::new(WordsMut::new(bytes(&mut store), &mut []));
    recorder.load(17).unwrap();
    recorder.load(16).unwrap();
    recorder.store(18, 1).unwrap();
    recorder.load(19).unwrap();
    recorder.store(40, 1).unwrap();
    recorder.words(6, 4).unwrap();
    let touch = |line, writes| Touch { line, writes };
    let wanted = [
        touch(2, false),
        touch(2, true),
        touch(5, true),
        touch(0, false),
        touch(1, false),
    ];
    assert_eq!(recorder.take(), wanted);
    recorder.load(17).unwrap();
    assert_eq!(recorder.take(), [touch(2, false)]);
}
