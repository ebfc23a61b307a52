//! Nodes that lose their network for less than the lease, and for more.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use cenote::Acquired;
use cenote::remote::{Error, LeaseState, LockClient};
use cenote::sync::directory::messages::Directory;
use cenote::sync::directory::messages::directory::Limits;
use cenote::sync::directory::messages::message::{NodeSays, Open, Session, ToDirectory, ToNode};
use cenote::sync::directory::queue::Permission;
use cenote::sync::directory::service::channel;
use cenote::sync::directory::service::hub::{DirectoryThread, Hub};
use cenote::sync::directory::service::link::{Incoming, Link, LinkError, Outgoing};
use cenote::sync::directory::service::outbox::Taken;

const LEASE: Duration = Duration::from_secs(1);

/// A network that can be cut without either side being told, and heals with all messages that were kept back.
#[derive(Clone, Default)]
struct Network(Arc<(Mutex<Kept>, Condvar)>);

#[derive(Default)]
struct Kept {
    /// The node is not heard.
    is_mute: bool,
    /// The node does not hear.
    is_deaf: bool,
    to_directory: Vec<ToDirectory>,
}

impl Network {
    fn set(&self, is_mute: bool, is_deaf: bool) {
        let mut kept = self.0.0.lock().unwrap();
        (kept.is_mute, kept.is_deaf) = (is_mute, is_deaf);
        self.0.1.notify_all();
    }

    fn cut(&self, is_cut: bool) {
        self.set(is_cut, is_cut);
    }
}

struct Out(Network, Box<dyn Outgoing>);

impl Outgoing for Out {
    fn send(&mut self, message: ToDirectory) -> Result<(), LinkError> {
        let mut kept = self.0.0.0.lock().unwrap();
        kept.to_directory.push(message);
        if kept.is_mute {
            return Ok(());
        }
        std::mem::take(&mut kept.to_directory)
            .into_iter()
            .try_for_each(|message| self.1.send(message))
    }
}

struct In(Network, Box<dyn Incoming>);

impl Incoming for In {
    fn receive(&mut self, longest: Duration) -> Result<Option<ToNode>, LinkError> {
        let kept = self.0.0.0.lock().unwrap();
        let waited = self
            .0
            .0
            .1
            .wait_timeout_while(kept, longest, |kept| kept.is_deaf)
            .unwrap();
        match waited.0.is_deaf {
            true => Ok(None),
            false => self.1.receive(Duration::from_millis(10)),
        }
    }
}

fn directory() -> DirectoryThread {
    let lease = LEASE.as_micros() as u64;
    DirectoryThread::start(Directory::new(Limits {
        lease,
        locks: 8,
        bytes: 1 << 10,
    }))
    .unwrap()
}

fn connect(hub: &Hub, network: &Network) -> LockClient {
    let link = channel::connect(hub, "").unwrap();
    let link = Link {
        outgoing: Box::new(Out(network.clone(), link.outgoing)),
        incoming: Box::new(In(network.clone(), link.incoming)),
        ..link
    };
    LockClient::over(link).unwrap()
}

