//! A value under a lock of a lock service, and the ways of waiting that handles have in common.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::client::LockClient;
use super::error::Error;
use super::regions::{RegionsLock, RegionsReadGuard, RegionsWriteGuard};
use crate::sync::{Acquired, Timeout};

/// A value under a reader-writer lock of a lock service. Threads share one handle, or have one each.
///
/// `T` is plain data ([`bytemuck::Pod`]) of up to 1 MiB, whose alignment is 16 at most: any bytes are a value of it, as
/// they come from another process. A new lock's value is all zeroes. Machines that share a lock must agree on what the
/// bytes mean.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cenote::remote::{Address, LockClient, LockService, ServiceOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let address = Address::Unix(folder.path().join("locks"));
/// let service = LockService::start(&ServiceOptions::default())?; // or `cenote lockd --listen unix:/run/locks`
/// service.listen(&address)?;
///
/// let client = LockClient::connect(&address)?;
/// let balances = client.rwlock::<[u64; 2]>("balances")?;
/// let mut both = balances.write()?;
/// both[0] = 90;
/// both[1] = 110;
/// both.unlock()?; // to drop it unlocks too, and does not say whether the service had declared this node dead
/// assert_eq!(balances.read()?.iter().sum::<u64>(), 200);
/// client.close()?;
/// # Ok(())
/// # }
/// ```
pub struct RwLock<T: bytemuck::Pod> {
    regions: RegionsLock,
    of: PhantomData<T>,
}

impl LockClient {
    /// The value of a name and its lock, made if there is none.
    ///
    /// Cost: a round trip to the service.
    ///
    /// Errors: [`Error::OtherSize`], [`Error::InvalidName`], [`Error::Regions`], [`Error::Full`]; those of a
    /// connection.
    pub fn rwlock<T: bytemuck::Pod>(&self, name: &str) -> Result<RwLock<T>, Error> {
        let len = u32::try_from(size_of::<T>()).map_err(|_| Error::Regions)?;
        RwLock::over(self.open_lock(name, Some(&[len]))?, name)
    }

    /// The value of a name and its lock, if there is one.
    ///
    /// Cost: a round trip to the service.
    ///
    /// Errors: [`Error::Missing`], [`Error::OtherSize`]; those of a connection.
    pub fn existing_rwlock<T: bytemuck::Pod>(&self, name: &str) -> Result<RwLock<T>, Error> {
        RwLock::over(self.existing_regions(name)?, name)
    }
}

impl<T: bytemuck::Pod> RwLock<T> {
    fn over(regions: RegionsLock, name: &str) -> Result<Self, Error> {
        const {
            assert!(
                align_of::<T>() <= 16 && align_of::<u128>() == 16,
                "a value's alignment is 16 at most"
            )
        };
        match regions.len(0) {
            Some(has) if has == size_of::<T>() => Ok(Self {
                regions,
                of: PhantomData,
            }),
            has => Err(Error::OtherSize {
                name: name.to_owned(),
                has: has.unwrap_or_default(),
                asked: size_of::<T>(),
            }),
        }
    }

    fn lock_for_reading(&self, timeout: Timeout) -> Result<Option<RwLockReadGuard<'_, T>>, Error> {
        let of = PhantomData;
        let hold = self.regions.lock_for_reading(timeout)?;
        Ok(hold.map(|hold| RwLockReadGuard { hold, of }))
    }

    fn lock_for_writing(&self, timeout: Timeout) -> Result<Option<RwLockWriteGuard<'_, T>>, Error> {
        let of = PhantomData;
        let hold = self.regions.lock_for_writing(timeout)?;
        Ok(hold.map(|hold| RwLockWriteGuard { hold, of }))
    }
}

macro_rules! ways_of_waiting {
    ([$($generics:tt)*] $lock:ty, $read:ty, $write:ty) => {
        impl<$($generics)*> $lock {
            /// Waits for a shared hold, while other threads of any node may read.
            ///
            /// Cost: a mutex of this process and a look at its clock, if the node has the lock and no other one asks
            /// for it. Else a round trip to the service, and the wait for the nodes that have the lock. What others
            /// have changed of the data comes with the lock.
            ///
            /// Errors: [`Error::Deadlock`], [`Error::Fenced`], [`Error::Disconnected`], [`Error::Closed`],
            /// [`Error::Forked`]. While the lease has run out, the thread waits for an answer of the service.
            pub fn read(&self) -> Result<$read, Error> {
                loop {
                    if let Some(guard) = self.lock_for_reading(Timeout::Forever)? {
                        return Ok(guard);
                    }
                }
            }

            /// Waits for an exclusive hold. Cost and errors as for a shared one.
            pub fn write(&self) -> Result<$write, Error> {
                loop {
                    if let Some(guard) = self.lock_for_writing(Timeout::Forever)? {
                        return Ok(guard);
                    }
                }
            }

            /// Takes a shared hold if the service, asked once, grants it at once. `None` may also mean that another
            /// node keeps the lock, which it has been asked for now, or that the service does not answer.
            ///
            /// Cost: at most a round trip to the service; if it does not answer, what is left of the lease.
            ///
            /// Errors: as for waiting.
            pub fn try_read(&self) -> Result<Option<$read>, Error> {
                self.lock_for_reading(Timeout::None)
            }

            /// Takes an exclusive hold if the service, asked once, grants it at once; otherwise as with a shared one.
            ///
            /// Errors: as for waiting.
            pub fn try_write(&self) -> Result<Option<$write>, Error> {
                self.lock_for_writing(Timeout::None)
            }

            /// Waits for a shared hold, for this long at most. The node gets what it has asked for all the same, for
            /// the next thread that asks, and keeps it until another node does.
            ///
            /// Errors: as for waiting.
            pub fn read_for(&self, time: Duration) -> Result<Option<$read>, Error> {
                self.lock_for_reading(Timeout::during(time))
            }

            /// Waits for an exclusive hold, for this long at most, as for a shared one.
            ///
            /// Errors: as for waiting.
            pub fn write_for(&self, time: Duration) -> Result<Option<$write>, Error> {
                self.lock_for_writing(Timeout::during(time))
            }

            /// Waits for a shared hold until a timeout ends. There is a clock, so [`Timeout::Polls`] is as
            /// [`Timeout::None`].
            ///
            /// Errors: as for waiting.
            pub fn read_with(&self, timeout: Timeout) -> Result<Option<$read>, Error> {
                self.lock_for_reading(timeout)
            }

            /// Waits for an exclusive hold until a timeout ends, as for a shared one.
            ///
            /// Errors: as for waiting.
            pub fn write_with(&self, timeout: Timeout) -> Result<Option<$write>, Error> {
                self.lock_for_writing(timeout)
            }
        }
    };
}

