//! What clients see while masters that lead are killed and stopped, and while etcd is away, is linearizable.
//!
//! `CENOTE_TEST_SEED` repeats what was drawn; `CENOTE_TEST_ROUNDS` is how often everything befalls the cluster.

use std::time::Duration;

use cenote_check::history::History;
use cenote_check::linear::{Options, check_parts};
use cenote_check::spec::map::Map;
use cenote_cluster::control::{Request, Response};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::clients::BULK;
use super::super::cluster::{Cluster, Place, node};
use super::super::histories::{Client, set};
use super::{Elected, until};

/// Longer than a leader leads without hearing from etcd.
const LONGER: Duration = Duration::from_millis(2500);

impl Elected {
    /// Kills the leader, and waits until another one leads; then a further master stands by.
    fn kill_the_leader(&mut self) {
        let leader = self.leader();
        let before = self.status().term;
        self.masters[leader].0.signal(libc::SIGKILL);
        self.masters[leader].0.0.wait().unwrap();
        let at = self.masters[leader].1;
        let status = self.wait(|_| true);
        assert!(status.term > before, "{} after {before}", status.term);
        // At the address that clients know.
        self.masters[leader] = self.master_at(&at.to_string(), &[]);
    }

    /// Puts other nodes in the place of those that were given up. One may be, as it had no processor for as long as its
    /// lease.
    fn repair(&mut self) {
        let status = self.wait(|status| status.closed == 0);
        for place in 0..self.nodes.len() {
            let at = self.nodes[place].1;
            if !status.nodes.iter().any(|node| node.address == at && node.alive) {
                self.replace(place);
            }
        }
        self.wait(Cluster::is_whole);
    }

    fn replace(&mut self, place: usize) {
        self.nodes[place] = node();
        let address = self.nodes[place].1;
        assert_eq!(self.ask(&Request::AddNode { address }), Response::Done);
    }

    /// Stops the leader for longer than its lease. Meanwhile another one leads, and gives a node up, which the stopped
    /// one takes for alive.
    fn stop_the_leader(&mut self, victim: usize) {
        let leader = self.leader();
        self.masters[leader].0.signal(libc::SIGSTOP);
        let other = 1 - leader;
        until("another one leads", || {
            matches!(self.told(other), Some(Response::Status(_)))
        });
        self.nodes[victim].0.signal(libc::SIGKILL);
        self.replace(victim);
        let status = self.wait(Cluster::is_whole);
        self.masters[leader].0.signal(libc::SIGCONT);
        until("the one that was stopped stands by", || {
            matches!(self.told(leader), Some(Response::Standby { leader: Some(_) }))
        });
        let now = self.status();
        assert!(now.term >= status.term && now.view >= status.view, "{now:#?}");
    }
}

#[test]
fn histories_are_linearizable_whichever_master_leads() {
    let seed = set("CENOTE_TEST_SEED", u64::from(std::process::id()));
    println!("CENOTE_TEST_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut cluster = Elected::new(2);
    let masters = cluster.all();
    let clients: Vec<Client> = (0..3)
        .map(|_| Client::start(&Place::here(), "client", &masters, random.random()))
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..set("CENOTE_TEST_ROUNDS", 1) {
        cluster.kill_the_leader();
        cluster.repair();
        cluster.stop_the_leader(random.random_range(0..3));
        // Without etcd for longer than the lease: nobody leads, and all goes on later.
        let before = cluster.status();
        cluster.etcd.restart(LONGER);
        let after = cluster.wait(Cluster::is_whole);
        assert!(after.term > before.term);
        cluster.repair();
        std::thread::sleep(Duration::from_millis(300));
    }
    let events: Vec<_> = clients.into_iter().flat_map(Client::end).collect();
    cluster.wait(|status| status.sessions.is_empty());
    let map = cluster.map();
    for key in BULK..2 * BULK {
        let bytes = key.to_le_bytes();
        assert!(
            map.get(&bytes).unwrap().is_none_or(|value| value == bytes),
            "key {key}"
        );
    }
    map.close();
    let done = events.iter().filter(|event| event.returned.is_some()).count();
    println!("{done} calls of {}", events.len());
    let verdict = check_parts(&Map, &History::new(events).unwrap(), &Options::default());
    assert!(verdict.is_linearizable(), "{verdict:?}");
    assert!(done > 100, "{done}");
}

#[test]
fn operations_go_on_while_etcd_is_away_for_less_than_the_lease() {
    let mut cluster = Elected::new(1);
    let mut map = cluster.map();
    let term = cluster.status().term;
    map.put(b"before", b"1").unwrap();
    cluster.etcd.signal(libc::SIGSTOP);
    map.put(b"meanwhile", b"2").unwrap();
    assert_eq!(map.get(b"before").unwrap().unwrap(), b"1");
    std::thread::scope(|scope| {
        let comes_back = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(700));
            cluster.etcd.signal(libc::SIGCONT);
        });
        let mut n = 0_u64;
        while !comes_back.is_finished() {
            map.put(b"meanwhile", &n.to_le_bytes()).unwrap();
            n += 1;
        }
    });
    for n in 0_u64..200 {
        map.put(b"later", &n.to_le_bytes()).unwrap();
    }
    assert!(!map.has_ended());
    // A master that is told to stop gives its lease back.
    let other = cluster.master(&[]);
    assert_eq!(cluster.ask(&Request::Stop), Response::Done);
    cluster.masters.push(other);
    cluster.masters.remove(0).0.0.wait().unwrap();
    let status = cluster.status();
    assert!(status.term > term);
    assert_eq!(
        cluster.map().get(b"later").unwrap().unwrap(),
        199_u64.to_le_bytes()
    );
}
