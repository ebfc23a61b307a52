//! Full pools in which workers take over each other's retired lists: no worker loses what it needs to remove keys
//! itself. And writes outside maps make room as those of maps do.

use std::path::Path;
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

use cenote::memory::Mapped;
use cenote::pod::format::class::TABLE;
use cenote::{Coherent, Error, Map, Noncoherent, Options, Plan, Pool};

fn small_pool<M: Mapped>(folder: &Path) -> Pool<M> {
    let options = Options {
        size: 1 << 20,
        max: 8 << 20,
        ..Options::default()
    };
    Pool::create(folder.join("pool"), &options).unwrap()
}

/// Fills a pool until no class has an object left.
fn fill_every_class<M: Mapped>(map: &Map<M>, who: &str) {
    for round in 0..2 {
        for class in TABLE.iter().rev().filter(|class| class.size > 40) {
            let value = vec![1; class.size as usize - 40];
            let (mut n, mut refused) = (0, 0);
            while refused < 3 {
                let key = format!("{who}, {}, {round}, {n}", class.size);
                refused += u32::from(map.put(key.as_bytes(), &value).is_err());
                n += 1;
            }
        }
    }
}

/// Puts values of so many bytes until one is refused; how many there are.
fn fill_with<M: Mapped>(map: &Map<M>, bytes: usize) -> u64 {
    (0..)
        .find(|n: &u64| map.put(&n.to_le_bytes(), &vec![1; bytes]).is_err())
        .unwrap()
}

/// A command to a worker.
enum Do {
    /// Remove so many of its keys.
    Remove(u64),
    /// Put a value for which there is no room.
    Put,
}

/// A worker with keys of its own.
struct Hand {
    ask: Sender<Do>,
    told: Receiver<Result<u64, Error>>,
}

impl Hand {
    fn new<'s, M: Mapped>(scope: &'s Scope<'s, '_>, pool: &'s Pool<M>, me: u64) -> Self {
        let (ask, asked) = channel();
        let (tell, told) = channel();
        scope.spawn(move || {
            let map = pool.map("m").unwrap();
            let key = |n: u64| (me << 32 | n).to_le_bytes();
            for n in 0..600 {
                map.put(&key(n), b"a value").unwrap();
            }
            tell.send(Ok(0)).unwrap();
            let mut next = 0;
            for what in asked {
                let outcome = match what {
                    Do::Put => map.put(b"new", &[1; 984]).map(|_| 1),
                    Do::Remove(count) => {
                        let begin = next;
                        next += count;
                        let removed = (begin..next).map(|n| map.remove(&key(n)).map(u64::from));
                        removed.sum()
                    }
                };
                tell.send(outcome).unwrap();
            }
        });
        told.recv().unwrap().unwrap();
        Self { ask, told }
    }

    fn does(&self, what: Do) -> Result<u64, Error> {
        self.ask.send(what).unwrap();
        self.told.recv().unwrap()
    }
}

/// Two workers of a pool in which no class has an object left, and a reader that may hold a value from some moment on,
/// so that nothing is freed any more.
fn in_a_full_pool(steps: impl FnOnce(&Pool, &Hand, &Hand, &mut dyn FnMut())) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = small_pool(folder.path());
    std::thread::scope(|scope| {
        let pool = &pool;
        let map = pool.map("m").unwrap();
        map.put(b"held", b"held").unwrap();
        let other = Hand::new(scope, pool, 1);
        let hand = Hand::new(scope, pool, 2);
        fill_every_class(&map, "first");
        for _ in 0..6 {
            pool.collect().unwrap();
        }
        fill_every_class(&map, "then");
        let (end, ended) = channel::<()>();
        let mut ended = Some(ended);
        let mut holds = || {
            let (tell, told) = channel();
            let ended = ended.take();
            scope.spawn(move || {
                let map = pool.map("m").unwrap();
                let _held = map.get(b"held").unwrap().unwrap();
                tell.send(()).unwrap();
                let _ = ended.map(|ended| ended.recv());
            });
            told.recv().unwrap();
        };
        steps(pool, &hand, &other, &mut holds);
        drop((end, other, hand));
    });
    for _ in 0..6 {
        pool.collect().unwrap();
    }
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Two workers remove keys, one puts perhaps, and removes some more.
fn removals_go_on(first: u64, others: u64, puts: bool) {
    in_a_full_pool(|_, hand, other, holds| {
        holds();
        assert_eq!(hand.does(Do::Remove(first)).unwrap(), first);
        assert_eq!(other.does(Do::Remove(others)).unwrap(), others);
        if puts {
            let _ = hand.does(Do::Put);
        }
        let what = format!("{first}, {others}, with a put: {puts}");
        assert_eq!(hand.does(Do::Remove(20)).unwrap(), 20, "{what}");
    });
}

