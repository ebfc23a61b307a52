//! Invalid words in a worker's record, one by one: a worker that recovers it, attaches to its place or uses it gets at
//! most an error.

use cenote::pod::format::chunk::CHUNK_ENTRIES;
use std::os::unix::fs::FileExt;

use cenote::memory::{Mapped, SyncWord};
use cenote::pod::format::record::{WorkerRecord, operation};
use cenote::{Coherent, Noncoherent, Options, Pool};

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of a pool of this test, which uses it in this way.
    unsafe { SyncWord::at(at) }
}

fn options() -> Options {
    Options {
        size: 2 << 20,
        max: 32 << 20,
        workers: 8,
        ..Options::default()
    }
}

/// Damages the record of a place that a worker has left, or of the worker that goes on writing.
fn with_record<M: Mapped>(damage: impl Fn(&std::fs::File, WorkerRecord, u64)) {
    for is_own in [false, true] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let pool: Pool<M> = Pool::create(&path, &options()).unwrap();
        let map = pool.map("m").unwrap();
        for n in 0..3_000u64 {
            map.put(&n.to_le_bytes(), &[7; 100]).unwrap();
        }
        let worker = pool.worker().unwrap();
        let place = if is_own { u32::from(worker.me()) - 1 } else { 5 };
        let end = worker.geometry().frame_offset(worker.committed_frames().unwrap());
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        damage(&file, WorkerRecord::new(worker.geometry(), place), end);
        cenote::pod::format::superblock::WORKERS_HIGH.store(worker.mem(), 8);
        for n in 0..600u64 {
            let _ = map.put(&n.to_le_bytes(), &[8; 100]);
            let _ = map.remove(&(n + 1_000).to_le_bytes());
        }
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| pool.map("m").map(|map| map.put(b"key", &[8; 100])));
            }
        });
        let _ = (
            pool.collect(),
            pool.recover(),
            pool.fsck(),
            pool.fsck_and_repair(),
        );
        drop((map, worker, pool));
        let _ = Pool::<M>::open(&path, &options()).map(|pool| pool.fsck_and_repair());
    }
}

fn set(file: &std::fs::File, at: u64, word: u64) {
    file.write_all_at(&word.to_le_bytes(), at).unwrap();
}

/// Words that name something outside the data: beyond the end, in the tables, unaligned, far away.
fn outside(end: u64) -> [u64; 6] {
    [end, end + (40 << 30), 4096, 12_345_677, u64::MAX, 1 << 62]
}

fn each_word<M: Mapped>() {
    for which in 0..6 {
        with_record::<M>(|file, record, end| {
            let word = outside(end)[which];
            for named in [
                record.counter(),
                record.new_object(),
                record.old_object(),
                record.slot(),
            ] {
                set(file, named.offset(), word);
            }
            for named in record.secondaries().into_iter().chain(record.old_secondaries()) {
                set(file, named.offset(), word);
            }
            set(file, record.operation().offset(), operation::COMMITTED);
        });
        with_record::<M>(|file, record, end| {
            for named in [
                record.aux_object(),
                record.aux_word(),
                record.freeing(),
                record.retiring(),
            ] {
                set(file, named.offset(), outside(end)[which]);
            }
            for named in [
                record.head(),
                record.tail(),
                record.spare(),
                record.root(),
                record.root_level(),
            ] {
                set(file, named.offset(), outside(end)[which]);
            }
        });
    }
}

#[test]
fn words_that_name_something_outside() {
    each_word::<Coherent>();
}

#[test]
fn and_on_incoherent_memory() {
    each_word::<Noncoherent>();
}

/// A bit beyond the last entry of a chunk once made recovery change a word of the object after the chunk.
#[test]
fn entries_that_no_chunk_has_are_an_error() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool = Pool::create(&path, &options()).unwrap();
    let map = pool.map("m").unwrap();
    // A neighbour, found by what it holds.
    map.put(b"a key of its own", &[0xa6; 1000]).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(64).position(|window| window == [0xa6; 64]).unwrap() as u64;
    let value = at.next_multiple_of(64) + 64;
    let worker = pool.worker().unwrap();
    let record = WorkerRecord::new(worker.geometry(), 5);
    cenote::pod::format::superblock::WORKERS_HIGH.store(worker.mem(), 8);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    set(&file, record.freeing_which().offset(), 1 << CHUNK_ENTRIES);
    set(&file, record.freeing().offset(), value - 1024 + 1);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let _ = pool.map("m").map(|map| map.put(b"key", &[8; 100]));
                std::thread::sleep(std::time::Duration::from_millis(50));
            });
        }
    });
    assert_eq!(
        map.get(b"a key of its own").unwrap().as_deref(),
        Some(&[0xa6; 1000][..])
    );
}

