//! Maps, object stores and task lists that are dropped by their names, while others use them, and that are made again.
//! Each one has a tag, the value of its first key, which every other value repeats: so what is read in one and was
//! written to another shows. What a thread has written it must find, until it is told that the map was dropped, which
//! it is only if somebody dropped that name. Once a drop is over that found nobody at work, no older handle may be of
//! use. In the end all is dropped, and nothing may be left.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cenote::Error;
use cenote::causes::Table;
use cenote::index::dropping::finish_dropped;
use cenote::index::hash::HashMap;
use cenote::index::objects::{NewObject, ObjectSettings, ObjectStore, Viewed};
use cenote::index::ordered::OrderedMap;
use cenote::pod::format::geometry::Parameters;
use cenote::pod::reclaim::collect;
use cenote::pod::tasks::{Committed, Plan, TaskList};
use cenote::pod::{Pod, Worker};

use super::assemble::{Parts, assemble};
use super::drop_times::{DropTimes, Opened, drop_all};
use super::{Load, Log, Scenario, below, random};
use crate::exec::{Context, Held, SimMemory};

/// What is dropped: hash maps, ordered maps, an object store, a task list.
const NAMES: [&str; 6] = [
    "hash",
    "ordered",
    "objects",
    "other hash",
    "other ordered",
    "tasks",
];
/// Which of them is the object store, and the task list. Of the others, each second one is ordered.
const OBJECTS: usize = 2;
const TASKS: usize = 5;
/// Threads of a run that belong to none of its processes, at most.
const OTHER_THREADS: u32 = 4;
/// Tasks of the list, at least.
const TASKS_MIN: u64 = 64;
/// The key of the tag.
const TAG: u64 = 0;
/// Keys of each thread.
const KEYS: u64 = 2;
/// Views that a thread holds, at most.
const VIEWS_MAX: usize = 2;

struct Shared {
    load: Load,
    log: Log,
    times: DropTimes<{ NAMES.len() }>,
}

pub fn scenario<const C: bool>(load: Load, parameters: Parameters) -> Scenario<C> {
    let log = Log::default();
    let shared = Shared {
        load,
        log: log.clone(),
        times: DropTimes::new(NAMES, log.clone()),
    };
    let prepare = |_: &Context<C>, _: &Shared| Ok(());
    let audit = |context: &Context<C>, shared: &Shared| drop_all(context, &shared.log);
    let parts = Parts { prepare, work, audit };
    assemble(load, parameters, 8, log, shared, parts)
}

enum Structure<const C: bool> {
    Hash(HashMap<SimMemory<C>>),
    Ordered(OrderedMap<SimMemory<C>>),
    Objects(ObjectStore<SimMemory<C>>),
    Tasks(TaskList<SimMemory<C>>),
}

impl<const C: bool> Structure<C> {
    fn open(worker: &Rc<Worker<SimMemory<C>>>, name: usize, load: &Load) -> cenote::Result<Self> {
        let (worker, guidelines) = (worker.clone(), load.guidelines);
        Ok(match (name, NAMES[name]) {
            (OBJECTS, name) => {
                let settings = ObjectSettings::default();
                Self::Objects(ObjectStore::open_or_create(worker, name, &settings, guidelines)?)
            }
            (TASKS, name) => {
                let plan = Plan::single(tasks_of(load));
                Self::Tasks(TaskList::open_or_create(worker, name, &plan)?)
            }
            (0 | 3, name) => Self::Hash(HashMap::open_or_create(worker, name, guidelines)?),
            (_, name) => Self::Ordered(OrderedMap::open_or_create(worker, name, guidelines)?),
        })
    }

    /// Returns whether the value is there now. A task that has its result keeps that.
    fn put(&self, key: u64, value: &[u8]) -> cenote::Result<bool> {
        if let Self::Tasks(list) = self {
            return Ok(list.commit(task_of(key), value)? == Committed::First);
        }
        let key = key.to_be_bytes();
        match self {
            Self::Hash(map) => map.put(&key, value).map(drop)?,
            Self::Ordered(map) => map.put(&key, value).map(drop)?,
            Self::Objects(store) => {
                let object = store.make_beside(&key, value.len() as u64, &NewObject::default())?;
                store.fill(&object, 0, value);
                store.seal_over(object).map(drop)?;
            }
            Self::Tasks(_) => {}
        }
        Ok(true)
    }

