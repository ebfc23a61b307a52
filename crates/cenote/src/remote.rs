//! Lock services: directory locks for processes that share no memory, on one machine or several.
//!
//! A [`LockService`] answers for locks and keeps their data. A [`LockClient`] makes its process a *node* of the
//! service: it gets locks by name, together with what they cover, and keeps them, for its threads, until another node
//! asks. So a lock that one node uses again and again costs no message. `docs/protocols/directory-messages.md` is the
//! protocol, and says when to use this and when [`Pool::rwlock`](crate::Pool::rwlock).
//!
//! # What a holder may believe
//!
//! A node may die, hang, or lose its network. If the service hears nothing of it for a *lease*, it declares the node
//! dead, gives its locks to others, and hears nothing of that session any more. The node is told, if it can be reached.
//! It also counts itself: by its own clock, from when it *sent* the last heartbeat that was answered, for seven eighths
//! of the lease.
//!
//! - **`Ok` of `verify`, `unlock`, `commit` and `set_note`** says: when it was called, the service had not declared
//!   this node dead. Sessions do not begin again, so the hold was good from its beginning until then: nobody else
//!   wrote, and for a writer nobody else read.
//! - **What a fenced holder has written does not become visible.** It wrote to a copy of its process. The copy goes to
//!   the service with the lock, and the service refuses it from a node that it has declared dead. The next owner finds
//!   the data as the node had got it, and is told of the death ([`Acquired::Recovered`](crate::Acquired::Recovered)).
//! - **What a fenced holder reads may be old.** A guard is a snapshot from when the node got the lock. It is current
//!   for as long as `verify` says `Ok`; no guard stops a thread in the middle of something.
//! - **What was unlocked is not yet safe.** It stays with the node until another node asks, or
//!   [`commit`](RwLockWriteGuard::commit) or [`LockClient::close`] has said `Ok`; a node that dies earlier takes it
//!   along, with all that its threads wrote under the lock since the node got it.
//! - **What is changed elsewhere** (a file, a machine, a queue) is not fenced with the node. Send
//!   [`fencing_token`](RwLockWriteGuard::fencing_token) along, and have the other side refuse tokens smaller than the
//!   greatest that it has seen.
//! - While the lease has run out and no answer has come, no thread gets a lock, and those that ask wait. An answer that
//!   comes late makes all as it was, as the session has not ended then.
//! - The clocks of node and service may run at rates that differ by up to an eighth; what they show does not matter.
//!   Time in which the node's machine was suspended counts. Time for which a hypervisor stops a virtual machine counts
//!   if the guest's boot clock counts it.
//!
//! **The service itself** is one process. If it is stopped, nobody gets locks from it meanwhile; when it goes on it
//! waits a lease anew before it declares anybody dead. If it ends, all clients are [disconnected](Error::Disconnected),
//! and locks and data are gone.

pub use crate::sync::directory::service::{
    Address, AddressError, ConnectError, Died, Error, FrameError, LeaseState, LockClient, LockService,
    LockStatus, NodeStatus, RegionsLock, RegionsLockBuilder, RegionsReadGuard, RegionsWriteGuard, RwLock,
    RwLockReadGuard, RwLockWriteGuard, ServiceOptions, Status, WaitingNode, status,
};
