//! Clusters whose connections are TLS: who has no certificate of the cluster's authority gets nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use cenote_cluster::control::{Request, Response, Status};
use cenote_cluster::session::MasterConnection;
use cenote_cluster::tls::{Files, Identity, NAME};
use cenote_cluster::wire::{Hello, Purpose};
use cenote_cluster::{Credentials, Error, Map, Options, Refusal, Transport, node};
use rcgen::{CertificateParams, Issuer, KeyPair};

use super::cluster::{LONG, Place, Running, TOKEN, listening, node as plain_node, transport};

/// An authority, and a certificate that it has signed, in files of a folder.
fn make(folder: &Path) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    std::fs::write(folder.join("ca"), params.self_signed(&key).unwrap().pem()).unwrap();
    let authority = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let member = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    let member = member.signed_by(&key, &authority).unwrap();
    std::fs::write(folder.join("cert"), member.pem()).unwrap();
    std::fs::write(folder.join("key"), key.serialize_pem()).unwrap();
}

fn files(folder: &Path) -> Files {
    Files {
        cert: folder.join("cert"),
        key: folder.join("key"),
        ca: folder.join("ca"),
    }
}

/// The token, and the identity in a folder.
pub fn credentials(folder: &Path) -> Credentials {
    let mut credentials = Credentials::from(TOKEN);
    credentials.identity = Some(Identity::load(&files(folder)).unwrap());
    credentials
}

fn encrypted_node(tls: &(&str, String)) -> (Running, SocketAddr) {
    let at = ("CENOTE_CLUSTER_AT", "127.0.0.1:0".to_owned());
    listening(&Place::here(), "node", &[at, tls.clone()])
}

struct Encrypted {
    folder: tempfile::TempDir,
    nodes: Vec<(Running, SocketAddr)>,
    master: (Running, SocketAddr),
}

