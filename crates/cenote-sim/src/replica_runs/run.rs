//! A run: records are loaded, then each phase.

use std::cell::RefCell;
use std::rc::Rc;

use cenote_replica::client::Client;
use cenote_replica::view::Eras;
use cenote_ycsb::{Action, Operation, Spec, Workload};

use super::master::Master;
use super::metadata_server::Directory;
use super::node_allocation::NodeAllocated;
use super::place::Blocks;
use super::plan::{Phase, Plan, System, Work};
use super::sequential::Sequential;
use super::shipped::Shipped;
use super::store::Store;
use super::tally::{Kind, Outcome};
use super::{lock_based, metadata_server};
use crate::rdma::{Port, Shared, Tasks, Time, World};

/// Changes of a client from one look at what it may reclaim to the next, as a shipped client has it.
const CHANGES_PER_UPKEEP: u32 = 64;

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The sizes are none.
    #[error("the map does not fit: {0}")]
    Place(String),
    /// An operation failed.
    #[error("{system}: {error}")]
    Failed {
        /// Which store.
        system: &'static str,
        /// Why.
        error: String,
    },
    /// Clients wait for what never comes.
    #[error("{0}: the clients wait for ever")]
    Stuck(&'static str),
}

/// Runs a plan: the outcome of each phase.
pub fn measure(plan: &Plan) -> Result<Vec<Outcome>, RunError> {
    let ground = Ground::new(plan)?;
    let ports = (1..=plan.clients).map(|client| ground.port(plan, client));
    let layout = plan
        .place
        .layout()
        .ok_or_else(|| RunError::Place("layout".to_owned()))?;
    let session = |port: &Port| plan.place.session(port.client);
    let shipped = |port: Port, caching| Shipped {
        client: Client::with_caching(port.clone(), layout, session(&port), caching),
        port,
    };
    match plan.system {
        System::Shipped(caching) => {
            let stores = ports.map(|port| Rc::new(shipped(port, caching)));
            Run::new(plan, &ground, stores.collect()).phases()
        }
        System::Sequential => {
            let store = |port: Port| Shipped {
                client: Client::new(Sequential(port.clone()), layout, session(&port)),
                port,
            };
            Run::new(plan, &ground, ports.map(|port| Rc::new(store(port))).collect()).phases()
        }
        System::NodeAllocated => {
            let store = |port| Rc::new(NodeAllocated(shipped(port, Default::default())));
            Run::new(plan, &ground, ports.map(store).collect()).phases()
        }
        System::MetadataServer => {
            let directory = Rc::<Directory>::default();
            let store = |port| {
                let server = (ground.server, Rc::clone(&directory));
                let blocks = Rc::clone(&ground.blocks);
                Rc::new(metadata_server::Client::new(
                    port,
                    server,
                    blocks,
                    plan.bytes,
                    1 << 14,
                ))
            };
            Run::new(plan, &ground, ports.map(store).collect()).phases()
        }
        System::Locks { reads_lock, locks } => {
            let (records, regions) = (plan.place.records, plan.place.regions());
            let store = |port| {
                Rc::new(lock_based::Client::new(
                    port,
                    records,
                    regions,
                    plan.bytes,
                    (reads_lock, locks),
                ))
            };
            Run::new(plan, &ground, ports.map(store).collect()).phases()
        }
    }
}

/// Machines, and an empty map on them.
pub struct Ground {
    /// The network.
    pub world: Shared,
    /// Blocks of the memory nodes.
    pub blocks: Rc<Blocks>,
    /// The machine of the metadata server, and of the master.
    server: usize,
}

impl Ground {
    /// That of a plan.
    pub fn new(plan: &Plan) -> Result<Self, RunError> {
        let machines = plan.clients.div_ceil(plan.profile.clients_per_machine);
        let mut others = vec![plan.profile.server_cores];
        others.extend((0..machines).map(|_| 1));
        let world = World::new(
            &plan.profile,
            plan.seed,
            plan.place.view(),
            super::place::REGION,
            &others,
        );
        let is_shipped = !matches!(plan.system, System::MetadataServer | System::Locks { .. });
        if is_shipped {
            let formatted = plan.place.format(&mut world.borrow_mut());
            formatted.ok_or_else(|| RunError::Place(format!("{:?}", plan.place)))?;
        }
        Ok(Self {
            world,
            blocks: Rc::new(plan.place.blocks()),
            server: plan.place.nodes as usize,
        })
    }

