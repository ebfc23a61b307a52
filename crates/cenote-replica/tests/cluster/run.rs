//! One run: clients with random operations, and what befalls them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use cenote_check::history::{Event, History};
use cenote_check::linear::{Options, check_parts};
use cenote_check::spec::map::{Map, Op, Ret};
use cenote_replica::client::{Client, Layout, Replaced, Versioned};
use cenote_replica::index::layout::{SIBLING_AT, SUCCESSOR_AT, successor};
use cenote_replica::object::Identity;
use cenote_replica::slot::value::Slot;
use cenote_replica::verbs::Address;
use cenote_replica::view::{Eras, NodeId};
use rand::Rng;

use super::leaks;
use super::master::Master;
use super::network::{Port, Shared, Time, World};
use super::ordered;
use super::plan::{BLOCK, Fault, OBJECTS, Plan, REGION, format, layout, session, view};

/// How long the master needs to notice that somebody has crashed.
const NOTICE: Time = 100_000;
/// A run that takes longer hangs.
const STEPS_MAX: u64 = 5_000_000;

/// Whether a task is to be polled.
struct Flag(Mutex<bool>);

impl Flag {
    fn set(&self) {
        *self.0.lock().unwrap() = true;
    }

    fn take(&self) -> bool {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.set();
    }
}

struct Task {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    flag: Arc<Flag>,
}

impl Task {
    fn new(future: impl Future<Output = ()> + 'static) -> Self {
        Self {
            future: Some(Box::pin(future)),
            flag: Arc::new(Flag(Mutex::new(true))),
        }
    }

    fn poll(&mut self) {
        let Some(future) = &mut self.future else { return };
        if self.flag.take() {
            let waker = Waker::from(Arc::clone(&self.flag));
            if let Poll::Ready(()) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.future = None;
            }
        }
    }
}

/// The calls of all clients.
#[derive(Default)]
pub struct Journal {
    clock: u64,
    events: Vec<Event<Op, Ret>>,
    problems: Vec<String>,
}

impl Journal {
    pub fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A client calls. Returns the call's place.
    pub fn begin(&mut self, process: u32, op: Op) -> usize {
        let invoke = self.tick();
        self.events.push(Event {
            process,
            op,
            result: None,
            invoke,
            returned: None,
            lost: None,
        });
        self.events.len() - 1
    }

    /// A call returns.
    pub fn end(&mut self, place: usize, result: Ret) {
        let returned = self.tick();
        let event = &mut self.events[place];
        (event.result, event.returned) = (Some(result), Some(returned));
    }

    /// Reads that were all made between two moments.
    pub fn reads(&mut self, process: u32, invoke: u64, reads: impl IntoIterator<Item = (u64, Option<u64>)>) {
        let returned = Some(self.tick());
        for (key, found) in reads {
            self.events.push(Event {
                process,
                op: Op::Get { key },
                result: Some(found.map_or(Ret::Missing, Ret::Found)),
                invoke,
                returned,
                lost: None,
            });
        }
    }

    /// Something that must not be.
    pub fn problem(&mut self, what: String) {
        self.problems.push(what);
    }
}

/// The bytes of a value: as many as it says, and none of another.
fn content(value: u64, longest: u64) -> Vec<u8> {
    let len = (value % longest.max(1)) as usize;
    let fill = (0..len).map(|n| (value ^ n as u64 >> 6) as u8);
    value.to_le_bytes().into_iter().chain(fill).collect()
}

/// A value as the history has it, with its version.
fn short(found: &Versioned) -> (Identity, u64) {
    // A shorter one was written by nobody, and is none that the history has.
    let value = found
        .value
        .first_chunk()
        .map_or(0, |value| u64::from_le_bytes(*value));
    (found.version, value)
}

