//! What a relay remembers between its polls.

use super::*;
use crate::memory::Mapped;
use crate::pod::pool_for_tests::{TestPool, on_both};

fn what_a_heartbeat_finds_is_news_for_who_tells_other_hosts<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let mut relay = Relay::default();
    relay.poll(&pool.mem);
    relay.take_news();
    event_count::notify_all(&pool.mem, GROUP_EVENTS);
    // The thread of heartbeats comes first.
    assert!(relay.poll(&pool.mem));
    assert!(!relay.poll_between(&pool.mem));
    assert!(relay.take_news());
    assert!(!relay.take_news());
}

fn polls_between_heartbeats_do_not_use_up_the_repeated_wakes<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(4);
    let mut relay = Relay::default();
    event_count::notify_all(&pool.mem, GROUP_EVENTS);
    for _ in 0..10 {
        relay.poll_between(&pool.mem);
    }
    let left = |relay: &Relay| relay.heard.iter().map(|heard| heard.again).max();
    assert_eq!(left(&relay), Some(AGAIN + 1));
    for _ in 0..=AGAIN {
        relay.poll(&pool.mem);
    }
    assert_eq!(left(&relay), Some(0));
}

on_both!(
    what_a_heartbeat_finds_is_news_for_who_tells_other_hosts,
    polls_between_heartbeats_do_not_use_up_the_repeated_wakes
);
