//! `fsck`: walks everything in a pool and accounts for every byte.
//!
//! First it recovers the dead and frees what can be freed. Then it walks every map, every retired list and every
//! record, and marks each allocation that is referred to. Then it walks the block table: what is neither free, nor
//! referred to, nor retired, nor held by a living worker, is leaked. While other processes have the pool open, the
//! figures may not fit together.

use std::collections::{HashMap as Table, HashSet};
use std::rc::Rc;

use super::fsck_locks;
use super::fsck_passes::{is_changing, written};
use crate::error::{Error, Result};
use crate::index::common::guidelines::Guidelines;
use crate::index::hash::HashMap;
use crate::index::hash::level::Level;
use crate::index::hash::resize::extent_lines;
use crate::index::objects::{AuditedObjects, ObjectStore};
use crate::index::ordered::OrderedMap;
use crate::memory::{Memory, SyncWord};
use crate::pod::Worker;
use crate::pod::alloc::buddy::Buddy;
use crate::pod::alloc::frames::repair_extent;
use crate::pod::alloc::heap::repair_cell;
use crate::pod::alloc::holes::frames_in_holes;
use crate::pod::alloc::slab::{Cell, Location, locate, table_word};
use crate::pod::format::block::{Block, CELL_FREE, CELL_LIVE, ExtentState};
use crate::pod::format::class::{CLASSES, Class, TABLE};
use crate::pod::format::geometry::FRAME;
use crate::pod::format::record::{PUBLISHED, Phase, WorkerRecord, operation};
use crate::pod::format::reserve::Reserve;
use crate::pod::format::superblock::HOLES;
use crate::pod::group::{self, Audited};
use crate::pod::names::directory::{
    self, Entry, KIND_BASELINE, KIND_DIRECTORY_LOCK, KIND_GROUP, KIND_HASH, KIND_LOCK, KIND_LOCKS,
    KIND_OBJECTS, KIND_ORDERED, KIND_TASKS, Named,
};
use crate::pod::names::dropping::{self, Claimed};
use crate::pod::reclaim::{retire, vacant};
use crate::pod::tasks::TaskList;

/// The most problems that a report names.
const PROBLEMS_SHOWN: usize = 100;
/// The most leaked objects that a report names.
const LEAKED_SHOWN: usize = 16;

/// What `fsck` found. All bytes but the pool's tables are in exactly one of the figures.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct FsckReport {
    /// Bytes that maps and lists refer to.
    pub reachable_bytes: u64,
    /// Bytes that are free: in free frames, and in free objects of blocks.
    pub free_bytes: u64,
    /// Bytes of free frames that were given back to the file system, or are about to be.
    pub given_back_bytes: u64,
    /// Bytes of retired objects, which wait until no reader can hold them.
    pub retired_bytes: u64,
    /// Bytes held by living workers: reserved, or being published.
    pub held_bytes: u64,
    /// Bytes of blocks outside objects: cells, and what is left at the end.
    pub overhead_bytes: u64,
    /// Bytes that nothing refers to and nobody can use.
    pub leaked_bytes: u64,
    /// Where the first leaked objects are.
    pub leaked: Vec<u64>,
    /// Bytes that the repair has freed; they were leaked before.
    pub repaired_bytes: u64,
    /// Vacant places in whose records `--repair` has cleared a damaged word.
    pub repaired_places: u64,
    /// All bytes: the committed frames.
    pub committed_bytes: u64,
    /// The new names that `--repair` has given in place of damaged ones.
    pub repaired_names: Vec<String>,
    /// Each map.
    pub maps: Vec<MapReport>,
    /// Each object store.
    pub objects: Vec<ObjectsReport>,
    /// Each task list.
    pub tasks: Vec<TasksReport>,
    /// Structures that were dropped and are still in use.
    pub dropped: u64,
    /// Processes other than this one that have the pool open.
    pub other_processes: u32,
    /// Whether others wrote during the check: then what seems wrong may be their writes.
    pub is_uncertain: bool,
    /// What is wrong.
    pub problems: Vec<String>,
    /// What could not be checked, and why: nothing is known of it.
    pub unchecked: Vec<String>,
    /// Whether a reader without a place in the pool made this: then nobody was recovered and nothing freed first.
    pub without_place: bool,
    /// Read without a place: dead processes that are not recovered. What they had begun may look like damage.
    pub unrecovered_processes: u32,
}