    /// A client's place on the network; the master is client 0.
    pub fn port(&self, plan: &Plan, client: u32) -> Port {
        let machine = client.saturating_sub(1) / plan.profile.clients_per_machine;
        let blocks = Rc::clone(&self.blocks);
        Port {
            world: Rc::clone(&self.world),
            client,
            home: match client {
                0 => self.server,
                _ => self.server + 1 + machine as usize,
            },
            servers: (0..self.server).collect(),
            blocks: Rc::new(move |client, size| blocks.take(client, size)),
            asked: Rc::default(),
        }
    }
}

/// What all clients of a run share.
struct Shown {
    outcome: RefCell<Outcome>,
    error: RefCell<Option<String>>,
}

struct Run<'p, S> {
    plan: &'p Plan,
    ground: &'p Ground,
    stores: Vec<Rc<S>>,
}

/// When a client works, and from when it counts.
#[derive(Clone, Copy)]
struct Span {
    begin: Time,
    counts: Time,
    end: Time,
}

impl<'p, S: Store + 'static> Run<'p, S> {
    fn new(plan: &'p Plan, ground: &'p Ground, stores: Vec<Rc<S>>) -> Self {
        Self { plan, ground, stores }
    }

    fn phases(&self) -> Result<Vec<Outcome>, RunError> {
        self.load()?;
        self.plan.phases.iter().map(|phase| self.phase(phase)).collect()
    }

    fn spec(&self, worker: usize, workload: Workload) -> Spec {
        let mut spec = Spec::new(workload, self.plan.place.records);
        spec.seed = self.plan.seed;
        spec.for_worker(worker as u64, self.stores.len() as u64)
    }

    fn load(&self) -> Result<(), RunError> {
        let shown = Rc::new(Shown {
            outcome: RefCell::default(),
            error: RefCell::default(),
        });
        let mut tasks = Tasks::default();
        for (worker, store) in self.stores.iter().enumerate() {
            let (store, shown) = (Rc::clone(store), Rc::clone(&shown));
            let stream = self.spec(worker, Workload::Load).stream();
            let bytes = self.plan.bytes;
            tasks.spawn(async move {
                for operation in stream {
                    let (key, value) = record(operation.record, 0, bytes);
                    if let Err(error) = store.put(&key, &value).await {
                        shown.error.borrow_mut().get_or_insert(error);
                        return;
                    }
                }
            });
        }
        self.drive(tasks, &shown)
    }

    fn drive(&self, mut tasks: Tasks, shown: &Shown) -> Result<(), RunError> {
        let system = self.plan.system.name();
        let is_done = tasks.run(&self.ground.world);
        match shown.error.take() {
            Some(error) => Err(RunError::Failed { system, error }),
            None if is_done => Ok(()),
            None => Err(RunError::Stuck(system)),
        }
    }

    fn phase(&self, phase: &Phase) -> Result<Outcome, RunError> {
        let now = self.ground.world.borrow().now;
        let span = Span {
            begin: now,
            counts: now + phase.warm,
            end: now + phase.warm + phase.run,
        };
        let shown = Rc::new(Shown {
            outcome: RefCell::new(Outcome::new(phase.run, phase.slice)),
            error: RefCell::default(),
        });
        let before = self.ground.world.borrow().batches;
        let mut tasks = Tasks::default();
        for (worker, store) in self.stores.iter().enumerate() {
            let span = match phase.late {
                Some(late) if worker as u32 >= late.after => Span {
                    begin: now + late.come,
                    end: now + late.go,
                    ..span
                },
                _ => span,
            };
            let source = match phase.work {
                Work::Mix(mix, chooser) => {
                    let mut spec = self.spec(worker, Workload::A);
                    (spec.mix, spec.chooser, spec.operations) = (mix, chooser, u64::MAX);
                    Source::Stream(Box::new(spec.stream()))
                }
                Work::Remove => Source::Own {
                    next: worker as u64,
                    step: self.stores.len() as u64,
                    end: self.plan.place.records,
                },
            };
            let work = work(
                Rc::clone(store),
                source,
                span,
                (self.plan.bytes, self.plan.reclaims),
                Rc::clone(&shown),
            );
            tasks.spawn(work);
        }
        tasks.spawn(heartbeat(
            self.stores.clone(),
            self.ground.port(self.plan, 0),
            span.end,
        ));
        if let Some((node, after)) = phase.death {
            let port = self.ground.port(self.plan, 0);
            let master = Master::new(port, self.plan.place, self.plan.clients);
            let (Some(mut master), shown) = (master, Rc::clone(&shown)) else {
                return Err(RunError::Place("layout".to_owned()));
            };
            tasks.spawn(async move {
                if let Err(error) = master.after_death(node, now + after).await {
                    shown.error.borrow_mut().get_or_insert(error);
                }
            });
        }
        self.drive(tasks, &shown)?;
        let mut outcome = shown.outcome.take();
        outcome.batches = self.ground.world.borrow().batches - before;
        outcome.end();
        Ok(outcome)
    }
}

