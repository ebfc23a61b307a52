//! A simulated network of memory nodes: every verb arrives at a time of its own, reads and writes line by line; nodes
//! crash; clients are cut off; verbs of the dead arrive late.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use cenote_replica::verbs::{Address, Completion, Request, Verb, Verbs};
use cenote_replica::view::Eras;
use cenote_replica::view::{Access, Control, Key, NodeId, SessionEnded, View};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Nanoseconds.
pub type Time = u64;

/// Bytes that a node reads or writes at once, if a world does not say otherwise.
const LINE: usize = 64;
/// How long a client waits for completions.
pub const DEADLINE: Time = 200_000;

/// A part of a verb that is on its way.
struct Arrival {
    request: Request,
    /// Where in the verb's bytes it begins.
    offset: usize,
    len: usize,
    post: Rc<RefCell<Post>>,
    place: usize,
}

/// A batch that is on its way.
struct Post {
    completions: Vec<Option<Completion>>,
    /// Parts of each verb that are still to come.
    left: Vec<usize>,
    /// What each read has so far.
    gathered: Vec<Vec<u8>>,
    is_over: bool,
    client: u32,
    waker: Option<Waker>,
}

impl Post {
    fn end_if_complete(&mut self) {
        if self.completions.iter().all(Option::is_some) {
            self.end();
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

enum Event {
    Arrive(Arrival),
    Complete(Rc<RefCell<Post>>, usize, Completion),
    Deadline(Rc<RefCell<Post>>),
    Wake(Rc<RefCell<Post>>),
}

/// A memory node.
struct Node {
    is_up: bool,
    regions: BTreeMap<u16, (Key, Vec<u8>)>,
}

/// Says whose requests are held back: a client's number, and one of its requests.
pub type Holds = Box<dyn Fn(u32, &Request) -> bool>;

/// Everything that is shared.
pub struct World {
    pub now: Time,
    order: u64,
    events: BinaryHeap<Reverse<(Time, u64)>>,
    waiting: BTreeMap<u64, Event>,
    nodes: BTreeMap<NodeId, Node>,
    /// Pairs that do not reach each other.
    cut: BTreeSet<(u32, NodeId)>,
    /// A client whose verbs reach memory below an address late.
    pub late: Option<(u32, Address)>,
    /// Which requests do not arrive before they are released.
    pub holds: Option<Holds>,
    held: Vec<(u32, Arrival)>,
    /// Clients that hear no answers: their verbs arrive.
    pub deaf: BTreeSet<u32>,
    pub view: Rc<View>,
    pub eras: Eras,
    /// The era that each client knows, if it is not the first.
    pub heard: BTreeMap<u32, u64>,
    /// Regions that a client suspects.
    pub suspect_regions: BTreeSet<u16>,
    pub ended: BTreeSet<u32>,
    views_waker: Vec<Waker>,
    next_block: BTreeMap<u16, u32>,
    /// Who has which block, for objects of which size.
    pub blocks: BTreeMap<Address, (u32, u32)>,
    /// Clients that have gone, and of which nothing goes on.
    pub gone: BTreeSet<u32>,
    /// Blocks that were taken over.
    pub adopted: u32,
    block_bytes: u32,
    region_bytes: u32,
    pub random: SmallRng,
    /// Batches that were posted by each client.
    pub rounds: BTreeMap<u32, u64>,
    /// More delays are long.
    pub unsteady: bool,
    /// Bytes that a node reads or writes at once.
    pub line: usize,
    /// How many blocks are left, if they are counted.
    pub blocks_left: Option<u32>,
    /// The last key that a master has given.
    pub last_key: u64,
    /// After how many verbs the master dies, if it does.
    pub master_lasts: Option<usize>,
    /// It has died.
    pub master_died: bool,
}

pub type Shared = Rc<RefCell<World>>;

/// Room for what a request reads.
fn gathered(request: &Request) -> Vec<u8> {
    match request.verb {
        Verb::Read(len) => vec![0; len as usize],
        _ => Vec::new(),
    }
}

impl World {
    pub fn new(seed: u64, view: View, region_bytes: u32, block_bytes: u32, first_block: u32) -> Shared {
        let mut nodes: BTreeMap<NodeId, Node> = BTreeMap::new();
        for (number, region) in (0_u16..).zip(&view.regions) {
            for node in &region.nodes {
                let node = nodes.entry(*node).or_insert(Node {
                    is_up: true,
                    regions: BTreeMap::new(),
                });
                node.regions
                    .insert(number, (region.key, vec![0; region_bytes as usize]));
            }
        }
        let next_block = (0..view.regions.len() as u16)
            .map(|region| (region, first_block))
            .collect();
        Rc::new(RefCell::new(Self {
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            nodes,
            cut: BTreeSet::new(),
            late: None,
            holds: None,
            held: Vec::new(),
            deaf: BTreeSet::new(),
            view: Rc::new(view),
            eras: Eras { now: 1, least: 1 },
            heard: BTreeMap::new(),
            suspect_regions: BTreeSet::new(),
            ended: BTreeSet::new(),
            views_waker: Vec::new(),
            next_block,
            blocks: BTreeMap::new(),
            gone: BTreeSet::new(),
            adopted: 0,
            block_bytes,
            region_bytes,
            random: SmallRng::seed_from_u64(seed),
            rounds: BTreeMap::new(),
            unsteady: false,
            line: LINE,
            blocks_left: None,
            last_key: 1,
            master_lasts: None,
            master_died: false,
        }))
    }

    fn at(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order)));
        self.waiting.insert(self.order, event);
    }

