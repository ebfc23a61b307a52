//! A node and its clients, over the provider for plain networks, on one thread.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cenote_replica::verbs::{Address, Completion, Request, Verb};
use cenote_replica::view::{Key, NodeId};
use tokio::net::TcpListener;

use super::{PLAIN, Transport};
use crate::master::term::Term;
use crate::memory_file::MemoryFile;
use crate::network::Network;
use crate::node::{self, Node};
use crate::wire::{Answer, Item};

const NODE: NodeId = NodeId(1);
/// Bytes of region 2.
const BYTES: u32 = 1 << 20;
/// A lease that does not end, in microseconds.
const LONG: u64 = 60_000_000;

struct Bench {
    address: SocketAddr,
    network: Network,
}

/// Runs a test with a node that has region 2 under key 5.
fn with_node(test: impl AsyncFnOnce(&Bench)) {
    let (runtime, local) = crate::event_loop().unwrap();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut options = node::Options::new(16 << 20, "a token");
        options.transport = Transport::Ofi;
        let node = Rc::new(Node::at(options, address).unwrap());
        tokio::task::spawn_local(node::serve(node, listener));
        let bench = Bench {
            address,
            network: network(address, Transport::Ofi),
        };
        let hold = Item::Hold {
            region: 2,
            bytes: BYTES,
            key: Key(5),
        };
        assert_eq!(bench.ask(hold).await, Answer::Done);
        test(&bench).await;
    });
}

fn network(address: SocketAddr, transport: Transport) -> Network {
    let network = Network::new("a token".to_owned(), transport, Duration::from_secs(5))
        .led(Rc::new(Term::of_process(1)));
    network.set_address(NODE, address);
    network
}

fn request(key: u64, offset: u32, verb: Verb) -> Request {
    Request {
        node: NODE,
        key: Key(key),
        at: Address::new(2, offset),
        verb,
    }
}

impl Bench {
    async fn ask(&self, item: Item) -> Answer {
        self.network.ask(NODE, &[item]).await.unwrap().pop().unwrap()
    }

    async fn lease(&self, number: u64, micros: u64) {
        for number in [number, number + 1] {
            let ping = Item::Ping {
                number,
                answered: number - 1,
                lease: micros,
            };
            assert_eq!(self.ask(ping).await, Answer::Done);
        }
    }

    async fn set_key(&self, key: u64) {
        assert_eq!(
            self.ask(Item::SetKey {
                region: 2,
                key: Key(key)
            })
            .await,
            Answer::Done
        );
    }

    async fn verb(&self, key: u64, offset: u32, verb: Verb) -> Completion {
        self.network
            .post(&[request(key, offset, verb)])
            .await
            .pop()
            .unwrap()
    }
}

#[test]
fn verbs_do_what_they_do_over_tcp() {
    with_node(async |bench| {
        bench.lease(1, LONG).await;
        let swap = |expected, new| bench.verb(5, 64, Verb::CompareSwap { expected, new });
        assert_eq!(swap(0, 7).await, Completion::Was(0));
        assert_eq!(swap(0, 8).await, Completion::Was(7));
        assert_eq!(
            bench.verb(5, 64, Verb::FetchAdd(u64::MAX)).await,
            Completion::Was(7)
        );
        let read = bench.verb(5, 64, Verb::Read(8)).await;
        assert_eq!(read, Completion::Read(6_u64.to_le_bytes().to_vec()));
        // Of all lengths and places, also longer than one atomic.
        for (offset, len) in [
            (0, 1),
            (3, 5),
            (8, 8),
            (1, 16),
            (4096, 16_288),
            (4099, 50_001),
            (0, 1 << 20),
        ] {
            let bytes: Vec<u8> = (0..len).map(|n: usize| (n * 7 + offset as usize) as u8).collect();
            let written = bench.verb(5, offset, Verb::Write(bytes.as_slice().into())).await;
            assert_eq!(written, Completion::Written, "{len} at {offset}");
            let read = bench.verb(5, offset, Verb::Read(len as u32)).await;
            assert!(read == Completion::Read(bytes), "{len} at {offset}");
        }
        let empty = bench.network.post(&[]).await;
        assert_eq!(empty, []);
    });
}