fn wait_for(client: &LockClient, lease_state: LeaseState) {
    while client.lease_state() != lease_state {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_node_that_was_away_for_longer_than_its_lease_is_fenced() {
    let (directory, network) = (directory(), Network::default());
    let (away, other) = (
        connect(&directory.hub(), &network),
        connect(&directory.hub(), &Network::default()),
    );
    let mine = away.rwlock::<u64>("stock").unwrap();
    let theirs = other.rwlock::<u64>("stock").unwrap();
    let mut guard = mine.write().unwrap();
    *guard = 7;
    guard.commit().unwrap();
    let mut guard = mine.write().unwrap();
    let token = guard.fencing_token();
    network.cut(true);
    *guard = 8;
    // Nobody else can have it as long as this says so.
    guard.verify().unwrap();
    let successor = theirs.write().unwrap();
    assert_eq!(
        guard.verify(),
        Err(Error::Unconfirmed),
        "before another node has it, its holder knows that it may"
    );
    let told = Acquired::Recovered {
        from: away.owner(),
        note: 0,
    };
    assert_eq!((successor.acquired(), *successor), (told, 7));
    assert!(successor.fencing_token() > token);
    // It goes on, and what it says is not heard.
    *guard = 9;
    assert_eq!(*successor, 7);
    assert_eq!(guard.unlock(), Err(Error::Unconfirmed));
    assert_eq!(mine.write_for(Duration::from_millis(20)).err(), None);
    assert!(mine.try_read().unwrap().is_none());
    network.cut(false);
    wait_for(&away, LeaseState::Ended);
    assert_eq!(mine.read().err(), Some(Error::Fenced));
    drop(successor);
    let guard = theirs.read().unwrap();
    assert_eq!((guard.acquired(), *guard), (Acquired::Clean, 7));
    assert_eq!(away.close(), Err(Error::Fenced));
}

#[test]
fn a_node_whose_answers_come_late_goes_on() {
    let (directory, network) = (directory(), Network::default());
    let client = connect(&directory.hub(), &network);
    let lock = client.rwlock::<u64>("stock").unwrap();
    let mut guard = lock.write().unwrap();
    *guard = 5;
    // The service hears it all the time.
    network.set(false, true);
    wait_for(&client, LeaseState::Unconfirmed);
    assert_eq!(guard.set_note(1), Err(Error::Unconfirmed));
    network.set(false, false);
    wait_for(&client, LeaseState::Confirmed);
    guard.set_note(2).unwrap();
    guard.unlock().unwrap();
    let guard = lock.read().unwrap();
    assert_eq!((guard.acquired(), *guard), (Acquired::Clean, 5));
    drop(guard);
    client.close().unwrap();
}

#[test]
fn a_node_that_is_silent_is_declared_dead_though_its_connection_lives() {
    let (directory, network) = (directory(), Network::default());
    let silent = connect(&directory.hub(), &network);
    let lock = silent.rwlock::<u64>("stock").unwrap();
    // It waits, and then says nothing more: the others do not wait for it.
    let other = connect(&directory.hub(), &Network::default());
    let theirs = other.rwlock::<u64>("stock").unwrap();
    let guard = theirs.write().unwrap();
    assert!(lock.write_for(Duration::from_millis(10)).unwrap().is_none());
    network.cut(true);
    drop(guard);
    let third = connect(&directory.hub(), &Network::default());
    let guard = third.rwlock::<u64>("stock").unwrap();
    drop(guard.write().unwrap());
    network.cut(false);
    wait_for(&silent, LeaseState::Ended);
}

/// A node of the test's own gets a lock to write.
fn take(hub: &Hub) -> Session {
    let (session, outbox) = hub.join(String::new()).unwrap();
    let open = NodeSays::Open(Box::new(Open {
        serial: 1,
        name: "stock".to_owned(),
        regions: Some(vec![8]),
    }));
    let request = NodeSays::Request {
        ticket: 1,
        wants: Permission::Exclusive,
        known: 0,
    };
    for (lock, says) in [(0, open), (1, request)] {
        hub.receive(ToDirectory { session, lock, says });
        let reply = outbox.take(Some(Duration::from_secs(20)));
        assert!(matches!(reply, Taken::Message(_)), "{reply:?}");
    }
    session
}

/// What the network has cut may live, and count on its lease. What its own kernel has ended does not.
#[test]
fn a_connection_that_is_lost_is_no_death_before_the_lease_has_run_out() {
    let directory = directory();
    let hub = directory.hub();
    for is_dead in [false, true] {
        let session = take(&hub);
        let began = Instant::now();
        match is_dead {
            true => hub.end(session),
            false => hub.lose(session),
        }
        let client = connect(&hub, &Network::default());
        let lock = client.rwlock::<u64>("stock").unwrap();
        if is_dead {
            // At once: the service does as it is told, in the order in which it is.
            assert_eq!(hub.status().unwrap().locks[0].writer, None);
        }
        let told = Acquired::Recovered {
            from: session.owner(),
            note: 0,
        };
        assert_eq!(lock.write().unwrap().acquired(), told);
        assert!(is_dead || began.elapsed() >= LEASE);
    }
}
