//! Where the master keeps what it has decided, and what says which master leads.
//!
//! | where | who leads | for |
//! |---|---|---|
//! | [`pool`] | who holds the pool's recoverable mutex | one machine |
//! | `etcd` (feature `etcd`) | whose lease the key of the leader has | several machines |

#[cfg(feature = "etcd")]
pub mod etcd;
pub mod pool;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

use super::state::State;
use super::term::Term;
use crate::StoreError;
use crate::control::ViewText;

/// What a place in etcd begins with.
pub const SCHEME: &str = "etcd://";

/// Where a master is to keep what it decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A pool.
    Pool(PathBuf),
    /// Keys of an etcd.
    Etcd {
        /// Its members, each `HOST:PORT`.
        endpoints: Vec<String>,
        /// What all keys of this cluster begin with.
        prefix: String,
    },
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self::Pool(path.to_owned())
    }
}

impl FromStr for Place {
    type Err = String;

    /// A file's name, or `etcd://HOST:PORT,HOST:PORT/PREFIX`.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return match text.is_empty() {
                true => Err("the name of a file, or etcd://HOST:PORT/PREFIX".to_owned()),
                false => Ok(Self::Pool(PathBuf::from(text))),
            };
        };
        let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_member = |member: &str| {
            let port = member.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port != 0))
        };
        let endpoints: Vec<String> = members.split(',').map(str::to_owned).collect();
        let prefix = prefix.trim_matches('/');
        if let Some(other) = endpoints.iter().find(|member| !is_member(member)) {
            return Err(format!(
                "{other:?} is not the address of an etcd: etcd://HOST:PORT,HOST:PORT/PREFIX"
            ));
        }
        match prefix {
            "" => Err("a prefix is missing, which no other cluster has: etcd://HOST:PORT/PREFIX".to_owned()),
            prefix => Ok(Self::Etcd {
                endpoints,
                prefix: prefix.to_owned(),
            }),
        }
    }
}

/// Why a state was not kept.
#[derive(Debug)]
pub enum Unkept {
    /// This master leads no more: another one may have kept something since.
    Deposed(String),
    /// It leads, and cannot keep what it decides.
    Failed(StoreError),
}

/// A store, of a master that leads.
pub enum Store {
    /// In a pool.
    Pool(&'static pool::Store, Rc<Term>),
    /// In etcd.
    #[cfg(feature = "etcd")]
    Etcd(Rc<etcd::Store>),
}

impl Store {
    /// The term in which this master leads.
    pub fn term(&self) -> Rc<Term> {
        match self {
            Self::Pool(_, term) => term.clone(),
            #[cfg(feature = "etcd")]
            Self::Etcd(store) => store.term(),
        }
    }

    /// What is kept; `None` before there is a cluster.
    pub async fn load(&self) -> Result<Option<State>, StoreError> {
        match self {
            Self::Pool(store, _) => store.load(),
            #[cfg(feature = "etcd")]
            Self::Etcd(store) => store.load().await,
        }
    }

    /// Keeps a state as it is when its turn comes: changes are kept in the order of these calls. When this returns it
    /// is kept, and everything that was in it. Returns the view of what is kept.
    pub async fn save(&self, state: &RefCell<State>) -> Result<ViewText, Unkept> {
        match self {
            Self::Pool(store, _) => {
                let state = state.borrow();
                store.save(&state).map_err(Unkept::Failed)?;
                Ok(state.view())
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(store) => store.save(state).await,
        }
    }

    /// Returns why this master leads no more, once that is so.
    pub async fn lead_ends(&self) -> String {
        match self {
            Self::Pool(..) => std::future::pending().await,
            #[cfg(feature = "etcd")]
            Self::Etcd(store) => store.renew().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_files_or_keys() {
        let place = |text: &str| text.parse::<Place>();
        assert_eq!(place("/dev/shm/x"), Ok(Place::Pool(PathBuf::from("/dev/shm/x"))));
        assert_eq!(
            place("etcd://a:1,[::1]:2379/one/two/"),
            Ok(Place::Etcd {
                endpoints: vec!["a:1".to_owned(), "[::1]:2379".to_owned()],
                prefix: "one/two".to_owned()
            })
        );
        for wrong in [
            "",
            "etcd://",
            "etcd:///p",
            "etcd://a/p",
            "etcd://a:0/p",
            "etcd://a:x/p",
            "etcd://a:1",
            "etcd://a:1/",
            "etcd://a:1,/p",
        ] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
