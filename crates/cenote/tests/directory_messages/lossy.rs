//! Handles over connections that lose, repeat and reorder.

use std::collections::VecDeque;
use std::time::Duration;

use cenote::sync::directory::messages::hub::DirectoryThread;
use cenote::sync::directory::messages::link::{Incoming, Link, LinkError, Outgoing};
use cenote::sync::directory::messages::message::{ToDirectory, ToNode};
use cenote::sync::directory::messages::{Directory, RemoteLock, RemoteNode, channel};

use crate::random::Draws;

const LOCK: u64 = 3;

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
    fn send(&mut self, message: &ToDirectory) -> Result<(), LinkError> {
        let late = match self.0.draws.below(4) {
            0 => self.0.late.pop_front(),
            _ => None,
        };
        let arrives = self.0.pass(message.clone());
        arrives
            .iter()
            .chain(&late)
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
    let mut directory = Directory::new();
    directory.create(LOCK, vec![0; 8]);
    let directory = DirectoryThread::start(directory).unwrap();
    let connect = |seed: u64| {
        let link = channel::connect(&directory.hub()).unwrap();
        println!("seed {seed}");
        Link {
            outgoing: Box::new(Out(Network::new(seed), link.outgoing)),
            incoming: Box::new(In(Network::new(!seed), link.incoming)),
            ..link
        }
    };
    std::thread::scope(|scope| {
        for seed in 1..=NODES {
            let node = RemoteNode::new(connect(seed)).unwrap();
            scope.spawn(move || {
                let lock = RemoteLock::new(&node, LOCK);
                for _ in 0..TIMES {
                    let before = u64::from_le_bytes(lock.read().unwrap()[..].try_into().unwrap());
                    let mut guard = lock.write().unwrap();
                    let count = u64::from_le_bytes(guard[..].try_into().unwrap());
                    assert!(before <= count);
                    guard.copy_from_slice(&(count + 1).to_le_bytes());
                }
            });
        }
    });
    let node = RemoteNode::new(channel::connect(&directory.hub()).unwrap()).unwrap();
    let lock = RemoteLock::new(&node, LOCK);
    let count = u64::from_le_bytes(lock.read().unwrap()[..].try_into().unwrap());
    assert_eq!(count, NODES * TIMES);
}
