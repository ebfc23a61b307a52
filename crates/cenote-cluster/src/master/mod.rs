//! The master: who is alive, who holds what, and what is done when somebody fails.
//!
//! | module | |
//! |---|---|
//! | [`state`] | what it has decided; pure |
//! | [`store`] | where it keeps that, before it acts on it; what says who leads |
//! | [`term`] | for how long this one leads |
//! | `standby` | several masters, of which one leads (feature `etcd`) |
//! | here | what it serves: questions of clients and of people |
//! | `complaints` | how often a client has regions closed |
//! | [`watch`] | heartbeats of nodes and clients |
//! | [`closing`] | regions are closed, their copies made equal or moved, and opened |
//!
//! One thread does everything, in tasks; between two awaits a task has the state to itself. A task changes the state, and then waits until the store has it;
//! others may see it before. So what clients are told of the state is what is kept of it, and a task that acts on what it has changed waits first.
//!
//! A master leads for a term. When that is over, it asks nodes for nothing ([`Network`]), answers clients nothing but that it leads no more, and keeps nothing.

pub mod closing;
mod complaints;
#[cfg(feature = "etcd")]
mod standby;
pub mod state;
pub mod store;
pub mod term;
pub mod watch;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cenote_replica::verbs::{Address, Completion, Request, Verb, Verbs};
use cenote_replica::view::Eras;
use cenote_replica::view::NodeId;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::Error;
use crate::credentials::{Credentials, OPEN_VERBS};
use crate::network::Network;
use crate::ofi::Transport;
use crate::says::{Ask, ErasText, NodeStatus, SessionStatus, Status, Told, ViewText, frame, length};
use crate::stream::greeted_by_cluster;
use crate::wire::{Answer, Item, MAPPED, OUTLIVES};
use complaints::Complaints;
use state::{Offer, Shape, State};
use store::{Place, Store, Unkept};
use term::Term;

/// Characters of a client's name that are kept.
const NAME_MAX: usize = 100;

/// How a master is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// What clients have to show, and this master shows to nodes.
    pub credentials: Credentials,
    /// For how long a node may execute verbs after it has answered a heartbeat; one that is silent for longer is given up.
    pub node_lease: Duration,
    /// A node whose memory outlives its process has so long to come back when the master begins, as both may have been restarted.
    pub start_grace: Duration,
    /// A client that is silent for so long is given up.
    pub client_lease: Duration,
    /// How a new cluster is shaped.
    pub shape: Shape,
    /// The nodes of a new cluster.
    pub nodes: Vec<SocketAddr>,
    /// With a store in etcd: how long a leader's lease lasts after a renewal; whole seconds. etcd makes it longer if it is shorter than what it can do,
    /// which is 2 seconds as it comes.
    pub etcd_lease: Duration,
    /// With a store in etcd: where clients reach this master, if not where it listens.
    pub advertise: Option<SocketAddr>,
    /// How verbs go to them.
    pub transport: Transport,
}

impl Options {
    /// Those of a cluster with a token, or with credentials.
    pub fn new(credentials: impl Into<Credentials>) -> Self {
        Self {
            credentials: credentials.into(),
            node_lease: Duration::from_secs(1),
            start_grace: Duration::from_secs(30),
            client_lease: Duration::from_secs(3),
            shape: Shape::default(),
            nodes: Vec::new(),
            etcd_lease: Duration::from_secs(2),
            advertise: None,
            transport: Transport::Tcp,
        }
    }
}

/// Why a master does not lead any more.
pub enum Over {
    /// It was told to stop.
    Stopped,
    /// Its term is over.
    Deposed {
        /// Why.
        why: String,
        /// A later term that a memory node has heard of; 0 if there is none.
        later: u64,
    },
}

/// What is known of a node or a client, and not kept.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// Time without an answer. It does not count while this process stood still.
    silent: Duration,
    /// When it was counted last.
    counted: Instant,
    /// Whether it answered when it was asked last.
    answers: bool,
    /// When it was heard last; this process began, if it was not.
    at: Instant,
}

impl Heard {
    fn now() -> Self {
        Self {
            silent: Duration::ZERO,
            counted: Instant::now(),
            answers: true,
            at: Instant::now(),
        }
    }
}

/// What is known of a client, and not kept.
struct Client {
    heard: Heard,
    oldest: u64,
    complaints: Complaints,
}

impl Client {
    fn new(oldest: u64) -> Self {
        Self {
            heard: Heard::now(),
            oldest,
            complaints: Complaints::default(),
        }
    }
}

