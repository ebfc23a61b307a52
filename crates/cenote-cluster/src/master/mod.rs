//! The master: who is alive, who holds what, and what is done when somebody fails.
//!
//! | module | |
//! |---|---|
//! | [`state`] | what it has decided; pure |
//! | [`store`] | where it keeps that, before it acts on it |
//! | here | what it serves: questions of clients and of people |
//! | [`watch`] | heartbeats of nodes and clients |
//! | [`closing`] | regions are closed, their copies made equal or moved, and opened |
//!
//! One thread does everything, in tasks; between two awaits a task has the state to itself.

pub mod closing;
pub mod state;
pub mod store;
pub mod watch;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cenote_replica::verbs::{Address, Completion, Request, Verb, Verbs};
use cenote_replica::view::Eras;
use cenote_replica::view::NodeId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::Error;
use crate::network::Network;
use crate::node::greeted;
use crate::ofi::Transport;
use crate::says::{Ask, ErasText, NodeStatus, SessionStatus, Status, Told, ViewText, frame, length};
use crate::wire::{Answer, Item};
use state::{Offer, Shape, State};
use store::Store;

/// Characters of a client's name that are kept.
const NAME_MAX: usize = 100;

/// How a master is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster's token.
    pub token: String,
    /// For how long a node may execute verbs after it has answered a heartbeat; one that is silent for longer is given up.
    pub node_lease: Duration,
    /// A client that is silent for so long is given up.
    pub client_lease: Duration,
    /// How a new cluster is shaped.
    pub shape: Shape,
    /// The nodes of a new cluster.
    pub nodes: Vec<SocketAddr>,
    /// How verbs go to them.
    pub transport: Transport,
}

impl Options {
    /// Those of a cluster with a token.
    pub fn new(token: impl Into<String>) -> Self {
        Self {
            token: token.into(),
            node_lease: Duration::from_secs(1),
            client_lease: Duration::from_secs(3),
            shape: Shape::default(),
            nodes: Vec::new(),
            transport: Transport::Tcp,
        }
    }
}

/// What is known of a node or a client, and not kept.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// Time without an answer. It does not count while this process stood still.
    silent: Duration,
    /// When it was counted last.
    counted: Instant,
}

impl Heard {
    fn now() -> Self {
        Self {
            silent: Duration::ZERO,
            counted: Instant::now(),
        }
    }
}

/// What is known of a client, and not kept.
struct Client {
    heard: Heard,
    oldest: u64,
}

/// A master at work.
pub struct Master {
    options: Options,
    store: &'static Store,
    network: Network,
    state: RefCell<State>,
    /// What clients are told: the state's view once the nodes have its keys.
    published: RefCell<ViewText>,
    nodes: RefCell<BTreeMap<u32, Heard>>,
    clients: RefCell<BTreeMap<u32, Client>>,
    eras: Cell<Eras>,
    /// Regions that are to be closed.
    wanted: RefCell<BTreeSet<u16>>,
    /// There may be something to do for [`closing`].
    work: Notify,
    stopping: Notify,
    nonces: Cell<u64>,
    closings: Cell<u64>,
    last_closing: Cell<Duration>,
    /// What the last closing that failed was told of.
    trouble: RefCell<String>,
    /// Nodes that were asked what they offer.
    offers: Cell<u32>,
}

/// The network of nodes, as the master's own operations use it.
impl Verbs for &Master {
    async fn post(&self, batch: Vec<Request>) -> Vec<Completion> {
        self.network.post(&batch).await
    }

    async fn pause(&self, attempt: u32) {
        tokio::time::sleep(Duration::from_micros(100 << attempt.min(6))).await;
    }
}

