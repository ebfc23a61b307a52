//! No memory is lost: after a run each object of each block is in the index, is an extent of one that is, or is free.

use std::collections::BTreeSet;
use std::rc::Rc;

use cenote_replica::client::Client;
use cenote_replica::index::layout::Label;
use cenote_replica::memory::block::{Cut, largest};
use cenote_replica::object::{EXTENT_HEADER, Extent, Record, Table};
use cenote_replica::slot::value::{Content, Slot};
use cenote_replica::verbs::Address;

use super::network::{Port, Shared, World};
use super::plan::{BLOCK, Plan};
use super::run::{drive, join};

/// Eras after which everything that was retired is free, and has been taken back.
const ERAS: u32 = 5;

/// Checks the memory of a run that is over, whose slots are these, and which these clients have survived.
pub fn check(world: &Shared, plan: &Plan, living: &[Rc<Client<Port>>], slots: &[Slot]) -> Result<(), String> {
    let in_use = in_use(&world.borrow(), slots)?;
    rest(world, living);
    let owner = |number: u32| {
        living
            .iter()
            .find(|client| client.session().number == number)
            .cloned()
    };
    nothing_is_lost(&world.borrow(), &in_use, owner).map_err(|why| format!("of those that live: {why}"))?;
    // All have gone, with what they had retired; another takes over their blocks.
    let adopter = join(world, plan, plan.clients + 1);
    let blocks: Vec<Address> = {
        let mut world = world.borrow_mut();
        world.gone.extend(1..=plan.clients);
        world.blocks.keys().copied().collect()
    };
    let taking = Rc::clone(&adopter);
    let take = async move {
        for at in blocks {
            taking.take_over(at).await.unwrap();
        }
    };
    drive(world, vec![Box::pin(take)]);
    rest(world, &[Rc::clone(&adopter)]);
    nothing_is_lost(&world.borrow(), &in_use, |_| Some(Rc::clone(&adopter)))
        .map_err(|why| format!("after all have gone: {why}"))
}

/// Lets some eras pass, in which clients do nothing but their upkeep.
pub fn rest(world: &Shared, clients: &[Rc<Client<Port>>]) {
    for _ in 0..ERAS {
        {
            let mut world = world.borrow_mut();
            world.eras.now += 1;
            world.eras.least = world.eras.now;
            let now = world.eras.now;
            for client in clients {
                world.heard.insert(client.session().number, now);
            }
        }
        let upkeep = |client: &Rc<Client<Port>>| {
            let client = Rc::clone(client);
            Box::pin(async move {
                client.upkeep().await.unwrap();
            }) as _
        };
        drive(world, clients.iter().map(upkeep).collect());
    }
}

/// Bytes at the primary.
fn bytes(world: &World, at: Address, len: u32) -> Option<&[u8]> {
    let node = world.view.region(at.region())?.primary()?;
    let from = at.offset() as usize;
    world.memory(node, at.region())?.get(from..from + len as usize)
}

fn word(world: &World, at: Address) -> u64 {
    bytes(world, at, 8)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// No key is in two of these slots.
pub fn each_key_has_one_slot(world: &World, slots: &[Slot]) -> Result<(), String> {
    let mut keys = BTreeSet::new();
    for slot in slots {
        let Content::Object {
            at, len: Some(len), ..
        } = slot.content()
        else {
            continue;
        };
        let Some(record) = bytes(world, at, len).and_then(Record::decode) else {
            return Err(format!("the object of {slot:x?} is not whole"));
        };
        if !keys.insert(record.key.to_vec()) {
            return Err(format!("the key {:x?} has two slots", record.key));
        }
    }
    Ok(())
}

/// The objects of slots, and their extents, which all have to be whole.
fn in_use(world: &World, slots: &[Slot]) -> Result<BTreeSet<Address>, String> {
    let part = largest(BLOCK) - EXTENT_HEADER;
    let mut in_use = BTreeSet::new();
    for slot in slots {
        let Content::Object { at, len, .. } = slot.content() else {
            continue;
        };
        let torn = || format!("the object of {slot:x?} is not whole");
        let head = bytes(world, at, len.ok_or_else(torn)?).ok_or_else(torn)?;
        let record = Record::decode(head).ok_or_else(torn)?;
        in_use.insert(at);
        if !record.is_long {
            continue;
        }
        let table = Table::decode(record.value, part).ok_or_else(torn)?;
        for (number, extent) in (0..).zip(&table.extents) {
            let len = (EXTENT_HEADER + table.part(number, part)).next_multiple_of(64);
            let found = bytes(world, *extent, len).and_then(Extent::decode);
            if !found.is_some_and(|found| found.identity == record.identity && found.number == number) {
                return Err(format!(
                    "extent {number} of {slot:x?} at {extent:x?} is not whole"
                ));
            }
            in_use.insert(*extent);
        }
    }
    Ok(in_use)
}

fn nothing_is_lost(
    world: &World,
    in_use: &BTreeSet<Address>,
    owner: impl Fn(u32) -> Option<Rc<Client<Port>>>,
) -> Result<(), String> {
    for (at, (client, _)) in &world.blocks {
        // Zero: its client has died before it had cut it, and the client that gets it next cuts it.
        let Some(cut) = Cut::new(*at, BLOCK, word(world, *at) as u32) else {
            continue;
        };
        let Some(owner) = owner(*client) else {
            continue;
        };
        for object in (0..cut.count).map(|n| cut.object(n)) {
            let first = word(world, object);
            // Parts of a split that was not finished stay.
            let is_segment = Label::of(first).is_some();
            let is_free = owner.memory().is_free(object);
            if in_use.contains(&object) == is_free && !is_segment {
                let what = if is_free { "in use and free" } else { "lost" };
                return Err(format!(
                    "{object:x?} of the {} bytes of client {client} is {what}: {first:x}",
                    cut.size
                ));
            }
        }
    }
    Ok(())
}