/// The other worker has neither a spare chunk nor room in its last chunk. A worker that makes room for a removal does
/// not give it its own spare chunk.
#[test]
fn who_removes_keeps_its_spare_chunk() {
    removals_go_on(1, 120, false);
}

/// The same, if a put takes the list over.
#[test]
fn who_puts_keeps_its_spare_chunk() {
    removals_go_on(5, 120, false);
    removals_go_on(5, 120, true);
}

/// A worker that has used its spare chunk keeps its last chunk, which has room, where the other's has none.
#[test]
fn who_puts_keeps_its_last_chunk() {
    removals_go_on(70, 60, false);
    removals_go_on(70, 60, true);
}

/// Results of tasks take the room of values that were removed.
fn tasks_make_room<M: Mapped>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool<M> = small_pool(folder.path());
    let map = pool.map("m").unwrap();
    let tasks = pool.tasks("t", &Plan::single(100)).unwrap();
    let values = fill_with(&map, 65_000);
    let removed = if M::COHERENT { 12 } else { values / 2 };
    for n in 0..removed {
        assert!(map.remove(&n.to_le_bytes()).unwrap());
    }
    for task in 0..20 {
        tasks.commit(task, &[2; 20_000]).unwrap();
    }
    for task in 0..20 {
        assert!(tasks.forget(task).unwrap());
    }
}

#[test]
fn results_of_tasks_make_room() {
    tasks_make_room::<Coherent>();
    tasks_make_room::<Noncoherent>();
}

/// A reservation, and a new name, take the room of values that were removed.
fn reservations_make_room<M: Mapped>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool<M> = small_pool(folder.path());
    let (map, other) = (pool.map("m").unwrap(), pool.map("other").unwrap());
    let values = fill_with(&map, 65_000);
    for n in 0..12.min(values) {
        assert!(map.remove(&n.to_le_bytes()).unwrap());
    }
    other.reserve(10_000).unwrap();
    fill_every_class(&map, "then");
    for n in 20..40_u64 {
        assert!(map.remove(&n.to_le_bytes()).unwrap());
    }
    pool.ordered("a new one").unwrap();
    pool.mutex("another").unwrap();
}

#[test]
fn reservations_and_names_make_room() {
    reservations_make_room::<Coherent>();
    reservations_make_room::<Noncoherent>();
}

/// A worker removes so many keys and then 20 more; `before` that, another has removed some, and a reader holds a value.
fn removals_after(first: u64, before: impl FnOnce(&Pool, &Hand, &mut dyn FnMut())) {
    in_a_full_pool(|pool, hand, other, holds| {
        before(pool, other, holds);
        assert_eq!(hand.does(Do::Remove(first)).unwrap(), first);
        assert_eq!(hand.does(Do::Remove(20)).unwrap(), 20, "after {first}");
    });
}

/// The other's list is older and ends with room, much or little; the caller's ends without, and it has a spare chunk.
#[test]
fn an_older_list_costs_no_room() {
    for (others, first) in [(70, 56), (70, 58), (118, 57), (119, 57), (115, 57), (110, 57)] {
        removals_after(first, |pool, other, holds| {
            holds();
            assert_eq!(other.does(Do::Remove(others)).unwrap(), others);
            // The epoch moves on.
            pool.stat().unwrap();
            pool.stat().unwrap();
        });
    }
}

/// The same for a list that is reclaimable throughout.
#[test]
fn an_older_list_that_is_reclaimable_costs_no_room() {
    for (others, first) in [(118, 57), (119, 57), (120, 57), (120, 59), (120, 60)] {
        removals_after(first, |pool, other, holds| {
            becomes_reclaimable(pool, other, others);
            holds();
        });
    }
}

