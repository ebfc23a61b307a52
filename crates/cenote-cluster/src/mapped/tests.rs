//! Keys, leases and turns of memory that is mapped.

use std::fs::File;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cenote_replica::verbs::{Address, Completion, Request, Verb};
use cenote_replica::view::{Key, NodeId};

use super::client::MappedClient;
use super::node::MappedNode;
use super::{MAGIC_AT, MappedError, file_of, lock_of};
use crate::wire::{Answer, Item};

const MEMORY: u64 = 1 << 16;

fn node(folder: &tempfile::TempDir) -> MappedNode {
    let node = MappedNode::create(&file_of(folder.path(), 7), MEMORY, 42).unwrap();
    node.set_lease(Instant::now() + Duration::from_secs(60));
    node
}

fn client(folder: &tempfile::TempDir) -> MappedClient {
    MappedClient::open(&file_of(folder.path(), 7), 42)
        .unwrap()
        .unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn hold(node: &MappedNode, region: u16, bytes: u32, key: u64) -> Answer {
    let key = Key(key);
    node.execute(&Item::Hold { region, bytes, key }).unwrap()
}

fn set_key(node: &MappedNode, region: u16, key: u64) -> Answer {
    let key = Key(key);
    node.execute(&Item::SetKey { region, key }).unwrap()
}

fn post(client: &MappedClient, key: u64, offset: u32, verb: Verb) -> Completion {
    let request = Request {
        node: NodeId(1),
        key: Key(key),
        at: Address::new(2, offset),
        verb,
    };
    client.post(&[&request]).pop().unwrap()
}

#[test]
fn all_who_map_it_and_the_node_see_the_same() {
    let folder = folder();
    let node = node(&folder);
    assert_eq!(hold(&node, 2, 4096, 5), Answer::Done);
    let (one, other) = (client(&folder), client(&folder));
    let bytes: Vec<u8> = (0..100).collect();
    assert_eq!(
        post(&one, 5, 3, Verb::Write(Rc::from(bytes.as_slice()))),
        Completion::Written
    );
    assert_eq!(
        post(&other, 5, 3, Verb::Read(100)),
        Completion::Read(bytes.clone())
    );
    let at = Address::new(2, 3);
    let (key, verb) = (Key(5), Verb::Read(100));
    let by_the_node = node.execute(&Item::Verb { key, at, verb });
    assert_eq!(by_the_node, Some(Answer::Verb(Completion::Read(bytes))));
    // What lies beside it stays.
    assert_eq!(
        post(&one, 5, 0, Verb::Read(4)),
        Completion::Read(vec![0, 0, 0, 0])
    );
    let swap = |client, expected, new| post(client, 5, 256, Verb::CompareSwap { expected, new });
    assert_eq!(
        (swap(&one, 0, 7), swap(&other, 0, 8)),
        (Completion::Was(0), Completion::Was(7))
    );
    assert_eq!(post(&one, 5, 256, Verb::FetchAdd(u64::MAX)), Completion::Was(7));
    let six = Completion::Read(6_u64.to_le_bytes().to_vec());
    assert_eq!(post(&other, 5, 256, Verb::Read(8)), six);
}

#[test]
fn verbs_need_the_key_the_lease_and_bounds() {
    let folder = folder();
    let node = node(&folder);
    let client = client(&folder);
    let read = |key, offset, len| post(&client, key, offset, Verb::Read(len));
    assert_eq!(read(5, 0, 8), Completion::Refused, "nobody holds it");
    assert_eq!(hold(&node, 2, 4096, 5), Answer::Done);
    assert_eq!(read(5, 4088, 8), Completion::Read(vec![0; 8]));
    assert_eq!(read(5, 4090, 8), Completion::Refused);
    assert_eq!(read(5, u32::MAX, u32::MAX), Completion::Refused);
    assert_eq!(
        post(&client, 5, 4, Verb::CompareSwap { expected: 0, new: 1 }),
        Completion::Refused
    );
    assert_eq!(
        (read(4, 0, 8), read(0, 0, 8)),
        (Completion::Refused, Completion::Refused)
    );
    assert_eq!(
        (set_key(&node, 2, 6), set_key(&node, 2, 5)),
        (Answer::Done, Answer::Failed)
    );
    assert_eq!(
        (read(5, 0, 8), read(6, 0, 8)),
        (Completion::Refused, Completion::Read(vec![0; 8]))
    );
    node.set_lease(Instant::now());
    assert_eq!(read(6, 0, 8), Completion::Refused, "the lease has ended");
}

#[test]
fn memory_that_is_held_again_is_zeroed_and_has_bounds() {
    let folder = folder();
    let node = node(&folder);
    let client = client(&folder);
    assert_eq!(hold(&node, 2, 1 << 15, 5), Answer::Done);
    assert_eq!(hold(&node, 3, 1 << 15, 5), Answer::Done);
    assert_eq!((hold(&node, 4, 64, 5), node.held()), (Answer::Failed, MEMORY));
    assert_eq!(
        hold(&node, 2, 1 << 15, 5),
        Answer::Failed,
        "a later key is needed"
    );
    assert_eq!(
        post(&client, 5, 64, Verb::Write(Rc::from([9; 9]))),
        Completion::Written
    );
    assert_eq!(node.execute(&Item::Drop { region: 2 }), Some(Answer::Done));
    assert_eq!(post(&client, 5, 64, Verb::Read(8)), Completion::Refused);
    assert_eq!(hold(&node, 2, 1 << 15, 6), Answer::Done);
    assert_eq!(post(&client, 6, 64, Verb::Read(9)), Completion::Read(vec![0; 9]));
}

#[test]
fn a_new_key_waits_for_turns_of_the_living_and_not_of_the_dead() {
    let folder = folder();
    let node = node(&folder);
    assert_eq!(hold(&node, 2, 4096, 5), Answer::Done);
    let (slow, dead) = (client(&folder), client(&folder));
    let turn = slow.begin();
    dead.begin();
    // Its lock is free now, as when its process has ended.
    drop(dead);
    let (told, done) = mpsc::channel();
    std::thread::scope(|scope| {
        let node = scope.spawn(move || {
            told.send(set_key(&node, 2, 6)).unwrap();
            node
        });
        // However long it takes, the node does not answer before the turn ends.
        assert!(done.recv_timeout(Duration::from_millis(100)).is_err());
        // As one that was stopped, and looks at nothing any more.
        slow.end(turn);
        let answer = done.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(answer, Answer::Done);
        assert_eq!(post(&slow, 5, 0, Verb::Read(8)), Completion::Refused);
        drop(node.join().unwrap());
    });
}

#[test]
fn what_is_no_memory_of_the_node_is_refused() {
    let folder = folder();
    let path = file_of(folder.path(), 7);
    assert!(matches!(
        MappedClient::open(&path, 42),
        Err(MappedError::File(..))
    ));
    std::fs::write(&path, b"short").unwrap();
    assert!(matches!(
        MappedClient::open(&path, 42),
        Err(MappedError::Other(_))
    ));
    let made = node(&folder);
    assert!(matches!(
        MappedClient::open(&path, 41),
        Err(MappedError::Other(_))
    ));
    let lines: Vec<MappedClient> = (0..3).map(|_| client(&folder)).collect();
    assert!(lock_of(&path, 2).exists());
    drop(lines);
    let file = File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"OTHER", MAGIC_AT).unwrap();
    assert!(matches!(
        MappedClient::open(&path, 42),
        Err(MappedError::Other(_))
    ));
    drop(made);
    assert!(!path.exists() && !lock_of(&path, 2).exists());
}