async fn work(client: Rc<Client<Port>>, plan: Plan, journal: Rc<RefCell<Journal>>, number: u32) {
    // The versions that this client has seen last, with their values.
    let mut versions: BTreeMap<u64, (Identity, u64)> = BTreeMap::new();
    let kinds = if plan.conditional { 16 } else { 10 };
    for _ in 0..plan.operations {
        let (what, key, value) = {
            let mut world = client.net().world.borrow_mut();
            let value = u64::from(number) << 32 | u64::from(world.random.random::<u32>() >> 1);
            (
                world.random.random_range(0..kinds),
                world.random.random_range(0..plan.keys),
                value,
            )
        };
        let op = match what {
            0..3 => Op::Get { key },
            3..6 => Op::Write { key, value },
            6..8 => Op::Insert { key, value },
            10.. => match versions.get(&key) {
                Some((_, expected)) => Op::Replace {
                    key,
                    expected: *expected,
                    value,
                },
                None => Op::Get { key },
            },
            _ => Op::Remove { key },
        };
        let place = journal.borrow_mut().begin(number, op.clone());
        let bytes = key.to_le_bytes();
        // Values of several lengths, so that objects of several sizes come and go.
        let long = |value: u64| content(value, plan.longest);
        let operation = async {
            match op {
                Op::Get { .. } => client.get_versioned(&bytes).await.map(|found| {
                    let whole = |found: &Versioned| found.value == long(short(found).1);
                    if found.as_ref().is_some_and(|found| !whole(found)) {
                        let mixed = format!("client {number}: the value of {key} is of several changes");
                        journal.borrow_mut().problems.push(mixed);
                    }
                    let found = found.as_ref().map(short);
                    versions.extend(found.map(|found| (key, found)));
                    found.map_or(Ret::Missing, |(_, value)| Ret::Found(value))
                }),
                Op::Replace { expected, value, .. } => {
                    let (version, seen) = versions[&key];
                    assert_eq!(expected, seen);
                    let replaced = client.replace_if(&bytes, version, &long(value)).await;
                    replaced.map(|replaced| match replaced {
                        Replaced::Done(version) => {
                            versions.insert(key, (version, value));
                            Ret::Replaced
                        }
                        Replaced::Changed(found) => {
                            let found = found.as_ref().map(short);
                            versions.extend(found.map(|found| (key, found)));
                            found.map_or(Ret::Missing, |(_, value)| Ret::Differs(value))
                        }
                    })
                }
                Op::Write { value, .. } => client.put(&bytes, &long(value)).await.map(|()| Ret::Done),
                Op::Insert { value, .. } => client
                    .insert(&bytes, &long(value))
                    .await
                    .map(|is_new| if is_new { Ret::Inserted } else { Ret::Present }),
                _ => client
                    .remove(&bytes)
                    .await
                    .map(|was| if was { Ret::Removed } else { Ret::Missing }),
            }
        };
        // One upkeep at a time.
        let is_first = number < 100;
        let outcome = match plan.upkeep_beside && is_first {
            true => beside(operation, keep_up(&client, number)).await,
            false => operation.await,
        };
        {
            let mut journal = journal.borrow_mut();
            match outcome {
                Ok(result) => journal.end(place, result),
                Err(cenote_replica::client::Error::Ended(_)) => return,
                Err(error) => {
                    journal.problems.push(format!("client {number}: {error}"));
                    return;
                }
            }
        }
        if what == 0 && is_first {
            keep_up(&client, number).await;
        }
    }
}

/// Upkeep; every other client does it in parts, as clients do that go on.
async fn keep_up(client: &Client<Port>, number: u32) {
    let _ = match number % 2 {
        0 => client.upkeep().await,
        _ => client.upkeep_in_part().await,
    };
}

/// Runs both, and returns what the first returns.
async fn beside<T>(first: impl Future<Output = T>, second: impl Future) -> T {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut outcome, mut is_over) = (None, false);
    poll_fn(|context| {
        if outcome.is_none()
            && let Poll::Ready(ready) = first.as_mut().poll(context)
        {
            outcome = Some(ready);
        }
        is_over = is_over || second.as_mut().poll(context).is_ready();
        match is_over {
            true => outcome.take().map_or(Poll::Pending, Poll::Ready),
            false => Poll::Pending,
        }
    })
    .await
}

/// A closing that goes on, and gives the master back.
type Closing = Pin<Box<dyn Future<Output = (Master, Result<(), String>)>>>;

