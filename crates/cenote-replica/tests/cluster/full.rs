//! Memory that has come to its end: what fails takes nothing with it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use cenote_replica::client::Error;
use cenote_replica::index::layout::{SIBLING_AT, SUCCESSOR_AT, successor};
use cenote_replica::memory::block::{Cut, size_of};
use cenote_replica::verbs::{Address, Verb};

use super::held::{PRIMARY, go_on, hold};
use super::leaks;
use super::master::Master;
use super::network::{Port, World};
use super::plan::{Plan, ROOT, layout};
use super::run::{copies_are_equal, drive, empty, join};

/// A client binds keys until a segment would have to be split for which there may be no block; then it tries in vain,
/// again and again, with values of so many bytes, for which there is room. Returns what has become of the memory.
pub fn try_in_vain(len: usize, blocks: u32) -> Result<(), String> {
    let plan = Plan::default();
    let world = empty(&plan);
    let client = join(&world, &plan, 1);
    let prepare = {
        let client = Rc::clone(&client);
        async move {
            for n in 0..8_u64 {
                client.put(&n.to_le_bytes(), &vec![7; len]).await.unwrap();
            }
            for n in 0..4_u64 {
                assert!(client.remove(&n.to_le_bytes()).await.unwrap());
            }
        }
    };
    drive(&world, vec![Box::pin(prepare)]);
    leaks::rest(&world, &[Rc::clone(&client)]);
    world.borrow_mut().blocks_left = Some(blocks);
    let puts = {
        let client = Rc::clone(&client);
        async move {
            let mut failed = 0;
            for n in 100..200_u64 {
                match client.put(&n.to_le_bytes(), b"short").await {
                    Ok(()) => {}
                    Err(Error::Full(_)) if failed > 3 => break,
                    Err(Error::Full(_)) => failed += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(failed > 3, "{failed}");
            for n in 200..220_u64 {
                match client.put(&n.to_le_bytes(), &vec![7; len]).await {
                    Ok(()) | Err(Error::Full(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    drive(&world, vec![Box::pin(puts)]);
    let slots = copies_are_equal(&world.borrow(), &layout(&plan))?;
    leaks::check(&world, &plan, &[client], &slots)
}

#[test]
fn a_change_that_finds_no_memory_keeps_none() {
    for blocks in 0..8 {
        assert_eq!(try_in_vain(8, blocks), Ok(()), "{blocks} blocks");
        assert_eq!(try_in_vain(5_000, blocks), Ok(()), "{blocks} blocks");
    }
}

fn word(world: &World, at: Address) -> u64 {
    let node = world.view.regions[usize::from(at.region())].primary().unwrap();
    let from = at.offset() as usize;
    let bytes = world.memory(node, at.region()).unwrap()[from..from + 8].try_into();
    u64::from_le_bytes(bytes.unwrap())
}

/// All segments that the first one leads to.
fn segments(world: &World) -> BTreeSet<Address> {
    let (mut found, mut ahead) = (BTreeSet::new(), vec![Address::new(0, ROOT)]);
    while let Some(at) = ahead.pop() {
        found.insert(at);
        if let Some(part) = successor(word(world, at.plus(SUCCESSOR_AT))) {
            ahead.extend(
                [Some(part), Address::from_bits(word(world, part.plus(SIBLING_AT)))]
                    .into_iter()
                    .flatten(),
            );
        }
    }
    found
}

/// A client splits a segment, and the swap of its successor does not come back, five times; each time the regions are
/// closed. Returns how many parts are neither in the index nor free when it has gone on.
pub fn parts_of_splits() -> usize {
    let plan = Plan::default();
    let world = empty(&plan);
    let client = join(&world, &plan, 1);
    let size = size_of(layout(&plan).segments.bytes());
    let left = Rc::new(Cell::new(5));
    {
        let left = Rc::clone(&left);
        hold(&world, move |client, request| {
            let is_successor = request.at == Address::new(0, ROOT + SUCCESSOR_AT);
            let is_held = is_successor && matches!(request.verb, Verb::CompareSwap { .. }) && left.get() > 0;
            if is_held {
                left.set(left.get() - 1);
            }
            client == 1 && is_held
        });
    }
    let is_done = Rc::new(Cell::new(false));
    let puts = {
        let (client, is_done) = (Rc::clone(&client), Rc::clone(&is_done));
        async move {
            for n in 0..60_u64 {
                client.put(&n.to_le_bytes(), b"value").await.unwrap();
            }
            is_done.set(true);
        }
    };
    let port = Port {
        world: Rc::clone(&world),
        client: 0,
    };
    let mut master = Master::new(&world, &plan, 1);
    let closes = async move {
        while !is_done.get() {
            go_on(&port, &mut master).await;
        }
    };
    drive(&world, vec![Box::pin(puts), Box::pin(closes)]);
    assert_eq!(left.get(), 0, "it was held back as often as was meant");
    leaks::rest(&world, &[Rc::clone(&client)]);
    let world = world.borrow();
    assert!(world.is_up(PRIMARY));
    let in_use = segments(&world);
    let of_segments = world.blocks.iter().filter(|(_, (_, of))| *of == size);
    let cuts = of_segments.filter_map(|(at, _)| Cut::new(*at, super::plan::BLOCK, size));
    let all = cuts.flat_map(|cut| (0..cut.count).map(move |n| cut.object(n)));
    all.filter(|at| !in_use.contains(at) && !client.memory().is_free(*at))
        .count()
}

#[test]
fn parts_of_a_split_that_is_interrupted_are_offered_again() {
    assert_eq!(parts_of_splits(), 0);
}
