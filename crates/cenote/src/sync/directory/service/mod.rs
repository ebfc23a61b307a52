//! Lock services: the transport of directory locks by messages at work. What users see of it is
//! [`remote`](crate::remote).
//!
//! | file | concept |
//! |---|---|
//! | `address` | where a service listens |
//! | `clock`, `pace` | time; when something is sent again |
//! | `outbox` | messages that wait to be sent |
//! | `link` | a node's connection, whatever it is made of |
//! | `channel` | connections within a process |
//! | `stream`, `greeting` | sockets and their frames; what is said before there is a session |
//! | `connect`, `listener` | the two sides of a socket |
//! | `hub` | a directory at work, in a thread |
//! | `inspect` | what a service says of itself |
//! | `lock_service` | the service |
//! | `client` | a process as a node |
//! | `regions`, `rwlock` | the handles for users, and their guards |
//! | `error` | why a thread does not get, or keep, a lock |

pub mod address;
pub mod channel;
pub mod client;
pub mod clock;
pub mod connect;
pub mod error;
pub mod greeting;
pub mod hub;
pub mod inspect;
pub mod link;
pub mod listener;
pub mod lock_service;
pub mod outbox;
pub mod pace;
pub mod regions;
pub mod rwlock;
pub mod stream;

pub use crate::sync::directory::messages::client::LeaseState;
pub use crate::sync::directory::messages::frame::FrameError;
pub use address::{Address, AddressError};
pub use client::LockClient;
pub use error::Error;
pub use inspect::{Died, LockStatus, NodeStatus, Status, WaitingNode};
pub use link::ConnectError;
pub use lock_service::{LockService, ServiceOptions, status};
pub use regions::{RegionsLock, RegionsLockBuilder, RegionsReadGuard, RegionsWriteGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
