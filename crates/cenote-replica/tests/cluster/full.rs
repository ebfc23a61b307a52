//! Memory that has come to its end: what fails takes nothing with it.

use std::rc::Rc;

use cenote_replica::client::Error;

use super::leaks;
use super::plan::{Plan, layout};
use super::run::{copies_are_equal, drive, empty, join};

/// A client binds keys until a segment would have to be split for which there may be no block; then it tries in vain, again and again, with values of so many bytes, for which there
/// is room. Returns what has become of the memory.
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
