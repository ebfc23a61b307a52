//! Damage, and threads that have nothing to do with it: dead threads leave damaged records, locks and lists, or entries
//! of living processes are damaged. All others go on, nobody alive is taken for dead, and damage that was repaired is
//! not reported any more.

use std::path::Path;
use std::time::{Duration, Instant};

use cenote::memory::Mapped;
use cenote::memory::{Published, Unpublished};
use cenote::pod::death::watch::Watch;
use cenote::pod::format::record::{ProcessRecord, State, WorkerRecord};
use cenote::pod::group::prepare_wait;
use cenote::pod::{names::directory, reclaim::retire};
use cenote::{Coherent, Noncoherent, Options, Pool};

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

const TOKEN: &[u8] = b"token";
/// Not a phase of a process or a worker.
const NO_PHASE: u64 = 0xff;
/// Not a kind of operation.
const NO_OPERATION: u64 = 77;
/// More polls than are thorough after a death.
const POLLS: u32 = 100;

fn options() -> Options {
    Options {
        size: 4 << 20,
        max: 1 << 30,
        ..Options::default()
    }
}

/// Runs `run` on a pool that must be clean in the end.
fn scene<M: Mapped>(run: impl FnOnce(&Pool<M>, &Path)) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool<M> = Pool::create(&path, &options()).unwrap();
    run(&pool, &path);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// Waits until something is so, which must happen.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a thread that does `work` and then ends at once: no destructor runs. Returns its place.
