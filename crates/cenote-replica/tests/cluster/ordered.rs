//! Ordered maps on the simulated network.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_check::spec::map::{Op, Ret};
use cenote_replica::client::{Client, Error, OrderedMap, Pairs};
use cenote_replica::object::Record;
use cenote_replica::slot::value::Content;
use rand::Rng;

use super::network::{Port, Shared};
use super::plan::{Plan, layout};
use super::run::{Journal, copies_are_equal, drive, empty, join, run};
use super::some_seeds;

/// Clients with more keys than a page has room for.
pub fn plan() -> Plan {
    Plan {
        ordered: true,
        keys: 30,
        operations: 25,
        groups: 8,
        ..Plan::default()
    }
}

fn bytes(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// A value as it is in the map, of several lengths.
fn long(value: u64) -> Vec<u8> {
    [value.to_le_bytes().to_vec(), vec![7; value as usize % 40]].concat()
}

fn short(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// Whether a scan has keys that it was asked for, in order and no more; and what it says of each of the keys `0..keys`
/// that it has passed over.
fn passed(
    (from, to, limit): (u64, u64, usize),
    is_back: bool,
    pairs: &Pairs,
) -> Result<Vec<(u64, Option<u64>)>, String> {
    let mut found: Vec<(u64, u64)> = pairs
        .iter()
        .map(|(key, value)| {
            (
                u64::from_be_bytes(key.as_slice().try_into().unwrap()),
                short(value),
            )
        })
        .collect();
    if is_back {
        found.reverse();
    }
    let in_order = found.is_sorted_by(|(one, _), (next, _)| one < next);
    if !in_order || found.len() > limit || found.iter().any(|(key, _)| !(from..to).contains(key)) {
        return Err(format!("a scan of {from}..{to}, limit {limit}, found {found:?}"));
    }
    let is_cut = found.len() == limit;
    let (first, last) = match (is_cut, is_back) {
        (true, false) => (from, found.last().map_or(from, |(key, _)| key + 1)),
        (true, true) => (found.first().map_or(to, |(key, _)| *key), to),
        _ => (from, to),
    };
    let value = |key: u64| found.iter().find(|(has, _)| *has == key).map(|(_, value)| *value);
    Ok((first..last).map(|key| (key, value(key))).collect())
}

/// What a client does in a run.
pub async fn work(client: Rc<Client<Port>>, plan: Plan, journal: Rc<RefCell<Journal>>, number: u32) {
    let map = OrderedMap::new(Rc::clone(&client), b"map").unwrap();
    for _ in 0..plan.operations {
        let (what, key, value, other, limit) = {
            let random = &mut client.net().world.borrow_mut().random;
            (
                random.random_range(0..12),
                random.random_range(0..plan.keys),
                u64::from(number) << 32 | u64::from(random.random::<u32>() >> 1),
                random.random_range(0..=plan.keys),
                random.random_range(1..20),
            )
        };
        let done = match what {
            0..2 => {
                let place = journal.borrow_mut().begin(number, Op::Get { key });
                let found = map.get(&bytes(key)).await;
                found.map(|found| {
                    (
                        place,
                        found.map_or(Ret::Missing, |found| Ret::Found(short(&found))),
                    )
                })
            }
            2..7 => {
                let place = journal.borrow_mut().begin(number, Op::Put { key, value });
                let was = map.put(&bytes(key), &long(value)).await;
                was.map(|was| (place, if was { Ret::Replaced } else { Ret::Inserted }))
            }
            7..9 => {
                let place = journal.borrow_mut().begin(number, Op::Remove { key });
                let was = map.remove(&bytes(key)).await;
                was.map(|was| (place, if was { Ret::Removed } else { Ret::Missing }))
            }
            _ => {
                let (from, to, is_back) = (key.min(other), key.max(other), what == 11);
                let invoke = journal.borrow_mut().tick();
                let (first, end) = (bytes(from), bytes(to));
                let pairs = match is_back {
                    true => map.scan_back(&first, Some(&end), limit).await,
                    false => map.scan(&first, Some(&end), limit).await,
                };
                match pairs {
                    Ok(pairs) => {
                        let mut journal = journal.borrow_mut();
                        match passed((from, to, limit), is_back, &pairs) {
                            Ok(reads) => journal.reads(number, invoke, reads),
                            Err(why) => journal.problem(why),
                        }
                        continue;
                    }
                    Err(error) => Err(error),
                }
            }
        };
        match done {
            Ok((place, result)) => journal.borrow_mut().end(place, result),
            Err(Error::Ended(_)) => return,
            Err(error) => {
                journal.borrow_mut().problem(format!("client {number}: {error}"));
                return;
            }
        }
        if what == 0 {
            let _ = client.upkeep().await;
        }
    }
}

/// When all have ended, another client reads everything, and finds no page that nobody names.
pub fn look_over(world: &Shared, plan: &Plan, journal: &Rc<RefCell<Journal>>) {
    let number = plan.clients + 1;
    let client = join(world, plan, number);
    let (shared, of_work, keys) = (Rc::clone(world), Rc::clone(journal), plan.keys);
    let layout = layout(plan);
    let work = async move {
        let map = OrderedMap::new(client, b"map").unwrap();
        let invoke = of_work.borrow_mut().tick();
        let looked = async {
            let forward = map.scan(b"", None, usize::MAX).await?;
            let mut back = map.scan_back(b"", None, usize::MAX).await?;
            back.reverse();
            Ok::<_, Error>((forward, back, map.shape().await?))
        };
        let (forward, back, shape) = match looked.await {
            Ok(looked) => looked,
            Err(error) => return of_work.borrow_mut().problem(format!("at the end: {error}")),
        };
        let mut journal = of_work.borrow_mut();
        if forward != back {
            journal.problem(format!("forward {forward:?}, back {back:?}"));
        }
        match passed((0, keys, usize::MAX), false, &forward) {
            Ok(reads) => journal.reads(number, invoke, reads),
            Err(why) => journal.problem(why),
        }
        match pages(&shared, &layout) {
            Ok(pages) if pages == shape.pages => {}
            Ok(pages) => journal.problem(format!("{pages} pages are in the map, of {shape:?}")),
            Err(why) => journal.problem(why),
        }
    };
    drive(world, vec![Box::pin(work)]);
}

/// Pages that are in the replicated map.
fn pages(world: &Shared, layout: &cenote_replica::client::Layout) -> Result<u64, String> {
    let world = world.borrow();
    let mut pages = 0;
    for slot in copies_are_equal(&world, layout)? {
        let Content::Object {
            at, len: Some(len), ..
        } = slot.content()
        else {
            continue;
        };
        let node = world.view.regions[usize::from(at.region())].nodes[0];
        let memory = world.memory(node, at.region()).unwrap();
        let bytes = &memory[at.offset() as usize..(at.offset() + len) as usize];
        let record = Record::decode(bytes).ok_or_else(|| format!("no object at {at:x?}"))?;
        pages += u64::from(record.key.starts_with(b"\0cenote/ordered\0"));
    }
    Ok(pages)
}

#[test]
fn ordered_maps_agree() {
    some_seeds(&plan(), 60);
}

#[test]
fn so_they_do_whatever_fails() {
    let failing = Plan {
        client_crashes: 2,
        cuts: 2,
        node_crashes: 1,
        ..plan()
    };
    some_seeds(&failing, 60);
    some_seeds(
        &Plan {
            replicas: 1,
            node_crashes: 0,
            ..failing.clone()
        },
        60,
    );
    some_seeds(
        &Plan {
            replicas: 3,
            nodes: 4,
            node_crashes: 2,
            ..failing
        },
        60,
    );
}

#[test]
fn an_ordered_map_grows_by_levels() {
    let plan = Plan {
        client_crashes: 2,
        keys: 200,
        operations: 120,
        ..plan()
    };
    assert_eq!(run(&plan, 1).map(drop), Ok(()));
    let world = empty(&plan);
    let client = join(&world, &plan, 1);
    let keys = 300_u64;
    let work = async move {
        let map = OrderedMap::new(Rc::clone(&client), b"one").unwrap();
        let other = OrderedMap::new(Rc::clone(&client), b"other").unwrap();
        assert!(map.scan(b"", None, 10).await.unwrap().is_empty());
        assert!(!map.remove(b"none").await.unwrap());
        for n in 0..keys {
            let key = n * 7 % keys;
            assert!(!map.put(&bytes(key), &long(key)).await.unwrap());
            age(&client);
            client.upkeep().await.unwrap();
        }
        other.put(b"key", b"value").await.unwrap();
        let shape = map.shape().await.unwrap();
        assert!(shape.levels >= 3 && shape.keys == keys, "{shape:?}");
        assert_eq!((shape.divided, shape.unnamed), (0, 0));
        let all = map.scan(b"", None, usize::MAX).await.unwrap();
        assert!(
            all.iter()
                .map(|(key, _)| key.clone())
                .eq((0..keys).map(|key| bytes(key).to_vec()))
        );
        let some = map.scan_back(&bytes(100), Some(&bytes(200)), 5).await.unwrap();
        let found: Vec<u64> = some
            .iter()
            .map(|(key, _)| u64::from_be_bytes(key.as_slice().try_into().unwrap()))
            .collect();
        assert_eq!(found, [199, 198, 197, 196, 195]);
        for key in 0..keys {
            assert!(map.remove(&bytes(key)).await.unwrap());
            age(&client);
            client.upkeep().await.unwrap();
        }
        let shape = map.shape().await.unwrap();
        assert_eq!(shape.keys, 0);
        assert_eq!(other.get(b"key").await.unwrap().as_deref(), Some(&b"value"[..]));
        let reserved = client.put(b"\0cenote/ordered\0\0one", b"").await;
        assert_eq!(reserved, Err(Error::Reserved));
        let long = map.put(&[7; 70], b"").await;
        assert!(matches!(long, Err(Error::EntryTooLong { .. })), "{long:?}");
    };
    drive(&world, vec![Box::pin(work)]);
}

/// As if the client had heard of another era, and nobody else were there.
fn age(client: &Client<Port>) {
    let mut world = client.net().world.borrow_mut();
    world.eras.now += 1;
    let now = world.eras.now;
    world.eras.least = now;
    world.heard.insert(1, now);
}
