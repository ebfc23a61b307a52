//! Several masters, of which one leads: the others stand by. They tell who asks them where the leader is, and one of
//! them becomes the leader once there is none.
//!
//! | phase | until | then |
//! |---|---|---|
//! | stands by | it is elected | leads |
//! | leads | its term is over, or a memory node obeys a later master | stands by; nothing of the phase goes on |
//!
//! Each phase has an event loop of its own, which ends with it: with that, everything that a leader has begun.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::store::etcd::Store as EtcdStore;
use super::store::etcd::election::{Election, Leader, Outcome};
use super::store::{SCHEME, Store};
use super::{Options, Over, serve};
use crate::control::{Request, Response, frame, length};
use crate::credentials::Credentials;
use crate::stream::greeted_by_cluster;
use crate::{Error, Refusal, StoreError};

/// The time between two attempts to be elected.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long a master that begins waits for etcd.
const BEGIN: Duration = Duration::from_secs(5);

/// How a phase has ended.
enum Next {
    /// It was told to stop.
    Stop,
    /// It stands by from now on; if it is elected, in a later term than this.
    StandBy(u64),
}

/// Runs a master that leads while etcd has elected it, until it is told to stop.
pub(super) fn run(
    endpoints: &[String],
    prefix: &str,
    options: &Options,
    listener: &std::net::TcpListener,
) -> Result<(), Error> {
    listener.set_nonblocking(true).map_err(Error::Runtime)?;
    let bound = listener.local_addr().map_err(Error::Runtime)?;
    let address = options.advertise.unwrap_or(bound);
    if address.ip().is_unspecified() {
        return Err(Refusal::Unadvertised { address }.into());
    }
    let mut after = 0;
    let mut has_heard = false;
    loop {
        let own = Leader {
            address,
            name: format!("process {}", std::process::id()),
        };
        let election = Election::new(endpoints.to_vec(), prefix.to_owned(), own, options.etcd_lease);
        let (runtime, local) = crate::event_loop().map_err(Error::Runtime)?;
        let next = local.block_on(&runtime, async {
            let listener = || {
                let listener = listener.try_clone().map_err(Error::Runtime)?;
                TcpListener::from_std(listener).map_err(Error::Runtime)
            };
            let store = match stand_by(&election, options, listener()?, &mut has_heard).await? {
                Some(store) => store,
                None => return Ok(Next::Stop),
            };
            if store.term().number() <= after {
                store.resign().await;
                return Err(StoreError::LaterTerm(format!(
                    "{SCHEME}{}/{prefix} elects in term {}, and the memory nodes obey a master of term {after}: this etcd has lost what it had, or is not the cluster's",
                    endpoints.join(","),
                    store.term().number()
                )).into());
            }
            eprintln!("cenote cluster: this master leads, in term {}", store.term().number());
            lead(store, options, listener()?).await
        });
        // With it all tasks end.
        drop(local);
        match next? {
            Next::Stop => return Ok(()),
            Next::StandBy(least) => after = after.max(least),
        }
    }
}

async fn lead(store: Rc<EtcdStore>, options: &Options, listener: TcpListener) -> Result<Next, Error> {
    let over = serve(Rc::new(Store::Etcd(store.clone())), options.clone(), listener).await;
    // What fails as the term is over says no more than that.
    let over = match over {
        Err(error) if !store.term().lasts() => Ok(Over::Deposed {
            why: error.to_string(),
            later: 0,
        }),
        over => over,
    };
    store.resign().await;
    match over? {
        Over::Stopped => Ok(Next::Stop),
        Over::Deposed { why, later } => {
            eprintln!("cenote cluster: {why}; this master stands by");
            Ok(Next::StandBy(later))
        }
    }
}

/// Stands by until this master is elected: its store. `None` if it is told to stop.
async fn stand_by(
    election: &Election,
    options: &Options,
    listener: TcpListener,
    has_heard: &mut bool,
) -> Result<Option<Rc<EtcdStore>>, Error> {
    let leader = Rc::new(Cell::new(None));
    let stopping = Rc::new(Notify::new());
    let serving = tokio::task::spawn_local(redirect(
        listener,
        options.credentials.clone(),
        leader.clone(),
        stopping.clone(),
    ));
    let begun = Instant::now();
    let mut said = String::new();
    let store = loop {
        match election.attempt().await {
            Ok(Outcome::Elected(store)) => break Some(store),
            Ok(Outcome::Another(at)) => {
                *has_heard = true;
                leader.set(at);
                said.clear();
            }
            Err(trouble) => {
                let why = trouble.why();
                // One that is wrong would be so for ever; one that fails later comes back.
                if !*has_heard && (begun.elapsed() > BEGIN || election.members() == 1) {
                    return Err(StoreError::Etcd(format!("{why}; is etcd running there?")).into());
                }
                if said.is_empty() {
                    eprintln!("cenote cluster: {why}; nobody can be elected");
                }
                said = why;
            }
        }
        tokio::select! {
            () = stopping.notified() => break None,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    };
    *has_heard = true;
    leader.set(None);
    serving.abort();
    // The listener is another's from now on.
    let _ = serving.await;
    Ok(store)
}

/// Tells everybody who the leader is.
async fn redirect(
    listener: TcpListener,
    credentials: Credentials,
    leader: Rc<Cell<Option<SocketAddr>>>,
    stopping: Rc<Notify>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (credentials, leader, stopping) = (credentials.clone(), leader.clone(), stopping.clone());
        tokio::task::spawn_local(async move {
            // Who went away, or speaks otherwise, is no concern of others.
            let _ = answer(stream, &credentials, &leader, &stopping).await;
        });
    }
}

async fn answer(
    stream: TcpStream,
    credentials: &Credentials,
    leader: &Cell<Option<SocketAddr>>,
    stopping: &Notify,
) -> std::io::Result<()> {
    let mut stream = greeted_by_cluster(stream, credentials).await?;
    loop {
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).await?;
        let mut text = vec![0; length(prefix)?];
        stream.read_exact(&mut text).await?;
        let response = match serde_json::from_slice(&text) {
            Ok(Request::Stop) => {
                stopping.notify_one();
                Response::Done
            }
            Ok(_) => Response::Standby { leader: leader.get() },
            Err(error) => Response::Refused(Refusal::Unknown {
                why: error.to_string(),
            }),
        };
        stream.write_all(&frame(&response)?).await?;
    }
}