impl FsckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty() && self.leaked_bytes == 0
    }
}

/// What kind of map it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MapKind {
    /// A hash map.
    Hash,
    /// An ordered map.
    Ordered,
}

/// What `fsck` found of a map.
#[derive(Clone, Debug, serde::Serialize)]
pub struct MapReport {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: MapKind,
    /// Keys counted by walking.
    pub keys: u64,
    /// Keys by its own count.
    pub length: u64,
    /// Levels. Of a hash map more than one while it moves.
    pub levels: u64,
    /// Chain lines of a hash map.
    pub lines: u64,
    /// Slots of a hash map.
    pub slots: u64,
    /// Nodes of an ordered map.
    pub nodes: u64,
}

/// What `fsck` found of an object store.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ObjectsReport {
    /// Its name.
    pub name: String,
    /// What it has.
    #[serde(flatten)]
    pub found: AuditedObjects,
    /// Objects that the repair has removed: nobody was answerable for them.
    pub removed: u64,
}

/// What `fsck` found of a task list.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TasksReport {
    /// Its name.
    pub name: String,
    /// Its tasks.
    pub tasks: u64,
    /// The tasks that are done.
    pub done: u64,
    /// Results that are stored; the others were discarded.
    pub results: u64,
}

/// What a count says, and what it should: two passes that find others have not found the same.
fn figures(says: u64, is: u64) -> String {
    format!(": it says {says}, and it should be {is}")
}

/// What refers to an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Reachable,
    Retired,
    Held,
}

struct Audit<'w, M: Memory> {
    worker: &'w Rc<Worker<M>>,
    marks: Table<u64, Mark>,
    /// The marks of workers that are freeing objects: those are in no list any more, and not free yet.
    freeing: HashSet<u16>,
    report: FsckReport,
    repair: bool,
    /// Nobody else has the pool open: counts are what they should be.
    is_alone: bool,
    /// Another worker takes something apart that was dropped: what it has was not looked at.
    is_beside_claim: bool,
}

/// The advice at the end of an error, which `fsck` leaves out.
const TO_BE_CHECKED: &str = "; run `cenote fsck` on it";
/// Accounts for every byte. The caller has freed what can be freed, unless it only reads. `is_alone`: no other process
/// has the pool open, and no other thread of this one uses it.
pub fn audit<M: Memory>(worker: &Rc<Worker<M>>, is_alone: bool, repair: bool) -> Result<FsckReport> {
    let _still = worker.pod().hold_still(worker);
    // A pin keeps the bytes of what is freed meanwhile. While others write, it would keep all that they retire for as
    // long as this takes, and each further pass would take longer: then each part of the walk has a pin of its own.
    let _pin = match is_alone {
        true => Some(worker.pin()?),
        false => None,
    };
    let mut audit = Audit {
        worker,
        marks: Table::new(),
        freeing: HashSet::new(),
        report: FsckReport {
            committed_bytes: worker.committed_frames()? * FRAME,
            ..FsckReport::default()
        },
        repair,
        is_alone,
        is_beside_claim: false,
    };
    // What could not be recovered may refer to anything.
    for failure in worker.pod().failures() {
        audit.problem_text(&failure.to_string(), "");
    }
    let (before, was_changing) = (written(worker), is_changing(worker));
    for entry in directory::entries(&**worker) {
        audit.walk_entry(entry);
    }
    for entry in directory::dropped(worker).filter(|entry| !entry.is_gone()) {
        audit.walk_dropped(entry);
    }
    let problems = fsck_locks::walk(worker, |lock| audit.mark(lock, Mark::Reachable));
    problems.into_iter().for_each(|error| audit.problem(error));
    audit.walk_records()?;
    // Objects that damage hides must not be freed as if nothing referred to them.
    audit.repair &= audit.report.problems.is_empty();
    audit.sweep()?;
    audit.report.is_uncertain =
        audit.is_beside_claim || was_changing || is_changing(worker) || written(worker) != before;
    Ok(audit.report)
}