fn lose_a_thread<M: Mapped>(pool: &Pool<M>, work: impl FnOnce(&Pool<M>) + Send + 'static) -> u32 {
    let (says, said) = std::sync::mpsc::channel();
    let theirs = pool.clone();
    let thread = std::thread::spawn(move || {
        let worker = theirs.worker().unwrap();
        work(&theirs);
        let place = u32::from(worker.me()) - 1;
        says.send((place, worker.generation())).unwrap();
        // SAFETY: ends this very thread. What it had on its stack is leaked.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    let (place, generation) = said.recv().unwrap();
    // It is never joined: a thread that ends so cannot be.
    std::mem::forget(thread);
    let worker = pool.worker().unwrap();
    let death_slot = worker.geometry().death_slot(place);
    eventually("its end", || {
        worker.mem().kernel().has_died(death_slot, generation)
    });
    place
}

/// Writes a word as damage does. Returns what it was.
fn damage<M: Mapped>(pool: &Pool<M>, at: u64, value: u64) -> u64 {
    let worker = pool.worker().unwrap();
    let mem = worker.mem();
    mem.invalidate(at, 8);
    mem.fence();
    let before = published(at, 8).read_word(mem);
    unpublished(at, 8).write_word(mem, value);
    mem.write_back(at, 8);
    mem.fence();
    mem.invalidate(at, 8);
    mem.fence();
    before
}

fn offset_of<M: Mapped>(pool: &Pool<M>, name: &str) -> u64 {
    let worker = pool.worker().unwrap();
    directory::find(&*worker, name).unwrap().unwrap().offset
}

/// What a dead worker had retired is freed although its lock is damaged.
fn what_it_retired_is_freed<M: Mapped>(is_writing: bool) {
    scene::<M>(|pool, _| {
        pool.mutex("lock").unwrap();
        let map = pool.map("m").unwrap();
        let workers = pool.stat().unwrap().workers;
        lose_a_thread(pool, move |pool| {
            let map = pool.map("m").unwrap();
            for n in 0..300u64 {
                map.put(b"key", &n.to_le_bytes().repeat(20)).unwrap();
            }
            std::mem::forget(pool.mutex("lock").unwrap().lock().unwrap());
            if is_writing {
                std::mem::forget(pool.worker().unwrap().hold_list());
            }
        });
        let before = damage(pool, offset_of(pool, "lock"), 1);
        assert_eq!(pool.recover().unwrap().failed, 1);
        map.put(b"key", b"value").unwrap();
        let worker = pool.worker().unwrap();
        eventually("what the dead one has retired", || {
            pool.collect().unwrap();
            retire::waiting(&worker) == 0
        });
        damage(pool, offset_of(pool, "lock"), before);
        assert_eq!(pool.recover().unwrap().failed, 0);
        assert_eq!(pool.failures(), [], "it was mended");
        assert_eq!(pool.stat().unwrap().workers, workers);
    });
}

#[test]
fn a_damaged_lock_holds_no_memory_back() {
    what_it_retired_is_freed::<Coherent>(false);
}

#[test]
fn nor_that_of_one_who_died_writing() {
    what_it_retired_is_freed::<Coherent>(true);
}

#[test]
fn nor_does_it_on_incoherent_memory() {
    what_it_retired_is_freed::<Noncoherent>(false);
}

/// A watcher does not notify event counts again and again for a worker that cannot be recovered: the sleepers would
/// watch, and notify, for ever.
fn watchers_calm_down<M: Mapped>() {
    scene::<M>(|pool, _| {
        pool.group("group", TOKEN).unwrap();
        let place = lose_a_thread(pool, |_| ());
        let worker = pool.worker().unwrap();
        let operation = WorkerRecord::new(worker.geometry(), place).operation().offset();
        let before = damage(pool, operation, NO_OPERATION);
        let mut watch = Watch::default();
        for _ in 0..POLLS {
            watch.poll(&worker, false);
        }
        assert_eq!(pool.failures().len(), 1, "{:?}", pool.failures());
        let event_count = prepare_wait(worker.mem());
        watch.poll(&worker, false);
        assert_eq!(
            prepare_wait(worker.mem()),
            event_count,
            "the event count was notified again"
        );
        damage(pool, operation, before);
        let recovered = watch.poll(&worker, true);
        assert_eq!((recovered.workers, recovered.failed), (1, 0));
        assert_eq!(pool.failures(), [], "it was mended");
    });
}

#[test]
fn watchers_calm_down_beside_what_cannot_be_recovered() {
    watchers_calm_down::<Coherent>();
}

#[test]
fn so_do_they_on_incoherent_memory() {
    watchers_calm_down::<Noncoherent>();
}

/// The list of a vacant place is damaged: no write fails because of it, and it is reported.
fn a_vacant_list<M: Mapped>() {
    scene::<M>(|pool, _| {
        let map = pool.map("m").unwrap();
        let worker = pool.worker().unwrap();
        // This pin keeps the list from becoming empty.
        let pin = worker.pin().unwrap();
        let (says, said) = std::sync::mpsc::channel();
        let theirs = pool.clone();
        std::thread::spawn(move || {
            let map = theirs.map("m").unwrap();
            for n in 0..20u64 {
                map.put(b"key", &n.to_le_bytes().repeat(20)).unwrap();
            }
            says.send(u32::from(theirs.worker().unwrap().me()) - 1).unwrap();
        })
        .join()
        .unwrap();
        let record = WorkerRecord::new(worker.geometry(), said.recv().unwrap());
        let before = damage(pool, record.head().offset(), 0x1_2345_6789);
        drop(pin);
        for n in 0..20_000u64 {
            map.put(b"key", &n.to_le_bytes()).unwrap();
        }
        pool.collect().unwrap();
        let report = pool.fsck().unwrap();
        assert!(!report.problems.is_empty(), "{report:#?}");
        damage(pool, record.head().offset(), before);
        pool.collect().unwrap();
        assert_eq!(pool.failures(), [], "it was mended");
    });
}

#[test]
fn a_damaged_list_that_is_nobodys_fails_no_write() {
    a_vacant_list::<Coherent>();
}

#[test]
fn nor_does_it_where_memory_is_incoherent() {
    a_vacant_list::<Noncoherent>();
}

/// The entry of a living process has a value that the library never writes: its workers are not taken for dead.
#[test]
fn who_lives_is_not_recovered_because_its_process_is_damaged() {
    scene::<Coherent>(|pool, path| {
        let other: Pool = Pool::open(path, &options()).unwrap();
        let theirs = other.worker().unwrap();
        let place = u32::from(theirs.me()) - 1;
        let worker = pool.worker().unwrap();
        let state = WorkerRecord::new(worker.geometry(), place).state();
        let process = State::decode(state.load(worker.mem())).process;
        let entry = ProcessRecord::new(worker.geometry(), process).state();
        let sound = entry.load(worker.mem());
        entry.store(worker.mem(), sound | NO_PHASE);
        let recovered = pool.recover().unwrap();
        assert_eq!((recovered.workers, recovered.failed), (0, 1), "{recovered:?}");
        let state = State::decode(state.load(worker.mem()));
        assert_eq!(state.generation, theirs.generation());
        other.map("m").unwrap().put(b"key", b"value").unwrap();
        entry.store(worker.mem(), sound);
        assert_eq!(pool.recover().unwrap().failed, 0);
        assert_eq!(pool.failures(), [], "it was mended");
        drop(theirs);
    });
}

/// The place of a living worker has a value that the library never writes: its locks stay its own.
#[test]
fn who_lives_keeps_its_locks_although_its_place_is_damaged() {
    scene::<Coherent>(|pool, _| {
        let guard = pool.mutex("lock").unwrap();
        let guard = guard.lock().unwrap();
        let worker = pool.worker().unwrap();
        let state = worker.record().state();
        let sound = state.load(worker.mem());
        state.store(worker.mem(), sound | NO_PHASE);
        std::thread::scope(|scope| {
            let tries = scope.spawn(|| {
                let lock = pool.mutex("lock").unwrap();
                let taken = lock.try_lock();
                !matches!(taken, Ok(Some(_)))
            });
            assert!(tries.join().unwrap(), "the lock was taken from one who lives");
        });
        state.store(worker.mem(), sound);
        drop(guard);
    });
}
