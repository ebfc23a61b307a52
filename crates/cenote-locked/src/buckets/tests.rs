//! A bucket against a model; a put killed after each of its stores; shapes.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::bucket;
use super::*;
use crate::error::Error;
use crate::words::WordsMut;
use crate::words::mortal::Mortal;

const SHAPE: Shape = Shape {
    buckets: 1,
    slots: 63,
    value_max: 100,
};

struct Bytes {
    first: Vec<u64>,
    rest: Vec<u64>,
}

impl Bytes {
    fn of(shape: &Shape) -> Self {
        Self {
            first: vec![0; PAGE as usize / 8],
            rest: vec![0; shape.overflow_bytes() as usize / 8],
        }
    }

    fn words(&mut self) -> WordsMut<'_> {
        let [first, rest] = [&mut self.first, &mut self.rest];
        WordsMut::new(bytemuck::cast_slice_mut(first), bytemuck::cast_slice_mut(rest))
    }
}

fn pairs(shape: &Shape, words: &WordsMut<'_>) -> BTreeMap<u64, Vec<u8>> {
    let mut all = BTreeMap::new();
    bucket::scan(shape, words, |key, value| {
        assert!(all.insert(key, value.to_vec()).is_none(), "key {key} twice");
    })
    .unwrap();
    all
}

#[test]
fn the_first_slots_are_in_the_page_and_none_is_in_both_regions() {
    for (slots, value_max) in [(1, 0), (63, 0), (63, 100), (63, 2048), (1, 2048), (20, 13)] {
        let shape = Shape {
            slots,
            value_max,
            ..SHAPE
        };
        shape.check().unwrap();
        let mut bytes = Bytes::of(&shape);
        let mut words = bytes.words();
        let value = vec![7; value_max as usize];
        for key in 0..u64::from(slots) {
            assert_eq!(bucket::put(&shape, &mut words, key, &value).unwrap(), Some(false));
        }
        // A further key has no room, a key that is there has.
        assert_eq!(bucket::put(&shape, &mut words, 1 << 40, &value).unwrap(), None);
        for key in 0..u64::from(slots) {
            assert_eq!(bucket::put(&shape, &mut words, key, &value).unwrap(), Some(true));
        }
        assert_eq!(pairs(&shape, &words).len(), slots as usize, "{shape:?}");
    }
}

#[test]
fn a_bucket_does_what_a_map_does() {
    let seed = 11;
    println!("seed {seed}");
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    let mut bytes = Bytes::of(&SHAPE);
    let mut words = bytes.words();
    let mut model = BTreeMap::new();
    for _ in 0..5000 {
        let key = draws.random_range(0..80_u64);
        let mut value = vec![0; draws.random_range(0..=100)];
        draws.fill(&mut value[..]);
        match draws.random_range(0..4) {
            0 => {
                let was = bucket::remove(&SHAPE, &mut words, key).unwrap();
                assert_eq!(was, model.remove(&key).is_some());
            }
            1 => {
                let found = bucket::get(&SHAPE, &words, key).unwrap();
                assert_eq!(found, model.get(&key).map(Vec::as_slice));
            }
            _ => {
                let is_full = model.len() == 63 && !model.contains_key(&key);
                let wanted = (!is_full).then(|| model.insert(key, value.clone()).is_some());
                assert_eq!(bucket::put(&SHAPE, &mut words, key, &value).unwrap(), wanted);
            }
        }
    }
    assert_eq!(pairs(&SHAPE, &words), model);
}

#[test]
fn an_owner_that_dies_after_any_store_leaves_the_former_value_or_the_new_one() {
    let put = |words: &mut Mortal<'_, WordsMut<'_>>, key| bucket::put(&SHAPE, words, key, &[9; 100]);
    for key in [3, 100] {
        let mut seen = [false; 2];
        for lives in 0.. {
            let mut bytes = Bytes::of(&SHAPE);
            let mut words = bytes.words();
            for key in 0..40 {
                bucket::put(&SHAPE, &mut words, key, &[1; 100]).unwrap();
            }
            let before = pairs(&SHAPE, &words);
            let mut mortal = Mortal {
                words: &mut words,
                left: lives,
            };
            let is_done = put(&mut mortal, key).is_ok();
            let mut after = before.clone();
            after.insert(key, vec![9; 100]);
            let found = pairs(&SHAPE, &words);
            assert!(found == before || found == after, "{lives} stores");
            seen[usize::from(found == after)] = true;
            // The next owner just goes on.
            assert!(bucket::put(&SHAPE, &mut words, 200, &[2; 100]).unwrap().is_some());
            assert!(bucket::put(&SHAPE, &mut words, key, &[3; 100]).unwrap().is_some());
            if is_done {
                break;
            }
        }
        assert_eq!(seen, [true, true]);
    }
}

#[test]
fn a_damaged_bucket_is_an_error() {
    let mut bytes = Bytes::of(&SHAPE);
    let mut words = bytes.words();
    bucket::put(&SHAPE, &mut words, 5, b"five").unwrap();
    let slot = SHAPE.slot(0) as usize;
    bytes.first[slot + 1] = 101;
    let found = bucket::get(&SHAPE, &bytes.words(), 5).map(|_| ());
    assert!(matches!(found, Err(Error::Damaged { found: 101, .. })));
    bytes.first[1] |= 0xffff;
    let found = bucket::put(&SHAPE, &mut bytes.words(), 6, b"");
    assert!(matches!(found, Err(Error::Damaged { found: 0xffff, .. })));
}

#[test]
fn sizes_out_of_range_are_refused() {
    let wrong = [
        Shape { buckets: 0, ..SHAPE },
        Shape { slots: 0, ..SHAPE },
        Shape { slots: 64, ..SHAPE },
        Shape {
            value_max: 2049,
            ..SHAPE
        },
    ];
    for shape in wrong {
        assert!(matches!(shape.check(), Err(Error::Setting { .. })), "{shape:?}");
    }
}