/// A number of committed frames that the file does not have: nothing reads there.
#[test]
fn more_frames_than_the_file_has_are_an_error() {
    fn check<M: Mapped>() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let pool: Pool<M> = Pool::create(&path, &options()).unwrap();
        let map = pool.map("m").unwrap();
        map.put(b"key", &[1; 100]).unwrap();
        let worker = pool.worker().unwrap();
        cenote::pod::format::superblock::COMMITTED.store(worker.mem(), 32 << 20 >> 16);
        let error = pool.fsck().unwrap_err().to_string();
        assert!(error.contains("committed frames"), "{error}");
        assert!(
            worker
                .check("an object", worker.geometry().frame_offset(400), 64)
                .is_err()
        );
        std::thread::scope(|scope| {
            scope
                .spawn(|| pool.map("m").map(|map| map.put(b"k", &[2; 9_000])).is_ok())
                .join()
        })
        .unwrap();
    }
    check::<Coherent>();
    check::<Noncoherent>();
}

/// A lock of the pool's own that names the worker that wants it: the worker once waited for itself.
#[test]
fn nobody_waits_for_itself() {
    fn check<M: Mapped>() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let pool: Pool<M> = Pool::create(&path, &options()).unwrap();
        let map = pool.map("m").unwrap();
        let worker = pool.worker().unwrap();
        let mine = u64::from(worker.me()) | u64::from(worker.generation()) << 32;
        for word in [
            cenote::pod::format::superblock::HEAP_LOCK,
            cenote::pod::format::superblock::DIRECTORY_LOCK,
        ] {
            word.store(worker.mem(), mine);
            // One of them needs frames, the other a name.
            let outcomes = [
                map.put(b"key", &[1; 100_000]).is_err(),
                pool.ordered("new").is_err(),
            ];
            assert!(outcomes.contains(&true), "{outcomes:?}");
            word.store(worker.mem(), 0);
        }
        map.put(b"key", &[1; 100_000]).unwrap();
    }
    check::<Coherent>();
    check::<Noncoherent>();
}

/// The word of a block's further frame, by which objects in it are found: what was removed there once leaked, though
/// `fsck` reported nothing.
#[test]
fn words_within_blocks_are_checked() {
    use cenote::pod::format::block::Block;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool: Pool = Pool::create(folder.path().join("pool"), &options()).unwrap();
    let map = pool.map("m").unwrap();
    map.put(b"slab", &[1; 15_000]).unwrap();
    map.put(b"range", &[1; 400_000]).unwrap();
    let worker = pool.worker().unwrap();
    let word = |frame| cenote::pod::alloc::slab::table_word(&worker, frame);
    let block = |frame| Block::decode(word(frame).load(worker.mem()));
    let frames = worker.committed_frames().unwrap();
    let tail = (0..frames).find(|&frame| block(frame) == Block::Tail).unwrap();
    let within_extent = (0..frames)
        .find(|&frame| matches!(block(frame), Block::Extent { frames: 7, .. }))
        .unwrap()
        + 3;
    assert!(pool.fsck().unwrap().is_clean());
    for frame in [tail, within_extent] {
        let sound = word(frame).load(worker.mem());
        word(frame).store(worker.mem(), 0x0707_0707_0707_0707);
        assert!(!pool.fsck().unwrap().is_clean());
        word(frame).store(worker.mem(), sound);
        assert!(pool.fsck().unwrap().is_clean());
    }
}

/// A map whose entry says that it is an index of another kind, which `fsck` does not know: its memory was once freed as
/// leaked.
#[test]
fn a_name_of_another_kind_is_reported() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool: Pool<Coherent> = Pool::create(&path, &options()).unwrap();
    drop(pool.ordered("o").unwrap());
    let worker = pool.worker().unwrap();
    let word = sync_word(worker.geometry().entry(0));
    let entry = word.load(worker.mem());
    assert_ne!(entry, 0);
    word.store(worker.mem(), entry | 15);
    drop(worker);
    let problems = pool.fsck().unwrap().problems;
    assert!(
        problems.iter().any(|problem| problem.contains("kind of a name")),
        "{problems:?}"
    );
}