/// Where a client's operations come from.
enum Source {
    Stream(Box<cenote_ycsb::Stream>),
    Own { next: u64, step: u64, end: u64 },
}

impl Source {
    fn next(&mut self) -> Option<(Kind, u64)> {
        match self {
            Source::Stream(stream) => {
                let Operation { action, record, .. } = stream.next()?;
                let kind = match action {
                    Action::Read | Action::Scan => Kind::Search,
                    Action::Update | Action::Modify => Kind::Update,
                    Action::Insert => Kind::Insert,
                };
                Some((kind, record))
            }
            Source::Own { next, step, end } => {
                let record = *next;
                *next += *step;
                (record < *end).then_some((Kind::Remove, record))
            }
        }
    }
}

/// The key of a record, and a value of it.
pub(super) fn record(number: u64, version: u64, bytes: u32) -> ([u8; 8], Vec<u8>) {
    let key = cenote_ycsb::key_of_record(number).to_le_bytes();
    let mut value = vec![number as u8; (bytes as usize).saturating_sub(key.len()).max(8)];
    value[..8].copy_from_slice(&version.to_le_bytes());
    (key, value)
}

async fn work<S: Store>(
    store: Rc<S>,
    mut source: Source,
    span: Span,
    (bytes, reclaims): (u32, bool),
    shown: Rc<Shown>,
) {
    store.port().sleep_until(span.begin).await;
    let (mut version, mut changes) = (0, 0);
    loop {
        let began = store.port().now();
        if began >= span.end || shown.error.borrow().is_some() {
            return;
        }
        let Some((kind, number)) = source.next() else {
            return;
        };
        version += 1;
        let (key, value) = record(number, version, bytes);
        changes += u32::from(kind != Kind::Search && reclaims);
        if changes >= CHANGES_PER_UPKEEP {
            changes = 0;
            if let Err(error) = store.upkeep().await {
                shown.error.borrow_mut().get_or_insert(error);
                return;
            }
        }
        let done = match kind {
            Kind::Search => store.get(&key).await.map(drop),
            Kind::Update => store.put(&key, &value).await,
            Kind::Insert => store.insert(&key, &value).await.map(drop),
            Kind::Remove => store.remove(&key).await.map(drop),
        };
        if let Err(error) = done {
            shown.error.borrow_mut().get_or_insert(error);
            return;
        }
        let ended = store.port().now();
        if let (Some(began), Some(ended)) = (began.checked_sub(span.counts), ended.checked_sub(span.counts)) {
            shown.outcome.borrow_mut().count(kind, began, ended);
        }
    }
}

/// Heartbeats of all clients, which hear of eras at once: an era ends when all clients know it and no operation is left
/// of the one before.
async fn heartbeat<S: Store>(stores: Vec<Rc<S>>, port: Port, end: Time) {
    let interval = port.world.borrow().costs.heartbeat;
    while port.now() < end {
        let least = stores.iter().filter_map(|store| store.oldest()).min();
        {
            let mut world = port.world.borrow_mut();
            let Eras { now, least: before } = world.eras;
            let least = before.max(least.unwrap_or(now).min(now));
            world.eras = Eras {
                now: now + u64::from(least == now),
                least,
            };
            let eras = world.eras;
            for store in &stores {
                world.heard.insert(store.port().client, eras);
            }
        }
        port.sleep_until(port.now() + interval).await;
    }
}