/// A master at work.
pub struct Master {
    options: Options,
    store: Rc<Store>,
    term: Rc<Term>,
    network: Network,
    state: RefCell<State>,
    /// The view of what the store has.
    kept: RefCell<ViewText>,
    /// What clients are told: the kept view once the nodes have its keys.
    published: RefCell<ViewText>,
    nodes: RefCell<BTreeMap<u32, Heard>>,
    clients: RefCell<BTreeMap<u32, Client>>,
    eras: Cell<Eras>,
    /// Whether clients were told of a view of this master.
    has_closed: Cell<bool>,
    /// Whether somebody has asked for a closing.
    is_asked: Cell<bool>,
    /// There may be something to do for [`closing`].
    work: Notify,
    stopping: Notify,
    /// Why the term is over, and a later one that a node has heard of.
    deposed: RefCell<Option<(String, u64)>>,
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

/// Runs a master at a listener that is bound, until it is told to stop. One with its store in etcd stands by while another one leads.
///
/// Errors: [`Error::Store`], also if another master leads that has its store in the same pool; [`Error::Refused`] if no cluster can be made.
pub fn run(place: impl Into<Place>, options: Options, listener: std::net::TcpListener) -> Result<(), Error> {
    match place.into() {
        Place::Pool(path) => {
            // Its guard is of this thread, and tasks keep it: there is one for each process.
            let store: &'static store::pool::Store = Box::leak(Box::new(store::pool::Store::open(&path)?));
            let _leads = store.lead()?;
            let term = Rc::new(Term::of_process(store.next_term()?));
            let (runtime, local) = crate::event_loop().map_err(Error::Runtime)?;
            let outcome = local.block_on(&runtime, async {
                listener.set_nonblocking(true).map_err(Error::Runtime)?;
                let listener = TcpListener::from_std(listener).map_err(Error::Runtime)?;
                serve(Rc::new(Store::Pool(store, term)), options, listener).await
            });
            drop(local);
            match outcome? {
                Over::Stopped => Ok(()),
                Over::Deposed { why, .. } => Err(Error::Store(format!("{}: {why}", path.display()))),
            }
        }
        #[cfg(feature = "etcd")]
        Place::Etcd { endpoints, prefix } => standby::run(&endpoints, &prefix, &options, &listener),
        #[cfg(not(feature = "etcd"))]
        Place::Etcd { .. } => Err(Error::Store(
            "this program was built without etcd: build it with the feature `etcd`, or name a file"
                .to_owned(),
        )),
    }
}

/// Runs a master that leads, until its term is over or it is told to stop. In a `LocalSet`, which must end with it.
///
/// A cluster that the store knows is gone on with; else one is made of the nodes in the options.
pub async fn serve(store: Rc<Store>, options: Options, listener: TcpListener) -> Result<Over, Error> {
    tokio::select! {
        // What ends the term comes before what goes wrong because of that.
        biased;
        why = store.lead_ends() => Ok(Over::Deposed { why, later: 0 }),
        over = lead(store.clone(), options, listener) => over,
    }
}

async fn lead(store: Rc<Store>, options: Options, listener: TcpListener) -> Result<Over, Error> {
    let term = store.term();
    if options.transport == Transport::Ofi && options.credentials.encrypts() {
        return Err(Error::Refused(OPEN_VERBS.to_owned()));
    }
    let network = Network::new(
        options.credentials.clone(),
        options.transport,
        Duration::from_millis(500),
    )
    .led(term.clone());
    let known = store.load().await?;
    let is_new = known.is_none();
    let mut options = options;
    let state = match known {
        Some(mut state) => {
            options.node_lease = kept_lease(&state, options.node_lease);
            // So that its eras are later than those of the master before, whatever that did not get to.
            state.key += 1;
            state
        }
        None if options.nodes.is_empty() => {
            return Err(Error::Refused(
                "the store knows no cluster: is its name right? For a new cluster, name its memory nodes"
                    .to_owned(),
            ));
        }
        None => {
            let mut nodes = Vec::new();
            for address in &options.nodes {
                nodes.push(offer(&network, 0, *address).await?);
            }
            let mut state =
                State::new(options.shape, &nodes).map_err(|why| Error::Refused(why.to_string()))?;
            state.node_lease_us = options.node_lease.as_micros() as u64;
            state
        }
    };
    for (node, state) in &state.nodes {
        network.set_address(NodeId(*node), state.address);
    }
    let master = Rc::new(Master {
        network,
        store,
        term,
        // Those who are known have a lease more.
        nodes: RefCell::new(state.nodes.keys().map(|node| (*node, Heard::now())).collect()),
        clients: RefCell::new(
            state
                .sessions
                .keys()
                .map(|session| (*session, Client::new(0)))
                .collect(),
        ),
        eras: Cell::new(first_eras(&state)),
        has_closed: Cell::new(is_new),
        is_asked: Cell::new(!is_new),
        work: Notify::new(),
        stopping: Notify::new(),
        deposed: RefCell::default(),
        nonces: Cell::new(0),
        closings: Cell::new(0),
        last_closing: Cell::new(Duration::ZERO),
        trouble: RefCell::default(),
        offers: Cell::new(0),
        kept: RefCell::new(state.view()),
        published: RefCell::new(state.view()),
        state: RefCell::new(state),
        options,
    });
    let begin = async {
        if !is_new {
            master.save().await?;
        }
        for node in master.state.borrow().nodes.keys() {
            tokio::task::spawn_local(watch::node(master.clone(), *node));
        }
        if is_new {
            master.format().await?;
            master.save().await?;
        }
        tokio::task::spawn_local(watch::clients(master.clone()));
        tokio::task::spawn_local(closing::work(master.clone()));
        master.work.notify_one();
        master.clone().answer_all(listener).await
    };
    tokio::select! {
        biased;
        () = master.stopping.notified() => Ok(match master.deposed.take() {
            Some((why, later)) => Over::Deposed { why, later },
            None => Over::Stopped,
        }),
        failed = begin => match failed {
            Err(error) => Err(error),
            Ok(never) => match never {},
        },
    }
}

/// A lease of nodes is the cluster's: the master before this one may have given such, and they must have ended when a node is given up.
fn kept_lease(state: &State, wanted: Duration) -> Duration {
    let kept = Duration::from_micros(state.node_lease_us);
    if kept.is_zero() || kept == wanted {
        return wanted;
    }
    eprintln!(
        "cenote cluster: the nodes of this cluster have leases of {kept:?}, as it was made so, and not of {wanted:?}"
    );
    kept
}

/// Eras grow over the lives of masters: each begins with a closing, so its last key is greater than the first of the one before. Operations
/// of clients that are known may have begun in any era before.
///
/// Clients hear of them with the view of that closing, when no verb of theirs from before takes effect any more. Else one that had not heard yet could take an object out of the index in an era of the
/// master before, and free it at once when it has heard, while another one reads it that began in an era of this one.
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
            Some([Answer::Info([incarnation, memory, 0, _, memory_is]), _]) => {
                return Ok(Offer {
                    address,
                    memory: *memory,
                    incarnation: *incarnation,
                    outlives: *memory_is == OUTLIVES,
                    mapped: *memory_is == MAPPED,
                });
            }
            Some([Answer::Info(_), _]) => {
                return Err(Error::Refused(format!(
                    "the memory node at {address} holds regions of a cluster: start a new one, without the file of its memory if it has any"
                )));
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Error::Refused(format!(
        "no memory node answers at {address}: is it running, with the same token, and TLS as here?"
    )))
}