    /// Gives the structure its tag, if it has none.
    fn insert_tag(&self, value: &[u8]) -> cenote::Result<()> {
        let key = TAG.to_be_bytes();
        match self {
            Self::Hash(map) => map.insert(&key, value).map(drop),
            Self::Ordered(map) => map.insert(&key, value).map(drop),
            Self::Objects(store) => match store.make(&key, value.len() as u64, &NewObject::default())? {
                Some(object) => {
                    store.fill(&object, 0, value);
                    store.seal(object).map(drop)
                }
                None => Ok(()),
            },
            Self::Tasks(list) => list.commit(TAG, value).map(drop),
        }
    }

    fn get(&self, number: u64) -> cenote::Result<Option<Vec<u8>>> {
        let key = number.to_be_bytes();
        match self {
            Self::Tasks(list) => Ok(list.result(task_of(number))?.map(|result| result.to_vec())),
            Self::Hash(map) => Ok(map.get(&key)?.map(|value| value.to_vec())),
            Self::Ordered(map) => Ok(map.get(&key)?.map(|value| value.to_vec())),
            Self::Objects(store) => Ok(store.view(&key)?.map(|viewed| {
                let bytes = viewed.bytes(store.worker().mem()).to_vec();
                store.end_view(viewed);
                bytes
            })),
        }
    }
}

/// How many tasks the list has: one for each key of each thread, and the tag's. A process has a thread that spawns the
/// others, and another one may begin in its place; and the run has threads of its own.
fn tasks_of(load: &Load) -> u64 {
    let threads = 2 * load.hosts * (load.threads + 1) + OTHER_THREADS;
    (1 + KEYS * u64::from(threads)).max(TASKS_MIN)
}

/// The task of a key: of the tag the first one.
fn task_of(key: u64) -> u64 {
    match key {
        TAG => 0,
        key => 1 + (key >> 8) * KEYS + (key & 0xff) - 1,
    }
}

/// A handle of a thread.
struct Handle<const C: bool> {
    structure: Structure<C>,
    tag: u64,
    when: Opened,
}

/// A view that a thread holds, and what it shows.
struct View<const C: bool> {
    store: Rc<Handle<C>>,
    viewed: Viewed,
    held: Held,
    bytes: Vec<u8>,
}

struct Thread<'a, const C: bool> {
    shared: &'a Shared,
    context: &'a Context<C>,
    worker: Rc<Worker<SimMemory<C>>>,
    handles: [Option<Rc<Handle<C>>>; NAMES.len()],
    /// What it has written: by name, tag and key.
    written: BTreeMap<(usize, u64, u64), u64>,
    views: Vec<View<C>>,
    /// Of values and tags, for those that it writes next.
    number: u64,
}

fn work<const C: bool>(
    context: &Context<C>,
    pod: &Arc<Pod<SimMemory<C>>>,
    shared: &Shared,
) -> cenote::Result<()> {
    let mut random = random(shared.load.seed, context.thread());
    let worker = Rc::new(Worker::attach(pod, shared.load.guidelines.replicate)?);
    let mut thread = Thread {
        shared,
        context,
        worker,
        handles: Default::default(),
        written: BTreeMap::new(),
        views: Vec::new(),
        number: u64::from(context.thread()) << 32 | 1 << 31,
    };
    for _ in 0..shared.load.operations {
        let (name, key) = (
            below(&mut random, NAMES.len() as u64) as usize,
            1 + below(&mut random, KEYS),
        );
        let own = u64::from(context.thread()) << 8 | key;
        match below(&mut random, 12) {
            0 | 1 => shared.times.drop_named(&thread.worker, name)?,
            2..=5 => thread.on(name, |thread, handle| thread.put(name, handle, own))?,
            6..=8 => thread.on(name, |thread, handle| thread.get(name, handle, own))?,
            9 => thread.on(name, |thread, handle| thread.get_tag(handle))?,
            10 => thread.on(OBJECTS, |thread, handle| thread.view(handle, own))?,
            _ => {
                finish_dropped(&thread.worker)?;
                collect::collect_now(&thread.worker)?;
            }
        }
        if thread.views.len() > VIEWS_MAX || below(&mut random, 3) == 0 {
            thread.end_view();
        }
    }
    while !thread.views.is_empty() {
        thread.end_view();
    }
    Ok(())
}

