//! Maps by messages: clients put requests into queues in the pool, and each server carries out those for its own part of the
//! keys, on an ordinary map of this library (pcc-indexes, section 7.1: "MQ").
//!
//! | file | concept |
//! |---|---|
//! | `queues` | where all words are, and how they are shared |
//! | `request` | what is asked and answered, as words |
//! | `client` | asking: a [`WordMap`](super::WordMap) |
//! | `server` | answering |
//!
//! The protocol is told in `docs/protocols/messages.md`. In short: a client writes its request into a line of its own, claims
//! a ticket of the server's queue by a fetch-add, and stores a reference to its line in the ticket's slot. The server reads
//! the slot, the line, and writes the answer into a line that belongs to this server and this client. Request and answer
//! bear the client's count of requests; so a request that comes twice is answered once.
//!
//! **Crash.** A client that dies with a ticket leaves a slot that is never filled; the server passes over it when it has
//! looked in vain for long. A client that was only slow has no answer then, and puts the reference into another slot. So no
//! answer hangs on who is taken for dead. A server that dies takes its part of the keys along until another one opens; it
//! answers what the dead one may have begun with "not known" ([`Error::Unanswered`](crate::Error::Unanswered)).
//!
//! **Left out.** Clients' places are not used again: so many handles can be opened in a pool's life as the queues were made
//! for. There are no scans: keys are dealt out by a hash, whichever map the servers use.

mod client;
mod queues;
mod request;
mod server;

pub use client::Client;
pub use queues::{Shape, part_name, part_of};
pub use server::Server;