impl Master {
    /// Keeps the state as it is.
    async fn save(&self) -> Result<(), Error> {
        match self.store.save(&self.state).await {
            Ok(view) => {
                self.kept.replace(view);
                Ok(())
            }
            Err(Unkept::Failed(error)) => Err(error),
            Err(Unkept::Deposed(why)) => {
                self.depose(why, 0);
                // This task goes on to nothing: it ends with the term.
                std::future::pending().await
            }
        }
    }

    /// Saves, or ends this process: a master that cannot keep what it decides must not act on it.
    async fn save_or_end(&self) {
        if let Err(error) = self.save().await {
            eprintln!("cenote cluster: {error}; the master ends");
            std::process::exit(1);
        }
    }

    /// This term is over.
    fn depose(&self, why: String, later: u64) {
        self.term.end();
        self.deposed.borrow_mut().get_or_insert((why, later));
        self.stopping.notify_one();
    }

    /// Whether a node obeys a later master; then this one's term is over.
    fn is_contested(&self) -> bool {
        let later = self.network.later();
        if let Some(later) = later {
            let own = self.term.number();
            let why = format!("the memory nodes obey a master of term {later}, and this one's is {own}");
            self.depose(why, later);
        }
        later.is_some()
    }

    fn publish(&self) {
        self.published.replace(self.kept.borrow().clone());
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
                self.have_held(*node, number, hold).await?;
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

    /// Has a node give memory to a region. One that does not answer is asked again for some seconds: it may have much to prepare.
    async fn have_held(&self, node: u32, region: u16, hold: Item) -> Result<(), Error> {
        let mut answers = None;
        for _ in 0..10 {
            // It may have done so, and the answer have come too late.
            answers = self
                .network
                .ask(NodeId(node), &[Item::Drop { region }, hold.clone()])
                .await;
            if answers.is_some() {
                break;
            }
        }
        match answers.as_deref() {
            Some([Answer::Done, Answer::Done]) => Ok(()),
            Some(_) => Err(Error::Refused(format!(
                "memory node {node} has no memory for region {region}"
            ))),
            None => Err(Error::Refused(format!("memory node {node} does not answer"))),
        }
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

    /// Answers everybody who connects.
    async fn answer_all(self: Rc<Self>, listener: TcpListener) -> Result<Infallible, Error> {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let master = self.clone();
            tokio::task::spawn_local(async move {
                // Who went away, or speaks otherwise, is no concern of others.
                let _ = master.answer(stream).await;
            });
        }
    }

    /// Answers questions until the connection ends.
    async fn answer(self: Rc<Self>, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = greeted_by_cluster(stream, &self.options.credentials).await?;
        loop {
            let mut prefix = [0; 4];
            stream.read_exact(&mut prefix).await?;
            let mut text = vec![0; length(prefix)?];
            stream.read_exact(&mut text).await?;
            let told = match serde_json::from_slice(&text) {
                Ok(ask) => self.told(ask).await,
                Err(error) => Told::Refused(format!("a question of another kind: {error}")),
            };
            // Another one leads, and may have decided otherwise.
            let told = match self.term.lasts() {
                true => told,
                false => Told::Standby { leader: None },
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
                    self.save_or_end().await;
                }
                Told::Block(block)
            }
            Ask::Leave { session } => {
                if self.is_in(session) {
                    self.clients.borrow_mut().remove(&session);
                    self.state.borrow_mut().forget(session);
                    self.save_or_end().await;
                }
                Told::Done
            }
            Ask::Leads => Told::Done,
            Ask::Status => Told::Status(self.status()),
            Ask::AddNode { address } => self.add_node(address).await.unwrap_or_else(refused),
            Ask::Drain { node } => {
                let drained = self.state.borrow_mut().drain(node);
                if let Err(why) = drained {
                    return Told::Refused(why);
                }
                self.save_or_end().await;
                self.work.notify_one();
                Told::Done
            }
            Ask::GiveUp { node } => {
                if let Err(why) = self.may_give_up(node) {
                    return Told::Refused(why);
                }
                watch::give_up(self, node, "does not come back, as it is said").await;
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
        self.save_or_end().await;
        // What the one before it had in flight is not this one's.
        let cells = Address::from_bits(session.cells).unwrap_or(Address::new(0, 0));
        if let Err(error) = self.write(cells, &[0; 64]).await {
            self.state.borrow_mut().forget(session.number);
            return Err(error);
        }
        let client = Client::new(self.eras.get().now);
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
            sessions_ended: self.state.borrow().sessions_ended(),
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
        let is_open = |region: &u16| {
            let state = self.state.borrow();
            let region = state.regions.get(usize::from(*region));
            region.is_some_and(|region| !region.closed)
        };
        let published = self.published.borrow();
        if let Some(client) = self.clients.borrow_mut().get_mut(&session) {
            client.heard = Heard::now();
            client.oldest = oldest;
            if view == published.number && complaints.iter().any(is_open) {
                client.complaints.add(view);
            }
        }
        self.count_eras();
        self.hear_complaints();
        Told::Beat {
            view: (view != published.number).then(|| published.clone()),
            eras: match self.has_closed.get() {
                true => self.eras_text(),
                false => ErasText::NONE,
            },
        }
    }

    /// Has regions closed if a client has complained about the view that is published.
    fn hear_complaints(&self) {
        let view = self.published.borrow().number;
        let mut clients = self.clients.borrow_mut();
        let heard = clients
            .values_mut()
            .filter_map(|client| client.complaints.take(view, Instant::now()));
        if heard.count() > 0 {
            self.is_asked.set(true);
            self.work.notify_one();
        }
    }

    /// An era ends when all clients have seen it.
    fn count_eras(&self) {
        // A closing reads and writes objects, and is no client's operation. Before its first one a new master tells nobody of its eras.
        if !self.has_closed.get() || self.state.borrow().regions.iter().any(|region| region.closed) {
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
        self.save_or_end().await;
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
        let heard = self.nodes.borrow();
        let nodes = state.nodes.iter().map(|(node, known)| NodeStatus {
            node: *node,
            address: known.address,
            alive: known.alive,
            answers: heard.get(node).is_some_and(|heard| heard.answers),
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
            term: self.term.number(),
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
