//! Handles over connections that lose, repeat and reorder.

use std::collections::VecDeque;
use std::time::Duration;

use cenote::Acquired;
use cenote::remote::LockClient;
use cenote::sync::directory::messages::Directory;
use cenote::sync::directory::messages::directory::Limits;
use cenote::sync::directory::messages::message::{ToDirectory, ToNode};
use cenote::sync::directory::service::channel;
use cenote::sync::directory::service::hub::DirectoryThread;
use cenote::sync::directory::service::link::{Incoming, Link, LinkError, Outgoing};

/// What may have been lost is sent again soon, so that the test is short.
const RESEND: Duration = Duration::from_millis(2);

/// SplitMix64.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// One direction of a network.
struct Network<M> {
    draws: Draws,
    /// Messages on their way.
    late: VecDeque<M>,
}

impl<M: Clone> Network<M> {
    fn new(seed: u64) -> Self {
        Self {
            draws: Draws(seed),
            late: VecDeque::new(),
        }
    }

    /// A message is sent. Returns one that arrives, which may be another one.
    fn pass(&mut self, message: M) -> Option<M> {
        match self.draws.below(20) {
            0 => None,
            1 => {
                self.late.push_back(message.clone());
                Some(message)
            }
            2 => {
                self.late.push_back(message);
                self.late.pop_front()
            }
            3 => {
                self.late.push_back(message);
                None
            }
            _ => Some(message),
        }
    }
}

struct Out(Network<ToDirectory>, Box<dyn Outgoing>);

impl Outgoing for Out {
    fn send(&mut self, message: ToDirectory) -> Result<(), LinkError> {
        let late = match self.0.draws.below(4) {
            0 => self.0.late.pop_front(),
            _ => None,
        };
        let arrives = self.0.pass(message);
        arrives
            .into_iter()
            .chain(late)
            .try_for_each(|message| self.1.send(message))
    }
}

struct In(Network<ToNode>, Box<dyn Incoming>);

impl Incoming for In {
    fn receive(&mut self, longest: Duration) -> Result<Option<ToNode>, LinkError> {
        match self.1.receive(longest)? {
            Some(message) => Ok(self.0.pass(message)),
            None => Ok(self.0.late.pop_front()),
        }
    }
}

#[test]
fn nodes_count_together_over_connections_that_lose_repeat_and_reorder() {
    const NODES: u64 = 3;
    const TIMES: u64 = 60;
    let directory = Directory::new(Limits {
        lease: 30_000_000,
        locks: 1,
        bytes: 1 << 10,
    });
    let directory = DirectoryThread::start_with(directory, RESEND).unwrap();
    let connect = |seed: u64| {
        let link = channel::connect(&directory.hub(), "").unwrap();
        println!("seed {seed}");
        LockClient::over(Link {
            resend: RESEND,
            outgoing: Box::new(Out(Network::new(seed), link.outgoing)),
            incoming: Box::new(In(Network::new(!seed), link.incoming)),
            ..link
        })
    };
    std::thread::scope(|scope| {
        for seed in 1..=NODES {
            let client = connect(seed).unwrap();
            scope.spawn(move || {
                let lock = client.rwlock::<u64>("count").unwrap();
                for n in 0..TIMES {
                    let before = *lock.read().unwrap();
                    let mut guard = lock.write().unwrap();
                    assert_eq!(guard.acquired(), Acquired::Clean);
                    assert!(before <= *guard);
                    *guard += 1;
                    match n % 5 {
                        0 => guard.set_note(n).unwrap(),
                        1 => guard.commit().unwrap(),
                        _ => {}
                    }
                }
                drop(lock);
                client.close().unwrap();
            });
        }
    });
    let client = LockClient::over(channel::connect(&directory.hub(), "").unwrap()).unwrap();
    let lock = client.rwlock::<u64>("count").unwrap();
    assert_eq!(*lock.read().unwrap(), NODES * TIMES);
}
