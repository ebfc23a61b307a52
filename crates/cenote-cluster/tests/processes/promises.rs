//! What a cluster promises, beside processes that are killed, stopped and replaced.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cenote::memory::LocalWord;
use cenote_cluster::control::{Request, Response, Status};
use cenote_cluster::wire::{Answer, Hello, Item, Purpose, decode_answers, encode_items, first_frame};
use cenote_cluster::{Error, Map, Options, Refusal, Store, StoreOptions, TokenError, Transport};
use cenote_replica::client::Error as MapError;

use super::cluster::{Cluster, LONG, TOKEN, transport};

/// What a node says of itself.
pub fn info(node: SocketAddr) -> [u64; 5] {
    let mut stream = TcpStream::connect(node).unwrap();
    let hello = Hello {
        purpose: Purpose::Cluster,
        token: TOKEN.to_owned(),
    };
    let mut out = hello.encode();
    encode_items(&mut out, 1, &[Item::Info]);
    stream.write_all(&out).unwrap();
    let mut arrived = Vec::new();
    loop {
        if let Some((frame, _)) = first_frame(&arrived).unwrap() {
            match decode_answers(frame).unwrap().1[..] {
                [Answer::Info(info)] => return info,
                ref other => panic!("{other:?}"),
            }
        }
        let mut some = [0; 100];
        let len = stream.read(&mut some).unwrap();
        arrived.extend_from_slice(&some[..len]);
    }
}

/// How many verbs a node has executed.
fn verbs(node: SocketAddr) -> u64 {
    info(node)[3]
}

fn key(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

#[test]
fn what_is_put_is_found_by_others() {
    for (nodes, replicas) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
        let cluster = Cluster::new(nodes, replicas);
        let (mut one, mut other) = (cluster.map(), cluster.map());
        for n in 0..600 {
            one.put(&key(n), &n.to_le_bytes().repeat(1 + n as usize % 50))
                .unwrap();
        }
        for n in 0..600 {
            let found = other.get(&key(n)).unwrap().unwrap();
            assert_eq!(found, n.to_le_bytes().repeat(1 + n as usize % 50));
        }
        assert!(!other.insert(&key(5), b"x").unwrap());
        assert!(other.remove(&key(5)).unwrap() && !one.remove(&key(5)).unwrap());
        assert!(!one.replace_existing(&key(5), b"x").unwrap() && one.insert(&key(5), b"y").unwrap());
        assert!(other.replace_existing(&key(5), b"z").unwrap());
        assert_eq!(one.get(&key(5)).unwrap().unwrap(), b"z");
        assert_eq!(one.get(b"").unwrap(), None);
        one.put(b"", b"").unwrap();
        assert_eq!(other.get(b"").unwrap().unwrap(), b"");
        // 8,158 addresses of parts of 65,280 bytes are as many as a block of 64 KiB has room for.
        let longer = vec![0; (8_158 * 65_280) + 1];
        let refused = one.put(b"long", &longer);
        let is_refused = matches!(
            refused,
            Err(Error::Map(MapError::TooLong { longest, .. })) if longest == longer.len() as u64 - 1
        );
        assert!(is_refused, "{refused:?}");
        one.close();
        other.close();
        let status = cluster.wait(|status| status.sessions.is_empty());
        assert!(Cluster::is_whole(&status));
    }
}

#[test]
fn a_node_that_is_killed_loses_nothing_and_is_replaced() {
    let mut cluster = Cluster::new(3, 2);
    let mut map = cluster.map();
    for n in 0..300 {
        map.put(&key(n), &key(n)).unwrap();
    }
    for victim in [0, 1] {
        cluster.nodes[victim].0.signal(libc::SIGKILL);
        for n in 0..300 {
            assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n), "key {n}");
        }
        map.put(&key(1000), b"while it is away").unwrap();
        cluster.nodes.push(cluster.node());
        let address = cluster.nodes.last().unwrap().1;
        assert_eq!(cluster.ask(&Request::AddNode { address }), Response::Done);
        cluster.wait(|status| Cluster::is_whole(status) && status.nodes.len() == 3);
    }
    for n in 0..300 {
        assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n));
    }
}