impl<const C: bool> Thread<'_, C> {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Does something with a handle, which is opened if there is none; it goes if it is of no use any more.
    fn on(
        &mut self,
        name: usize,
        work: impl FnOnce(&mut Self, &Rc<Handle<C>>) -> cenote::Result<()>,
    ) -> cenote::Result<()> {
        if self.handles[name].is_none() {
            match self.open(name) {
                // Entries of what was dropped and is in use still.
                Err(
                    Error::Dropped
                    | Error::TooMany {
                        what: Table::Names, ..
                    },
                ) => return Ok(()),
                opened => self.handles[name] = Some(Rc::new(opened?)),
            }
        }
        let Some(handle) = self.handles[name].clone() else {
            return Ok(());
        };
        let shared = self.shared;
        if !shared.times.on(name, handle.when, || work(self, &handle))? {
            self.handles[name] = None;
        }
        Ok(())
    }

    fn open(&mut self, name: usize) -> cenote::Result<Handle<C>> {
        let shared = self.shared;
        let ((structure, tag), when) = shared.times.open(|| {
            let structure = Structure::open(&self.worker, name, &shared.load)?;
            let tag = self.next_number() | (name as u64) << 56;
            structure.insert_tag(&tag.to_le_bytes())?;
            let found = structure.get(TAG)?;
            let [tag] = self.words(found.as_deref())[..] else {
                shared.log.fault(format!("{} has no tag: {found:?}", NAMES[name]));
                return Err(Error::Dropped);
            };
            Ok((structure, tag))
        })?;
        if tag >> 56 != name as u64 {
            shared
                .log
                .fault(format!("{} is {}", NAMES[name], NAMES[(tag >> 56) as usize]));
        }
        Ok(Handle { structure, tag, when })
    }

    fn words(&self, bytes: Option<&[u8]>) -> Vec<u64> {
        let (words, rest) = bytes.unwrap_or_default().as_chunks::<8>();
        if !rest.is_empty() {
            self.shared
                .log
                .fault(format!("a value of {} words and {rest:?}", words.len()));
        }
        words.iter().copied().map(u64::from_le_bytes).collect()
    }

    fn put(&mut self, name: usize, handle: &Handle<C>, key: u64) -> cenote::Result<()> {
        let number = self.next_number();
        let value = [handle.tag.to_le_bytes(), number.to_le_bytes()].concat();
        if handle.structure.put(key, &value)? {
            self.written.insert((name, handle.tag, key), number);
        }
        Ok(())
    }

    fn get(&mut self, name: usize, handle: &Handle<C>, key: u64) -> cenote::Result<()> {
        let found = handle.structure.get(key)?;
        let written = self.written.get(&(name, handle.tag, key));
        let is_right = match (&self.words(found.as_deref())[..], written) {
            ([], None) => true,
            ([tag, number], Some(written)) => *tag == handle.tag && number == written,
            _ => false,
        };
        if !is_right {
            let what = NAMES[name];
            let text = format!(
                "{what} with tag {:#x}: {written:?} was written, and {found:?} is there",
                handle.tag
            );
            self.shared.log.fault(text);
        }
        Ok(())
    }

    fn get_tag(&mut self, handle: &Handle<C>) -> cenote::Result<()> {
        let found = handle.structure.get(TAG)?;
        if self.words(found.as_deref()) != [handle.tag] {
            let text = format!("the tag {:#x} has become {found:?}", handle.tag);
            self.shared.log.fault(text);
        }
        Ok(())
    }

    /// Views an object, and goes on to hold it.
    fn view(&mut self, handle: &Rc<Handle<C>>, key: u64) -> cenote::Result<()> {
        let Structure::Objects(store) = &handle.structure else {
            return Ok(());
        };
        if let Some(viewed) = store.view(&key.to_be_bytes())? {
            let bytes = viewed.bytes(store.worker().mem());
            self.views.push(View {
                held: self.context.hold(bytes),
                bytes: bytes.to_vec(),
                store: handle.clone(),
                viewed,
            });
        }
        Ok(())
    }

    fn end_view(&mut self) {
        if self.views.is_empty() {
            return;
        }
        let View {
            store,
            viewed,
            held,
            bytes,
        } = self.views.remove(0);
        if let Structure::Objects(store) = &store.structure {
            if viewed.bytes(store.worker().mem()) != bytes {
                self.shared.log.fault("a viewed object has changed");
            }
            self.context.release(held);
            store.end_view(viewed);
        }
    }
}
