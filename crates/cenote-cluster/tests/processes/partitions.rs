//! What clients see is linearizable while machines are cut off, and lose what they send to some others.
//!
//! Three machines have nodes, four have clients, one has the master. `CENOTE_TEST_SEED` repeats what was drawn;
//! `CENOTE_TEST_SECONDS` is how long the clients work.

use std::time::{Duration, Instant};

use cenote_check::history::Event;
use cenote_check::spec::map::{Op, Ret};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::cluster::Cluster;
use super::histories::{Client, judge, set, stop};
use super::machines::{Machine, is_inside, seed};

const NODES: usize = 3;
const CLIENTS: usize = 4;
/// The master's machine; before it there are those of nodes and clients.
const MASTER: usize = NODES + CLIENTS;

/// A cut of the network.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// A machine has no network.
    Off(usize),
    /// What the first machine sends to the second one is lost.
    OneWay(usize, usize),
    /// Two machines do not reach each other.
    Between(usize, usize),
}

impl Cut {
    fn draw(random: &mut SmallRng) -> Self {
        let one = random.random_range(0..=MASTER);
        let other = (one + random.random_range(1..=MASTER)) % (MASTER + 1);
        match random.random_range(0..3) {
            0 => Self::Off(one),
            1 => Self::OneWay(one, other),
            _ => Self::Between(one, other),
        }
    }

    fn set(self, machines: &[Machine], lost: bool) {
        match self {
            Self::Off(one) => machines[one].connect(!lost),
            Self::OneWay(one, other) => machines[one].lose(&machines[other], lost),
            Self::Between(one, other) => {
                machines[one].lose(&machines[other], lost);
                machines[other].lose(&machines[one], lost);
            }
        }
    }

    /// Whether a node may be given up because of it: then no other one may be lost.
    fn endangers_a_node(self) -> bool {
        match self {
            Self::Off(one) => one < NODES || one == MASTER,
            Self::OneWay(one, other) | Self::Between(one, other) => {
                one.max(other) == MASTER && one.min(other) < NODES
            }
        }
    }
}

struct Trial {
    machines: Vec<Machine>,
    cluster: Cluster,
    clients: Vec<Client>,
    random: SmallRng,
    events: Vec<Event<Op, Ret>>,
}

impl Trial {
    fn pause(&mut self, from: u64, to: u64) {
        std::thread::sleep(Duration::from_millis(self.random.random_range(from..to)));
    }

    fn client(&mut self, number: usize) -> Client {
        let place = self.machines[NODES + number].place();
        Client::start(&place, "client", &self.cluster.at, self.random.random())
    }

    /// Something befalls a process.
    fn strike(&mut self, may_lose_a_node: bool) {
        let (node, client) = (
            self.random.random_range(0..NODES),
            self.random.random_range(0..CLIENTS),
        );
        match self.random.random_range(if may_lose_a_node { 0 } else { 3 }..8) {
            0 | 1 => {
                self.cluster.nodes[node].0.signal(libc::SIGKILL);
                let at = self.cluster.nodes[node].1;
                self.cluster
                    .wait(|status| !status.nodes.iter().any(|node| node.address == at && node.alive));
            }
            2 => stop(&self.cluster.nodes[node].0, &mut self.random, 2000),
            3 | 4 => {
                let new = self.client(client);
                let events = std::mem::replace(&mut self.clients[client], new).end();
                self.events.extend(events);
            }
            5 => stop(&self.clients[client].process, &mut self.random, 4500),
            6 => stop(&self.cluster.master, &mut self.random, 600),
            _ => self.cluster.restart_master(),
        }
    }

    /// The network is cut, and perhaps something befalls a process meanwhile.
    fn cut(&mut self) {
        let cut = Cut::draw(&mut self.random);
        cut.set(&self.machines, true);
        self.pause(20, 2500);
        // The test itself does not reach a master that is cut off.
        if self.random.random() && !matches!(cut, Cut::Off(MASTER)) {
            self.strike(!cut.endangers_a_node());
        }
        cut.set(&self.machines, false);
    }
}

#[test]
fn histories_are_linearizable_however_the_network_is_cut() {
    if !is_inside("partitions::histories_are_linearizable_however_the_network_is_cut") {
        return;
    }
    let seed = seed();
    let time = Duration::from_secs(set("CENOTE_TEST_SECONDS", 6));
    println!("CENOTE_TEST_SEED={seed}");
    let machines: Vec<Machine> = (1..=MASTER as u8 + 1).map(Machine::new).collect();
    let places = machines[..NODES].iter().map(Machine::place).collect();
    let cluster = Cluster::at(machines[MASTER].place(), places, 2);
    let mut trial = Trial {
        machines,
        cluster,
        clients: Vec::new(),
        random: SmallRng::seed_from_u64(seed),
        events: Vec::new(),
    };
    for number in 0..CLIENTS {
        let client = trial.client(number);
        trial.clients.push(client);
    }
    let begun = Instant::now();
    while begun.elapsed() < time {
        trial.pause(50, 500);
        match trial.random.random_range(0..3) {
            0 => trial.strike(true),
            _ => trial.cut(),
        }
        trial.cluster.repair();
    }
    trial.pause(500, 501);
    let mut events = trial.events;
    events.extend(trial.clients.into_iter().flat_map(Client::end));
    judge(&trial.cluster, events);
}