/// Crashes that are to come: when, and of whom.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Client(u32),
    Node(NodeId),
    Cut(u32, NodeId),
}

/// One run. Returns how many blocks of dead clients others have taken over; the error says what is wrong.
pub fn run(plan: &Plan, seed: u64) -> Result<u32, String> {
    let world = World::new(seed, view(plan), REGION, BLOCK, OBJECTS);
    format(&world, plan);
    world.borrow_mut().unsteady = plan.unsteady;
    if plan.by_words {
        world.borrow_mut().line = 8;
    }
    let journal = Rc::new(RefCell::new(Journal::default()));
    let mut tasks = Vec::new();
    let mut clients = Vec::new();
    for number in 1..=plan.clients {
        let port = Port {
            world: Rc::clone(&world),
            client: number,
        };
        let client = Rc::new(Client::new(port, layout(plan), session(number)));
        clients.push(Rc::clone(&client));
        let (plan, journal) = (plan.clone(), Rc::clone(&journal));
        tasks.push(match plan.ordered {
            true => Task::new(ordered::work(client, plan, journal, number)),
            false => Task::new(async move {
                let part = |n| {
                    work(
                        Rc::clone(&client),
                        plan.clone(),
                        Rc::clone(&journal),
                        number + 100 * n,
                    )
                };
                let mut parts: Vec<_> = (0..plan.side_by_side).map(|n| Some(Box::pin(part(n)))).collect();
                poll_fn(|context| {
                    for part in &mut parts {
                        if part
                            .as_mut()
                            .is_some_and(|part| part.as_mut().poll(context).is_ready())
                        {
                            *part = None;
                        }
                    }
                    match parts.iter().all(Option::is_none) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    }
                })
                .await;
            }),
        });
    }
    let mut blows: Vec<(Time, Blow)> = Vec::new();
    {
        let mut world = world.borrow_mut();
        let span = u64::from(plan.operations) * 6_000;
        let mut nodes: Vec<u32> = (1..=plan.nodes).collect();
        for _ in 0..plan.node_crashes {
            let chosen = world.random.random_range(0..nodes.len());
            let node = nodes.swap_remove(chosen);
            blows.push((world.random.random_range(0..span), Blow::Node(NodeId(node))));
        }
        for _ in 0..plan.client_crashes {
            let client = world.random.random_range(1..=plan.clients);
            blows.push((world.random.random_range(0..span), Blow::Client(client)));
        }
        for _ in 0..plan.cuts {
            let client = world.random.random_range(1..=plan.clients);
            let node = NodeId(world.random.random_range(1..=plan.nodes));
            blows.push((world.random.random_range(0..span), Blow::Cut(client, node)));
        }
    }
    let mut notices: Vec<(Time, Blow)> = Vec::new();
    let (mut master_crashes, mut next_master) = (plan.master_crashes, None);
    let master = Master::new(&world, plan, plan.clients);
    let (mut dead, mut killed) = (BTreeSet::new(), BTreeSet::new());
    let mut working: Option<Closing> = None;
    let master_flag = Arc::new(Flag(Mutex::new(true)));
    let mut idle_master = Some(master);
    let mut steps = 0;
    // Until then nobody has noticed the last crash of a node.
    let mut unnoticed = 0;
    loop {
        steps += 1;
        if steps > STEPS_MAX {
            let living: Vec<usize> = (1..)
                .zip(&tasks)
                .filter(|(_, task)| task.future.is_some())
                .map(|(n, _)| n)
                .collect();
            let world = world.borrow();
            return Err(format!(
                "it hangs at {} ns, view {}, suspect regions {:?}, clients {living:?} in {:?}, master working: {}",
                world.now,
                world.view.number,
                world.suspect_regions,
                journal
                    .borrow()
                    .events
                    .iter()
                    .filter(|event| event.returned.is_none())
                    .collect::<Vec<_>>(),
                working.is_some(),
            ));
        }
        let now = world.borrow().now;
        blows.retain(|(time, blow)| {
            if *time > now {
                return true;
            }
            match *blow {
                // What it was doing may still be completed, when its session is ended: such a call has no end.
                Blow::Client(client) => {
                    tasks[client as usize - 1].future = None;
                    killed.insert(client);
                }
                Blow::Node(node) => {
                    let mut world = world.borrow_mut();
                    world.crash(node);
                    let late = if plan.notices_late {
                        world.random.random_range(0..NOTICE)
                    } else {
                        0
                    };
                    unnoticed = unnoticed.max(now + late);
                }
                Blow::Cut(client, node) => world.borrow_mut().cut(client, node, true),
            }
            notices.push((now + NOTICE, *blow));
            false
        });
        let mut is_noticed = Vec::new();
        notices.retain(|(time, blow)| {
            let is_due = *time <= now;
            if is_due {
                is_noticed.push(*blow);
            }
            !is_due
        });
        for blow in is_noticed {
            match blow {
                Blow::Client(client) => {
                    dead.insert(client);
                }
                Blow::Node(_) => {}
                Blow::Cut(client, node) => world.borrow_mut().cut(client, node, false),
            }
        }
        if let Some(mut idle) = idle_master.take() {
            if now >= unnoticed {
                idle.add_lost();
            }
            idle.close_suspect_regions();
            for client in std::mem::take(&mut dead) {
                world.borrow_mut().end_session(client);
                idle.end(client);
            }
            if !idle.is_asked() {
                idle_master = Some(idle);
            } else {
                master_flag.set();
                if master_crashes > 0 {
                    let mut world = world.borrow_mut();
                    world.master_lasts = Some(world.random.random_range(0..80));
                }
                working = Some(Box::pin(async move {
                    let outcome = idle.close().await;
                    (idle, outcome)
                }));
            }
        }
        if let Some(closing) = &mut working
            && master_flag.take()
        {
            let waker = Waker::from(Arc::clone(&master_flag));
            if let Poll::Ready((idle, outcome)) = closing.as_mut().poll(&mut Context::from_waker(&waker)) {
                outcome.map_err(|why| format!("the master: {why}"))?;
                idle_master = Some(idle);
                working = None;
            }
        }
        if std::mem::take(&mut world.borrow_mut().master_died) {
            working = None;
            master_crashes -= 1;
            let mut world = world.borrow_mut();
            // Nodes may go with it.
            let later = world.random.random_range(0..NOTICE);
            if world.random.random_range(0..2) == 0 {
                for (time, _) in blows
                    .iter_mut()
                    .filter(|(_, blow)| matches!(blow, Blow::Node(_)))
                    .take(1)
                {
                    *time = now + world.random.random_range(0..=later);
                }
            }
            next_master = Some(now + later);
        }
        if next_master.is_some_and(|time| time <= now) && std::mem::take(&mut next_master).is_some() {
            let mut master = Master::after(&world, plan);
            master.add_lost();
            idle_master = Some(master);
        }
        for task in &mut tasks {
            task.poll();
        }
        advance_era(&world, &clients, &tasks, plan.fault);
        let is_done = tasks.iter().all(|task| task.future.is_none());
        let moved = world.borrow_mut().step();
        if is_done && !moved && working.is_none() && next_master.is_none() && notices.is_empty() {
            break;
        }
        if !moved {
            // Nothing is on its way: time goes on by itself.
            world.borrow_mut().now += 10_000;
            if is_done && blows.iter().all(|(time, _)| *time > now) {
                blows.clear();
            }
        }
    }
    if plan.ordered {
        ordered::look_over(&world, plan, &journal);
    }
    let journal = journal.take();
    if let Some(problem) = journal.problems.first() {
        return Err(problem.clone());
    }
    let slots = copies_are_equal(&world.borrow(), &layout(plan))?;
    leaks::each_key_has_one_slot(&world.borrow(), &slots)?;
    let history = History::new(journal.events).map_err(|error| error.to_string())?;
    let verdict = check_parts(&Map, &history, &Options::default());
    if !verdict.is_linearizable() {
        return Err(format!("{verdict:?}"));
    }
    let adopted = world.borrow().adopted;
    drop(tasks);
    clients.retain(|client| !killed.contains(&client.session().number));
    leaks::check(&world, plan, &clients, &slots)?;
    Ok(adopted)
}

