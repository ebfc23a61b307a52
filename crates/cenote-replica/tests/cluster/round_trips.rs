//! What the operations cost: batches that a client posts, each a round trip.

use std::rc::Rc;

use cenote_replica::client::{Client, Error, OrderedMap, Replaced};

use super::network::{Port, Shared};
use super::plan::{BLOCK, Plan};
use super::run::{drive, empty, join};

/// How many round trips an operation takes, besides the two that each block of memory costs which it happens to need.
async fn cost<T>(world: &Shared, operation: impl Future<Output = T>) -> u64 {
    let posted = || {
        let world = world.borrow();
        let rounds = world.rounds.get(&1).copied().unwrap_or(0);
        rounds - 2 * world.blocks.len() as u64
    };
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
    let seen = client.get_versioned(&key(2)).await.unwrap().unwrap().version;
    let replace = async |version| client.replace_if(&key(2), version, b"replaced").await.unwrap();
    assert_eq!(cost(world, replace(seen)).await, 4);
    assert_eq!(cost(world, replace(seen)).await, 1, "it has changed");
    let Replaced::Changed(Some(now)) = replace(seen).await else {
        panic!("it has not changed")
    };
    begin_era(world);
    assert_eq!(cost(world, replace(now.version)).await, 5);
    assert_eq!(cost(world, client.remove(&key(2))).await, 4);
    assert_eq!(
        cost(world, client.get(&key(2))).await,
        1,
        "nothing has its fingerprint"
    );
    assert_eq!(cost(world, client.remove(&key(2))).await, 1);
    // Values of four blocks, after blocks for them have been fetched; and of nine.
    let (four, nine) = (vec![7; 4 * 1_792], vec![8; 9 * 1_792]);
    for value in [&four, &nine] {
        client.put(&key(3), value).await.unwrap();
        client.remove(&key(3)).await.unwrap();
    }
    free_all(world, &client).await;
    assert_eq!(cost(world, client.insert(&key(3), &four)).await, 4);
    begin_era(world);
    assert_eq!(cost(world, client.get(&key(3))).await, 3);
    assert_eq!(cost(world, client.get(&key(3))).await, 2, "its head is cached");
    assert_eq!(cost(world, client.put(&key(3), &nine)).await, 4 + 2);
    assert_eq!(cost(world, client.get(&key(3))).await, 1 + 3);
    assert_eq!(client.get(&key(3)).await.unwrap().as_deref(), Some(&nine[..]));
    let longest = 222 * 1_792;
    let longer = vec![0; longest + 1];
    let refused = Error::TooLong {
        key: 8,
        value: longer.len(),
        block: BLOCK,
        longest: longest as u64,
    };
    let put = async { assert_eq!(client.put(&key(4), &longer).await, Err(refused)) };
    assert_eq!(cost(world, put).await, 0);
}

/// As if some eras had passed; what was retired is free.
async fn free_all(world: &Shared, client: &Rc<Client<Port>>) {
    for _ in 0..3 {
        begin_era(world);
        let mut world = world.borrow_mut();
        world.eras.least = world.eras.now;
    }
    client.upkeep().await.unwrap();
    client.upkeep().await.unwrap();
}

/// In pages of some ten keys.
async fn measure_ordered(world: Shared, client: Rc<Client<Port>>) {
    let key = |n: u64| n.to_be_bytes();
    let map = OrderedMap::new(client, b"map").unwrap();
    let world = &world;
    for n in 0..40 {
        map.put(&key(10 * n), b"value").await.unwrap();
    }
    let shape = map.shape().await.unwrap();
    assert!(shape.levels == 2 && shape.pages > 4, "{shape:?}");
    map.get(&key(100)).await.unwrap();
    assert_eq!(cost(world, map.get(&key(100))).await, 1);
    assert_eq!(cost(world, map.put(&key(100), b"other")).await, 4);
    assert_eq!(cost(world, map.remove(&key(100))).await, 4);
    assert_eq!(cost(world, map.remove(&key(101))).await, 1);
    assert_eq!(cost(world, map.scan(&key(100), None, 1)).await, 1);
    begin_era(world);
    assert_eq!(cost(world, map.get(&key(100))).await, 2, "seen in another era");
    begin_era(world);
    assert_eq!(cost(world, map.put(&key(110), b"other")).await, 5);
    begin_era(world);
    let leaves = shape.pages - 1;
    assert!((4..17).contains(&leaves), "{leaves}");
    // All but those of the first leaf are on their way at once.
    assert_eq!(cost(world, map.scan(b"", None, usize::MAX)).await, 2 * leaves);
    assert_eq!(cost(world, map.scan_back(b"", None, usize::MAX)).await, leaves);
    let mut dividing = 0;
    for n in 0..20 {
        let before = map.shape().await.unwrap().pages;
        // The leaf was read just now.
        let cost = cost(world, map.put(&key(1_000 + n), b"value")).await;
        if map.shape().await.unwrap().pages > before {
            assert_eq!(
                cost,
                4 + 4 + 4 + 5,
                "two changes of it, an insert, and the page above"
            );
            dividing += 1;
        } else {
            assert_eq!(cost, 4);
        }
    }
    assert!(dividing > 0);
}

#[test]
fn operations_on_ordered_maps_take_as_many_round_trips_as_their_documents_say() {
    let plan = Plan {
        replicas: 3,
        nodes: 4,
        groups: 8,
        ..Plan::default()
    };
    let world = empty(&plan);
    let client = join(&world, &plan, 1);
    drive(&world, vec![Box::pin(measure_ordered(Rc::clone(&world), client))]);
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
