//! Machines, and what is on its way between them.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;
use std::task::Waker;

use cenote_replica::verbs::{Completion, Request, Verb};
use cenote_replica::view::{Eras, NodeId, View};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Time;
use super::machine::Machine;
use super::profile::{Costs, RdmaProfile};

/// A machine, by its place among all.
pub type MachineId = usize;

/// Who waits for something, and whether it has come.
#[derive(Debug, Default)]
pub(super) struct Wait {
    is_over: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Wait {
    fn end(&self) {
        self.is_over.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Whether it is over; else `waker` is woken then.
    pub(super) fn is_over(&self, waker: &Waker) -> bool {
        if !self.is_over.get() {
            self.waker.replace(Some(waker.clone()));
        }
        self.is_over.get()
    }
}

/// A batch that is on its way.
#[derive(Debug)]
pub(super) struct Post {
    pub completions: RefCell<Vec<Completion>>,
    left: Cell<usize>,
    deadline: Time,
    home: MachineId,
    pub wait: Rc<Wait>,
}

struct Verbing {
    request: Request,
    post: Rc<Post>,
    place: usize,
}

/// A request to a machine's cores.
pub(super) struct Calling {
    pub home: MachineId,
    pub to: MachineId,
    /// Bytes of the answer.
    pub answer: usize,
    pub job: Box<dyn FnOnce()>,
    pub wait: Rc<Wait>,
}

enum Event {
    /// A verb is at the node's card.
    Arrive(Box<Verbing>),
    /// An atomic verb has its turn.
    Execute(Box<Verbing>),
    /// A completion is at the client's card.
    Answer(Rc<Post>, usize, Completion),
    /// A request is at the machine.
    Call(Calling),
    /// A core has served it.
    Serve(Calling),
    /// Its answer is at the client's card.
    Return(Calling),
    /// Somebody goes on.
    Wake(Rc<Wait>),
}

struct At {
    time: Time,
    order: u64,
    event: Event,
}

impl PartialEq for At {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.order) == (other.time, other.order)
    }
}
impl Eq for At {}
impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for At {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.order).cmp(&(other.time, other.order))
    }
}

/// Everything that is shared.
pub struct World {
    /// The virtual time.
    pub now: Time,
    order: u64,
    events: BinaryHeap<Reverse<At>>,
    /// Memory nodes first: the one of number n is at n - 1.
    pub machines: Vec<Machine>,
    /// What things cost.
    pub costs: Costs,
    random: Xoshiro256PlusPlus,
    /// What the master has told.
    pub view: Rc<View>,
    /// The eras.
    pub eras: Eras,
    /// The eras as each client knows them, if it has heard of any.
    pub heard: BTreeMap<u32, Eras>,
    /// Regions about which somebody has complained.
    pub complaints: BTreeSet<u16>,
    /// Who waits for a later view.
    pub(super) views: Vec<Waker>,
    /// Clients whose sessions have ended.
    pub ended: BTreeSet<u32>,
    /// Batches that were posted.
    pub batches: u64,
    /// Atomic verbs that were executed.
    pub atomics: u64,
}

/// A world that its clients share.
pub type Shared = Rc<RefCell<World>>;

impl World {
    /// Memory nodes that hold the regions of a view, each of so many bytes, all 0; and other machines, by their numbers
    /// of cores.
    pub fn new(profile: &RdmaProfile, seed: u64, view: View, region_bytes: usize, others: &[u32]) -> Shared {
        let nodes = view.regions.iter().flat_map(|region| &region.nodes);
        let last = nodes.map(|node| node.0).max().unwrap_or(0);
        let mut machines: Vec<Machine> = (0..last).map(|_| Machine::new(profile.node_cores)).collect();
        machines.extend(others.iter().map(|cores| Machine::new(*cores)));
        for (number, region) in view.regions.iter().enumerate() {
            for node in &region.nodes {
                let regions = &mut machines[machine(*node)].regions;
                if regions.len() <= number {
                    regions.resize_with(number + 1, || None);
                }
                regions[number] = Some((region.key, vec![0; region_bytes]));
            }
        }
        Rc::new(RefCell::new(Self {
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            machines,
            costs: Costs::of(profile),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            view: Rc::new(view),
            eras: Eras { now: 1, least: 1 },
            heard: BTreeMap::new(),
            complaints: BTreeSet::new(),
            views: Vec::new(),
            ended: BTreeSet::new(),
            batches: 0,
            atomics: 0,
        }))
    }

