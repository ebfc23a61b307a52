//! A client's session: a thread keeps it alive, whatever the client's own thread does, and fetches views, eras and
//! blocks.

use std::cell::{Cell, RefCell};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cenote_replica::verbs::{Address, Completion, Request, Verbs};
use cenote_replica::view::Eras;
use cenote_replica::view::{Control, SessionEnded, View};

use crate::control::{self, ErasText, LayoutText, Response, SessionText, ViewText, exchange};
use crate::credentials::Credentials;
use crate::masters::{Masters, Search};
use crate::network::Network;
use crate::ofi::Transport;
use crate::stream::Outgoing;
use crate::wire::{Hello, Purpose};
use crate::{Error, Unsupported};

/// The time between two heartbeats.
const INTERVAL: Duration = Duration::from_millis(20);
/// The same while an operation waits for a later view.
const SHORT: Duration = Duration::from_millis(2);
/// How long the master may take to answer.
pub const ANSWER: Duration = Duration::from_secs(2);
/// The same when a client joins.
const JOIN: Duration = Duration::from_secs(10);
/// How long an operation sleeps between two checks of what the other thread has found out.
const CHECK: Duration = Duration::from_micros(500);

/// A connection to the master.
pub struct MasterConnection(Outgoing);

impl MasterConnection {
    /// Connects.
    pub fn open(master: SocketAddr, credentials: impl Into<Credentials>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&master, ANSWER)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let credentials = credentials.into();
        let mut stream = Outgoing::new(stream, &credentials)?;
        let hello = Hello {
            purpose: Purpose::Cluster,
            token: credentials.token,
        };
        stream.write_all(&hello.encode())?;
        Ok(Self(stream))
    }

    /// Asks.
    pub fn ask(&mut self, request: &control::Request) -> io::Result<Response> {
        exchange(&mut self.0, request).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, "it does not answer in time")
            }
            _ => error,
        })
    }

    /// Gives answers so long, where a little is not enough.
    pub fn set_timeout(&mut self, time: Duration) -> io::Result<()> {
        self.0.tcp().set_read_timeout(Some(time))
    }
}

/// What both threads know.
struct Known {
    view: Arc<ViewText>,
    eras: Eras,
    sessions_ended: u64,
    /// The era of the oldest operation; `None` if there is none.
    oldest: Option<u64>,
    suspect_regions: Vec<u16>,
    /// Operations that wait for a later view.
    waiting: u32,
    /// Sizes of objects for which operations wait for a block: the first is asked for until it has come, whatever
    /// becomes of the operation.
    wanting: Vec<u32>,
    /// Blocks that have come, by those sizes. `None`: there is none.
    blocks: Vec<(u32, Option<u64>)>,
    /// How many have come, and how often the master has answered, were it that there is none.
    blocks_received: u32,
    requests_answered: u64,
    has_ended: bool,
    is_closing: bool,
}

struct Shared {
    known: Mutex<Known>,
    changed: Condvar,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session, as the client's thread has it: the network of its operations.
pub struct Port {
    shared: Arc<Shared>,
    network: Network,
    /// The view that this thread knows.
    view: RefCell<Rc<View>>,
    thread: Option<std::thread::JoinHandle<()>>,
    batches: Cell<Batches>,
}

/// What the batches of a client have taken that it has posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Batches {
    /// How many: each a round trip to all the nodes in it.
    pub count: u64,
    /// The time from posting them to their last completion.
    pub time: Duration,
}

/// What a client was given when it joined.
pub struct Joined {
    /// The network.
    pub port: Port,
    /// Its session.
    pub session: SessionText,
    /// The map.
    pub layout: LayoutText,
    /// For how long a client may be silent that is not given up.
    pub lease: Duration,
}