    /// A delay of the network: most are alike, some are long.
    fn delay(&mut self) -> Time {
        match self.random.random_range(0..20) {
            1..6 if self.unsteady => self.random.random_range(1_000..60_000),
            0 => self.random.random_range(1_000..20_000),
            _ => self.random.random_range(500..1_500),
        }
    }

    /// Does the next thing that happens. `false` if nothing does.
    pub fn step(&mut self) -> bool {
        let Some(Reverse((time, order))) = self.events.pop() else {
            return false;
        };
        self.now = self.now.max(time);
        match self.waiting.remove(&order) {
            Some(Event::Arrive(arrival)) => self.arrive(arrival),
            Some(Event::Complete(post, place, completion)) => {
                let mut post = post.borrow_mut();
                if !self.deaf.contains(&post.client) {
                    post.completions[place].get_or_insert(completion);
                    post.end_if_complete();
                }
            }
            Some(Event::Deadline(post)) => {
                let mut post = post.borrow_mut();
                for completion in &mut post.completions {
                    completion.get_or_insert(Completion::Unknown);
                }
                post.end();
            }
            Some(Event::Wake(post)) => post.borrow_mut().end(),
            None => {}
        }
        true
    }

    fn arrive(&mut self, arrival: Arrival) {
        let Arrival {
            request,
            offset,
            len,
            post,
            place,
        } = arrival;
        let Some(node) = self.nodes.get_mut(&request.node).filter(|node| node.is_up) else {
            // Nobody answers: the deadline ends it.
            return;
        };
        let region = node.regions.get_mut(&request.at.region());
        let Some((_, memory)) = region.filter(|(key, _)| *key == request.key) else {
            let time = self.now + self.delay();
            return self.at(time, Event::Complete(post, place, Completion::Refused));
        };
        let from = request.at.offset() as usize + offset;
        let word = |memory: &[u8]| u64::from_le_bytes(memory[from..from + 8].try_into().unwrap());
        let completion = match &request.verb {
            Verb::Read(_) => {
                let bytes = &memory[from..from + len];
                post.borrow_mut().gathered[place][offset..offset + len].copy_from_slice(bytes);
                None
            }
            Verb::Write(bytes) => {
                memory[from..from + len].copy_from_slice(&bytes[offset..offset + len]);
                Some(Completion::Written)
            }
            Verb::CompareSwap { expected, new } => {
                let was = word(memory);
                if was == *expected {
                    memory[from..from + 8].copy_from_slice(&new.to_le_bytes());
                }
                Some(Completion::Was(was))
            }
            Verb::FetchAdd(add) => {
                let was = word(memory);
                memory[from..from + 8].copy_from_slice(&was.wrapping_add(*add).to_le_bytes());
                Some(Completion::Was(was))
            }
        };
        let is_whole = {
            let mut post = post.borrow_mut();
            post.left[place] -= 1;
            post.left[place] == 0
        };
        if is_whole {
            let completion = completion
                .unwrap_or_else(|| Completion::Read(std::mem::take(&mut post.borrow_mut().gathered[place])));
            let time = self.now + self.delay();
            self.at(time, Event::Complete(post, place, completion));
        }
    }