ways_of_waiting!([T: bytemuck::Pod] RwLock<T>, RwLockReadGuard<'_, T>, RwLockWriteGuard<'_, T>);
ways_of_waiting!([] RegionsLock, RegionsReadGuard<'_>, RegionsWriteGuard<'_>);

/// A shared hold of a value. Dropping it unlocks.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RwLockReadGuard<'l, T: bytemuck::Pod> {
    hold: RegionsReadGuard<'l>,
    of: PhantomData<T>,
}

/// An exclusive hold of a value. Dropping it unlocks.
#[must_use = "a lock is unlocked when its guard is dropped"]
pub struct RwLockWriteGuard<'l, T: bytemuck::Pod> {
    hold: RegionsWriteGuard<'l>,
    of: PhantomData<T>,
}

impl<T: bytemuck::Pod> RwLockReadGuard<'_, T> {
    /// Whether the last thread that wrote has unlocked. If its node died, or it panicked, all are told until another
    /// one has written and unlocked.
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }

    /// Whether nobody else can have the lock to write. `Ok` says that the service had not declared this node dead when
    /// this was called, and so that the hold was good from its beginning until then. What comes after may differ: to
    /// act on something else than the lock's own data, use a fencing token.
    ///
    /// Cost: a mutex of this process and a look at its clock.
    ///
    /// Errors: [`Error::Unconfirmed`], [`Error::Fenced`], [`Error::Disconnected`], [`Error::Closed`],
    /// [`Error::Forked`].
    pub fn verify(&self) -> Result<(), Error> {
        self.hold.verify()
    }
}

impl<T: bytemuck::Pod> RwLockWriteGuard<'_, T> {
    /// Whether the last thread that wrote has unlocked, or which node died instead, or panicked. A node that dies while
    /// it keeps the lock counts as one that died writing, even if none of its threads was: what they had written since
    /// the node got the lock is lost with it. So the value is as it was when the node got the lock; after a panic it
    /// may be half changed.
    pub fn acquired(&self) -> Acquired {
        self.hold.acquired()
    }

    /// Whether nobody else can have the lock. See [`RwLockReadGuard::verify`].
    ///
    /// Errors: as there.
    pub fn verify(&self) -> Result<(), Error> {
        self.hold.verify()
    }

    /// Leaves a note: one word about what this thread is doing. If its node dies before it has unlocked, the next owner
    /// gets the note. `Ok` says that the service has it.
    ///
    /// Cost: a round trip to the service; another message, for which nobody waits, in the unlock.
    ///
    /// Errors: as with [`RwLockReadGuard::verify`]; then the service may have the note, or not.
    pub fn set_note(&self, note: u64) -> Result<(), Error> {
        self.hold.set_note(note)
    }

    /// A fencing token: greater than the tokens of all nodes that had this lock to write before. Holds of this node
    /// between which no other one had it have the same. Whatever a holder changes beside the lock's own data should
    /// refuse tokens below the greatest that it has seen.
    pub fn fencing_token(&self) -> u64 {
        self.hold.fencing_token()
    }

    /// Unlocks. `Ok` says that the service had not declared this node dead, so nobody else had the lock during the
    /// hold. What was written stays with the node, until another one asks for it: it is lost, and the next owner is
    /// told, if the node dies first. An error says that it may be lost already.
    ///
    /// Errors: as with [`RwLockReadGuard::verify`]. The lock is unlocked all the same.
    pub fn unlock(self) -> Result<(), Error> {
        self.hold.unlock()
    }

    /// Unlocks, and hands the lock back to the service with all that this node has written under it. `Ok` says that the
    /// service has it: the node's death does not undo it. An error says that nobody knows whether the service has it.
    ///
    /// Cost: a round trip to the service, and another one when the node gets the lock again.
    ///
    /// Errors: as with [`RwLockReadGuard::verify`]. The lock is unlocked all the same.
    pub fn commit(self) -> Result<(), Error> {
        self.hold.commit()
    }
}

impl<T: bytemuck::Pod> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        bytemuck::from_bytes(self.hold.region(0))
    }
}

impl<T: bytemuck::Pod> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        bytemuck::from_bytes(self.hold.region(0))
    }
}

impl<T: bytemuck::Pod> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        bytemuck::from_bytes_mut(self.hold.region_mut(0))
    }
}
