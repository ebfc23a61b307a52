//! Maps with a planted fault, to show that the suite finds it: a store's map that now and then gives a wrong answer or
//! does a wrong thing.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cenote::memory::Mapped;
use cenote::{Coherent, Guidelines, Map, Ordered, Pool, Put, Replace, Result};
use proptest::test_runner::TestError;

use crate::common::Model;
use crate::model::{Call, explore};
use crate::subject::{Pair, TestMap};
use crate::{bytes, common};

/// What is wrong with a map.
trait Fault {
    /// How many times it is correct before it is wrong.
    const EVERY: u64;
    /// Says that keys were removed, and leaves them.
    const LOSES_REMOVES: bool = false;
    /// Says that keys were put, and does not.
    const LOSES_PUTS: bool = false;
    /// Finds nothing, though there is something.
    const MISSES: bool = false;
    /// Leaves a key out of a scan.
    const SKIPS: bool = false;
    /// Replaces without looking at what is there.
    const REPLACES_BLINDLY: bool = false;
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident: $what:ident every $every:expr;)+) => {
        $($(#[$doc])*
        struct $name;
        impl Fault for $name {
            const EVERY: u64 = $every;
            const $what: bool = true;
        })+
    };
}

faults!(
    /// A remove that is lost once in a long test.
    RareRemove: LOSES_REMOVES every 1000;
    /// A remove that is lost often enough to be seen in short lists of calls.
    Remove: LOSES_REMOVES every 3;
    /// A put that is lost.
    LostPut: LOSES_PUTS every 3;
    /// A lookup that misses.
    Missing: MISSES every 50;
    /// A key that is not seen.
    Skipping: SKIPS every 7;
    /// A comparison that is left out, once in a long test.
    Blind: REPLACES_BLINDLY every 100;
);

/// A map with a fault.
struct Wrong<T, F> {
    map: T,
    times: Cell<u64>,
    fault: PhantomData<F>,
}

impl<T, F: Fault> Wrong<T, F> {
    fn right(map: T) -> Self {
        Self {
            map,
            times: Cell::new(0),
            fault: PhantomData,
        }
    }

    /// Whether the fault shows now, if the map has it.
    fn shows(&self, has: bool) -> bool {
        self.times.set(self.times.get() + u64::from(has));
        has && self.times.get().is_multiple_of(F::EVERY)
    }
}

impl<M: Mapped, T: TestMap<M>, F: Fault> TestMap<M> for Wrong<T, F> {
    const HAS_IN_PLACE: bool = T::HAS_IN_PLACE;
    const KEY_MAX: usize = T::KEY_MAX;
    const MANY: [u64; 2] = T::MANY;

    fn open(pool: &Pool<M>, name: &str) -> Result<Self> {
        T::open(pool, name).map(Self::right)
    }

    fn existing(pool: &Pool<M>, name: &str) -> Result<Self> {
        T::existing(pool, name).map(Self::right)
    }

    fn word(key: u64) -> [u8; 8] {
        T::word(key)
    }

    fn number(key: &[u8]) -> u64 {
        T::number(key)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.map.get(key)?;
        Ok(found.filter(|_| !self.shows(F::MISSES)))
    }

    fn get_u64(&self, key: u64) -> Result<Option<u64>> {
        let found = self.map.get_u64(key)?;
        Ok(found.filter(|_| !self.shows(F::MISSES)))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<Put> {
        match self.map.get(key)? {
            Some(_) if self.shows(F::LOSES_PUTS) => Ok(Put::Replaced),
            _ => self.map.put(key, value),
        }
    }

    fn put_u64(&self, key: u64, value: u64) -> Result<Put> {
        self.put(&T::word(key), &value.to_le_bytes())
    }

    fn put_all(&self, pairs: &[Pair]) -> Result<u64> {
        self.map.put_all(pairs)
    }

    fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.map.insert(key, value)
    }

    fn replace(&self, key: &[u8], expected: &[u8], value: &[u8]) -> Result<Replace> {
        match self.map.get(key)? {
            Some(found) if found != expected && self.shows(F::REPLACES_BLINDLY) => {
                self.map.replace(key, &found, value)
            }
            _ => self.map.replace(key, expected, value),
        }
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        match self.map.get(key)? {
            Some(_) if self.shows(F::LOSES_REMOVES) => Ok(true),
            _ => self.map.remove(key),
        }
    }

    fn len(&self) -> u64 {
        self.map.len()
    }

    fn for_each(&self, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.map.for_each(|key, value| {
            if !self.shows(F::SKIPS) {
                each(key, value);
            }
        })
    }

    fn ascending(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Option<Result<()>> {
        self.map
            .ascending(from, |key, value| self.shows(F::SKIPS) || each(key, value))
    }

    fn assert_same(&self, model: &Model, from: &[u8], to: Option<&[u8]>) {
        self.map.assert_same(model, from, to);
    }
}

/// A case of the suite, for a map.
type Case = fn(Guidelines);

/// Whether a case fails.
fn fails(case: Case) -> bool {
    catch_unwind(AssertUnwindSafe(|| case(common::p3()))).is_err()
}

#[test]
fn long_random_lists_find_what_is_rare() {
    let cases: [Case; 4] = [
        bytes::behaves_like_a_btree_map::<Coherent, Wrong<Map, RareRemove>>,
        bytes::behaves_like_a_btree_map::<Coherent, Wrong<Ordered, RareRemove>>,
        bytes::behaves_like_a_btree_map::<Coherent, Wrong<Map, Blind>>,
        bytes::behaves_like_a_btree_map::<Coherent, Wrong<Ordered, Blind>>,
    ];
    assert!(cases.into_iter().all(fails));
}

#[test]
fn threads_and_growth_find_what_is_missed_and_what_is_skipped() {
    let cases: [Case; 4] = [
        bytes::threads_agree::<Coherent, Wrong<Map, Missing>>,
        bytes::threads_agree::<Coherent, Wrong<Ordered, Skipping>>,
        bytes::grows_and_keeps_everything::<Coherent, Wrong<Map, Skipping>>,
        bytes::grows_and_keeps_everything::<Coherent, Wrong<Ordered, Missing>>,
    ];
    assert!(cases.into_iter().all(fails));
}

/// The shortest list of calls that shows a fault, found among lists of fewer than a hundred.
fn shortest<T: TestMap<Coherent>>() -> Vec<Call> {
    match explore::<Coherent, T>(common::p3(), 100) {
        Err(TestError::Fail(_, calls)) => calls,
        other => panic!("the model saw nothing: {other:?}"),
    }
}

#[test]
fn the_model_finds_faults_and_makes_lists_short() {
    // The third remove is lost: three keys are put and removed, and the model compares everything in the end.
    let calls = shortest::<Wrong<Map, Remove>>();
    let removes = calls.iter().filter(|call| matches!(call, Call::Remove(_)));
    assert!(removes.count() == 3 && calls.len() <= 9, "{calls:#?}");
    let calls = shortest::<Wrong<Ordered, LostPut>>();
    assert!(calls.len() <= 12, "{calls:#?}");
}