/// Runs a master with its store in a pool, at a listener that is bound, until it is told to stop.
///
/// Errors: [`Error::Store`], also if another master leads; [`Error::Refused`] if no cluster can be made.
pub fn run(store: &Path, options: Options, listener: std::net::TcpListener) -> Result<(), Error> {
    let (runtime, local) = crate::event_loop().map_err(Error::Runtime)?;
    // Tasks keep it: there is one for each process.
    let store: &'static Store = Box::leak(Box::new(Store::open(store)?));
    let _leads = store.lead()?;
    let outcome = local.block_on(&runtime, async {
        listener.set_nonblocking(true).map_err(Error::Runtime)?;
        let listener = TcpListener::from_std(listener).map_err(Error::Runtime)?;
        serve(store, options, listener).await
    });
    drop(local);
    outcome
}

/// Runs a master that leads, until it is told to stop. In a `LocalSet`.
///
/// A cluster that the store knows is gone on with; else one is made of the nodes in the options.
pub async fn serve(store: &'static Store, options: Options, listener: TcpListener) -> Result<(), Error> {
    let network = Network::new(
        options.token.clone(),
        options.transport,
        Duration::from_millis(500),
    );
    let known = store.load()?;
    let is_new = known.is_none();
    let state = match known {
        Some(state) => state,
        None => {
            let mut nodes = Vec::new();
            for address in &options.nodes {
                nodes.push(offer(&network, 0, *address).await?);
            }
            State::new(options.shape, &nodes).map_err(|why| Error::Refused(why.to_string()))?
        }
    };
    for (node, state) in &state.nodes {
        network.set_address(NodeId(*node), state.address);
    }
    let master = Rc::new(Master {
        network,
        store,
        // Those who are known have a lease more.
        nodes: RefCell::new(state.nodes.keys().map(|node| (*node, Heard::now())).collect()),
        clients: RefCell::new(
            state
                .sessions
                .keys()
                .map(|session| {
                    let client = Client {
                        heard: Heard::now(),
                        oldest: 0,
                    };
                    (*session, client)
                })
                .collect(),
        ),
        eras: Cell::new(first_eras(&state)),
        wanted: RefCell::default(),
        work: Notify::new(),
        stopping: Notify::new(),
        nonces: Cell::new(0),
        closings: Cell::new(0),
        last_closing: Cell::new(Duration::ZERO),
        trouble: RefCell::default(),
        offers: Cell::new(0),
        published: RefCell::new(state.view()),
        state: RefCell::new(state),
        options,
    });
    for node in master.state.borrow().nodes.keys() {
        tokio::task::spawn_local(watch::node(master.clone(), *node));
    }
    if is_new {
        master.format().await?;
        master.save()?;
    } else {
        // What the master before was about to do is done again.
        let all = 0..master.state.borrow().regions.len() as u16;
        master.wanted.borrow_mut().extend(all);
    }
    tokio::task::spawn_local(watch::clients(master.clone()));
    tokio::task::spawn_local(closing::work(master.clone()));
    master.work.notify_one();
    loop {
        tokio::select! {
            () = master.stopping.notified() => return Ok(()),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let master = master.clone();
                    tokio::task::spawn_local(async move {
                        // Who went away, or speaks otherwise, is no concern of others.
                        let _ = master.answer(stream).await;
                    });
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
}

/// Eras grow over the lives of masters: each begins with a closing, so its last key is greater than the first of the one before. Operations
/// of clients that are known may have begun in any era before.
fn first_eras(state: &State) -> Eras {
    let now = state.key << 32;
    let least = if state.sessions.is_empty() { now } else { 0 };
    Eras { now, least }
}

/// What a node offers that holds nothing; it is asked for some seconds.
async fn offer(network: &Network, node: u32, address: SocketAddr) -> Result<Offer, Error> {
    // A number of its own: it has none yet.
    let node = NodeId(node);
    network.set_address(node, address);
    for _ in 0..40 {
        match network.ask(node, &[Item::Info, Item::Fabric]).await.as_deref() {
            Some([_, fabric])
                if matches!(fabric, Answer::Fabric(..)) != (network.transport() == Transport::Ofi) =>
            {
                return Err(Error::Refused(format!(
                    "verbs go otherwise to the memory node at {address}: give all nodes and the master the same --network"
                )));
            }
            Some([Answer::Info([incarnation, memory, 0, _]), _]) => {
                return Ok(Offer {
                    address,
                    memory: *memory,
                    incarnation: *incarnation,
                });
            }
            Some([Answer::Info(_), _]) => {
                return Err(Error::Refused(format!(
                    "the memory node at {address} holds regions of a cluster: start a new one"
                )));
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Error::Refused(format!(
        "no memory node answers at {address}: is it running, with the same token?"
    )))
}

impl Master {
    fn save(&self) -> Result<(), Error> {
        self.store.save(&self.state.borrow())
    }

    /// Saves, or ends this process: a master that cannot keep what it decides must not act on it.
    fn save_or_end(&self) {
        if let Err(error) = self.save() {
            eprintln!("cenote cluster: {error}; the master ends");
            std::process::exit(1);
        }
    }

    fn publish(&self) {
        self.published.replace(self.state.borrow().view());
    }

    /// A nonce of the master's: no session has its number.
    fn nonce(&self) -> u64 {
        let count = self.nonces.get() + 1;
        self.nonces.set(count);
        ((1 << 24) - 1) << 34 | (self.state.borrow().key & 0x3_ffff) << 16 | (count & 0xffff)
    }

    /// Gives the nodes their regions, and writes an empty map.
    async fn format(&self) -> Result<(), Error> {
        let (regions, bytes) = {
            let state = self.state.borrow();
            (state.regions.clone(), state.region_bytes)
        };
        for (number, region) in (0..).zip(&regions) {
            for node in &region.nodes {
                let hold = Item::Hold {
                    region: number,
                    bytes,
                    key: cenote_replica::view::Key(region.key),
                };
                if self.network.ask(NodeId(*node), &[hold]).await != Some(vec![Answer::Done]) {
                    return Err(Error::Refused(format!(
                        "memory node {node} does not give {bytes} bytes to region {number}"
                    )));
                }
            }
        }
        let (image, entries, root, directory) = {
            let state = self.state.borrow();
            let strange = || Error::Refused("the map cannot lie so".to_owned());
            let layout = state.layout.layout().ok_or_else(strange)?;
            let label = cenote_replica::index::layout::Label { depth: 0, prefix: 0 };
            let image =
                cenote_replica::index::candidates::image(layout.segments, label, &[]).ok_or_else(strange)?;
            let entry = 1_u64 << 63 | state.root();
            let entries: Vec<u8> = entry.to_le_bytes().repeat(1 << layout.depth);
            let root = Address::from_bits(state.root()).ok_or_else(strange)?;
            (image, entries, root, layout.directory)
        };
        for (at, bytes) in [(root, image), (directory, entries)] {
            self.write(at, &bytes).await?;
        }
        Ok(())
    }

    /// Writes to all copies, as soon as their region is open.
    async fn write(&self, at: Address, bytes: &[u8]) -> Result<(), Error> {
        let bytes: Rc<[u8]> = bytes.into();
        for _ in 0..500 {
            let batch: Vec<Request> = {
                let state = self.state.borrow();
                let region = &state.regions[usize::from(at.region())];
                match region.closed {
                    true => Vec::new(),
                    false => region
                        .nodes
                        .iter()
                        .map(|node| Request {
                            node: NodeId(*node),
                            key: cenote_replica::view::Key(region.key),
                            at,
                            verb: Verb::Write(bytes.clone()),
                        })
                        .collect(),
                }
            };
            if !batch.is_empty() {
                let completions = self.network.post(&batch).await;
                if completions
                    .iter()
                    .all(|completion| *completion == Completion::Written)
                {
                    return Ok(());
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(Error::Refused(format!(
            "region {} cannot be written: its memory nodes do not answer",
            at.region()
        )))
    }

    /// Answers questions until the connection ends.
    async fn answer(self: Rc<Self>, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        greeted(&mut stream, &self.options.token).await?;
        loop {
            let mut prefix = [0; 4];
            stream.read_exact(&mut prefix).await?;
            let mut text = vec![0; length(prefix)?];
            stream.read_exact(&mut text).await?;
            let told = match serde_json::from_slice(&text) {
                Ok(ask) => self.told(ask).await,
                Err(error) => Told::Refused(format!("a question of another kind: {error}")),
            };
            stream.write_all(&frame(&told)?).await?;
        }
    }

    async fn told(self: &Rc<Self>, ask: Ask) -> Told {
        let refused = |error: Error| Told::Refused(error.to_string());
        match ask {
            Ask::Join { name } => self.join(name).await.unwrap_or_else(refused),
            Ask::Beat {
                session,
                oldest,
                view,
                complaints,
            } => self.beat(session, oldest, view, &complaints),
            Ask::Block { session, size } => {
                if !self.is_in(session) {
                    return Told::Ended;
                }
                self.hear(session);
                let block = self.state.borrow_mut().block(session, size);
                if block.is_some() {
                    self.save_or_end();
                }
                Told::Block(block)
            }
            Ask::Leave { session } => {
                if self.is_in(session) {
                    self.clients.borrow_mut().remove(&session);
                    self.state.borrow_mut().forget(session);
                    self.save_or_end();
                }
                Told::Done
            }
            Ask::Status => Told::Status(self.status()),
            Ask::AddNode { address } => self.add_node(address).await.unwrap_or_else(refused),
            Ask::Drain { node } => {
                if let Err(why) = self.state.borrow_mut().drain(node) {
                    return Told::Refused(why);
                }
                self.save_or_end();
                self.work.notify_one();
                Told::Done
            }
            Ask::Stop => {
                self.stopping.notify_one();
                Told::Done
            }
        }
    }

    async fn join(&self, name: String) -> Result<Told, Error> {
        let name = name.chars().take(NAME_MAX).collect();
        let session = self.state.borrow_mut().join(name);
        let session = session.ok_or_else(|| Error::Refused("there are too many clients".to_owned()))?;
        self.save_or_end();
        // What the one before it had in flight is not this one's.
        let cells = Address::from_bits(session.cells).unwrap_or(Address::new(0, 0));
        if let Err(error) = self.write(cells, &[0; 64]).await {
            self.state.borrow_mut().forget(session.number);
            return Err(error);
        }
        let client = Client {
            heard: Heard::now(),
            oldest: self.eras.get().now,
        };
        self.clients.borrow_mut().insert(session.number, client);
        Ok(Told::Joined {
            session,
            layout: self.state.borrow().layout,
            view: self.published.borrow().clone(),
            eras: self.eras_text(),
            lease_us: self.options.client_lease.as_micros() as u64,
            transport: self.options.transport,
        })
    }

    fn eras_text(&self) -> ErasText {
        let eras = self.eras.get();
        ErasText {
            now: eras.now,
            least: eras.least,
        }
    }

    fn is_in(&self, session: u32) -> bool {
        let state = self.state.borrow();
        state.sessions.get(&session).is_some_and(|session| !session.ended)
    }

    fn hear(&self, session: u32) {
        if let Some(client) = self.clients.borrow_mut().get_mut(&session) {
            client.heard = Heard::now();
        }
    }

    fn beat(&self, session: u32, oldest: u64, view: u64, complaints: &[u16]) -> Told {
        if !self.is_in(session) {
            return Told::Ended;
        }
        if let Some(client) = self.clients.borrow_mut().get_mut(&session) {
            client.heard = Heard::now();
            client.oldest = oldest;
        }
        self.count_eras();
        let published = self.published.borrow();
        if view == published.number {
            let state = self.state.borrow();
            let is_open = |region: &&u16| {
                state
                    .regions
                    .get(usize::from(**region))
                    .is_some_and(|region| !region.closed)
            };
            let mut wanted = self.wanted.borrow_mut();
            wanted.extend(complaints.iter().filter(is_open));
            if !wanted.is_empty() {
                self.work.notify_one();
            }
        }
        Told::Beat {
            view: (view != published.number).then(|| published.clone()),
            eras: self.eras_text(),
        }
    }

    /// An era ends when all clients have seen it.
    fn count_eras(&self) {
        // A closing reads and writes objects, and is no client's operation.
        if self.state.borrow().regions.iter().any(|region| region.closed) {
            return;
        }
        let mut eras = self.eras.get();
        let clients = self.clients.borrow();
        let least = clients.values().map(|client| client.oldest).min();
        // An operation that began under another master has an era of that one: it is the least there is.
        eras.least = eras.least.max(least.unwrap_or(eras.now).min(eras.now));
        if eras.least == eras.now {
            eras.now += 1;
        }
        self.eras.set(eras);
    }

    async fn add_node(self: &Rc<Self>, address: SocketAddr) -> Result<Told, Error> {
        // A number that no node has, and no other question.
        self.offers.set(self.offers.get() + 1);
        let offer = offer(&self.network, u32::MAX - self.offers.get() % (1 << 16), address).await?;
        let is_known = |node: &state::NodeState| {
            node.alive && (node.address == address || node.incarnation == offer.incarnation)
        };
        if self.state.borrow().nodes.values().any(is_known) {
            return Err(Error::Refused(format!(
                "the memory node at {address} is one of the cluster's"
            )));
        }
        let node = self.state.borrow_mut().add_node(offer);
        self.network.set_address(NodeId(node), address);
        self.nodes.borrow_mut().insert(node, Heard::now());
        self.state.borrow_mut().number += 1;
        self.save_or_end();
        self.publish();
        tokio::task::spawn_local(watch::node(self.clone(), node));
        self.work.notify_one();
        Ok(Told::Done)
    }

    fn status(&self) -> Status {
        let state = self.state.borrow();
        let holds = |node: u32, primary: bool| {
            let is = |nodes: &[u32]| match primary {
                true => nodes.first() == Some(&node),
                false => nodes.iter().skip(1).any(|other| *other == node),
            };
            state.regions.iter().filter(|region| is(&region.nodes)).count()
        };
        let nodes = state.nodes.iter().map(|(node, known)| NodeStatus {
            node: *node,
            address: known.address,
            alive: known.alive,
            draining: known.draining,
            memory: known.memory,
            primary_of: holds(*node, true),
            backup_of: holds(*node, false),
        });
        let clients = self.clients.borrow();
        let sessions = state.sessions.iter().map(|(session, known)| SessionStatus {
            session: *session,
            name: known.name.clone(),
            blocks: known.blocks.len() as u64,
            silent_us: clients.get(session).map_or(0, |client| {
                (client.heard.silent + client.heard.counted.elapsed()).as_micros() as u64
            }),
        });
        let is_lost = |nodes: &[u32]| !nodes.iter().any(|node| state.is_alive(*node));
        let given: usize = state.sessions.values().map(|session| session.blocks.len()).sum();
        let per_region = u64::from(state.region_bytes / state.layout.block);
        Status {
            view: state.number,
            replicas: state.replicas,
            nodes: nodes.collect(),
            sessions: sessions.collect(),
            region_bytes: state.region_bytes,
            regions: state.regions.len(),
            closed: state.regions.iter().filter(|region| region.closed).count(),
            short: state
                .regions
                .iter()
                .filter(|region| region.nodes.len() < state.replicas)
                .count(),
            lost: state
                .regions
                .iter()
                .filter(|region| is_lost(&region.nodes))
                .count(),
            blocks: (given + state.orphans.len()) as u64,
            blocks_max: state.regions.len() as u64 * (per_region - 1) - 3,
            closings: self.closings.get(),
            last_closing_us: self.last_closing.get().as_micros() as u64,
            era: self.eras.get().now,
        }
    }
}
