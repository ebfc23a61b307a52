//! What is lost with a memory node, and what is not.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_replica::client::Error;
use cenote_replica::index::layout::Hash;
use cenote_replica::view::NodeId;

use super::master::Master;
use super::plan::{Plan, layout};
use super::run::{drive, empty, join};

type Found = Result<Option<Vec<u8>>, Error>;

/// Two keys that have a fingerprint and a choice of slots in common.
fn alike(plan: &Plan) -> [Vec<u8>; 2] {
    let key = |n: u32| n.to_le_bytes().to_vec();
    let of = |n: u32| {
        let hash = Hash::of(&key(n));
        (hash.fingerprint, layout(plan).segments.choices(&hash))
    };
    let (fingerprint, choices) = of(0);
    let is_alike = |n: &u32| {
        let (other, others) = of(*n);
        other == fingerprint && others[0] == choices[0]
    };
    let other = (1..1_000_000).find(is_alike).unwrap();
    [key(0), key(other)]
}

/// With one copy of everything the object of one of two such keys is lost with its node. Returns what is read of the
/// other one, and of that.
pub fn read_beside_what_is_lost() -> [Found; 2] {
    let plan = Plan {
        replicas: 1,
        ..Plan::default()
    };
    let world = empty(&plan);
    // Their blocks are in the first two regions, which lie on the first two nodes.
    let (one, other) = (join(&world, &plan, 1), join(&world, &plan, 2));
    let [kept, lost] = alike(&plan);
    let found = Rc::new(RefCell::new(Vec::new()));
    let mut master = Master::new(&world, &plan, 2);
    let all = {
        let (world, found) = (Rc::clone(&world), Rc::clone(&found));
        async move {
            one.put(&kept, b"kept").await.unwrap();
            other.put(&lost, b"lost").await.unwrap();
            assert_eq!(one.get(&lost).await.unwrap().unwrap(), b"lost");
            world.borrow_mut().crash(NodeId(2));
            master.add_lost();
            master.close().await.unwrap();
            for key in [kept, lost] {
                let read = other.get(&key).await;
                found.borrow_mut().push(read);
            }
        }
    };
    drive(&world, vec![Box::pin(all)]);
    found.take().try_into().unwrap()
}

#[test]
fn what_is_lost_is_in_nobodys_way() {
    let [kept, lost] = read_beside_what_is_lost();
    assert_eq!(kept, Ok(Some(b"kept".to_vec())));
    assert_eq!(lost, Err(Error::Lost(1)));
}
