//! A reader that knows where a key's object was, while its memory is used again for the same key.

use std::cell::Cell;
use std::rc::Rc;

use cenote_replica::verbs::Address;

use super::plan::{OBJECTS, Plan};
use super::run::{drive, empty, join};

/// The reader reads the object at once, the slots late. Between the two the writer frees the object, whose key it has changed eras ago, and binds the key to a new one at
/// the same place. Returns what the reader finds.
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
        writer.net().settle().await;
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
