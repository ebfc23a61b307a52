//! Maps by messages: clients put requests into queues in the pool, and each server carries out the requests for its own
//! part of the keys, on an ordinary map of this library (pcc-indexes, section 7.1: "MQ").
//!
//! | file | concept |
//! |---|---|
//! | `queues` | where all words are, and how they are shared |
//! | `request` | requests and answers, as words |
//! | `client` | the client: a [`WordMap`](super::WordMap) |
//! | `server` | the server |
//!
//! The protocol is described in `docs/protocols/messages.md`. In short: a client writes its request into a line of its
//! own, claims a ticket of the server's queue by a fetch-add, and stores a reference to its line in the ticket's slot.
//! The server reads the slot, the line, and writes the answer into a line that belongs to this server and this client.
//! Request and answer bear the client's count of requests; so a request that comes twice is answered once.
//!
//! **Crash.** A client that dies with a ticket leaves a slot that is never filled; the server skips it when it has
//! polled it in vain for long. A client that was only slow gets no answer then, and puts the reference into another
//! slot. So no answer depends on a judgement about who is dead. If a server dies, its part of the keys is unavailable
//! until another server opens; that answers what the dead one may have begun with "not known"
//! ([`Error::Unanswered`](crate::Error::Unanswered)).
//!
//! **Left out.** Clients' places are not reused: only as many handles can be opened in a pool's life as the queues were
//! made for. There are no scans: a hash distributes the keys, whichever map the servers use.

mod client;
mod queues;
mod request;
mod server;

pub use client::Client;
pub use queues::{Shape, part_name, part_of};
pub use server::Server;