impl Encrypted {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        make(folder.path());
        let tls = ("CENOTE_CLUSTER_TLS", folder.path().display().to_string());
        let nodes: Vec<_> = (0..3).map(|_| encrypted_node(&tls)).collect();
        let addresses: Vec<String> = nodes.iter().map(|(_, at)| at.to_string()).collect();
        let set = [
            (
                "CENOTE_CLUSTER_STORE",
                folder.path().join("store").display().to_string(),
            ),
            ("CENOTE_CLUSTER_NODES", addresses.join(" ")),
            ("CENOTE_CLUSTER_REPLICAS", "2".to_owned()),
            ("CENOTE_CLUSTER_AT", "127.0.0.1:0".to_owned()),
            ("CENOTE_CLUSTER_LEASE_MS", "1000".to_owned()),
            tls,
        ];
        let master = listening(&Place::here(), "master", &set);
        let cluster = Self {
            folder,
            nodes,
            master,
        };
        cluster.status();
        cluster
    }

    fn credentials(&self) -> Credentials {
        credentials(self.folder.path())
    }

    fn ask(&self, request: &Request) -> Response {
        let begun = Instant::now();
        loop {
            let told = MasterConnection::open(self.master.1, self.credentials()).and_then(|mut master| {
                master.set_timeout(LONG)?;
                master.ask(request)
            });
            match told {
                Ok(response) => return response,
                Err(error) if begun.elapsed() > LONG => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn status(&self) -> Status {
        match self.ask(&Request::Status) {
            Response::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// Why somebody with these credentials gets nothing.
    fn refused(&self, credentials: Credentials) -> String {
        match Map::open(&Options::new(self.master.1, credentials)) {
            Err(error @ Error::Master { .. }) => error.to_string(),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("a stranger is let in"),
        }
    }
}

#[test]
fn members_of_an_encrypted_cluster_work_as_others_do() {
    if transport() != Transport::Tcp {
        return;
    }
    let mut cluster = Encrypted::new();
    let mut one = Map::open(&Options::new(cluster.master.1, cluster.credentials())).unwrap();
    let other = Map::open(&Options::new(cluster.master.1, cluster.credentials())).unwrap();
    let value = |n: u64| n.to_le_bytes().repeat(1 + n as usize % 4000);
    for n in 0_u64..300 {
        one.put(&n.to_le_bytes(), &value(n)).unwrap();
    }
    cluster.nodes[0].0.signal(libc::SIGKILL);
    for n in 0_u64..300 {
        assert_eq!(other.get(&n.to_le_bytes()).unwrap().unwrap(), value(n), "key {n}");
    }
    let tls = ("CENOTE_CLUSTER_TLS", cluster.folder.path().display().to_string());
    cluster.nodes.push(encrypted_node(&tls));
    let address = cluster.nodes[3].1;
    assert_eq!(cluster.ask(&Request::AddNode { address }), Response::Done);
    let begun = Instant::now();
    while cluster.status().under_replicated > 0 {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(20));
    }
    one.put(b"later", b"1").unwrap();
    assert_eq!(other.get(b"later").unwrap().unwrap(), b"1");
}

#[test]
fn who_has_no_certificate_of_the_authority_gets_nothing() {
    if transport() != Transport::Tcp {
        return;
    }
    let cluster = Encrypted::new();
    let told = cluster.refused(TOKEN.into());
    assert!(told.contains("do both sides use TLS"), "{told}");
    // One of another authority, who trusts this one.
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    make(other.path());
    let mut mixed = files(other.path());
    mixed.ca = cluster.folder.path().join("ca");
    let mut stranger = Credentials::from(TOKEN);
    stranger.identity = Some(Identity::load(&mixed).unwrap());
    // It hears why, or that the other side has closed the connection, whichever comes first.
    cluster.refused(stranger);
    // One who trusts another authority only.
    let told = cluster.refused(credentials(other.path()));
    assert!(told.contains("certificate"), "{told}");
    // The token is asked for as well.
    let mut wrong = cluster.credentials();
    wrong.token = "another token".to_owned();
    cluster.refused(wrong);

    // A node closes the connection of who speaks without TLS; a node that does is none of the cluster's.
    let mut plain = TcpStream::connect(cluster.nodes[0].1).unwrap();
    plain.set_read_timeout(Some(LONG)).unwrap();
    let hello = Hello {
        purpose: Purpose::Cluster,
        token: TOKEN.to_owned(),
    };
    plain.write_all(&hello.encode()).unwrap();
    let mut told = Vec::new();
    // An alert of TLS at most.
    let _ = plain.read_to_end(&mut told);
    assert!(told.len() < 16, "{told:?}");
    let (_process, address) = plain_node();
    match cluster.ask(&Request::AddNode { address }) {
        Response::Refused(Refusal::NodeUnreachable { address: at }) => assert_eq!(at, address),
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_that_are_no_identity_are_told_of() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    make(folder.path());
    let other = tempfile::tempdir_in("/dev/shm").unwrap();
    make(other.path());
    let whole = files(folder.path());
    Identity::load(&whole).unwrap();
    let foreign = other.path().join("key");
    for (files, named) in [
        (
            Files {
                cert: folder.path().join("none"),
                ..whole.clone()
            },
            "none",
        ),
        (
            Files {
                ca: folder.path().join("key"),
                ..whole.clone()
            },
            "key",
        ),
        (
            Files {
                key: folder.path().join("cert"),
                ..whole.clone()
            },
            "cert",
        ),
        (
            Files {
                key: foreign,
                ..whole.clone()
            },
            "cert",
        ),
    ] {
        match Identity::load(&files) {
            Err(Error::Identity(why)) => assert!(why.contains(named), "{why}"),
            other => panic!("{files:?}: {other:?}"),
        }
    }
}

#[test]
fn verbs_that_libfabric_carries_are_refused() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    make(folder.path());
    let mut options = node::Options::new(1 << 20, credentials(folder.path()));
    options.transport = Transport::Ofi;
    let refused = node::Node::at(options, SocketAddr::from(([127, 0, 0, 1], 0)))
        .err()
        .unwrap();
    assert!(refused.to_string().contains("TLS and libfabric"), "{refused}");
}
