//! Invalid words in maps, one by one: `fsck` reports them, and every call ends.

use std::rc::Rc;

use cenote::Guidelines;
use cenote::index::hash::HashMap;
use cenote::index::hash::level::Level;
use cenote::index::hash::slot::Slot;
use cenote::memory::{Published, SyncWord, Unpublished};
use cenote::pod::{Worker, names::directory};
use cenote::{Coherent, Options, Pool, Range};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of a pool of this test, which uses it in this way.
    unsafe { SyncWord::at(at) }
}

/// Protected data.
#[inline(always)]
fn published(at: u64, len: u64) -> Published {
    // SAFETY: bytes of a pool of this test, which uses it in this way.
    unsafe { Published::at(at, len) }
}

/// Unpublished bytes.
#[inline(always)]
fn unpublished(at: u64, len: u64) -> Unpublished {
    // SAFETY: bytes of a pool of this test, which uses it in this way.
    unsafe { Unpublished::at(at, len) }
}

struct Here {
    pool: Pool,
    _folder: tempfile::TempDir,
}

impl Here {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let pool = Pool::create(folder.path().join("pool"), &Options::default()).unwrap();
        let here = Self {
            pool,
            _folder: folder,
        };
        let (map, ordered) = (here.pool.map("m").unwrap(), here.pool.ordered("o").unwrap());
        for n in 0..2_000u64 {
            map.put_u64(n, n).unwrap();
            ordered.put_u64(n, n).unwrap();
        }
        here
    }

    fn worker(&self) -> Rc<Worker<Coherent>> {
        self.pool.worker().unwrap()
    }

    /// The map's header.
    fn header(&self, name: &str) -> u64 {
        directory::find(&*self.worker(), name).unwrap().unwrap().offset
    }

    fn level(&self) -> Level {
        let map = HashMap::at(self.worker(), self.header("m"), Guidelines::SP).unwrap();
        map.oldest_level().unwrap().unwrap()
    }

    /// Changes a word, checks that `fsck` finds it, uses the map, and restores the word: then all is as before.
    fn is_found(&self, at: u64, change: impl Fn(u64) -> u64, what: &str) {
        let worker = self.worker();
        let word = sync_word(at);
        let before = word.load(worker.mem());
        word.store(worker.mem(), change(before));
        let problems = self.pool.fsck().unwrap().problems;
        assert!(
            problems.iter().any(|problem| problem.contains(what)),
            "{what}: {problems:?}"
        );
        let map = self.pool.map("m");
        let _ = map.map(|map| (map.len(), map.get_u64(7), map.for_each(|_, _| {})));
        word.store(worker.mem(), before);
        assert!(self.pool.fsck().unwrap().is_clean());
    }
}

#[test]
fn levels_that_form_a_ring() {
    let here = Here::new();
    let level = here.level();
    here.is_found(level.next().offset(), |_| level.reference(), "without end");
}

#[test]
fn groups_that_are_said_to_have_moved() {
    let here = Here::new();
    let (word, bit) = here.level().done(0);
    here.is_found(word, |word| word | bit, "said to have moved");
}

#[test]
fn spare_lines_in_use_that_nobody_took() {
    let here = Here::new();
    let level = here.level();
    let (spare, worker) = (level.spare(0).unwrap(), here.worker());
    unpublished(spare, 64).zero(worker.mem());
    let free = (0..level.groups).map(|group| level.link(group));
    let link = free
        .into_iter()
        .find(|link| link.load(worker.mem()) == 0)
        .unwrap();
    here.is_found(link.offset(), |_| Slot::link(spare).0, "than were taken");
}

#[test]
fn a_count_of_keys_that_is_none() {
    let here = Here::new();
    for name in ["m", "o"] {
        let len = |pool: &Pool| match name {
            "m" => pool.map(name).unwrap().len(),
            _ => pool.ordered(name).unwrap().len(),
        };
        let header = here.header(name);
        let worker = here.worker();
        let counts = (header..header + (64 << 10)).step_by(8);
        let counter = counts
            .map(sync_word)
            .find(|word| word.load(worker.mem()) == 2_000)
            .unwrap();
        assert_eq!(len(&here.pool), 2_000);
        here.is_found(counter.offset(), |count| count + 1, "the number of its keys");
    }
}

/// Two keys of a leaf that have changed places: a scan in either direction is an error, or all of it in the order that
/// there is.
#[test]
fn keys_that_are_not_in_their_order() {
    let here = Here::new();
    let map = here.pool.ordered("o").unwrap();
    let worker = here.worker();
    let bytes = worker.geometry().frame_offset(worker.committed_frames().unwrap());
    let mem = worker.mem();
    // Entries of a leaf are two words: the key as a number that compares, and the value. Leaves that were replaced are
    // still there.
    for at in (0..bytes - 32).step_by(16) {
        let words = [0, 8, 16, 24].map(|n| published(at + n, 8).read_word(mem));
        if words == [1_000, 1_000, 1_001, 1_001] {
            unpublished(at, 8).write_word(mem, 1_001);
            unpublished(at + 16, 8).write_word(mem, 1_000);
        }
    }
    assert!(!here.pool.fsck().unwrap().is_clean());
    assert_eq!(here.pool.fsck_and_repair().unwrap().repaired_bytes, 0);
    let mut calls = 0;
    let mut count = |_: &[u8], _: &[u8]| {
        calls += 1;
        assert!(calls <= 2 * 2_000, "it goes round");
        true
    };
    let _ = map.scan(Range::ALL, &mut count);
    let _ = map.scan_reverse(Range::ALL, &mut count);
}
