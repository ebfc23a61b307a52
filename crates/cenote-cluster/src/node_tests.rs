//! What a node executes, and for whom.

use super::*;

fn node() -> Node {
    Node::new(Options::new(1 << 16, ""))
}

fn ping(node: &Node, number: u64, answered: u64, lease: u64) {
    let answer = node.execute(Item::Ping {
        number,
        answered,
        lease,
    });
    assert_eq!(answer, Answer::Done);
}

fn verb(node: &Node, key: u64, offset: u32, verb: Verb) -> Completion {
    let at = Address::new(2, offset);
    match node.execute(Item::Verb {
        key: Key(key),
        at,
        verb,
    }) {
        Answer::Verb(completion) => completion,
        other => panic!("{other:?}"),
    }
}

fn hold(node: &Node, region: u16, bytes: u32, key: u64) -> Answer {
    node.execute(Item::Hold {
        region,
        bytes,
        key: Key(key),
    })
}

#[test]
fn verbs_need_a_lease_and_the_key() {
    let node = node();
    assert_eq!(hold(&node, 2, 4096, 5), Answer::Done);
    let read = |key| verb(&node, key, 0, Verb::Read(8));
    assert_eq!(read(5), Completion::Refused);
    ping(&node, 1, 0, 60_000_000);
    assert_eq!(read(5), Completion::Refused, "nothing was acknowledged");
    ping(&node, 2, 1, 60_000_000);
    assert_eq!(read(5), Completion::Read(vec![0; 8]));
    assert_eq!(read(4), Completion::Refused);
    let set = |key| {
        node.execute(Item::SetKey {
            region: 2,
            key: Key(key),
        })
    };
    assert_eq!((set(6), set(5)), (Answer::Done, Answer::Failed));
    assert_eq!(read(5), Completion::Refused);
    assert_eq!(read(6), Completion::Read(vec![0; 8]));
}

#[test]
fn a_lease_counts_from_the_answer_that_is_acknowledged() {
    let node = node();
    assert_eq!(hold(&node, 2, 4096, 5), Answer::Done);
    ping(&node, 1, 0, 50_000);
    std::thread::sleep(Duration::from_millis(60));
    // As one that was stopped, and finds a heartbeat that was sent long ago.
    ping(&node, 2, 1, 50_000);
    assert_eq!(verb(&node, 5, 0, Verb::Read(8)), Completion::Refused);
    // A number that it never answered is worth nothing.
    ping(&node, 3, 77, 60_000_000);
    assert_eq!(verb(&node, 5, 0, Verb::Read(8)), Completion::Refused);
}

#[test]
fn the_term_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let file = MemoryFile::open(&folder.path().join("memory"), 1 << 16, 1).unwrap();
        Node::new(Options {
            pool: Some(Arc::new(file)),
            ..Options::new(1 << 16, "")
        })
    };
    let lead = |node: &Node, term| {
        let hold = Item::Hold {
            region: 2,
            bytes: 4096,
            key: Key(5),
        };
        node.batch(vec![Item::Lead { term }, hold])
    };
    let node = start();
    assert_eq!(lead(&node, 6), [Answer::Done, Answer::Done]);
    drop(node);
    let node = start();
    assert_eq!(lead(&node, 5), [Answer::Later(6), Answer::Failed]);
}

#[test]
fn masters_of_earlier_terms_are_refused() {
    let node = node();
    let asks = |term, item| node.batch(vec![Item::Lead { term }, item]);
    let hold = |key| Item::Hold {
        region: 2,
        bytes: 4096,
        key: Key(key),
    };
    // Nothing is held: a cluster may be made that has lost all that it knew.
    assert_eq!(asks(9, Item::Info)[0], Answer::Done);
    assert_eq!(asks(4, hold(5)), [Answer::Done, Answer::Done]);
    assert_eq!(asks(6, Item::Drop { region: 3 }), [Answer::Done, Answer::Done]);
    let ping = Item::Ping {
        number: 1,
        answered: 0,
        lease: 1,
    };
    let set = Item::SetKey {
        region: 2,
        key: Key(9),
    };
    for item in [ping, set, hold(9), Item::Drop { region: 2 }] {
        assert_eq!(node.batch(vec![item.clone()]), [Answer::Failed], "of no master");
        assert_eq!(asks(5, item), [Answer::Later(6), Answer::Failed]);
    }
    assert_eq!(node.held(), 4096);
    assert_eq!(asks(6, Item::Drop { region: 2 }), [Answer::Done, Answer::Done]);
    assert_eq!(node.held(), 0);
}

#[test]
fn words_change_and_bounds_hold() {
    let node = node();
    assert_eq!(hold(&node, 2, 4096, 5), Answer::Done);
    ping(&node, 1, 0, 0);
    ping(&node, 2, 1, 60_000_000);
    let swap = |expected, new| verb(&node, 5, 64, Verb::CompareSwap { expected, new });
    assert_eq!((swap(0, 7), swap(0, 8)), (Completion::Was(0), Completion::Was(7)));
    assert_eq!(verb(&node, 5, 64, Verb::FetchAdd(u64::MAX)), Completion::Was(7));
    assert_eq!(
        verb(&node, 5, 64, Verb::Read(8)),
        Completion::Read(6_u64.to_le_bytes().to_vec())
    );
    assert_eq!(verb(&node, 5, 0, Verb::Write(Rc::from([1]))), Completion::Written);
    assert_eq!(verb(&node, 5, 4090, Verb::Read(8)), Completion::Refused);
    assert_eq!(
        verb(&node, 5, u32::MAX, Verb::Read(u32::MAX)),
        Completion::Refused
    );
    assert_eq!(hold(&node, 3, 1 << 17, 1), Answer::Failed);
    assert_eq!(hold(&node, 2, 4096, 6), Answer::Done);
    assert_eq!(verb(&node, 6, 64, Verb::Read(8)), Completion::Read(vec![0; 8]));
}

#[test]
fn memory_that_clients_map_is_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let here = SocketAddr::from(([127, 0, 0, 1], 7));
    let start = |set: &dyn Fn(&mut Options)| {
        let mut options = Options::new(1 << 16, "");
        options.mapped = Some(folder.path().to_owned());
        set(&mut options);
        Node::at(options, here)
    };
    let file = Arc::new(MemoryFile::open(&folder.path().join("memory"), 1 << 16, 1).unwrap());
    let with_pool = start(&|options| options.pool = Some(file.clone()));
    let with_libfabric = start(&|options| options.transport = Transport::Ofi);
    for refused in [with_pool, with_libfabric] {
        assert_eq!(refused.err().unwrap().kind(), io::ErrorKind::InvalidInput);
    }
    // A master of an earlier term is refused as by others.
    let node = start(&|_| {}).unwrap();
    let hold = Item::Hold {
        region: 2,
        bytes: 4096,
        key: Key(5),
    };
    let asks = |term, item| node.batch(vec![Item::Lead { term }, item]);
    assert_eq!(asks(6, hold), [Answer::Done, Answer::Done]);
    let set = Item::SetKey {
        region: 2,
        key: Key(9),
    };
    assert_eq!(node.batch(vec![set.clone()]), [Answer::Failed]);
    assert_eq!(asks(5, set), [Answer::Later(6), Answer::Failed]);
}