#[test]
fn values_longer_than_a_block_outlive_nodes() {
    let cluster = Cluster::new(3, 2);
    // No two extents of a value are alike.
    let value = |n: u64, len: usize| -> Vec<u8> {
        let bytes: Vec<u8> = (0..251).map(|at| (at + n) as u8).collect();
        let mut value = bytes.repeat(len.div_ceil(251));
        value.truncate(len);
        value
    };
    let mut one = cluster.map();
    let long = value(0, 1 << 20);
    one.put(b"stays", &long).unwrap();
    for n in 1..=8 {
        let len = (1 << 20) + 1_000 * n as usize;
        one.put(b"changes", &value(n, len)).unwrap();
        if n % 4 == 0 {
            let other = cluster.map();
            assert_eq!(other.get(b"changes").unwrap().unwrap(), value(n, len));
            other.close();
            // Another goes on with the blocks of this one.
            one.close();
            one = cluster.map();
        }
    }
    cluster.wait(Cluster::is_whole);
    cluster.nodes[0].0.signal(libc::SIGKILL);
    assert_eq!(one.get(b"stays").unwrap().unwrap(), long);
    assert_eq!(one.get(b"changes").unwrap().unwrap(), value(8, (1 << 20) + 8_000));
    assert!(one.remove(b"changes").unwrap());
    assert_eq!(one.get(b"changes").unwrap(), None);
}

#[test]
fn clients_execute_the_verbs_of_memory_that_they_map() {
    if transport() != Transport::Tcp {
        return;
    }
    let mut cluster = Cluster::mapped(3, 2);
    let mut mapped = cluster.map();
    let far = Options {
        mapped: None,
        ..cluster.options()
    };
    let mut far = Map::open(&far).unwrap();
    let executed = |cluster: &Cluster| cluster.nodes.iter().map(|(_, at)| verbs(*at)).sum::<u64>();
    mapped.put(&key(0), b"first").unwrap();
    // The master's own are few, and not counted from here on.
    cluster.wait(Cluster::is_whole);
    let before = executed(&cluster);
    for n in 0..500 {
        mapped
            .put(&key(n), &n.to_le_bytes().repeat(1 + n as usize % 50))
            .unwrap();
        assert!(mapped.get(&key(n)).unwrap().is_some());
    }
    mapped.put(b"long", &[7; 1 << 20]).unwrap();
    let after = executed(&cluster);
    assert!(
        after - before < 100,
        "the nodes have executed {} verbs",
        after - before
    );
    // A client elsewhere sees the same, and the other way round.
    for n in 0..500 {
        let found = far.get(&key(n)).unwrap().unwrap();
        assert_eq!(found, n.to_le_bytes().repeat(1 + n as usize % 50));
    }
    assert!(executed(&cluster) - after >= 500);
    far.put(&key(1), b"from afar").unwrap();
    assert_eq!(mapped.get(&key(1)).unwrap().unwrap(), b"from afar");
    cluster.nodes[0].0.signal(libc::SIGKILL);
    assert_eq!(mapped.get(b"long").unwrap().unwrap(), [7; 1 << 20]);
    cluster.replace_node(0);
    cluster.wait(|status| Cluster::is_whole(status) && status.nodes.len() == 3);
    mapped.put(&key(2), b"again").unwrap();
    assert_eq!(far.get(&key(2)).unwrap().unwrap(), b"again");
}

#[test]
fn blocks_of_clients_that_have_gone_are_used_again() {
    let cluster = Cluster::new(2, 2);
    let value = |n: u64, key: u64| [n, key].map(u64::to_le_bytes).concat().repeat(6);
    let mut blocks = 0;
    for n in 0..40 {
        let mut map = cluster.map();
        for k in 0..20 {
            if n > 0 && k % 5 != 0 {
                let found = map.get(&key(k)).unwrap().unwrap();
                assert_eq!(found, value(n - 1, k), "client {n}, key {k}");
            }
            map.put(&key(k), &value(n, k)).unwrap();
        }
        for k in (0..20).step_by(5) {
            assert!(map.remove(&key(k)).unwrap());
        }
        map.close();
        let status = cluster.wait(|status| status.sessions.is_empty());
        if n == 5 {
            blocks = status.blocks;
        }
    }
    // What the last clients have removed may wait for those that still read it.
    let now = cluster.status().blocks;
    assert!(now <= blocks + 8, "{now} after 40 clients, {blocks} after 5");
}

#[test]
fn a_node_is_drained() {
    let cluster = Cluster::new(3, 2);
    let mut map = cluster.map();
    for n in 0..300 {
        map.put(&key(n), &key(n)).unwrap();
    }
    assert_eq!(cluster.ask(&Request::Drain { node: 1 }), Response::Done);
    cluster.wait(|status| status.nodes.len() == 2 && Cluster::is_whole(status));
    cluster.nodes[0].0.signal(libc::SIGKILL);
    for n in 0..300 {
        assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n));
    }
    assert_eq!(
        cluster.ask(&Request::Drain { node: 1 }),
        Response::Refused(Refusal::NoSuchNode { node: 1 })
    );
}

#[test]
fn a_master_that_is_killed_is_followed_by_another() {
    let mut cluster = Cluster::new(3, 2);
    let mut map = cluster.map();
    for n in 0..100 {
        map.put(&key(n), &key(n)).unwrap();
    }
    cluster.restart_master();
    for n in 0..100 {
        assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n));
        map.put(&key(n), b"later").unwrap();
    }
    assert_eq!(map.session(), 1);
    assert!(!map.has_ended());
}

