//! The list of a directory lock's regions in a damaged pool.

use cenote::{Backend, Coherent, Error, Noncoherent, Options, Pool};

fn options() -> Options {
    Options {
        size: 8 << 20,
        max: 64 << 20,
        ..Options::default()
    }
}

/// Where a pool's file has the places of a lock's two regions of 100 and 5,000 bytes.
fn list_of_regions(file: &[u8]) -> usize {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let is_list = |at: &usize| {
        word(at + 8) == 100 && word(at + 24) == 5000 && word(at + 16).wrapping_sub(word(*at)) == 128
    };
    let mut found = (0..file.len() - 32).step_by(8).filter(is_list);
    let at = found.next().expect("the pool has the list");
    assert_eq!(found.next(), None);
    at
}

/// Regions that overlap, are in disorder, leave the pool or have no end are an error, whatever they are read for.
fn damaged_regions<M: Backend>() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let pool = Pool::<M>::create(&path, &options()).unwrap();
    let made = pool
        .regions_builder("two")
        .region(100)
        .region(5000)
        .open()
        .unwrap();
    drop(made);
    drop(pool);
    let whole = std::fs::read(&path).unwrap();
    let at = list_of_regions(&whole);
    let first = u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
    let damages = [
        (at, 0),
        (at, first + 8),
        (at, first - 64),
        (at, u64::MAX - 63),
        (at + 8, 128 + 1),
        (at + 8, u64::MAX),
        (at + 16, first),
        (at + 16, first + 64),
        (at + 16, first + 129),
        (at + 16, 1 << 40),
        (at + 24, 1 << 30),
        (at + 24, u64::MAX),
    ];
    for (place, word) in damages {
        let mut file = whole.clone();
        file[place..place + 8].copy_from_slice(&u64::to_le_bytes(word));
        std::fs::write(&path, &file).unwrap();
        let pool = Pool::<M>::open(&path, &options()).unwrap();
        let opened = pool.existing_regions("two").map(drop);
        assert!(
            matches!(opened, Err(Error::Corrupt { .. })),
            "{word:#x} at {place:#x}"
        );
        let made = pool
            .regions_builder("two")
            .region(100)
            .region(5000)
            .open()
            .map(drop);
        assert!(
            matches!(made, Err(Error::Corrupt { .. })),
            "{word:#x} at {place:#x}"
        );
        assert!(!pool.fsck().unwrap().is_clean(), "{word:#x} at {place:#x}");
    }
    std::fs::write(&path, &whole).unwrap();
    let pool = Pool::<M>::open(&path, &options()).unwrap();
    assert_eq!(pool.existing_regions("two").unwrap().regions(), 2);
}

#[test]
fn regions_that_cannot_be_are_refused() {
    damaged_regions::<Coherent>();
    damaged_regions::<Noncoherent>();
}
