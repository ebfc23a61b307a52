//! Nodes whose memory clients map, which end and begin again.

use std::time::{Duration, Instant};

use cenote_cluster::control::{self, Response};
use cenote_cluster::mapped::client::MappedClient;
use cenote_cluster::mapped::file_of;
use cenote_cluster::{Map, Transport};
use cenote_replica::verbs::{Address, Completion, Request, Verb};
use cenote_replica::view::{Key, NodeId};

use super::cluster::{Cluster, LONG, transport};
use super::promises::info;

/// A read of the first word of a region of which a node is the primary.
fn read_at(cluster: &Cluster, node: u32) -> Request {
    let ask = control::Request::Join {
        name: "a look".to_owned(),
    };
    let Response::Joined { session, view, .. } = cluster.ask(&ask) else {
        panic!("it has not joined");
    };
    let session = session.number;
    assert_eq!(cluster.ask(&control::Request::Leave { session }), Response::Done);
    let mut regions = (0..).zip(&view.regions);
    let (number, region) = regions.find(|(_, region)| region.nodes[0] == node).unwrap();
    Request {
        node: NodeId(node),
        key: Key(region.key),
        at: Address::new(number, 0),
        verb: Verb::Read(8),
    }
}

/// How many files of nodes that are gone this process has mapped.
fn mapped_of_the_gone(cluster: &Cluster) -> usize {
    let folder = cluster.place().mapped.clone().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of_nodes = maps
        .lines()
        .filter(|line| line.contains(folder.to_str().unwrap()));
    of_nodes.filter(|line| line.ends_with("(deleted)")).count()
}

fn looks_again(map: &mut Map) {
    map.put(b"key", b"later").unwrap();
    assert_eq!(map.get(b"key").unwrap().unwrap(), b"later");
}

/// A node is killed, and started again at once. Its memory is still mapped, and its lease lasts: others may go on with
/// its regions only when nobody reads there any more.
#[test]
fn memory_of_a_node_that_was_given_up_is_read_by_nobody() {
    if transport() != Transport::Tcp {
        return;
    }
    let mut cluster = Cluster::mapped(3, 2);
    let mut map = cluster.map();
    for n in 0..100_u64 {
        map.put(&n.to_le_bytes(), b"value").unwrap();
    }
    for place in 0..3 {
        let at = cluster.nodes[place].1;
        let status = cluster.status();
        let node = status.nodes.iter().find(|node| node.address == at).unwrap().node;
        if status
            .nodes
            .iter()
            .find(|known| known.node == node)
            .unwrap()
            .primary_of
            == 0
        {
            continue;
        }
        let read = read_at(&cluster, node);
        let [incarnation, ..] = info(at);
        let folder = cluster.place().mapped.clone().unwrap();
        let client = MappedClient::open(&file_of(&folder, at.port()), incarnation);
        let client = client.unwrap().unwrap();
        assert_ne!(client.post(&[&read]), [Completion::Refused]);
        cluster.kill_node(place);
        cluster.begin_again(place);
        while cluster.is_alive(place) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(client.post(&[&read]), [Completion::Refused], "node {node}");
        drop(client);
        looks_again(&mut map);
        cluster.add_again(place);
        cluster.wait(|status| Cluster::is_whole(status) && status.nodes.len() == 3);
    }
    // The system has the memory back once the client has heard that they are gone.
    let begun = Instant::now();
    while mapped_of_the_gone(&cluster) > 0 {
        assert!(begun.elapsed() < LONG);
        looks_again(&mut map);
    }
}
