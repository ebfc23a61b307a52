//! Changes on a condition: a key gets another value if nobody has changed it since it was read (compare-and-swap).
//!
//! The condition is the identity of the change that bound the key, its *version*. Versions never come twice, so a value
//! that comes back is no other's. A replacement takes the steps of a change of a key that has a slot; the swap of that
//! slot, from the very object that was read, is the comparison. Two things differ:
//!
//! - **A loser** has not come just before the winner: what it asked for is gone. It looks again, and returns what the
//!   key is bound to.
//! - **A blind write that loses against a replacement** has not come just before it either, as the replacement found
//!   what was there before. It begins again. The slot's bit *conditional* says so, and costs it no round trip to see.
//!
//! A replacement that was interrupted is completed or undone by the master as any change is. If it was undone, it looks
//! again: its condition may hold still.

use super::change::not_reserved;
use super::get::Found;
use super::pending::Attempt;
use super::{Client, Error};
use crate::object::{Identity, Kind};
use crate::verbs::Verbs;
use crate::view::Control;

/// A value, and the change that bound its key to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned {
    /// The change: another one has another version, also if it binds the key to the same value.
    pub version: Identity,
    /// The value.
    pub value: Vec<u8>,
}

impl From<Found> for Versioned {
    fn from(found: Found) -> Self {
        Self {
            version: found.identity,
            value: found.value,
        }
    }
}

/// What a replacement has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replaced {
    /// What it was asked for: the key's version now.
    Done(Identity),
    /// Nothing: the key was bound to this, or to nothing.
    Changed(Option<Versioned>),
}

impl<N: Verbs + Control> Client<N> {
    /// The value of a key with its version; `None` if it is bound to none.
    ///
    /// Cost: as [`Client::get`].
    pub async fn get_versioned(&self, key: &[u8]) -> Result<Option<Versioned>, Error> {
        Ok(self.found(key).await?.map(Versioned::from))
    }

    /// Binds a key to a value if it is bound to the value of this version.
    ///
    /// Cost: four round trips; one more if the client has not used the key in the same era. If the key has changed, one
    /// or two; up to four more if it changes at the same time.
    pub async fn replace_if(&self, key: &[u8], expected: Identity, value: &[u8]) -> Result<Replaced, Error> {
        not_reserved(key)?;
        self.replace_any(key, expected, value).await
    }

    /// The same, of any key.
    pub(super) async fn replace_any(
        &self,
        key: &[u8],
        expected: Identity,
        value: &[u8],
    ) -> Result<Replaced, Error> {
        let (attempt, identity) = self.change_if(Kind::Replace, Some(expected), key, value).await?;
        Ok(match attempt {
            Attempt::Shown => Replaced::Done(identity),
            Attempt::Differs(Some(found)) => Replaced::Changed(Some((*found).into())),
            Attempt::Differs(None) | Attempt::Over(_) | Attempt::Again => Replaced::Changed(None),
        })
    }
}