#[test]
fn strangers_get_nothing() {
    let cluster = Cluster::new(1, 1);
    let wrong = Options::new(cluster.at, "another token");
    assert!(matches!(Map::open(&wrong), Err(Error::Master { .. })));
    let none: SocketAddr = "127.0.0.1:1".parse().unwrap();
    assert!(matches!(
        Map::open(&Options::new(none, TOKEN)),
        Err(Error::Master { .. })
    ));
}

#[test]
fn what_is_written_while_a_node_is_drained_is_kept() {
    let mut cluster = Cluster::new(2, 1);
    let mut map = cluster.map();
    // Enough that a copy takes its time.
    for n in 0..400 {
        map.put(&key(n), &[7; 20_000]).unwrap();
    }
    cluster.nodes.push(cluster.node());
    let address = cluster.nodes[2].1;
    assert_eq!(cluster.ask(&Request::AddNode { address }), Response::Done);
    assert_eq!(cluster.ask(&Request::Drain { node: 1 }), Response::Done);
    let mut written = 400;
    loop {
        map.put(&key(written), &key(written)).unwrap();
        written += 1;
        let status = cluster.status();
        if Cluster::is_whole(&status) && status.nodes.iter().all(|node| node.node != 1) {
            break;
        }
    }
    drop(cluster.nodes.remove(0));
    for n in 400..written {
        assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n), "of {written}");
    }
}

#[test]
fn one_process_is_one_node() {
    let mut cluster = Cluster::new(2, 2);
    cluster.nodes.push(cluster.node());
    let address = cluster.nodes[2].1;
    let told = std::thread::scope(|scope| {
        let ask = || cluster.ask(&Request::AddNode { address });
        let other = scope.spawn(ask);
        [ask(), other.join().unwrap()]
    });
    assert_eq!(
        told.iter().filter(|told| **told == Response::Done).count(),
        1,
        "{told:?}"
    );
    let status = cluster.status();
    assert_eq!(
        status.nodes.iter().filter(|node| node.address == address).count(),
        1
    );
}

#[test]
fn a_lost_region_is_told_of_and_does_not_stop_the_others() {
    let cluster = Cluster::new(2, 1);
    let mut map = cluster.map();
    // Too few to split the first segment, which is in region 0; in several blocks.
    for n in 0..40 {
        map.put(&key(n), &[7; 6000]).unwrap();
    }
    let first = cluster.status().nodes[0].node;
    // Region 0 has the directory and all cells; the other node has none of them.
    cluster.nodes[usize::from(first == 1)].0.signal(libc::SIGKILL);
    // What nobody else has is not given up for silence alone.
    let silent = cluster.wait(|status| status.nodes.iter().any(|node| !node.answers));
    let node = silent.nodes.iter().find(|node| !node.answers).unwrap().node;
    assert!(silent.nodes.iter().all(|node| node.alive) && silent.unavailable == 0);
    assert!(matches!(
        cluster.ask(&Request::GiveUp { node: 3 - node }),
        Response::Refused(_)
    ));
    // Not before its lease is over.
    let begun = Instant::now();
    while let told @ Response::Refused(_) = cluster.ask(&Request::GiveUp { node }) {
        assert!(begun.elapsed() < LONG, "{told:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    cluster.wait(|status| status.unavailable > 0 && status.closed == 0);
    let (mut found, mut lost) = (0, 0);
    for n in 0..40 {
        match map.get(&key(n)) {
            Ok(Some(_)) => found += 1,
            Err(Error::Map(cenote_replica::client::Error::Lost(_))) => lost += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(found > 0 && lost > 0, "{found} and {lost}");
    let mut other = cluster.map();
    assert!(!matches!(other.remove(b"nothing"), Ok(true)));
}

/// What any map does, wherever it is.
fn behaves_as_a_map(store: &Store) {
    let mut map = store.map("default").unwrap();
    assert_eq!(map.get(b"key").unwrap(), None);
    assert!(!map.replace_existing(b"key", b"1").unwrap() && !map.remove(b"key").unwrap());
    map.put(b"key", b"2").unwrap();
    assert!(!map.insert(b"key", b"3").unwrap() && map.replace_existing(b"key", b"4").unwrap());
    assert_eq!(map.get(b"key").unwrap().as_deref(), Some(&b"4"[..]));
    assert!(map.remove(b"key").unwrap() && map.insert(b"key", b"5").unwrap());
    let keys: Vec<[u8; 8]> = (0..100).map(key).collect();
    let mut pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..])).collect();
    // Of a key that is there twice, the later value counts.
    for (n, key) in keys.iter().enumerate() {
        pairs.insert(n * 2, (key, b"earlier"));
    }
    map.put_many(&pairs).unwrap();
    let asked: Vec<&[u8]> = keys.iter().map(|key| &key[..]).chain([&b"none"[..]]).collect();
    let found = map.get_many(&asked).unwrap();
    assert_eq!(found.len(), 101);
    assert_eq!(found[100], None);
    for (key, found) in keys.iter().zip(&found) {
        assert_eq!(found.as_deref(), Some(&key[..]));
    }
    // Another handle sees the same.
    let mut other = store.map("default").unwrap();
    assert_eq!(other.get(&keys[99]).unwrap().unwrap(), keys[99]);
}

#[test]
fn pools_and_clusters_have_one_interface() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let path = path.to_str().unwrap();
    drop(cenote::Pool::<cenote::Coherent>::open_or_create(path, &cenote::Options::default()).unwrap());
    behaves_as_a_map(&Store::open(path).unwrap());
    let cluster = Cluster::new(3, 2);
    let token = folder.path().join("token");
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let options = StoreOptions {
        token_file: Some(token.clone()),
        ..StoreOptions::default()
    };
    let store = Store::open_with(&format!("cluster://{}", cluster.at), &options).unwrap();
    behaves_as_a_map(&store);
    assert!(matches!(store.map("another"), Err(Error::NoSuchMap(_))));
    assert!(matches!(
        Store::open_with("cluster://nowhere", &options),
        Err(Error::Address(_))
    ));
    std::fs::write(&token, "").unwrap();
    let none = Store::open_with(&format!("cluster://{}", cluster.at), &options);
    assert!(matches!(
        none,
        Err(Error::Token {
            why: TokenError::Length,
            ..
        })
    ));
    assert!(matches!(
        Store::open("/dev/shm/no such pool"),
        Err(Error::Pool(_))
    ));
}

