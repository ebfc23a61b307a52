//! Invalid reserves of workers: no write uses them, and `fsck` reports them.

use std::os::unix::fs::FileExt;

use cenote::memory::Mapped;
use cenote::pod::format::class::CLASSES;
use cenote::pod::format::record::WorkerRecord;
use cenote::pod::format::reserve::Reserve;
use cenote::{Coherent, Noncoherent, Options, Pool};

fn options() -> Options {
    Options {
        size: 4 << 20,
        max: 64 << 20,
        ..Options::default()
    }
}

/// A key that was there before, and its value.
fn known(n: u64) -> (Vec<u8>, Vec<u8>) {
    (
        format!("known {n}").into_bytes(),
        vec![n as u8; (n * 37 % 900) as usize],
    )
}

/// Runs `run` on a pool with a map, and on its file, which the test damages.
fn scene<M: Mapped>(run: impl FnOnce(&std::path::Path, &std::fs::File)) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    {
        let pool: Pool<M> = Pool::create(&path, &options()).unwrap();
        let map = pool.map("m").unwrap();
        for (key, value) in (0..400).map(known) {
            map.put(&key, &value).unwrap();
        }
    }
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    run(&path, &file);
}

/// Writes fresh keys of all sizes, and checks that the known keys are unchanged.
fn write_and_look<M: Mapped>(pool: &Pool<M>) {
    let map = pool.map("m").unwrap();
    for n in 0..2_000u64 {
        // Whether it succeeds does not matter here.
        let _ = map.put(
            format!("fresh {n}").as_bytes(),
            &vec![0xee; (n * 31 % 5_000) as usize],
        );
    }
    for (key, value) in (0..400).map(known) {
        let found = map.get(&key).unwrap().map(|found| found.to_vec());
        assert_eq!(found, Some(value), "{}", String::from_utf8_lossy(&key));
    }
}

/// Where the reserves of a place are.
fn reserves<M: Mapped>(path: &std::path::Path, place: u32) -> Vec<u64> {
    let pool: Pool<M> = Pool::open(path, &options()).unwrap();
    let worker = pool.worker().unwrap();
    let record = WorkerRecord::new(worker.geometry(), place);
    (0..CLASSES).map(|class| record.reserve(class).offset()).collect()
}

/// Forty words without the valid bit, which name cells of the pool's first block: every `put` once took those cells.
fn words_without_their_bit<M: Mapped>() {
    scene::<M>(|path, file| {
        for place in 0..3 {
            for at in reserves::<M>(path, place) {
                let word = Reserve::new(0, 0, 0xf).0 & !(1 << 63);
                file.write_all_at(&word.to_le_bytes(), at).unwrap();
            }
        }
        let pool: Pool<M> = Pool::open(path, &options()).unwrap();
        write_and_look(&pool);
    });
}

#[test]
fn a_word_without_its_valid_bit_reserves_nothing() {
    words_without_their_bit::<Coherent>();
}

#[test]
fn nor_does_it_on_incoherent_memory() {
    words_without_their_bit::<Noncoherent>();
}

/// The same in the record of a worker that is writing, or has died.
fn in_use<M: Mapped>() {
    scene::<M>(|_, file| {
        let pool: Pool<M> = Pool::open(path_of(file), &options()).unwrap();
        let map = pool.map("m").unwrap();
        map.put(b"fresh", &[1; 100]).unwrap();
        let record = pool.worker().unwrap().record();
        for words in [
            0xf,
            u64::MAX >> 1,
            Reserve::new(1 << 30, 0, 0xf).0,
            Reserve::new(0, 0xffff, 0xf).0,
        ] {
            for class in 0..CLASSES {
                file.write_all_at(&words.to_le_bytes(), record.reserve(class).offset())
                    .unwrap();
            }
            write_and_look(&pool);
            let report = pool.fsck().map(|report| report.is_clean());
            assert_ne!(report.ok(), Some(true), "{words:#x}");
        }
    });
}

fn path_of(file: &std::fs::File) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
}

#[test]
fn what_changes_while_it_is_used_is_no_object_outside() {
    in_use::<Coherent>();
}

#[test]
fn nor_is_it_on_incoherent_memory() {
    in_use::<Noncoherent>();
}

/// `fsck` reports such words in vacant places, and its repair clears them.
fn reported<M: Mapped>() {
    scene::<M>(|path, file| {
        let at = reserves::<M>(path, 3);
        for at in &at[..2] {
            file.write_all_at(&0x5fu64.to_le_bytes(), *at).unwrap();
        }
        let pool: Pool<M> = Pool::open(path, &options()).unwrap();
        cenote::pod::format::superblock::WORKERS_HIGH.store(pool.worker().unwrap().mem(), 6);
        let report = pool.fsck().unwrap();
        assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
        assert!(report.problems[0].contains("reserve"), "{:?}", report.problems);
        let report = pool.fsck_and_repair().unwrap();
        assert!(report.is_clean() && report.repaired_places == 1, "{report:?}");
    });
}

#[test]
fn fsck_reports_and_repair_clears_them() {
    reported::<Coherent>();
    reported::<Noncoherent>();
}

/// A reserve that names an object of a map: the word looks valid, but `fsck` sees both.
#[test]
fn what_is_in_use_is_not_reserved() {
    scene::<Coherent>(|path, file| {
        let pool: Pool = Pool::open(path, &options()).unwrap();
        let map = pool.map("m").unwrap();
        for n in 0..40u64 {
            map.put(&n.to_le_bytes(), &[1; 100]).unwrap();
        }
        let record = pool.worker().unwrap().record();
        let mem_word = |class| {
            let mut word = [0; 8];
            file.read_exact_at(&mut word, record.reserve(class).offset())
                .unwrap();
            Reserve(u64::from_le_bytes(word))
        };
        let (class, reserve) = (0..CLASSES)
            .map(|class| (class, mem_word(class)))
            .find(|(_, reserve)| reserve.frame().is_some() && reserve.word() > 0)
            .unwrap();
        // The word before, whose objects were all used.
        let damaged = Reserve::new(reserve.frame().unwrap(), reserve.word() - 1, 0xf);
        file.write_all_at(&damaged.0.to_le_bytes(), record.reserve(class).offset())
            .unwrap();
        let report = pool.fsck().unwrap();
        assert!(!report.is_clean(), "{report:?}");
        file.write_all_at(&reserve.0.to_le_bytes(), record.reserve(class).offset())
            .unwrap();
        assert!(pool.fsck().unwrap().is_clean());
    });
}
