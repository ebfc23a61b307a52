//! Maps of either kind, or object stores, behind one face, for commands that torture and measure them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;

use cenote::memory::Memory;
use cenote::objects::{ID_MAX, NewObject, ObjectSettings, ObjectView, Objects};
use cenote::{Pool, Put, Replace};
use serde::{Deserialize, Serialize};

use crate::map::AnyMap;

/// Views of objects that each handle holds while others change the store.
const HELD: usize = 32;
/// One of so many reads of an object is held.
const HELD_ONE_IN: u64 = 8;

/// A kind of collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CollectionKind {
    /// Hash maps
    Hash,
    /// Ordered maps
    Ordered,
    /// Object stores; what needs compare-and-replace is in hash maps
    Objects,
}

impl CollectionKind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Ordered => "ordered",
            Self::Objects => "objects",
        }
    }

    /// What a run has of this kind, as people say it.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Hash => "hash maps",
            Self::Ordered => "ordered maps",
            Self::Objects => "object stores",
        }
    }
}

/// A collection, as one thread has it open.
pub enum Collection<M: Memory> {
    /// A map.
    Map(AnyMap<M>),
    /// An object store.
    Objects(Store<M>),
}

/// An object store, and views that stay open for a while.
pub struct Store<M: Memory> {
    objects: Objects<M>,
    reads: RefCell<u64>,
    /// Each with what it was when it was taken.
    held: RefCell<VecDeque<(ObjectView<M>, Vec<u8>)>>,
}

impl<M: Memory> Store<M> {
    fn get(&self, id: &[u8]) -> cenote::Result<Option<Vec<u8>>> {
        let Some(view) = self.objects.get(id)? else {
            return Ok(None);
        };
        let bytes = view.to_vec();
        let mut reads = self.reads.borrow_mut();
        *reads += 1;
        if reads.is_multiple_of(HELD_ONE_IN) {
            self.held.borrow_mut().push_back((view, bytes.clone()));
        }
        Ok(Some(bytes))
    }

    /// The ids that are listed, with their objects' bytes.
    fn pairs(&self) -> cenote::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut ids = Vec::new();
        self.objects.list(b"", |object| {
            ids.push(object.id);
            ControlFlow::Continue(())
        })?;
        let mut pairs = Vec::new();
        for id in ids {
            if let Some(view) = self.objects.get(&id)? {
                pairs.push((id, view.to_vec()));
            }
        }
        Ok(pairs)
    }
}

/// The id for a key: one that is too long is cut off.
fn id(key: &[u8]) -> &[u8] {
    &key[..key.len().min(ID_MAX)]
}

impl<M: Memory> Collection<M> {
    /// The collection of a name; made if there is none.
    pub fn open(pool: &Pool<M>, name: &str, kind: CollectionKind) -> cenote::Result<Self> {
        Ok(match kind {
            CollectionKind::Objects => Self::Objects(Store {
                objects: pool.objects(name, &ObjectSettings::default())?,
                reads: RefCell::default(),
                held: RefCell::default(),
            }),
            _ => Self::Map(AnyMap::open(pool, name, kind == CollectionKind::Ordered)?),
        })
    }

    /// A copy of a key's value.
    pub fn get(&self, key: &[u8]) -> cenote::Result<Option<Vec<u8>>> {
        match self {
            Self::Map(map) => map.get(key),
            Self::Objects(store) => store.get(id(key)),
        }
    }

    /// Sets a key's value.
    pub fn put(&self, key: &[u8], value: &[u8]) -> cenote::Result<Put> {
        match self {
            Self::Map(map) => map.put(key, value),
            Self::Objects(store) => store.objects.put(id(key), value),
        }
    }

    /// Sets a key's value if it has none.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> cenote::Result<bool> {
        match self {
            Self::Map(map) => map.insert(key, value),
            Self::Objects(store) => store.objects.insert(id(key), value),
        }
    }

    /// Replaces a key's value if it is `expected`. Of an object, in two steps: another writer may come in between. An
    /// object that is begun and given up comes before them.
    pub fn replace(&self, key: &[u8], expected: &[u8], value: &[u8]) -> cenote::Result<Replace> {
        let store = match self {
            Self::Map(map) => return map.replace(key, expected, value),
            Self::Objects(store) => store,
        };
        let mut begun = store
            .objects
            .create_over(id(key), value.len() as u64, &NewObject::default())?;
        begun.write(0, expected.get(..value.len()).unwrap_or_default());
        drop(begun);
        match store.get(id(key))? {
            None => Ok(Replace::Missing),
            Some(found) if found != expected => Ok(Replace::Differs(found)),
            Some(_) => store.objects.put(id(key), value).map(|_| Replace::Replaced),
        }
    }

    /// Removes a key.
    pub fn remove(&self, key: &[u8]) -> cenote::Result<bool> {
        match self {
            Self::Map(map) => map.remove(key),
            Self::Objects(store) => store.objects.delete(id(key)),
        }
    }

    /// Calls `with` with the value of a key, where it is.
    #[inline]
    pub fn with_value<R>(&self, key: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> cenote::Result<R> {
        Ok(match self {
            Self::Map(AnyMap::Hash(map)) => with(map.get(key)?.as_deref()),
            Self::Map(AnyMap::Ordered(map)) => with(map.get(key)?.as_deref()),
            Self::Objects(store) => with(store.objects.get(key)?.as_deref()),
        })
    }

    /// Calls `each` with a number and the value of the key that has this number.
    pub fn get_many(
        &self,
        keys: &[impl AsRef<[u8]>],
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> cenote::Result<()> {
        match self {
            Self::Map(map) => map.get_many(keys, each),
            Self::Objects(store) => {
                for (n, key) in keys.iter().enumerate() {
                    each(n, store.objects.get(id(key.as_ref()))?.as_deref());
                }
                Ok(())
            }
        }
    }

    /// Calls `each` for every pair.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8])) -> cenote::Result<()> {
        match self {
            Self::Map(map) => map.for_each(each),
            Self::Objects(store) => {
                store.pairs()?.iter().for_each(|(key, value)| each(key, value));
                Ok(())
            }
        }
    }

    /// Copies of all pairs, got another way than by [`Collection::for_each`], where there is one.
    pub fn pairs(&self) -> cenote::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        match self {
            Self::Map(map) => map.pairs(),
            Self::Objects(store) => store.pairs(),
        }
    }

    /// How many keys it has, by its own count where it keeps one.
    pub fn len(&self) -> cenote::Result<u64> {
        match self {
            Self::Map(map) => Ok(map.len()),
            Self::Objects(store) => {
                let mut count = 0;
                store.objects.list(b"", |_| {
                    count += 1;
                    ControlFlow::Continue(())
                })?;
                Ok(count)
            }
        }
    }

    /// Ends views that were held long enough. What is wrong, if one of them has changed.
    pub fn check_held(&self) -> Option<String> {
        let Self::Objects(store) = self else {
            return None;
        };
        let mut held = store.held.borrow_mut();
        while held.len() > HELD {
            let Some((view, bytes)) = held.pop_front() else {
                break;
            };
            if *view != *bytes {
                return Some(format!(
                    "an object of {} bytes changed while it was viewed",
                    bytes.len()
                ));
            }
        }
        None
    }
}