/// As if clients had sent heartbeats. They hear of a new era at different times, and before all have, there is no later
/// one.
fn advance_era(world: &Shared, clients: &[Rc<Client<Port>>], tasks: &[Task], fault: Option<Fault>) {
    let living: Vec<&Rc<Client<Port>>> = clients
        .iter()
        .zip(tasks)
        .filter(|(_, task)| task.future.is_some())
        .map(|(client, _)| client)
        .collect();
    let least = living.iter().map(|client| client.oldest()).min();
    let mut world = world.borrow_mut();
    if fault == Some(Fault::NoEras) {
        world.eras = Eras { now: 1, least: 3 };
        return;
    }
    let now = world.eras.now;
    let least = least.unwrap_or(now).min(now);
    world.eras.least = world.eras.least.max(least);
    let mut have_heard = true;
    for client in living {
        let number = client.session().number;
        if world.random.random_range(0..20) == 0 {
            world.heard.insert(number, now);
        }
        have_heard &= world.heard.get(&number) == Some(&now);
    }
    if have_heard && world.eras.least == now && world.random.random_range(0..5) == 0 {
        world.eras.now += 1;
    }
}

/// An empty map, of which nobody dies.
pub fn empty(plan: &Plan) -> Shared {
    let world = World::new(1, view(plan), REGION, BLOCK, OBJECTS);
    format(&world, plan);
    world
}

