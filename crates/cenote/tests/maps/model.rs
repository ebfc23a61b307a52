//! Random calls on a map, compared with a `BTreeMap`; failing lists of calls are shrunk.
//!
//! Lists of calls are drawn from `CENOTE_TEST_SEED`; `PROPTEST_CASES` sets how many there are. A list that fails is
//! printed after it has shrunk.

use std::fmt::Debug;

use cenote::memory::Mapped;
use cenote::{Error, Guidelines, Pool, Put, Replace};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof};
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};

use crate::bytes::is_refused;
use crate::common::{Model, assert_clean, options, pool, seed};
use crate::subject::{Pair, TestMap};

/// A call, with what it is called with.
#[derive(Clone)]
pub enum Call {
    Put(Vec<u8>, Vec<u8>),
    Insert(Vec<u8>, Vec<u8>),
    /// Replaces the value that is there, or expects some other one.
    Replace(Vec<u8>, Vec<u8>, bool),
    Remove(Vec<u8>),
    Get(Vec<u8>),
    PutAll(Vec<Pair>),
    /// All calls that read several keys, around one.
    Poll(Vec<u8>, Option<Vec<u8>>),
    /// Frees what is reclaimable.
    Collect,
    /// Closes the pool, and opens it again.
    Reopen,
}

/// Prints a key briefly, as keys are mostly alike: its length, and what it does not repeat.
struct Brief<'a>(&'a [u8]);

impl Debug for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first = self.0.first().copied().unwrap_or_default();
        let alike = self.0.iter().take_while(|byte| **byte == first).count();
        match alike {
            0..16 => write!(f, "{:?}", self.0),
            _ => write!(f, "{alike} times {first}, {:?}", &self.0[alike..]),
        }
    }
}

impl Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put(key, value) => write!(f, "Put({:?}, {:?})", Brief(key), Brief(value)),
            Self::Insert(key, value) => write!(f, "Insert({:?}, {:?})", Brief(key), Brief(value)),
            Self::Replace(key, value, is_right) => {
                write!(f, "Replace({:?}, {:?}, {is_right})", Brief(key), Brief(value))
            }
            Self::Remove(key) => write!(f, "Remove({:?})", Brief(key)),
            Self::Get(key) => write!(f, "Get({:?})", Brief(key)),
            Self::PutAll(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| (Brief(key), Brief(value)));
                write!(f, "PutAll({:?})", pairs.collect::<Vec<_>>())
            }
            Self::Poll(from, to) => write!(f, "Look({:?}, {:?})", Brief(from), to.as_deref().map(Brief)),
            Self::Collect => write!(f, "Collect"),
            Self::Reopen => write!(f, "Reopen"),
        }
    }
}

/// Words, short keys, the empty one, and long ones that begin alike: so long that a node is full with few of them.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0..400u64).prop_map(|n| n.to_be_bytes().to_vec()),
        4 => proptest::collection::vec(0..3u8, 0..12),
        2 => (0..60usize).prop_map(|n| vec![0; n]),
        1 => (0..30u8).prop_map(|n| [&[9; 3_000][..], &[n]].concat()),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => any::<[u8; 8]>().prop_map(|bytes| bytes.to_vec()),
        2 => proptest::collection::vec(any::<u8>(), 0..40),
        1 => (0..5_000usize).prop_map(|len| vec![1; len]),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        120 => (key(), value()).prop_map(|(key, value)| Call::Put(key, value)),
        40 => (key(), value()).prop_map(|(key, value)| Call::Insert(key, value)),
        40 => (key(), value(), any::<bool>()).prop_map(|(key, value, is_right)| Call::Replace(key, value, is_right)),
        80 => key().prop_map(Call::Remove),
        20 => key().prop_map(Call::Get),
        4 => proptest::collection::vec((key(), value()), 0..60).prop_map(Call::PutAll),
        20 => (key(), proptest::option::of(key())).prop_map(|(from, to)| Call::Poll(from, to)),
        2 => proptest::strategy::Just(Call::Collect),
        1 => proptest::strategy::Just(Call::Reopen),
    ]
}

/// Makes one call on the map and on the model, which must agree.
fn follow_call<M: Mapped, T: TestMap<M>>(map: &T, model: &mut Model, call: &Call, guidelines: Guidelines) {
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
        Call::Replace(key, value, is_right) => match model.get_mut(&key) {
            None => assert_eq!(map.replace(&key, b"", &value).unwrap(), Replace::Missing),
            Some(old) if is_right => match map.replace(&key, old, &value) {
                Err(Error::InPlace { .. }) => assert!(is_refused::<M, T>(guidelines, &key, old, &value)),
                outcome => {
                    assert_eq!(outcome.unwrap(), Replace::Replaced);
                    *old = value;
                }
            },
            Some(old) => {
                let other = [&old[..], b"!"].concat();
                assert_eq!(
                    map.replace(&key, &other, &value).unwrap(),
                    Replace::Differs(old.clone())
                );
            }
        },
        Call::Remove(key) => assert_eq!(map.remove(&key).unwrap(), model.remove(&key).is_some()),
        Call::Get(key) => assert_eq!(map.get(&key).unwrap().as_ref(), model.get(&key)),
        Call::PutAll(pairs) => {
            let before = model.len() as u64;
            let new = map.put_all(&pairs).unwrap();
            model.extend(pairs);
            assert_eq!(new, model.len() as u64 - before);
        }
        Call::Poll(from, to) => map.assert_same(model, &from, to.as_deref()),
        Call::Collect | Call::Reopen => {}
    }
}

/// Makes a list of calls on a new map. It must agree with a model, and in the end no byte may be lost.
fn follow<M: Mapped, T: TestMap<M>>(calls: &[Call], guidelines: Guidelines) {
    let (folder, mut pool) = pool::<M>(guidelines);
    let mut map = T::open(&pool, "m").unwrap();
    let mut model = Model::new();
    for call in calls {
        follow_call(&map, &mut model, call, guidelines);
        match call {
            Call::Collect => {
                pool.collect().unwrap();
            }
            Call::Reopen => {
                drop((map, pool));
                pool = Pool::open(folder.path().join("pool"), &options(guidelines)).unwrap();
                map = T::existing(&pool, "m").unwrap();
            }
            _ => {}
        }
    }
    assert_eq!(map.len(), model.len() as u64);
    map.assert_same(&model, b"", None);
    assert_clean(&pool);
}

/// Runs lists of fewer than so many calls. Returns the shortest that fails, if one does.
pub fn explore<M: Mapped, T: TestMap<M>>(
    guidelines: Guidelines,
    most: usize,
) -> Result<(), TestError<Vec<Call>>> {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|s| s.parse().ok());
    let config = ProptestConfig {
        cases: cases.unwrap_or(24),
        max_shrink_iters: 5_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let seed = seed().to_le_bytes().repeat(4);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    TestRunner::new_with_rng(config, rng).run(&proptest::collection::vec(call(), 1..most), |calls| {
        follow::<M, T>(&calls, guidelines);
        Ok(())
    })
}

/// Random lists of calls.
pub fn follows_the_model<M: Mapped, T: TestMap<M>>(guidelines: Guidelines) {
    let most = if M::COHERENT { 600 } else { 200 };
    if let Err(failure) = explore::<M, T>(guidelines, most) {
        panic!("{failure}");
    }
}
