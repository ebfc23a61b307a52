//! Peers that are slow, say nothing, say too much, or say what nobody says.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use cenote::remote::{
    Address, ConnectError, Error, LeaseState, LockClient, LockService, ServiceOptions, status,
};
use cenote::sync::directory::messages::message::{
    DirectorySays, Grant, NodeSays, Session, ToDirectory, ToNode, Transfer,
};
use cenote::sync::directory::messages::region::{Change, Region};
use cenote::sync::directory::node::{Node, Nodes};
use cenote::sync::directory::queue::{Handover, Permission, Queue, Request};
use cenote::sync::directory::service::greeting::{Answer, Purpose, answer, hello, read_answer};
use cenote::sync::directory::service::link::{Incoming, Link, LinkError};
use cenote::sync::directory::service::{channel, hub::DirectoryThread};

/// A thread that has ended by then has ended; no other is waited for as long.
const LONG: Duration = Duration::from_secs(20);

struct Here {
    _folder: tempfile::TempDir,
    path: PathBuf,
    address: Address,
}

fn here() -> Here {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks");
    Here {
        address: Address::Unix(path.clone()),
        _folder: folder,
        path,
    }
}

fn service(address: &Address) -> LockService {
    let service = LockService::start(&ServiceOptions::default()).unwrap();
    service.listen(address).unwrap();
    service
}