    /// Sends a batch of a client.
    fn send(&mut self, client: u32, batch: Vec<Request>) -> Rc<RefCell<Post>> {
        *self.rounds.entry(client).or_default() += 1;
        let post = Rc::new(RefCell::new(Post {
            completions: vec![None; batch.len()],
            left: vec![0; batch.len()],
            gathered: batch.iter().map(gathered).collect(),
            is_over: batch.is_empty(),
            client,
            waker: None,
        }));
        for (place, request) in batch.into_iter().enumerate() {
            let bytes = match &request.verb {
                Verb::Read(len) => *len as usize,
                Verb::Write(bytes) => bytes.len(),
                Verb::CompareSwap { .. } | Verb::FetchAdd(_) => 8,
            };
            let end = request.at.offset() as usize + bytes;
            assert!(
                end <= self.region_bytes as usize,
                "a verb reaches beyond its region: {request:?}"
            );
            let parts = bytes.div_ceil(self.line).max(1);
            post.borrow_mut().left[place] = parts;
            let is_cut = self.cut.contains(&(client, request.node));
            let is_late = self
                .late
                .is_some_and(|(whose, below)| whose == client && request.at < below);
            for part in 0..parts {
                // What is cut off arrives much later, or never.
                let time = match is_cut {
                    true if self.random.random_range(0..2) == 0 => continue,
                    true => self.now + self.random.random_range(0..20 * DEADLINE),
                    // The answer needs some time as well.
                    false if is_late => self.now + DEADLINE / 2,
                    false => self.now + self.delay(),
                };
                let (offset, len) = (part * self.line, self.line.min(bytes - part * self.line));
                let arrival = Arrival {
                    request: request.clone(),
                    offset,
                    len,
                    post: Rc::clone(&post),
                    place,
                };
                match &self.holds {
                    Some(holds) if holds(client, &arrival.request) => self.held.push((client, arrival)),
                    _ => self.at(time, Event::Arrive(arrival)),
                }
            }
        }
        let deadline = self.now + DEADLINE;
        self.at(deadline, Event::Deadline(Rc::clone(&post)));
        post
    }

    /// Sends on what is held back of a client.
    pub fn release(&mut self, client: u32) {
        self.release_some(client, |_| true);
    }

    /// Sends on some of what is held back of a client.
    pub fn release_some(&mut self, client: u32, which: impl Fn(&Request) -> bool) {
        self.release_parts(client, |request, _| which(request));
    }

    /// Sends on some parts of verbs that are held back of a client, by where in the verb's bytes they begin.
    pub fn release_parts(&mut self, client: u32, which: impl Fn(&Request, usize) -> bool) {
        for (whose, arrival) in std::mem::take(&mut self.held) {
            match whose == client && which(&arrival.request, arrival.offset) {
                true => self.at(self.now + 1, Event::Arrive(arrival)),
                false => self.held.push((whose, arrival)),
            }
        }
    }

    /// How many parts of verbs are held back of a client.
    pub fn held(&self, client: u32) -> usize {
        self.held.iter().filter(|(whose, _)| *whose == client).count()
    }

    /// Crashes a node: its memory is lost.
    pub fn crash(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.is_up = false;
            node.regions.clear();
        }
    }

    /// Cuts a client off from a node, or joins them again.
    pub fn cut(&mut self, client: u32, node: NodeId, is_cut: bool) {
        match is_cut {
            true => self.cut.insert((client, node)),
            false => self.cut.remove(&(client, node)),
        };
    }

    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.is_up)
    }

    /// Gives a region's nodes a new key.
    pub fn set_key(&mut self, region: u16, key: Key) {
        for node in self.nodes.values_mut() {
            if let Some(region) = node.regions.get_mut(&region) {
                region.0 = key;
            }
        }
    }

    /// Gives the regions of a node a new key.
    pub fn set_key_at(&mut self, node: NodeId, key: Key) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.regions.values_mut().for_each(|region| region.0 = key);
        }
    }

    /// The nodes that are up.
    pub fn living(&self) -> Vec<NodeId> {
        let living = self.nodes.iter().filter(|(_, node)| node.is_up);
        living.map(|(number, _)| *number).collect()
    }

    /// Copies a region to another node.
    pub fn copy(&mut self, number: u16, from: NodeId, to: NodeId) {
        let region = self
            .nodes
            .get(&from)
            .and_then(|node| node.regions.get(&number))
            .cloned();
        if let (Some(region), Some(node)) = (region, self.nodes.get_mut(&to)) {
            node.regions.insert(number, region);
        }
    }

    pub fn set_view(&mut self, view: View) {
        self.view = Rc::new(view);
        self.wake_all();
    }

    pub fn end_session(&mut self, client: u32) {
        self.ended.insert(client);
        self.wake_all();
    }

    fn wake_all(&mut self) {
        for waker in self.views_waker.drain(..) {
            waker.wake();
        }
    }

    /// The bytes of a region at a node.
    pub fn memory(&self, node: NodeId, region: u16) -> Option<&[u8]> {
        Some(&self.nodes.get(&node)?.regions.get(&region)?.1)
    }

    pub fn memory_mut(&mut self, node: NodeId, region: u16) -> Option<&mut Vec<u8>> {
        Some(&mut self.nodes.get_mut(&node)?.regions.get_mut(&region)?.1)
    }

    pub fn allocate(&mut self, client: u32, size: u32) -> Option<Address> {
        let gone = &self.gone;
        let orphan = self
            .blocks
            .iter_mut()
            .find(|(_, (owner, of))| gone.contains(owner) && *of == size);
        if let Some((at, block)) = orphan {
            block.0 = client;
            self.adopted += 1;
            return Some(*at);
        }
        let (region, offset) = self
            .next_block
            .iter()
            .min_by_key(|(_, offset)| **offset)
            .map(|(r, o)| (*r, *o))?;
        if offset + self.block_bytes > self.region_bytes || self.blocks_left == Some(0) {
            return None;
        }
        self.blocks_left = self.blocks_left.map(|left| left - 1);
        self.next_block.insert(region, offset + self.block_bytes);
        let at = Address::new(region, offset);
        self.blocks.insert(at, (client, size));
        Some(at)
    }
}