/// The other removes so many keys while a reader reads; then what it has retired is reclaimable.
fn becomes_reclaimable(pool: &Pool, other: &Hand, removed: u64) {
    let reader = pool.map("m").unwrap();
    let held = reader.get(b"held").unwrap().unwrap();
    assert_eq!(other.does(Do::Remove(removed)).unwrap(), removed);
    drop(held);
    for _ in 0..4 {
        pool.stat().unwrap();
    }
}

/// A refused put takes over a list whose last chunk is reclaimable throughout, and gives its worker a spare: that chunk
/// is reused.
#[test]
fn a_refused_put_costs_no_spare_chunk() {
    for puts in [false, true] {
        in_a_full_pool(|pool, hand, other, holds| {
            becomes_reclaimable(pool, other, 100);
            holds();
            assert_eq!(hand.does(Do::Remove(40)).unwrap(), 40);
            assert!(!puts || hand.does(Do::Put).is_err());
            assert_eq!(hand.does(Do::Remove(25)).unwrap(), 25, "with a put: {puts}");
        });
    }
}

/// A worker at a place without a chunk gets the reclaimable chunks of an idle worker that has no spare chunk either,
/// except its last chunk.
#[test]
fn newcomers_get_what_is_reclaimable() {
    for removed in [1, 50, 62, 70, 100, 120] {
        in_a_full_pool(|pool, _, other, _| {
            becomes_reclaimable(pool, other, removed);
            std::thread::scope(|scope| {
                let removes = || pool.map("m").unwrap().remove(b"first, 1024, 0, 1");
                let newcomer = scope.spawn(removes);
                assert!(newcomer.join().unwrap().is_ok(), "after {removed}");
            });
        });
    }
}

/// Two threads reserve at the same time; then keys are put and removed. Returns both outcomes, and whether the map was
/// smaller in the end than in between.
fn two_reserve(keys: [u64; 2], comes: u64) -> ([bool; 2], bool) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = small_pool(folder.path());
    let slots = || pool.fsck().unwrap().maps[0].slots;
    let map = pool.map("m").unwrap();
    let barrier = Barrier::new(2);
    let granted = std::thread::scope(|scope| {
        let reserves = keys.map(|keys| {
            let (pool, barrier) = (&pool, &barrier);
            scope.spawn(move || {
                let map = pool.map("m").unwrap();
                barrier.wait();
                map.reserve(keys).is_ok()
            })
        });
        reserves.map(|thread| thread.join().unwrap())
    });
    for n in 0..comes {
        map.put(&n.to_le_bytes(), b"v").unwrap();
    }
    let most = slots();
    for n in 0..comes {
        map.remove(&n.to_le_bytes()).unwrap();
    }
    for n in 0..20_000_u64 {
        map.put(&(n % 7).to_le_bytes(), b"v").unwrap();
        map.remove(&(n % 7).to_le_bytes()).unwrap();
    }
    (granted, slots() < most)
}

/// Where there is room for one level, a refused reservation does not undo a granted one, and refused ones leave
/// nothing.
#[test]
fn reservations_know_their_own() {
    for round in 0..30 {
        let (granted, has_shrunk) = two_reserve([200_000; 2], 200);
        assert!(!(granted.contains(&true) && has_shrunk), "{round}: {granted:?}");
        let (granted, has_shrunk) = two_reserve([20_000_000, 10_000_000], 20_000);
        assert!(has_shrunk, "{round}: {granted:?}");
    }
}

/// How many values there is room for in a pool with a map whose many keys were removed.
fn room_after_keys(reserves: bool) -> u64 {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = small_pool(folder.path());
    let other = pool.map("other").unwrap();
    assert!(!reserves || matches!(other.reserve(10_000_000), Err(Error::Full { .. })));
    for n in 0..40_000_u64 {
        other.put(&n.to_le_bytes(), b"a value").unwrap();
    }
    for n in 0..40_000_u64 {
        other.remove(&n.to_le_bytes()).unwrap();
    }
    for n in 0..2_000_u64 {
        other.put(&(n % 7).to_le_bytes(), b"a value").unwrap();
        other.remove(&(n % 7).to_le_bytes()).unwrap();
    }
    for _ in 0..6 {
        pool.collect().unwrap();
    }
    fill_with(&pool.map("m").unwrap(), 65_000)
}

#[test]
fn a_reservation_that_is_refused_leaves_nothing() {
    assert_eq!(room_after_keys(false), room_after_keys(true));
}