fn next_frame(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut body = vec![0; u32::from_le_bytes(head) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// A node of the test's own, which says whatever it likes.
fn join(path: &Path) -> (UnixStream, Session) {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(&hello(Purpose::Join, "stranger")).unwrap();
    let body = next_frame(&mut stream).unwrap();
    let Ok(Answer::Welcome(session, _)) = read_answer(&body) else {
        panic!("not let in");
    };
    (stream, session)
}

/// Loses that a transfer was accepted, for as long as it is not told to let it through.
struct Late {
    incoming: Box<dyn Incoming>,
    let_through: mpsc::Receiver<()>,
    is_open: bool,
}

impl Incoming for Late {
    fn receive(&mut self, longest: Duration) -> Result<Option<ToNode>, LinkError> {
        self.is_open |= self.let_through.try_recv().is_ok();
        match self.incoming.receive(longest)? {
            Some(message) if matches!(message.says, DirectorySays::Transferred { .. }) => {
                Ok(Some(message).filter(|_| self.is_open))
            }
            other => Ok(other),
        }
    }
}

#[test]
fn a_node_that_leaves_gives_no_lock_to_its_threads() {
    let directory = cenote::sync::directory::messages::Directory::new(
        cenote::sync::directory::messages::directory::Limits {
            lease: 60_000_000,
            locks: 1,
            bytes: 64,
        },
    );
    let directory = DirectoryThread::start(directory).unwrap();
    let (open, let_through) = mpsc::channel();
    let link = channel::connect(&directory.hub(), "").unwrap();
    let late = Late {
        incoming: link.incoming,
        let_through,
        is_open: false,
    };
    let link = Link {
        incoming: Box::new(late),
        ..link
    };
    let one = LockClient::over(link).unwrap();
    let other = LockClient::over(channel::connect(&directory.hub(), "").unwrap()).unwrap();
    let mine = one.rwlock::<u64>("stock").unwrap();
    let theirs = other.rwlock::<u64>("stock").unwrap();
    *mine.write().unwrap() = 1;
    std::thread::scope(|scope| {
        let leaves = scope.spawn(move || one.close());
        let mut guard = theirs.write().unwrap();
        *guard += 1;
        // The lock is handed over, and the node that leaves, or is about to, does not know it yet.
        let refused = loop {
            match mine.try_read() {
                Ok(guard) => assert!(guard.is_none()),
                Err(error) => break error,
            }
            std::thread::yield_now();
        };
        assert_eq!(refused, Error::Closed);
        open.send(()).unwrap();
        assert_eq!(leaves.join().unwrap(), Ok(()));
        assert_eq!(*guard, 2);
    });
}

#[test]
fn a_node_that_leaves_while_it_waits_is_not_told_of_as_dead() {
    let here = here();
    let service = service(&here.address);
    let holder = service.client("").unwrap();
    let lock = holder.rwlock::<u64>("stock").unwrap();
    for _ in 0..20 {
        let leaver = LockClient::connect(&here.address).unwrap();
        let wanted = leaver.rwlock::<u64>("stock").unwrap();
        let guard = lock.write().unwrap();
        assert_eq!(guard.acquired(), cenote::Acquired::Clean);
        assert!(wanted.write_for(Duration::from_millis(1)).unwrap().is_none());
        // Now the lock goes to the node, which has left, or is about to.
        drop(guard);
        leaver.close().unwrap();
    }
    assert_eq!(lock.write().unwrap().acquired(), cenote::Acquired::Clean);
}

#[test]
fn a_service_that_reads_nothing_does_not_hold_up_who_waits_with_a_timeout() {
    let here = here();
    let listener = UnixListener::bind(&here.path).unwrap();
    let (is_over, over) = mpsc::channel::<()>();
    // A service of one node, which is stopped once it has granted a lock of 1 MiB to write, with one that waits in its
    // queue.
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        next_frame(&mut stream).unwrap();
        let session = Session::new(Node::new(0).unwrap(), 1);
        stream
            .write_all(&answer(Answer::Welcome(session, 60_000_000)))
            .unwrap();
        let next = |stream: &mut UnixStream| ToDirectory::decode(&next_frame(stream).unwrap()).unwrap().says;
        let reply = |stream: &mut UnixStream, says| {
            let message = ToNode {
                session,
                lock: 1,
                says,
            };
            stream.write_all(&message.encode()).unwrap();
        };
        while !matches!(next(&mut stream), NodeSays::Open(_)) {}
        let regions = vec![1 << 20];
        reply(&mut stream, DirectorySays::Opened { serial: 1, regions });
        let request = Request {
            node: Node::new(1).unwrap(),
            wants: Permission::Exclusive,
        };
        let grant = |ticket| Grant {
            ticket,
            permission: Permission::Exclusive,
            epoch: ticket,
            queue: [request].into_iter().collect::<Queue>(),
            changes: Vec::new(),
            former: None,
        };
        let asked = loop {
            if let NodeSays::Request { ticket, .. } = next(&mut stream) {
                break ticket;
            }
        };
        reply(&mut stream, DirectorySays::Grant(Box::new(grant(asked))));
        let _ = over.recv();
    });
    let client = LockClient::connect(&here.address).unwrap();
    let lock = client.regions_builder("much").region(1 << 20).open().unwrap();
    let mut guard = lock.write().unwrap();
    guard.region_mut(0)[0] = 1;
    // A transfer of 1 MiB, which the socket does not hold.
    drop(guard);
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        assert!(lock.write_for(Duration::from_millis(100)).unwrap().is_none());
        drop(client);
        done.send(()).unwrap();
    });
    is_done
        .recv_timeout(LONG)
        .expect("100 ms, and 2 s to leave, have not ended");
    drop(is_over);
    server.join().unwrap();
}

#[test]
fn a_peer_that_says_a_byte_now_and_then_does_not_hold_up_who_connects() {
    let here = here();
    let listener = UnixListener::bind(&here.path).unwrap();
    let (is_over, over) = mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let pause = Duration::from_millis(30);
            for byte in [17, 0, 0, 0].into_iter().chain([0; 10]).cycle() {
                if stream.write_all(&[byte]).is_err() || over.recv_timeout(pause).is_ok() {
                    break;
                }
            }
        }
    });
    let time = Duration::from_millis(300);
    let joined = LockClient::connect_as(&here.address, "", time).err();
    assert!(
        matches!(
            joined,
            Some(ConnectError::Silent { .. } | ConnectError::NotALockService { .. })
        ),
        "{joined:?}"
    );
    let asked = cenote::sync::directory::service::connect::status(&here.address, time).err();
    assert!(
        matches!(
            asked,
            Some(ConnectError::Silent { .. } | ConnectError::NotALockService { .. })
        ),
        "{asked:?}"
    );
    drop(is_over);
    server.join().unwrap();
}