/// The network, as one client or the master has it.
#[derive(Clone)]
pub struct Port {
    pub world: Shared,
    pub client: u32,
}

impl Port {
    async fn wait(&self, post: Rc<RefCell<Post>>) -> Vec<Completion> {
        poll_fn(|context| {
            let mut post = post.borrow_mut();
            if post.is_over {
                return Poll::Ready(());
            }
            post.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        let mut post = post.borrow_mut();
        post.completions
            .iter_mut()
            .map(|completion| completion.take().unwrap_or(Completion::Unknown))
            .collect()
    }
}

impl Port {
    /// Waits until verbs that are not late have arrived.
    pub async fn quiesce(&self) {
        self.pause(6).await;
    }
}

impl Verbs for Port {
    async fn post(&self, mut batch: Vec<Request>) -> Vec<Completion> {
        if self.client == 0 {
            let lasts = self.world.borrow().master_lasts;
            if let Some(lasts) = lasts {
                self.world.borrow_mut().master_lasts = lasts.checked_sub(batch.len());
                if lasts < batch.len() {
                    // Some of them go out.
                    {
                        let mut world = self.world.borrow_mut();
                        batch.retain(|_| world.random.random_range(0..2) == 0);
                        world.send(self.client, batch);
                        world.master_died = true;
                    }
                    std::future::pending::<()>().await;
                    unreachable!()
                }
            }
        }
        let post = self.world.borrow_mut().send(self.client, batch);
        self.wait(post).await
    }

    async fn pause(&self, attempt: u32) {
        let post = Rc::new(RefCell::new(Post {
            completions: vec![None],
            left: vec![0],
            gathered: Vec::new(),
            is_over: false,
            client: self.client,
            waker: None,
        }));
        {
            let mut world = self.world.borrow_mut();
            let most = 2_000 << attempt.min(5);
            let time = world.now + world.random.random_range(500..most);
            world.at(time, Event::Wake(Rc::clone(&post)));
        }
        self.wait(post).await;
    }
}

impl Control for Port {
    fn view(&self) -> Rc<View> {
        Rc::clone(&self.world.borrow().view)
    }

    fn eras(&self) -> Eras {
        let world = self.world.borrow();
        let now = world.heard.get(&self.client).copied().unwrap_or(1);
        Eras { now, ..world.eras }
    }

    fn sessions_ended(&self) -> u64 {
        self.world.borrow().gone.len() as u64
    }

    async fn later(&self, than: u64, region: u16) -> Result<(), SessionEnded> {
        let is_closed = |view: &View| {
            view.region(region)
                .is_some_and(|region| region.access == Access::Closed)
        };
        let view = self.view();
        if view.number <= than && !is_closed(&view) {
            self.world.borrow_mut().suspect_regions.insert(region);
        }
        poll_fn(|context| {
            let mut world = self.world.borrow_mut();
            if world.ended.contains(&self.client) {
                return Poll::Ready(Err(SessionEnded));
            }
            if world.view.number > than {
                return Poll::Ready(Ok(()));
            }
            world.views_waker.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    async fn block(&self, size: u32) -> Result<Option<Address>, SessionEnded> {
        // As a round trip to a node and one among the nodes.
        self.pause(1).await;
        Ok(self.world.borrow_mut().allocate(self.client, size))
    }
}
