//! The queues' memory: adjacent lines of an arena.
//!
//! | lines | words | writer |
//! |---|---|---|
//! | 1 | protected: servers, clients | the creator of the queues, once |
//! | 1 | sync: how many clients there have been | clients, by fetch-add |
//! | 1 a server | sync: its identity as in `pod::lock`, 0 if there is none | servers, by compare-exchange |
//! | 1 a server | sync: tickets that were claimed | clients, by fetch-add |
//! | so many slots a server | sync: `(ticket + 1) << 16` and the client's place, a slot a line | the client that claimed the ticket |
//! | 1 a client | owned: the request | the client |
//! | 1 a server and client | owned: the answer | the server |
//!
//! A slot has a line of its own, as a store on incoherent memory writes the whole line.

use std::rc::Rc;

use crate::causes::Setting;
use crate::error::{Error, Result};
use crate::index::baseline::arena::Arena;
use crate::index::baseline::once::built_once;
use crate::memory::checked::{published, sync_word, unpublished};
use crate::memory::{LINE, Memory, SyncWord};

use crate::pod::Worker;

const MAGIC: u64 = u64::from_le_bytes(*b"MESSAGE\x01");
const HEADER_LINES: u64 = 2;
/// Most servers, and most clients.
const PLACES_MAX: u32 = 1 << 10;

/// The numbers of servers and clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Servers, each with a part of the keys. All must be there.
    pub servers: u32,
    /// Handles of clients that may be opened as long as the queues exist.
    pub clients: u32,
}

impl Default for Shape {
    /// One server and 64 clients.
    fn default() -> Self {
        Self {
            servers: 1,
            clients: 64,
        }
    }
}

impl Shape {
    /// Slots of a queue. Every client waits for its answer, so half of them are free unless clients died.
    pub(super) fn slots(self) -> u64 {
        (2 * u64::from(self.clients)).next_power_of_two()
    }

    fn lines_of_server(self) -> u64 {
        2 + self.slots()
    }

    fn lines(self) -> u64 {
        let (servers, clients) = (u64::from(self.servers), u64::from(self.clients));
        HEADER_LINES + servers * self.lines_of_server() + clients + servers * clients
    }

    fn is_possible(self) -> bool {
        let places = 1..=PLACES_MAX;
        places.contains(&self.servers) && places.contains(&self.clients)
    }
}

/// The part that a key belongs to, of so many.
pub fn part_of(key: u64, servers: u32) -> u32 {
    // Fibonacci hashing: the product's high bits depend on all bits of the key.
    let mixed = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(mixed) * u128::from(servers)) >> 64) as u32
}

/// The name of the map that holds a part of the keys.
pub fn part_name(name: &str, part: u32) -> String {
    format!("{name}.{part}")
}

/// A worker's view of the queues of a name.
pub(super) struct Queues<M: Memory> {
    arena: Arena<M>,
    base: u64,
    shape: Shape,
}

impl<M: Memory> Queues<M> {
    /// Opens the queues of a name, which may have another shape, or creates them.
    pub fn open_or_create(worker: Rc<Worker<M>>, name: &str, shape: Shape) -> Result<Self> {
        if !shape.is_possible() {
            return Err(Error::InvalidOption {
                option: Setting::Shape,
                value: format!("{} and {}", shape.servers, shape.clients),
                why: "there are 1 to 1024 of each",
            });
        }
        let len = shape.lines() * LINE;
        let arena = Arena::open_or_create(worker, name, MAGIC, len)?;
        let base = built_once(&arena, len, |at| {
            let mem = arena.worker().mem();
            unpublished(at, len).zero(mem);
            unpublished(at, 8).write_word(mem, shape.servers.into());
            unpublished(at + 8, 8).write_word(mem, shape.clients.into());
            mem.persist(at, len);
            if !M::COHERENT {
                // Others access these words past the cache, or own them: no line of this host may cover them.
                mem.invalidate(at, len);
                mem.fence();
            }
            Ok(())
        })?;
        if !arena.has(base, LINE) {
            return Err(Error::corrupt("the queues' offset", base));
        }
        let mem = arena.worker().mem();
        let word = |at| u32::try_from(published(at, 8).read_word(mem)).unwrap_or(u32::MAX);
        let shape = Shape {
            servers: word(base),
            clients: word(base + 8),
        };
        if !shape.is_possible() || !arena.has(base, shape.lines() * LINE) {
            return Err(Error::corrupt("the numbers of servers and clients", base));
        }
        Ok(Self { arena, base, shape })
    }

    /// The worker.
    pub fn worker(&self) -> &Rc<Worker<M>> {
        self.arena.worker()
    }

    /// The numbers of servers and clients.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many clients there have been.
    pub fn clients(&self) -> SyncWord {
        sync_word(self.base + LINE)
    }

    fn server(&self, server: u32) -> u64 {
        self.base + (HEADER_LINES + u64::from(server) * self.shape.lines_of_server()) * LINE
    }

    /// A server's identity.
    pub fn identity(&self, server: u32) -> SyncWord {
        sync_word(self.server(server))
    }

    /// How many tickets of a server were claimed.
    pub fn tail(&self, server: u32) -> SyncWord {
        sync_word(self.server(server) + LINE)
    }

    /// The slot of a ticket.
    pub fn slot(&self, server: u32, ticket: u64) -> SyncWord {
        sync_word(self.server(server) + (2 + ticket % self.shape.slots()) * LINE)
    }

    /// A client's request line.
    pub fn request(&self, client: u32) -> u64 {
        self.server(self.shape.servers) + u64::from(client) * LINE
    }

    /// The line of a server's answers to a client.
    pub fn answer(&self, server: u32, client: u32) -> u64 {
        let clients = u64::from(self.shape.clients);
        self.request(self.shape.clients) + (u64::from(server) * clients + u64::from(client)) * LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_dealt_out_evenly() {
        for stride in [1, 8, 1 << 20, 1 << 32, 0x0100_0000_0000] {
            let mut parts = [0u32; 96];
            for n in 0..9600u64 {
                parts[part_of(n.wrapping_mul(stride), 96) as usize] += 1;
            }
            assert!(
                parts.iter().all(|&count| (10..1000).contains(&count)),
                "keys {stride} apart: {parts:?}"
            );
        }
        assert_eq!(part_of(u64::MAX, 1), 0);
    }

    #[test]
    fn a_queue_has_room_for_all_clients_twice() {
        let slots = |clients| Shape { servers: 3, clients }.slots();
        assert_eq!([slots(1), slots(48), slots(64), slots(256)], [2, 128, 128, 512]);
    }
}
