//! The master: who is alive, who holds what, and what is done when somebody fails.
//!
//! | module | |
//! |---|---|
//! | [`state`] | what it has decided; pure |
//! | [`store`] | where it keeps that, before it acts on it; what says who leads |
//! | [`term`] | for how long this one leads |
//! | `standby` | several masters, of which one leads (feature `etcd`) |
//! | here | how it comes to lead, and that it ends |
//! | `formation` | a cluster is made of memory nodes |
//! | `answers` | what it serves: requests of clients and of people |
//! | `block_requests` | requests for blocks that come twice, or late |
//! | `suspicions` | how often a client has regions closed |
//! | [`watch`] | heartbeats of nodes and clients |
//! | [`closing`] | regions are closed, their copies made equal or moved, and opened |
//!
//! One thread does everything, in tasks; between two awaits a task has the state to itself. A task changes the state,
//! and then waits until the store has it; others may see it before. So what clients are told of the state is what is
//! kept of it, and a task that acts on what it has changed waits first.
//!
//! A master leads for a term. When that is over, it asks nodes for nothing ([`Network`]), answers clients nothing but
//! that it leads no more, and keeps nothing.

mod answers;
mod block_requests;
pub mod closing;
mod formation;
#[cfg(feature = "etcd")]
mod standby;
pub mod state;
pub mod store;
mod suspicions;
pub mod term;
pub mod watch;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cenote_replica::verbs::{Completion, Request, Verbs};
use cenote_replica::view::Eras;
use cenote_replica::view::NodeId;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::control::ViewText;
use crate::credentials::Credentials;
use crate::network::Network;
use crate::ofi::Transport;
use crate::{Error, StoreError, Unsupported};
use block_requests::BlockRequests;
use formation::made;
use state::{Shape, State};
use store::{Place, Store, Unkept};
use suspicions::Suspicions;
use term::Term;

/// How a master is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// What clients have to show, and this master shows to nodes.
    pub credentials: Credentials,
    /// For how long a node may execute verbs after it has answered a heartbeat; one that is silent for longer is given
    /// up.
    pub node_lease: Duration,
    /// A node whose memory outlives its process has so long to come back when the master begins, as both may have been
    /// restarted.
    pub start_grace: Duration,
    /// A client that is silent for so long is given up.
    pub client_lease: Duration,
    /// How a new cluster is shaped.
    pub shape: Shape,
    /// The nodes of a new cluster.
    pub nodes: Vec<SocketAddr>,
    /// With a store in etcd: how long a leader's lease lasts after a renewal; whole seconds. etcd makes it longer if it
    /// is shorter than what it can do, which is 2 seconds as it comes.
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
    suspicions: Suspicions,
    blocks: BlockRequests,
}

impl Client {
    fn new(oldest: u64) -> Self {
        Self {
            heard: Heard::now(),
            oldest,
            suspicions: Suspicions::default(),
            blocks: BlockRequests::default(),
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
    /// Nodes that have refused a region, and until when none is wanted of them.
    unfit: RefCell<BTreeMap<u32, Instant>>,
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

/// Runs a master at a listener that is bound, until it is told to stop. One with its store in etcd stands by while
/// another one leads.
///
/// Errors: [`Error::Store`], with [`StoreError::AnotherLeads`] if another master leads that has its store in the same
/// pool; [`Error::Refused`] if no cluster can be made; [`Error::Unsupported`].
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
                Over::Deposed { why, .. } => Err(StoreError::Deposed { path, why }.into()),
            }
        }
        #[cfg(feature = "etcd")]
        Place::Etcd { endpoints, prefix } => standby::run(&endpoints, &prefix, &options, &listener),
        #[cfg(not(feature = "etcd"))]
        Place::Etcd { .. } => Err(Unsupported::WithoutEtcd.into()),
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
        return Err(Unsupported::TlsOverLibfabric.into());
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
        None => made(&network, &options).await?,
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
        unfit: RefCell::default(),
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

/// A lease of nodes is the cluster's: the master before this one may have given such, and they must have ended when a
/// node is given up.
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

/// Eras grow over the lives of masters: each begins with a closing, so its last key is greater than the first of the
/// one before. Operations of clients that are known may have begun in any era before.
///
/// Clients hear of them with the view of that closing, when no verb of theirs from before takes effect any more. Else
/// one that had not heard yet could take an object out of the index in an era of the master before, and free it at once
/// when it has heard, while another one reads it that began in an era of this one.
fn first_eras(state: &State) -> Eras {
    let now = state.key << 32;
    let least = if state.sessions.is_empty() { now } else { 0 };
    Eras { now, least }
}

impl Master {
    /// Keeps the state as it is.
    async fn save(&self) -> Result<(), Error> {
        match self.store.save(&self.state).await {
            Ok(view) => {
                self.kept.replace(view);
                Ok(())
            }
            Err(Unkept::Failed(error)) => Err(error.into()),
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
}