/// The first node of region 0, where the index begins.
fn first_of_all(cluster: &Cluster) -> u32 {
    let ask = Request::Join {
        name: "a look".to_owned(),
    };
    match cluster.ask(&ask) {
        Response::Joined { session, view, .. } => {
            let session = session.number;
            assert_eq!(cluster.ask(&Request::Leave { session }), Response::Done);
            view.regions[0].nodes[0]
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_go_on_while_a_node_is_dead_and_nobody_has_said_so() {
    let mut cluster = Cluster::with_lease(3, Duration::from_secs(4));
    let first = first_of_all(&cluster);
    let nodes = cluster.status().nodes;
    let victim = nodes.iter().find(|node| node.node != first).unwrap();
    let place = cluster.nodes.iter().position(|(_, at)| *at == victim.address);
    let (counted, may_end) = (mpsc::channel(), Arc::new(LocalWord::default()));
    // Each has a block of its own, and those are in different regions.
    let readers: Vec<JoinHandle<()>> = (0..12)
        .map(|n| {
            let (options, read, may_end) = (cluster.options(), counted.0.clone(), may_end.clone());
            std::thread::spawn(move || {
                let mut map = Map::open(&options).unwrap();
                map.put(&key(n), &key(n)).unwrap();
                while may_end.load() == 0 {
                    assert_eq!(map.get(&key(n)).unwrap().unwrap(), key(n));
                    read.send(n).unwrap();
                }
            })
        })
        .collect();
    // Changes that wait for the dead node ask for a closing at once. No closing may keep the readers out until it is
    // given up.
    let writer = {
        let (options, may_end) = (cluster.options(), may_end.clone());
        std::thread::spawn(move || {
            let mut map = Map::open(&options).unwrap();
            for n in 0_u64.. {
                map.put(&key(100 + n % 12), &key(n)).unwrap();
                if may_end.load() != 0 {
                    break;
                }
            }
        })
    };
    let mut missing: BTreeSet<u64> = (0..12).collect();
    while !missing.is_empty() {
        missing.remove(&counted.1.recv_timeout(LONG).unwrap());
    }
    cluster.kill_node(place.unwrap());
    while counted.1.try_recv().is_ok() {}
    let is_given_up = |status: &Status| {
        !status
            .nodes
            .iter()
            .any(|node| node.node == victim.node && node.alive)
    };
    cluster.wait(is_given_up);
    // What was read until then.
    let meanwhile: Vec<u64> = counted.1.try_iter().collect();
    println!("{} reads while the dead node was not given up", meanwhile.len());
    // More than were on their way.
    assert!(meanwhile.len() > 50, "{}", meanwhile.len());
    // Then all go on.
    missing.extend(0..12);
    while !missing.is_empty() {
        missing.remove(&counted.1.recv_timeout(LONG).unwrap());
    }
    may_end.store(1);
    writer.join().unwrap();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}