/// A client of such a map.
pub fn join(world: &Shared, plan: &Plan, number: u32) -> Rc<Client<Port>> {
    let port = Port {
        world: Rc::clone(world),
        client: number,
    };
    Rc::new(Client::new(port, layout(plan), session(number)))
}

/// Runs what clients do until all of them are done.
pub fn drive(world: &Shared, tasks: Vec<Pin<Box<dyn Future<Output = ()>>>>) {
    let mut tasks: Vec<Task> = tasks.into_iter().map(Task::new).collect();
    while tasks.iter().any(|task| task.future.is_some()) {
        tasks.iter_mut().for_each(Task::poll);
        world.borrow_mut().step();
    }
}

/// Whether all copies of the index are equal, and none of its words is in a round. Returns the slots.
pub fn copies_are_equal(world: &World, layout: &Layout) -> Result<Vec<Slot>, String> {
    let word = |node: NodeId, at: Address| {
        let bytes = world
            .memory(node, at.region())
            .map(|memory| &memory[at.offset() as usize..at.offset() as usize + 8]);
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(u64::from_le_bytes)
    };
    let equal = |at: Address| {
        let region = &world.view.regions[usize::from(at.region())];
        let copies: Vec<Option<u64>> = region.nodes.iter().map(|node| word(*node, at)).collect();
        match copies.iter().all(|copy| *copy == copies[0]) {
            true => Ok(copies[0].unwrap_or(0)),
            false => Err(format!("copies of {at:x?} differ: {copies:x?}")),
        }
    };
    let (mut segments, mut slots) = (BTreeSet::new(), Vec::new());
    for n in 0..1_u32 << layout.depth {
        segments.insert(equal(layout.directory.plus(8 * n))? & ((1 << 46) - 1));
    }
    while let Some(at) = segments.pop_first().and_then(Address::from_bits) {
        if let Some(part) = successor(equal(at.plus(SUCCESSOR_AT))?) {
            segments.insert(part.bits());
            segments.insert(equal(part.plus(SIBLING_AT))?);
            continue;
        }
        for n in 0..layout.segments.slots() {
            slots.push(Slot(equal(at.plus(layout.segments.slot_at(n)))?));
        }
    }
    Ok(slots)
}

/// The same, but no longer than some time; whether they are done.
pub fn drive_for(world: &Shared, tasks: Vec<Pin<Box<dyn Future<Output = ()>>>>, time: Time) -> bool {
    let mut tasks: Vec<Task> = tasks.into_iter().map(Task::new).collect();
    while tasks.iter().any(|task| task.future.is_some()) {
        tasks.iter_mut().for_each(Task::poll);
        world.borrow_mut().step();
        if world.borrow().now > time {
            return false;
        }
    }
    true
}