#[test]
fn who_listens_nowhere_or_is_no_service_is_told_of() {
    let here = here();
    let error = |address: &Address| LockClient::connect(address).err().unwrap();
    assert!(matches!(error(&here.address), ConnectError::Unreachable { .. }));
    assert!(matches!(
        error(&"no-such-host.invalid:1".parse().unwrap()),
        ConnectError::Unreachable { .. }
    ));
    let listener = UnixListener::bind(&here.path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Until the other side has had enough.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert!(matches!(
        error(&here.address),
        ConnectError::NotALockService { .. }
    ));
    server.join().unwrap();
}

#[test]
fn strangers_that_say_nothing_take_no_numbers() {
    let here = here();
    let service = service(&here.address);
    let strangers: Vec<UnixStream> = (0..64)
        .map(|_| UnixStream::connect(&here.path).unwrap())
        .collect();
    let clients: Vec<LockClient> = (0..40)
        .map(|_| LockClient::connect(&here.address).unwrap())
        .collect();
    assert_eq!(service.status().unwrap().nodes.len(), clients.len());
    // Now there is no number left, and who is turned away is told.
    let turned_away = LockClient::connect(&here.address).err();
    assert!(
        matches!(turned_away, Some(ConnectError::TooManyNodes)),
        "{turned_away:?}"
    );
    assert_eq!(status(&here.address).unwrap().nodes.len(), clients.len());
    drop((clients, strangers));
    while !service.status().unwrap().nodes.is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    LockClient::connect(&here.address).unwrap();
}

#[test]
fn more_connections_than_there_are_nodes_for_are_cut() {
    let here = here();
    let service = service(&here.address);
    let mut strangers: Vec<UnixStream> = (0..300)
        .map(|_| UnixStream::connect(&here.path).unwrap())
        .collect();
    // The last ones are cut at once, the first ones have some seconds for their hello.
    let mut last = strangers.pop().unwrap();
    assert_eq!(last.read(&mut [0; 8]).unwrap(), 0);
    strangers[0].set_nonblocking(true).unwrap();
    assert!(strangers[0].read(&mut [0; 8]).is_err());
    drop(strangers);
    while LockClient::connect(&here.address).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(service);
}

#[test]
fn a_listener_ends_although_its_path_is_another_socket_by_now() {
    let here = here();
    let service = service(&here.address);
    std::fs::remove_file(&here.path).unwrap();
    let _other = UnixListener::bind(&here.path).unwrap();
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        drop(service);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LONG).expect("it ends");
    assert!(here.path.exists(), "it has removed the other one's socket");
}

#[test]
fn a_socket_that_was_left_is_replaced_and_nothing_else_is() {
    let here = here();
    drop(UnixListener::bind(&here.path).unwrap());
    let first = service(&here.address);
    let second = LockService::start(&ServiceOptions::default()).unwrap();
    let refused = second.listen(&here.address).err();
    assert!(
        matches!(refused, Some(ConnectError::Unavailable { .. })),
        "{refused:?}"
    );
    drop(first);
    std::fs::write(&here.path, "mine").unwrap();
    assert!(second.listen(&here.address).is_err());
    assert_eq!(std::fs::read(&here.path).unwrap(), b"mine");
    let tcp = second.listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
    assert!(second.listen(&tcp).is_err());
}

