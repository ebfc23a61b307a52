//! Clients that know where an object was, while its memory is used again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cenote_replica::client::Error;
use cenote_replica::memory::block::largest;
use cenote_replica::object::EXTENT_HEADER;
use cenote_replica::verbs::Address;

use super::master::Master;
use super::plan::{BLOCK, OBJECTS, Plan};
use super::run::{drive, empty, join};

/// The reader reads the object at once, the slots late. Between the two the writer frees the object, whose key it has
/// changed eras ago, and binds the key to a new one at the same place. Returns what the reader finds.
pub fn read_over_reuse() -> Vec<u8> {
    let plan = Plan {
        replicas: 1,
        ..Plan::default()
    };
    let world = empty(&plan);
    let (writer, reader) = (join(&world, &plan, 1), join(&world, &plan, 2));
    let found = Rc::new(Cell::new(Vec::new()));
    let of_reader = Rc::clone(&found);
    let shared = Rc::clone(&world);
    let prepare = {
        let (writer, reader, shared) = (Rc::clone(&writer), Rc::clone(&reader), Rc::clone(&shared));
        async move {
            writer.put(b"key", b"one").await.unwrap();
            assert_eq!(reader.get(b"key").await.unwrap().as_deref(), Some(&b"one"[..]));
            writer.put(b"key", b"two").await.unwrap();
            let mut world = shared.borrow_mut();
            world.eras.now = 3;
            world.eras.least = 3;
            world.heard.extend([(1, 3), (2, 3)]);
            world.late = Some((2, Address::new(0, OBJECTS)));
        }
    };
    drive(&world, vec![Box::pin(prepare)]);
    let reads = async move {
        let value = reader.get(b"key").await.unwrap();
        of_reader.set(value.unwrap());
    };
    let writes = async move {
        writer.net().quiesce().await;
        writer.upkeep().await.unwrap();
        writer.put(b"key", b"six").await.unwrap();
        shared.borrow_mut().late = None;
    };
    drive(&world, vec![Box::pin(reads), Box::pin(writes)]);
    found.take()
}

#[test]
fn an_object_of_an_era_before_is_not_believed() {
    let found = read_over_reuse();
    assert!(found == b"six" || found == b"two", "{found:?}");
}

/// A client that has joined under a new master knows an era of that one before the others do, and reads what another
/// one has inserted. One that has not heard of that era yet removes it, and frees it at once after the closing with
/// which all hear of it; its memory gets a part of a long value. Returns what is read of that when the first client has
/// done something else.
pub fn log_over_reuse() -> Result<Option<Vec<u8>>, Error> {
    let plan = Plan::default();
    let world = empty(&plan);
    let [inserting, reading, removing] = [1, 2, 3].map(|number| join(&world, &plan, number));
    // The last extent is as long as the object.
    let long = vec![7; (largest(BLOCK) - EXTENT_HEADER) as usize + 40];
    world.borrow_mut().eras.now = 100;
    world.borrow_mut().heard.insert(2, 100);
    let found = Rc::new(RefCell::new(Ok(None)));
    let mut master = Master::new(&world, &plan, 3);
    let all = {
        let (world, found) = (Rc::clone(&world), Rc::clone(&found));
        async move {
            assert!(inserting.insert(b"key", &[1; 40]).await.unwrap());
            assert!(reading.get(b"key").await.unwrap().is_some());
            assert!(removing.remove(b"key").await.unwrap());
            world.borrow_mut().suspect_regions.insert(0);
            master.close_suspect_regions();
            master.close().await.unwrap();
            {
                let mut world = world.borrow_mut();
                world.eras.least = 100;
                world.heard.extend([(1, 100), (3, 100)]);
            }
            removing.upkeep().await.unwrap();
            assert_eq!(inserting.upkeep().await.unwrap(), 1, "it is free");
            inserting.put(b"long", &long).await.unwrap();
            assert_eq!(reading.get(b"none").await.unwrap(), None);
            *found.borrow_mut() = removing.get(b"long").await;
        }
    };
    drive(&world, vec![Box::pin(all)]);
    found.replace(Ok(None))
}

#[test]
fn no_log_is_written_to_memory_that_is_used_again() {
    let found = log_over_reuse().map(|found| found.map(|value| value.len()));
    assert_eq!(found, Ok(Some((largest(BLOCK) - EXTENT_HEADER) as usize + 40)));
}
