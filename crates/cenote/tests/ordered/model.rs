//! Random calls, compared with a `BTreeMap`; what fails is made as short as it can be.

use cenote::memory::Mapped;
use cenote::{Coherent, Guidelines, Noncoherent, Put, Range, Replace};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::{Model, assert_clean, assert_same_around, pool, scanned};

#[derive(Clone, Debug)]
enum Call {
    Put(Vec<u8>, Vec<u8>),
    Insert(Vec<u8>, Vec<u8>),
    Replace(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Look(Vec<u8>, Option<Vec<u8>>),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0..400u64).prop_map(|n| n.to_be_bytes().to_vec()),
        2 => proptest::collection::vec(0..3u8, 0..12),
        1 => (0..60usize).prop_map(|n| vec![0; n]),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => any::<[u8; 8]>().prop_map(|bytes| bytes.to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => (key(), value()).prop_map(|(key, value)| Call::Put(key, value)),
        2 => (key(), value()).prop_map(|(key, value)| Call::Insert(key, value)),
        1 => (key(), value()).prop_map(|(key, value)| Call::Replace(key, value)),
        3 => key().prop_map(Call::Remove),
        1 => (key(), proptest::option::of(key())).prop_map(|(from, to)| Call::Look(from, to)),
    ]
}

fn follow<M: Mapped>(calls: &[Call]) {
    let (_folder, pool) = pool::<M>(Guidelines::P3);
    let map = pool.ordered("m").unwrap();
    let mut model = Model::new();
    for call in calls {
        match call.clone() {
            Call::Put(key, value) => {
                let put = map.put(&key, &value).unwrap();
                assert_eq!(put == Put::Replaced, model.insert(key, value).is_some());
            }
            Call::Insert(key, value) => {
                let inserted = map.insert(&key, &value).unwrap();
                assert_eq!(inserted, !model.contains_key(&key));
                model.entry(key).or_insert(value);
            }
            Call::Replace(key, value) => match model.get_mut(&key) {
                Some(old) => {
                    assert_eq!(map.replace(&key, old, &value).unwrap(), Replace::Replaced);
                    *old = value;
                }
                None => assert_eq!(map.replace(&key, b"", &value).unwrap(), Replace::Missing),
            },
            Call::Remove(key) => {
                assert_eq!(map.remove(&key).unwrap(), model.remove(&key).is_some());
            }
            Call::Look(from, to) => assert_same_around(&map, &model, &from, to.as_deref()),
        }
    }
    assert_eq!(map.len(), model.len() as u64);
    assert!(scanned(&map, Range::ALL, usize::MAX).into_iter().eq(model));
    assert_clean(&pool);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn follows_the_model_coherent(calls in proptest::collection::vec(call(), 1..600)) {
        follow::<Coherent>(&calls);
    }

    #[test]
    fn follows_the_model_noncoherent(calls in proptest::collection::vec(call(), 1..200)) {
        follow::<Noncoherent>(&calls);
    }
}
