//! What the operations cost: batches that a client posts, each a round trip.

use std::rc::Rc;

use cenote_replica::client::Client;

use super::network::{Port, Shared};
use super::run::{Plan, drive, empty, join};

/// How many round trips an operation takes.
async fn cost<T>(world: &Shared, operation: impl Future<Output = T>) -> u64 {
    let posted = || world.borrow().rounds.get(&1).copied().unwrap_or(0);
    let before = posted();
    operation.await;
    posted() - before
}

/// As if the client had heard of the next era.
fn begin_era(world: &Shared) {
    let mut world = world.borrow_mut();
    world.eras.now += 1;
    let now = world.eras.now;
    world.heard.insert(1, now);
}

async fn measure(world: Shared, client: Rc<Client<Port>>) {
    let key = |n: u64| n.to_le_bytes();
    // The first ones fetch a block, and an entry of the directory.
    client.put(&key(0), b"first").await.unwrap();
    client.put(&key(1), b"first").await.unwrap();
    let world = &world;
    assert_eq!(cost(world, client.insert(&key(2), b"new")).await, 4);
    assert_eq!(cost(world, client.get(&key(2))).await, 1, "its own insert");
    assert_eq!(cost(world, client.put(&key(2), b"replaced")).await, 4);
    assert_eq!(cost(world, client.update(&key(2), b"replaced")).await, 4);
    assert_eq!(cost(world, client.insert(&key(2), b"refused")).await, 1);
    begin_era(world);
    assert_eq!(cost(world, client.get(&key(2))).await, 2, "seen in another era");
    assert_eq!(cost(world, client.get(&key(2))).await, 1);
    begin_era(world);
    assert_eq!(cost(world, client.put(&key(2), b"replaced")).await, 5);
    assert_eq!(cost(world, client.remove(&key(2))).await, 4);
    assert_eq!(
        cost(world, client.get(&key(2))).await,
        1,
        "nothing has its fingerprint"
    );
    assert_eq!(cost(world, client.remove(&key(2))).await, 1);
}

#[test]
fn operations_take_as_many_round_trips_as_their_documents_say() {
    let plan = Plan {
        replicas: 3,
        nodes: 4,
        ..Plan::default()
    };
    let world = empty(&plan);
    let client = join(&world, &plan, 1);
    drive(&world, vec![Box::pin(measure(Rc::clone(&world), client))]);
}