/// Joins a cluster.
pub fn join(
    masters: &Masters,
    credentials: &Credentials,
    name: &str,
    deadline: Duration,
) -> Result<Joined, Error> {
    let mut search = Search::new(masters, credentials);
    let request = control::Request::Join {
        name: name.to_owned(),
    };
    // It may wait for memory nodes.
    let (response, mut connection) = search.ask(&request, JOIN)?;
    let master = search.at();
    let unreachable = |source| Error::Master { master, source };
    let (session, layout, view, eras, lease, transport) = match response {
        Response::Joined {
            session,
            layout,
            view,
            eras,
            lease_us,
            transport,
        } => (
            session,
            layout,
            view,
            eras,
            Duration::from_micros(lease_us),
            transport,
        ),
        Response::Refused(why) => return Err(Error::Refused(why)),
        other => {
            return Err(Error::Protocol(format!(
                "it answers a client that joins by {other:?}"
            )));
        }
    };
    connection.set_timeout(ANSWER).map_err(unreachable)?;
    if transport == Transport::Ofi && credentials.encrypts() {
        return Err(Unsupported::TlsOverLibfabric.into());
    }
    if transport == Transport::Ofi && cfg!(not(feature = "ofi")) {
        return Err(Unsupported::WithoutLibfabric.into());
    }
    let network = Network::new(credentials, transport, deadline);
    let own = Rc::new(view.view());
    view.nodes
        .iter()
        .for_each(|(node, address)| network.set_address(cenote_replica::view::NodeId(*node), *address));
    let shared = Arc::new(Shared {
        known: Mutex::new(Known {
            view: Arc::new(view),
            eras: eras.eras(),
            sessions_ended: eras.sessions_ended,
            oldest: None,
            suspect_regions: Vec::new(),
            waiting: 0,
            wanting: Vec::new(),
            blocks: Vec::new(),
            blocks_received: 0,
            requests_answered: 0,
            has_ended: false,
            is_closing: false,
        }),
        changed: Condvar::new(),
    });
    let thread = {
        let shared = shared.clone();
        std::thread::Builder::new()
            .name("cenote-session".to_owned())
            .spawn(move || keep_alive(&shared, search, connection, session.number))
            .map_err(|source| Error::Master { master, source })?
    };
    Ok(Joined {
        port: Port {
            shared,
            network,
            view: RefCell::new(own),
            thread: Some(thread),
            batches: Cell::default(),
        },
        session,
        layout,
        lease,
    })
}