impl<M: Memory> Audit<'_, M> {
    fn problem(&mut self, error: Error) {
        self.problem_with(error, "");
    }

    fn problem_with(&mut self, error: Error, advice: &str) {
        self.problem_text(&error.to_string(), advice);
    }

    fn problem_text(&mut self, text: &str, advice: &str) {
        // A badly damaged pool has one problem a slot; the first ones suffice.
        if self.report.problems.len() < PROBLEMS_SHOWN {
            let text = text.strip_suffix(TO_BE_CHECKED).unwrap_or(text);
            self.report.problems.push(format!("{text}{advice}"));
        }
    }

    fn mark(&mut self, object: u64, mark: Mark) {
        if let Some(old) = self.marks.insert(object, mark)
            && (old != Mark::Held && mark != Mark::Held)
        {
            self.problem(Error::corrupt("an object that is referred to twice", object));
        }
    }

    /// Marks what an entry of the directory refers to, whatever its name.
    fn walk_entry(&mut self, entry: Entry) {
        let (worker, offset, named) = (self.worker, entry.offset, entry.unnamed());
        let name = match entry.name {
            Ok(name) => name,
            Err(error) => self.damaged_name(entry.index, error),
        };
        let walked = match entry.kind {
            KIND_HASH => worker
                .pin()
                .and_then(|_pin| HashMap::of(worker.clone(), named, Guidelines::SP))
                .and_then(|map| self.walk_map(&map, name)),
            KIND_ORDERED => worker
                .pin()
                .and_then(|_pin| OrderedMap::of(worker.clone(), named, KIND_ORDERED, Guidelines::SP))
                .and_then(|map| self.walk_ordered(&map, name)),
            KIND_OBJECTS => self.walk_objects(named, name),
            KIND_TASKS => worker
                .pin()
                .and_then(|_pin| TaskList::of(worker.clone(), named))
                .and_then(|list| self.walk_tasks(&list, name)),
            KIND_GROUP => {
                let audited = group::audit(worker, &named);
                // One that was dropped meanwhile is looked at among those that were.
                if !matches!(audited, Err(Error::Dropped)) {
                    self.mark(offset, Mark::Reachable);
                }
                audited.map(|audited| self.unchecked(audited, &name))
            }
            // It has an extent of its own, unlike the header of anything else.
            KIND_BASELINE => match locate(worker, offset) {
                Ok(Location::Extent { .. }) => {
                    self.mark(offset, Mark::Reachable);
                    Ok(())
                }
                Ok(Location::Slab(_)) => Err(Error::corrupt("the kind of a name", offset)),
                Err(error) => Err(error),
            },
            KIND_LOCK => Ok(()),
            KIND_DIRECTORY_LOCK => {
                fsck_locks::walk_directory(worker, offset, |at| self.mark(at, Mark::Reachable))
            }
            KIND_LOCKS => fsck_locks::walk_array(worker, offset, |at| self.mark(at, Mark::Reachable)),
            _ => Err(Error::corrupt("the kind of a name", offset)),
        };
        match walked {
            // Meanwhile: it is among those that were dropped, or gone.
            Ok(()) | Err(Error::Dropped) => {}
            Err(error) => self.problem(error),
        }
    }

    /// Marks what a structure has that was dropped and is still in use. Nobody takes it apart meanwhile.
    fn walk_dropped(&mut self, entry: Entry) {
        let (worker, kind, offset) = (self.worker, entry.kind, entry.offset);
        let walked = (|| {
            let _claim = match worker.pod().is_reader() {
                true => None,
                false => match dropping::claim(worker, &entry)? {
                    Claimed::Structure(claim) => Some(claim),
                    // What it has is nobody's to free, and nobody's to call a leak.
                    Claimed::ByAnother => {
                        (self.repair, self.is_beside_claim) = (false, true);
                        return Ok(());
                    }
                    Claimed::Over => return Ok(()),
                },
            };
            let (mut reached, mut suspects) = (Vec::new(), Vec::new());
            let reach = |offset| reached.push(offset);
            let suspect = |error| suspects.push(error);
            match kind {
                KIND_HASH => HashMap::at(worker.clone(), offset, Guidelines::SP)?
                    .audit(reach, suspect)
                    .map(drop)?,
                KIND_GROUP => reached.push(offset),
                KIND_TASKS => TaskList::at(worker.clone(), offset)?
                    .audit(reach, suspect)
                    .map(drop)?,
                _ => OrderedMap::at(worker.clone(), offset, Guidelines::SP)?
                    .audit(reach, suspect)
                    .map(drop)?,
            }
            reached
                .into_iter()
                .for_each(|offset| self.mark(offset, Mark::Reachable));
            suspects.into_iter().for_each(|error| self.problem(error));
            self.report.dropped += 1;
            Ok(())
        })();
        if let Err(error) = walked {
            self.problem(error);
        }
    }

    /// A name for something whose name is damaged.
    fn damaged_name(&mut self, index: u32, error: Error) -> String {
        let renamed = match self.repair {
            true => directory::rename_damaged(self.worker, index),
            false => Err(error),
        };
        match renamed {
            Ok(name) => {
                self.report.repaired_names.push(name.clone());
                name
            }
            Err(error) => {
                self.problem_with(error, "; `cenote fsck --repair` gives it another one");
                format!("(entry {index} of the directory)")
            }
        }
    }

    /// Takes down that a group could not be checked.
    fn unchecked(&mut self, audited: Audited, name: &str) {
        let why = match audited {
            Audited::Sound => return,
            Audited::Changing => "others change it all the time".to_owned(),
            Audited::Held(owner) => match self.worker.pod().holder(owner) {
                Some(holder) => format!("{holder} has its lock"),
                None => "who had its lock died, and nobody has recovered that one".to_owned(),
            },
        };
        self.report.unchecked.push(format!("the group {name:?}: {why}"));
    }

    fn walk_map(&mut self, map: &HashMap<M>, name: String) -> Result<()> {
        let (mut reached, mut suspects) = (Vec::new(), Vec::new());
        let found = map.audit(|offset| reached.push(offset), |error| suspects.push(error))?;
        self.walked(
            map.header(),
            reached,
            suspects,
            MapReport {
                name,
                kind: MapKind::Hash,
                keys: found.keys,
                length: map.len(),
                levels: found.levels,
                lines: found.lines,
                slots: found.slots,
                nodes: 0,
            },
        );
        Ok(())
    }

    fn walk_ordered(&mut self, map: &OrderedMap<M>, name: String) -> Result<()> {
        let (mut reached, mut suspects) = (Vec::new(), Vec::new());
        let found = map.audit(|offset| reached.push(offset), |error| suspects.push(error))?;
        self.walked(
            map.header(),
            reached,
            suspects,
            MapReport {
                name,
                kind: MapKind::Ordered,
                keys: found.keys,
                length: map.len(),
                levels: found.levels,
                lines: 0,
                slots: 0,
                nodes: found.nodes,
            },
        );
        Ok(())
    }

    /// An object store is an ordered map; what that has is marked although the rest is damaged.
    fn walk_objects(&mut self, named: Named, name: String) -> Result<()> {
        let (mut reached, mut suspects) = (Vec::new(), Vec::new());
        let pin = self.worker.pin()?;
        let map = OrderedMap::of(self.worker.clone(), named.clone(), KIND_OBJECTS, Guidelines::SP)?;
        let store = ObjectStore::of(self.worker.clone(), named, Guidelines::SP);
        drop(pin);
        let removed = match &store {
            Ok(store) if self.repair => store.repair_objects()?,
            _ => 0,
        };
        map.audit(|offset| reached.push(offset), |error| suspects.push(error))?;
        for offset in reached {
            self.mark(offset, Mark::Reachable);
        }
        let found = store?.audit_objects(|error| suspects.push(error))?;
        suspects.into_iter().for_each(|error| self.problem(error));
        if found.lost > 0 && self.is_alone {
            let what = format!(
                "{} objects of {name:?} have no name, and no process is answerable for them",
                found.lost
            );
            self.problem_text(&what, "; `cenote fsck --repair` removes them");
        }
        self.report.objects.push(ObjectsReport { name, found, removed });
        Ok(())
    }

    fn walk_tasks(&mut self, list: &TaskList<M>, name: String) -> Result<()> {
        let (mut reached, mut suspects) = (Vec::new(), Vec::new());
        let found = list.audit(|offset| reached.push(offset), |error| suspects.push(error))?;
        for offset in reached {
            self.mark(offset, Mark::Reachable);
        }
        suspects.into_iter().for_each(|error| self.problem(error));
        if found.done != list.committed() && self.is_alone {
            let error = Error::corrupt(
                "a task list's count that is not the number of its results, seen",
                list.header(),
            );
            self.problem_with(error, &figures(list.committed(), found.done));
        }
        self.report.tasks.push(TasksReport {
            name,
            tasks: list.len(),
            done: found.done,
            results: found.results,
        });
        Ok(())
    }

    /// Records what the walk of a map found.
    fn walked(&mut self, header: u64, reached: Vec<u64>, suspects: Vec<Error>, map: MapReport) {
        reached
            .into_iter()
            .for_each(|offset| self.mark(offset, Mark::Reachable));
        suspects.into_iter().for_each(|error| self.problem(error));
        if map.keys != map.length && self.is_alone {
            let error = Error::corrupt("a map's length that is not the number of its keys, seen", header);
            self.problem_with(error, &figures(map.length, map.keys));
        }
        self.report.maps.push(map);
    }

    /// Marks what the worker records refer to.
    fn walk_records(&mut self) -> Result<()> {
        let worker = self.worker;
        let mem = worker.mem();
        let mut attached_workers = Vec::new();
        for index in 0..worker.pod().workers_high() {
            let record = WorkerRecord::new(worker.geometry(), index);
            let walked = (|| {
                let _pin = worker.pin()?;
                let mut waiting = Vec::new();
                retire::pending(worker, record, |object| waiting.push(object))?;
                for object in waiting {
                    self.mark(object, Mark::Retired);
                    self.mark_lines_of_retired_level(object)?;
                }
                retire::chunks(worker, record)?
                    .into_iter()
                    .for_each(|chunk| self.mark(chunk, Mark::Reachable));
                match retire::as_spare(worker, record, record.spare().peek(mem)) {
                    Ok(Some(spare)) => self.mark(spare, Mark::Reachable),
                    Ok(None) => {}
                    Err(_) if self.repair && vacant::forget_damaged_spare(worker, index)? => {
                        self.report.repaired_places += 1;
                    }
                    Err(error) => return Err(error),
                }
                Ok(())
            })();
            if let Err(error) = walked {
                self.problem(error);
            }
            let attached = worker
                .pod()
                .attached_workers()
                .iter()
                .any(|(other, state)| *other == index && state.phase != Phase::Free);
            if attached {
                let [first, second] = record.secondaries();
                let [old_first, old_second] = record.old_secondaries();
                let named = [
                    record.new_object(),
                    first,
                    second,
                    record.aux_object(),
                    // Unlinked, and in no list yet.
                    record.old_object(),
                    old_first,
                    old_second,
                    record.retiring(),
                ];
                // Its owner clears it without waiting for that: then fewer checks are made than could be.
                if record.freeing().peek_speculative(mem) != 0 {
                    self.freeing.insert(index as u16 + 1);
                }
                for word in named {
                    // Its owner may have cleared it and not waited for that: then what it names is in a list, or free.
                    let object = word.peek_speculative(mem) & !1;
                    if object != 0 && !self.marks.contains_key(&object) {
                        self.mark(object, Mark::Held);
                    }
                }
                self.hold_level_being_retired(record);
                attached_workers.push((record, index + 1));
            }
            self.check_reserve_words(index, attached)?;
        }
        // Once all lists are known: nothing that is in one is reserved.
        for (record, me) in attached_workers {
            self.mark_reserves(record, me);
        }
        Ok(())
    }

    /// Reports words of reserves that the library never writes. Repair clears those of vacant places.
    fn check_reserve_words(&mut self, index: u32, attached: bool) -> Result<()> {
        let worker = self.worker;
        let record = WorkerRecord::new(worker.geometry(), index);
        let damaged = |class: &usize| !Reserve(record.reserve(*class).peek(worker.mem())).is_sound();
        let Some(class) = (0..CLASSES).find(damaged) else {
            return Ok(());
        };
        if self.repair && !attached && vacant::forget_damaged_reserves(worker, index)? {
            self.report.repaired_places += 1;
        } else {
            let at = record.reserve(class).offset();
            self.problem(Error::corrupt("a worker's reserve", at));
        }
        Ok(())
    }

    /// A level that was a map's oldest, and that its worker is about to retire: from when the root has moved until it
    /// is in the worker's list nothing but the record refers to it, nor to its lines.
    fn hold_level_being_retired(&mut self, record: WorkerRecord) {
        let worker = self.worker;
        let Ok(_pin) = worker.pin() else {
            return;
        };
        if record.root().peek_speculative(worker.mem()) == 0 {
            return;
        }
        // Of who is stopped after the level was entered in the list it may have been freed since: then the record is
        // old, and nothing is wrong.
        let Ok(Some(level)) = Level::decode(worker, record.root_level().peek_speculative(worker.mem()))
        else {
            return;
        };
        let mut held = vec![level.offset];
        let _ = extent_lines(worker, level.offset, &mut |line| held.push(line));
        for object in held {
            self.marks.entry(object).or_insert(Mark::Held);
        }
    }

    /// Whether an object is one that a worker is publishing, or has published and not crossed off its reserve yet. The
    /// intent is written back before the object is published; what the worker clears afterwards may still be there.
    fn is_being_published(&self, record: WorkerRecord, object: u64) -> bool {
        let mem = self.worker.mem();
        let [first, second] = record.secondaries();
        let is_named = [record.new_object(), first, second]
            .iter()
            .any(|word| word.peek_speculative(mem) & !PUBLISHED == object);
        is_named
            && matches!(
                record.operation().peek_speculative(mem),
                operation::PUT | operation::COMMITTED
            )
    }

    fn mark_lines_of_retired_level(&mut self, object: u64) -> Result<()> {
        let mut lines = Vec::new();
        extent_lines(self.worker, object, &mut |line| lines.push(line))?;
        lines.into_iter().for_each(|line| self.mark(line, Mark::Retired));
        Ok(())
    }

    /// Marks reserved objects as held. What a reserve says of a block that its worker does not own is old. Nothing
    /// refers to a reserved object otherwise, and its cell says that it is taken; all cells are still free only for the
    /// moment before they are taken.
    fn mark_reserves(&mut self, record: WorkerRecord, me: u32) {
        let frames = self.report.committed_bytes / FRAME;
        let mem = self.worker.mem();
        for (class, layout) in TABLE.iter().enumerate() {
            let word = record.reserve(class);
            let reserve = Reserve(word.peek_speculative(mem));
            let Some(frame) = reserve.frame() else {
                continue;
            };
            if frame.checked_add(layout.frames()).is_none_or(|end| end > frames) {
                self.problem(Error::corrupt("a worker's reserve", word.offset()));
                continue;
            }
            let block = Block::decode(table_word(self.worker, frame).load(self.worker.mem()));
            if !matches!(block, Block::Slab { owner, .. } if u32::from(owner) == me) {
                continue;
            }
            let mut free = 0;
            let reserved: Vec<u32> = (0..4).filter(|bit| reserve.mask() & 1 << bit != 0).collect();
            for bit in &reserved {
                let index = reserve.word() * 4 + bit;
                if index >= layout.objects {
                    self.problem(Error::corrupt("a worker's reserve", word.offset()));
                    break;
                }
                let object = self.worker.geometry().frame_offset(frame) + layout.offset_of(index);
                if let Some(Mark::Reachable | Mark::Retired) = self.marks.get(&object) {
                    if self.is_being_published(record, object) {
                        continue;
                    }
                    self.problem(Error::corrupt("an object in use that is reserved, seen", object));
                    continue;
                }
                free += usize::from(Cell::new(self.worker, frame, class, index).load(mem) == CELL_FREE);
                self.mark(object, Mark::Held);
            }
            let is_own = record == self.worker.record();
            if free > 0 && (is_own || free < reserved.len()) {
                self.problem(Error::corrupt(
                    "a reserve of what its block says is free, seen",
                    word.offset(),
                ));
            }
        }
    }

    /// Walks the block table and accounts for every frame.
    fn sweep(&mut self) -> Result<()> {
        let worker = self.worker;
        let frames = worker.committed_frames()?;
        let buddy = Buddy::new(worker.geometry());
        let mut frame = 0;
        while frame < frames {
            let at = table_word(worker, frame);
            let block = Block::decode(at.load(worker.mem()));
            let is_free = buddy.is_free(worker.mem(), frame)?;
            if is_free != (block == Block::Free) {
                self.problem(Error::corrupt(
                    "a frame that is free in one table and not in the other, seen",
                    at.offset(),
                ));
            }
            frame += match block {
                Block::Free if is_free => {
                    self.report.free_bytes += FRAME;
                    1
                }
                Block::Hole { order, .. }
                    if frame.is_multiple_of(1 << order) && frame + (1 << order) <= frames =>
                {
                    self.report.given_back_bytes += FRAME << order;
                    1 << order
                }
                Block::Slab { class, ready, owner }
                    if TABLE
                        .get(usize::from(class))
                        .is_some_and(|layout| frame + layout.frames() <= frames) =>
                {
                    let layout = &TABLE[usize::from(class)];
                    self.check_owner(at, frame, usize::from(class), owner);
                    self.check_rest(frame, layout.frames(), Block::Tail);
                    self.sweep_slab(frame, usize::from(class), layout, ready);
                    layout.frames()
                }
                Block::Extent {
                    frames: len,
                    state,
                    owner,
                } if len > 0 => {
                    self.check_rest(frame, u64::from(len).min(frames - frame), Block::Free);
                    self.sweep_extent(frame, len, state, owner)?;
                    u64::from(len)
                }
                _ => {
                    self.problem(Error::corrupt("a block table word", at.offset()));
                    self.leak(worker.geometry().frame_offset(frame), FRAME);
                    1
                }
            };
        }
        let counted = frames_in_holes(worker.mem());
        if counted.saturating_mul(FRAME) != self.report.given_back_bytes && self.is_alone {
            let error = Error::corrupt(
                "a number of frames in holes that is not what the block table says",
                HOLES.offset(),
            );
            self.problem_with(error, &figures(counted, self.report.given_back_bytes / FRAME));
        }
        Ok(())
    }

    /// Checks the words of a block's further frames. Objects of a slab block are found by them; those of an extent say
    /// free, as they must once it is freed.
    fn check_rest(&mut self, first: u64, frames: u64, expected: Block) {
        let worker = self.worker;
        let word = |frame| table_word(worker, frame).load(worker.mem());
        let before = word(first);
        let other = (first + 1..first + frames).find(|&frame| Block::decode(word(frame)) != expected);
        if let Some(frame) = other.filter(|_| word(first) == before) {
            let at = table_word(worker, frame).offset();
            self.problem(Error::corrupt("a block table word within a block, seen", at));
        }
    }

    /// A block's owner has it in the reserve; else nobody would ever orphan it.
    fn check_owner(&mut self, at: SyncWord, frame: u64, class: usize, owner: u16) {
        let (worker, workers) = (self.worker, self.worker.geometry().parameters.workers);
        let Some(place) = u32::from(owner).checked_sub(1).filter(|&place| place < workers) else {
            return;
        };
        let before = at.load(worker.mem());
        let record = WorkerRecord::new(worker.geometry(), place);
        let reserve = Reserve(record.reserve(class).peek(worker.mem()));
        if reserve.frame() != Some(frame) && at.load(worker.mem()) == before {
            self.problem(Error::corrupt(
                "a block whose owner has another one, seen",
                at.offset(),
            ));
        }
    }

    fn sweep_slab(&mut self, frame: u64, class: usize, layout: &Class, ready: bool) {
        let worker = self.worker;
        let size = u64::from(layout.size);
        self.report.overhead_bytes += layout.frames() * FRAME - size * u64::from(layout.objects);
        if !ready {
            self.report.held_bytes += size * u64::from(layout.objects);
            return;
        }
        for index in 0..layout.objects {
            let cell = Cell::new(worker, frame, class, index);
            let object = worker.geometry().frame_offset(frame) + layout.offset_of(index);
            let mark = self.marks.remove(&object);
            match (cell.load(worker.mem()), mark) {
                (CELL_FREE, None | Some(Mark::Held)) => self.report.free_bytes += size,
                (CELL_LIVE, Some(Mark::Reachable)) => self.report.reachable_bytes += size,
                (CELL_LIVE, Some(Mark::Held)) => self.report.held_bytes += size,
                (CELL_LIVE, None) if self.repair => {
                    repair_cell(worker, &cell);
                    self.report.repaired_bytes += size;
                    self.report.free_bytes += size;
                }
                (CELL_LIVE, None) => self.leak(object, size),
                (mark, None) if self.freeing.contains(&mark) => self.report.held_bytes += size,
                (mark, Some(Mark::Retired)) if mark != CELL_FREE => self.report.retired_bytes += size,
                (_, Some(_)) => {
                    self.problem(Error::corrupt(
                        "an object in use whose cell says otherwise",
                        object,
                    ));
                    self.report.reachable_bytes += size;
                }
                (_, None) => self.leak(object, size),
            }
        }
    }

    fn leak(&mut self, offset: u64, bytes: u64) {
        self.report.leaked_bytes += bytes;
        if self.report.leaked.len() < LEAKED_SHOWN {
            self.report.leaked.push(offset);
        }
    }

    fn sweep_extent(&mut self, frame: u64, len: u32, state: ExtentState, owner: u16) -> Result<()> {
        let offset = self.worker.geometry().frame_offset(frame);
        let bytes = u64::from(len) * FRAME;
        match (self.marks.remove(&offset), state) {
            (Some(Mark::Reachable), ExtentState::Live) => self.report.reachable_bytes += bytes,
            (Some(Mark::Retired), ExtentState::Retired) => self.report.retired_bytes += bytes,
            (Some(Mark::Held), _) | (Some(Mark::Reachable), ExtentState::Pending) => {
                self.report.held_bytes += bytes
            }
            (Some(_), _) => {
                self.problem(Error::corrupt(
                    "an extent in use whose state says otherwise",
                    offset,
                ));
                self.report.reachable_bytes += bytes;
            }
            (None, ExtentState::Retired) if self.freeing.contains(&owner) => self.report.held_bytes += bytes,
            (None, _) if self.repair => {
                repair_extent(self.worker, frame, len)?;
                self.report.repaired_bytes += bytes;
                self.report.free_bytes += bytes;
            }
            (None, _) => self.leak(offset, bytes),
        }
        Ok(())
    }
}