    /// A number below `end`, which is not 0.
    pub fn draw(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn at(&mut self, time: Time, event: Event) {
        self.order += 1;
        let order = self.order;
        self.events.push(Reverse(At { time, order, event }));
    }

    /// A message's way from one card to another.
    fn way(&mut self) -> Time {
        let jitter = self.costs.jitter;
        self.costs.one_way + self.draw(jitter + 1)
    }

    /// Does the next thing that happens. `false` if nothing does.
    pub fn step(&mut self) -> bool {
        let Some(Reverse(At { time, event, .. })) = self.events.pop() else {
            return false;
        };
        self.now = time;
        match event {
            Event::Arrive(verbing) => self.arrive(verbing),
            Event::Execute(verbing) => self.execute(*verbing, time),
            Event::Answer(post, place, completion) => self.answer(&post, place, completion),
            Event::Call(calling) => {
                let (data, request) = (self.costs.transfer(0), self.costs.request);
                let machine = &mut self.machines[calling.to];
                let received = machine.card.into.take(time, data);
                let served = machine.serve(received, request);
                self.at(served, Event::Serve(calling));
            }
            Event::Serve(mut calling) => {
                std::mem::replace(&mut calling.job, Box::new(|| ()))();
                let data = self.costs.transfer(calling.answer);
                let sent = self.machines[calling.to].card.out.take(time, data);
                let arrives = sent + self.way();
                self.at(arrives, Event::Return(calling));
            }
            Event::Return(calling) => {
                let data = self.costs.transfer(calling.answer);
                let received = self.machines[calling.home].card.into.take(time, data);
                let polled = received + self.costs.poll;
                self.at(polled, Event::Wake(calling.wait));
            }
            Event::Wake(wait) => wait.end(),
        }
        true
    }

    fn arrive(&mut self, verbing: Box<Verbing>) {
        let node = machine(verbing.request.node);
        if !self.machines.get(node).is_some_and(|node| node.is_up) {
            // Nobody answers: the deadline ends it.
            let deadline = verbing.post.deadline.max(self.now);
            let unknown = Event::Answer(verbing.post, verbing.place, Completion::Unknown);
            return self.at(deadline, unknown);
        }
        let costs = self.costs;
        let card = &mut self.machines[node].card;
        let begun = card.verbs.take(self.now, costs.begin);
        match &verbing.request.verb {
            Verb::CompareSwap { .. } | Verb::FetchAdd(_) => {
                let turn = card.atomics.take(begun, costs.atomic);
                self.at(turn, Event::Execute(verbing));
            }
            _ => self.execute(*verbing, begun),
        }
    }

    /// Executes a verb that the card began at a time.
    fn execute(&mut self, verbing: Verbing, begun: Time) {
        let Verbing { request, post, place } = verbing;
        let costs = self.costs;
        let machine = &mut self.machines[machine(request.node)];
        let completion = machine.execute(&request);
        let card = &mut machine.card;
        let ready = match &request.verb {
            Verb::Read(len) => card.out.take(begun, costs.transfer(*len as usize)),
            Verb::Write(bytes) => card.into.take(begun, costs.transfer(bytes.len())),
            Verb::CompareSwap { .. } | Verb::FetchAdd(_) => {
                self.atomics += 1;
                begun
            }
        };
        let arrives = ready + self.way();
        self.at(arrives, Event::Answer(post, place, completion));
    }

    fn answer(&mut self, post: &Rc<Post>, place: usize, completion: Completion) {
        let bytes = match &completion {
            Completion::Read(bytes) => bytes.len(),
            _ => 0,
        };
        post.completions.borrow_mut()[place] = completion;
        let data = self.costs.transfer(bytes);
        let received = self.machines[post.home].card.into.take(self.now, data);
        post.left.set(post.left.get() - 1);
        if post.left.get() == 0 {
            let polled = received + self.costs.poll;
            self.at(polled, Event::Wake(Rc::clone(&post.wait)));
        }
    }

    /// A client at a machine sends a batch.
    pub(super) fn post(&mut self, home: MachineId, batch: Vec<Request>) -> Rc<Post> {
        self.batches += 1;
        let post = Rc::new(Post {
            completions: RefCell::new(vec![Completion::Unknown; batch.len()]),
            left: Cell::new(batch.len()),
            deadline: self.now + self.costs.deadline,
            home,
            wait: Rc::default(),
        });
        if batch.is_empty() {
            post.wait.end();
        }
        let mut posted = self.now + self.costs.post;
        for (place, request) in batch.into_iter().enumerate() {
            let data = match &request.verb {
                Verb::Read(_) => 0,
                Verb::Write(bytes) => bytes.len(),
                Verb::CompareSwap { .. } | Verb::FetchAdd(_) => 16,
            };
            let (begin, transfer) = (self.costs.begin, self.costs.transfer(data));
            let card = &mut self.machines[home].card;
            let begun = card.verbs.take(posted, begin);
            let arrives = card.out.take(begun, transfer) + self.way();
            let post = Rc::clone(&post);
            let verbing = Verbing { request, post, place };
            self.at(arrives, Event::Arrive(Box::new(verbing)));
            posted += self.costs.verb;
        }
        post
    }

    /// A client sends a request of so many bytes to a machine's cores.
    pub(super) fn call(&mut self, bytes: usize, calling: Calling) {
        let (begin, transfer) = (self.costs.begin, self.costs.transfer(bytes));
        let posted = self.now + self.costs.post;
        let card = &mut self.machines[calling.home].card;
        let begun = card.verbs.take(posted, begin);
        let arrives = card.out.take(begun, transfer) + self.way();
        self.at(arrives, Event::Call(calling));
    }

    /// Somebody sleeps until a time.
    pub(super) fn sleep(&mut self, until: Time) -> Rc<Wait> {
        let wait = Rc::<Wait>::default();
        self.at(until.max(self.now), Event::Wake(Rc::clone(&wait)));
        wait
    }

    /// Tells a view.
    pub fn set_view(&mut self, view: View) {
        self.view = Rc::new(view);
        self.views.drain(..).for_each(Waker::wake);
    }

    /// A node's memory of a region; none if it does not hold it.
    pub fn memory_mut(&mut self, node: NodeId, region: u16) -> Option<&mut Vec<u8>> {
        let region = self
            .machines
            .get_mut(machine(node))?
            .regions
            .get_mut(usize::from(region))?;
        region.as_mut().map(|(_, bytes)| bytes)
    }
}

/// Where a memory node is among the machines.
pub fn machine(node: NodeId) -> MachineId {
    (node.0 as usize).wrapping_sub(1)
}