/// Sends heartbeats until the session ends. A master that does not answer is asked again: its successor knows the
/// session.
fn keep_alive(shared: &Shared, mut search: Search, connection: MasterConnection, session: u32) {
    let mut connection = Some(connection);
    loop {
        let (request, is_closing) = {
            let mut known = shared.known();
            let rest = match known.waiting > 0 {
                true => SHORT,
                false => INTERVAL,
            };
            if !known.is_closing && known.wanting.is_empty() && known.suspect_regions.is_empty() {
                known = shared
                    .changed
                    .wait_timeout(known, rest)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            let request = match (known.is_closing, known.wanting.first()) {
                (true, _) => control::Request::Leave { session },
                (false, Some(size)) => control::Request::Block {
                    session,
                    size: *size,
                    number: known.requests_answered,
                    received: known.blocks_received,
                },
                _ => control::Request::Heartbeat {
                    session,
                    // By the eras that this client knows: what begins from now on, begins in them or later.
                    oldest: known.oldest.unwrap_or(known.eras.now),
                    view: known.view.number,
                    suspect_regions: known.suspect_regions.clone(),
                },
            };
            (request, known.is_closing)
        };
        if connection.is_none() {
            connection = search.connect().ok();
        }
        let response = connection.as_mut().map(|connection| connection.ask(&request));
        let mut known = shared.known();
        match response {
            Some(Ok(response)) if !matches!(response, Response::Standby { .. }) => {
                take_in(&mut known, &request, response);
            }
            other => {
                match other {
                    Some(Ok(Response::Standby { leader })) => search.redirected(leader),
                    Some(_) => search.failed(),
                    // It looks further by itself.
                    None => {}
                }
                connection = None;
                drop(known);
                if is_closing {
                    return;
                }
                std::thread::sleep(INTERVAL);
                continue;
            }
        }
        if is_closing || known.has_ended {
            known.has_ended = true;
            return;
        }
    }
}

fn take_in(known: &mut Known, request: &control::Request, response: Response) {
    match (request, response) {
        (control::Request::Heartbeat { suspect_regions, .. }, Response::Heartbeat { view, eras }) => {
            take_eras(known, eras);
            // Those that came while the master was asked stay.
            known
                .suspect_regions
                .retain(|region| !suspect_regions.contains(region));
            // One that comes late, of a master that leads no more, is none.
            if let Some(view) = view.filter(|view| view.number > known.view.number) {
                known.view = Arc::new(view);
                known.suspect_regions.clear();
            }
        }
        (control::Request::Block { size, .. }, Response::Block(block)) => {
            if let Some(place) = known.wanting.iter().position(|wanted| wanted == size) {
                known.wanting.remove(place);
            }
            known.requests_answered += 1;
            known.blocks_received += u32::from(block.is_some());
            known.blocks.push((*size, block));
        }
        (_, Response::Ended) => known.has_ended = true,
        _ => {}
    }
}

/// Eras of a later master are later; those of an earlier one may come late.
fn take_eras(known: &mut Known, eras: ErasText) {
    if eras.now >= known.eras.now {
        known.eras = eras.eras();
        known.sessions_ended = eras.sessions_ended;
    }
}

impl Port {
    /// An operation begins. `oldest` is the era of the oldest that goes on, as the client says when it ends.
    pub fn begins(&self) {
        let mut known = self.shared.known();
        known.oldest = known.oldest.or(Some(known.eras.now));
    }

    /// How verbs go to nodes.
    pub fn transport(&self) -> Transport {
        self.network.transport()
    }

    /// Maps the memory of nodes of this machine whose files are in a folder.
    pub fn map_from(&mut self, folder: PathBuf) {
        self.network.map_from(folder);
    }

    /// What its batches have taken.
    pub fn batches(&self) -> Batches {
        self.batches.get()
    }

    /// No operation goes on any more.
    pub fn ends(&self) {
        self.shared.known().oldest = None;
    }

    /// Ends the session in order.
    pub fn leave(&mut self) {
        self.shared.known().is_closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Whether the session has ended.
    pub fn has_ended(&self) -> bool {
        self.shared.known().has_ended
    }

    /// Takes over the view that the other thread has.
    fn refresh(&self, known: &Known) {
        if self.view.borrow().number != known.view.number {
            self.network.forget_others(&known.view.nodes);
            for (node, address) in &known.view.nodes {
                self.network
                    .set_address(cenote_replica::view::NodeId(*node), *address);
            }
            self.view.replace(Rc::new(known.view.view()));
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Verbs for Port {
    async fn post(&self, batch: Vec<Request>) -> Vec<Completion> {
        let begun = Instant::now();
        let completions = self.network.post(&batch).await;
        let Batches { count, time } = self.batches.get();
        self.batches.set(Batches {
            count: count + 1,
            time: time + begun.elapsed(),
        });
        completions
    }

    async fn pause(&self, attempt: u32) {
        tokio::time::sleep(Duration::from_micros(100 << attempt.min(6))).await;
    }
}

impl Control for Port {
    fn view(&self) -> Rc<View> {
        let known = self.shared.known();
        self.refresh(&known);
        self.view.borrow().clone()
    }

    fn eras(&self) -> Eras {
        self.shared.known().eras
    }

    fn sessions_ended(&self) -> u64 {
        self.shared.known().sessions_ended
    }

    async fn later(&self, than: u64, region: u16) -> Result<(), SessionEnded> {
        {
            let mut known = self.shared.known();
            if known.view.number <= than && !known.suspect_regions.contains(&region) {
                known.suspect_regions.push(region);
            }
            known.waiting += 1;
        }
        self.shared.changed.notify_one();
        loop {
            {
                let mut known = self.shared.known();
                let is_later = known.view.number > than;
                if is_later || known.has_ended {
                    known.waiting -= 1;
                    self.refresh(&known);
                    return match is_later && !known.has_ended {
                        true => Ok(()),
                        false => Err(SessionEnded),
                    };
                }
            }
            tokio::time::sleep(CHECK).await;
        }
    }

    async fn block(&self, size: u32) -> Result<Option<Address>, SessionEnded> {
        self.shared.known().wanting.push(size);
        self.shared.changed.notify_one();
        loop {
            {
                let mut known = self.shared.known();
                if known.has_ended {
                    return Err(SessionEnded);
                }
                if let Some(place) = known.blocks.iter().position(|(of, _)| *of == size) {
                    let (_, block) = known.blocks.remove(place);
                    return Ok(block.and_then(Address::from_bits));
                }
            }
            tokio::time::sleep(CHECK).await;
        }
    }
}