/// Bytes that are no messages end their own connection, and nothing else.
#[test]
fn who_sends_what_is_no_message_is_cut() {
    let here = here();
    let service = service(&here.address);
    let tcp = service
        .listen(&"127.0.0.1:0".parse().unwrap())
        .unwrap()
        .to_string();
    let client = LockClient::connect(&here.address).unwrap();
    let lock = client.rwlock::<u64>("stock").unwrap();
    *lock.write().unwrap() = 1;
    let nonsense: [&[u8]; 5] = [
        &[0xff; 64],
        &[0, 0, 0, 0],
        &[3, 0, 0, 0, 1, 2, 3],
        &[64, 0, 0, 0, 1],
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for bytes in nonsense {
        let mut hostile = TcpStream::connect(&tcp).unwrap();
        hostile.write_all(bytes).unwrap();
        hostile.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let _ = hostile.read_to_end(&mut rest);
        assert!(rest.is_empty());
        let (mut hostile, _) = join(&here.path);
        hostile.write_all(bytes).unwrap();
        hostile.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = hostile.read_to_end(&mut rest);
    }
    // Who speaks for another session, who transfers what it has not got.
    let (mut hostile, session) = join(&here.path);
    let of_client = Session::new(Node::new(0).unwrap(), 1);
    let leave = |session| ToDirectory {
        session,
        lock: 0,
        says: NodeSays::Leave,
    };
    hostile.write_all(&leave(of_client).encode()).unwrap();
    let _ = hostile.read_to_end(&mut Vec::new());
    assert_ne!(session, of_client);
    *lock.write().unwrap() += 1;
    assert_eq!(
        (*lock.read().unwrap(), client.lease_state()),
        (2, LeaseState::Confirmed)
    );
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

/// It writes a lock of 1 MiB again and again, and fetches none of the grants, each of which brings other data.
#[test]
fn a_node_that_reads_nothing_has_the_service_keep_little() {
    const TIMES: u64 = 150;
    let here = here();
    let service = service(&here.address);
    service
        .client("")
        .unwrap()
        .regions_builder("much")
        .region(1 << 20)
        .open()
        .unwrap();
    let (mut stream, session) = join(&here.path);
    let before = resident_mib();
    let mut say = |says| {
        stream
            .write_all(
                &ToDirectory {
                    session,
                    lock: 1,
                    says,
                }
                .encode(),
            )
            .unwrap()
    };
    for n in 1..=TIMES {
        say(NodeSays::Request {
            ticket: n,
            wants: Permission::Exclusive,
            known: 0,
        });
        say(NodeSays::Transfer(Box::new(Transfer {
            epoch: 2 * n - 1,
            version: 0,
            handover: Handover {
                readers: Nodes::NONE,
                writer: None,
                rest: Queue::default(),
            },
            changes: vec![Change {
                region: 0,
                bytes: std::sync::Arc::new(Region::of(&vec![n as u8; 1 << 20])),
            }],
            former: None,
        })));
    }
    let until = Instant::now() + LONG;
    while service.status().unwrap().locks[0].transfers < TIMES && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(service.status().unwrap().locks[0].transfers, TIMES);
    let grown = resident_mib().saturating_sub(before);
    assert!(grown < TIMES / 2, "{grown} MiB more are kept for one node");
}

#[test]
fn a_socket_is_never_open_to_other_users() {
    let here = here();
    let (end, is_over) = mpsc::channel::<()>();
    let seen = std::thread::scope(|scope| {
        let path = &here.path;
        let watcher = scope.spawn(move || {
            let mut seen = BTreeSet::new();
            while is_over.try_recv() == Err(mpsc::TryRecvError::Empty) {
                let found = path.symlink_metadata();
                seen.extend(found.map(|found| found.permissions().mode() & 0o777).ok());
            }
            seen
        });
        for _ in 0..300 {
            drop(service(&here.address));
        }
        drop(end);
        watcher.join().unwrap()
    });
    assert_eq!(seen, BTreeSet::from([0o600]));
}