#[test]
fn what_comes_with_an_old_key_is_refused() {
    with_node(async |bench| {
        bench.lease(1, LONG).await;
        let old = || bench.verb(5, 0, Verb::Write([1; 8].as_slice().into()));
        assert_eq!(old().await, Completion::Written);
        bench.set_key(6).await;
        // By now the client knows the way that the old key opened, and takes it; then it asks, and is not told.
        for _ in 0..2 {
            assert_eq!(old().await, Completion::Refused);
            let swap = Verb::CompareSwap {
                expected: u64::from_le_bytes([1; 8]),
                new: 9,
            };
            assert_eq!(bench.verb(5, 0, swap).await, Completion::Refused);
            assert_eq!(bench.verb(5, 0, Verb::FetchAdd(1)).await, Completion::Refused);
            assert_eq!(bench.verb(5, 0, Verb::Read(8)).await, Completion::Refused);
        }
        assert_eq!(
            bench.verb(6, 0, Verb::Read(8)).await,
            Completion::Read(vec![1; 8])
        );
        // A key that comes late opens nothing.
        let late = Item::SetKey {
            region: 2,
            key: Key(5),
        };
        assert_eq!(bench.ask(late).await, Answer::Failed);
        assert_eq!(
            bench.verb(6, 0, Verb::Read(8)).await,
            Completion::Read(vec![1; 8])
        );
        // Nor is a region that is gone.
        assert_eq!(bench.ask(Item::Drop { region: 2 }).await, Answer::Done);
        assert_eq!(bench.verb(6, 0, Verb::Read(8)).await, Completion::Refused);
    });
}

#[test]
fn what_is_out_of_bounds_is_refused_and_the_rest_of_its_batch_is_not() {
    with_node(async |bench| {
        bench.lease(1, LONG).await;
        let batch = [
            request(5, BYTES - 8, Verb::Write([3; 8].as_slice().into())),
            request(5, BYTES - 4, Verb::Read(8)),
            request(5, BYTES, Verb::Write([3; 8].as_slice().into())),
            request(5, BYTES, Verb::CompareSwap { expected: 0, new: 1 }),
            request(5, u32::MAX - 7, Verb::FetchAdd(1)),
            request(5, 12, Verb::FetchAdd(1)),
            request(5, 0, Verb::Read(8)),
        ];
        let refused = Completion::Refused;
        let expected = [
            Completion::Written,
            refused.clone(),
            refused.clone(),
            refused.clone(),
            refused.clone(),
            refused,
            Completion::Read(vec![0; 8]),
        ];
        for _ in 0..3 {
            assert_eq!(bench.network.post(&batch).await, expected);
        }
    });
}

#[test]
fn a_lease_opens_memory_and_its_end_closes_it() {
    with_node(async |bench| {
        let read = || bench.verb(5, 0, Verb::Read(8));
        assert_eq!(read().await, Completion::Refused);
        bench.lease(1, 300_000).await;
        let begun = Instant::now();
        while read().await == Completion::Read(vec![0; 8]) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
        }
        assert_eq!(read().await, Completion::Refused);
        bench.lease(10, LONG).await;
        assert_eq!(read().await, Completion::Read(vec![0; 8]));
    });
}

#[test]
fn there_is_one_way_to_a_nodes_memory() {
    with_node(async |bench| {
        bench.lease(1, LONG).await;
        let other = network(bench.address, Transport::Tcp);
        assert_eq!(
            other.post(&[request(5, 0, Verb::Read(8))]).await,
            [Completion::Refused]
        );
        assert_eq!(
            bench.verb(5, 0, Verb::Read(8)).await,
            Completion::Read(vec![0; 8])
        );
    });
}

#[test]
fn a_provider_that_is_not_there_is_told_of() {
    let options = node::Options {
        transport: Transport::Ofi,
        provider: "no such provider".to_owned(),
        ..node::Options::new(1 << 20, "")
    };
    let error = Node::at(options, SocketAddr::from(([127, 0, 0, 1], 1)))
        .err()
        .unwrap();
    assert!(error.to_string().contains("no such provider"), "{error}");
    assert_ne!(PLAIN, "no such provider");
}

#[test]
fn memory_in_a_file_cannot_be_reached() {
    let folder = tempfile::tempdir().unwrap();
    let file = MemoryFile::open(&folder.path().join("memory"), 1 << 20, 1).unwrap();
    let options = node::Options {
        transport: Transport::Ofi,
        pool: Some(Arc::new(file)),
        ..node::Options::new(1 << 20, "")
    };
    let error = Node::at(options, SocketAddr::from(([127, 0, 0, 1], 1)))
        .err()
        .unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
}
