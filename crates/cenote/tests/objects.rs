//! Object stores by their users' surface, on all kinds of memory: what is sealed is there for all, views keep bytes,
//! and all memory comes back.

use std::ops::ControlFlow;
use std::time::Duration;

use cenote::objects::{NewObject, ObjectSettings, ObjectView, Objects, Sealed, Ttl};
use cenote::pod::format::superblock::{SEAL_EVENT_COUNTS, seal_events};
use cenote::{Backend, Coherent, Delegated, Error, Noncoherent, Options, Pool, Put};

fn pool<M: Backend>(max: u64) -> (tempfile::TempDir, Pool<M>) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        size: 1 << 20,
        max,
        ..Options::default()
    };
    let pool = Pool::create(folder.path().join("pool"), &options).unwrap();
    (folder, pool)
}

fn bytes(n: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| n.wrapping_add(at as u8)).collect()
}

fn ids<M: Backend>(objects: &Objects<M>, prefix: &[u8]) -> Vec<Vec<u8>> {
    let mut ids = Vec::new();
    let each = |object: cenote::objects::ObjectInfo| {
        ids.push(object.id);
        ControlFlow::Continue(())
    };
    objects.list(prefix, each).unwrap();
    ids
}

/// Nothing is wrong, nothing leaks, and nobody holds anything.
fn check<M: Backend>(pool: &Pool<M>, objects: u64) {
    pool.collect().unwrap();
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    let found = &report.objects[0].found;
    assert_eq!((found.objects, found.unnamed, found.lost), (objects, 0, 0));
    assert!(found.holders.is_empty(), "{:?}", found.holders);
}

fn lives<M: Backend>() {
    let (_folder, pool) = pool::<M>(64 << 20);
    let objects = pool.objects("store", &ObjectSettings::default()).unwrap();
    for (n, len) in [(1, 0), (2, 1), (3, 64), (4, 1000), (5, 70_000), (6, 3 << 20)] {
        assert!(objects.insert(&[n], &bytes(n, len)).unwrap());
        assert!(!objects.insert(&[n], b"another").unwrap());
        let view = objects.get(&[n]).unwrap().unwrap();
        assert_eq!(*view, bytes(n, len));
        assert!(view.is_empty() || (view.as_ptr() as usize).is_multiple_of(64));
    }
    assert_eq!(ids(&objects, b""), [[1], [2], [3], [4], [5], [6]]);

    // In place, with metadata, and another one that is faster.
    let new = NewObject {
        metadata: b"int32",
        ..NewObject::default()
    };
    let mut writer = objects.create(b"ten", 10, &new).unwrap().unwrap();
    writer.as_mut_slice().fill(7);
    assert!(objects.get(b"ten").unwrap().is_none());
    let mut slower = objects.create(b"ten", 4, &NewObject::default()).unwrap().unwrap();
    slower.write(0, &[8; 4]);
    assert_eq!(writer.seal().unwrap(), Sealed::HasId);
    assert_eq!(slower.seal().unwrap(), Sealed::IdTaken);
    let view = objects.get(b"ten").unwrap().unwrap();
    assert_eq!(
        (&*view, view.metadata().unwrap().as_slice()),
        (&[7; 10][..], &b"int32"[..])
    );
    let info = objects.stat(b"ten").unwrap().unwrap();
    assert_eq!(
        (info.size, info.metadata.as_slice(), info.was_viewed),
        (10, &b"int32"[..], true)
    );

    // Views outlast replacement and deletion, in other threads too.
    assert_eq!(objects.put(b"ten", &[9; 20]).unwrap(), Put::Replaced);
    assert_eq!(objects.put(b"eleven", &[1]).unwrap(), Put::Inserted);
    let newer = objects.get(b"ten").unwrap().unwrap();
    assert!(objects.delete(b"ten").unwrap());
    assert!(!objects.delete(b"ten").unwrap());
    assert!(objects.insert(b"ten", &bytes(1, 10)).unwrap());
    std::thread::spawn(move || {
        assert_eq!((&*view, &*newer), (&[7; 10][..], &[9; 20][..]));
    })
    .join()
    .unwrap();

    // What is not sealed is gone.
    drop(objects.create(b"never", 1 << 20, &NewObject::default()).unwrap());
    assert!(!objects.contains(b"never").unwrap());
    check(&pool, 8);
    for id in ids(&objects, b"") {
        assert!(objects.delete(&id).unwrap());
    }
    check(&pool, 0);
    assert_eq!(objects.bytes(), 0);
}

#[test]
fn objects_live_from_seal_to_last_view() {
    lives::<Coherent>();
    lives::<Noncoherent>();
    lives::<Delegated>();
}

#[test]
fn a_waiter_is_woken() {
    let (_folder, pool) = pool::<Coherent>(64 << 20);
    let objects = pool.objects("store", &ObjectSettings::default()).unwrap();
    assert!(objects.wait(b"soon", Duration::from_millis(1)).unwrap().is_none());
    let other = pool.clone();
    let waiter = std::thread::spawn(move || {
        let objects = other.existing_objects("store").unwrap();
        let view = objects.wait(b"soon", Duration::from_secs(60)).unwrap().unwrap();
        view.to_vec()
    });
    assert!(objects.insert(b"other", b"no").unwrap());
    assert!(objects.insert(b"soon", b"yes").unwrap());
    assert_eq!(waiter.join().unwrap(), b"yes");
}

fn evicts<M: Backend>() {
    let (_folder, pool) = pool::<M>(16 << 20);
    let objects = pool.objects("cache", &ObjectSettings::cache()).unwrap();
    assert!(objects.insert(b"viewed", &bytes(1, 1 << 20)).unwrap());
    let view = objects.get(b"viewed").unwrap().unwrap();
    for n in 0_u32..200 {
        assert!(
            objects
                .insert(&n.to_be_bytes(), &bytes(n as u8, 300_000))
                .unwrap()
        );
        let last = objects.get(&n.to_be_bytes()).unwrap().unwrap();
        assert_eq!(*last, bytes(n as u8, 300_000));
    }
    assert_eq!(*view, bytes(1, 1 << 20));
    assert!(objects.contains(b"viewed").unwrap());
    assert!(objects.evictions().objects >= 150, "{:?}", objects.evictions());
    drop(view);
    let left = ids(&objects, b"").len() as u64;
    check(&pool, left);
    // One that is larger than all that there is evicts nothing forever, and says so.
    assert!(matches!(
        objects.insert(b"huge", &vec![0; 15 << 20]),
        Err(Error::Full { .. }) | Ok(true)
    ));
    assert!(objects.insert(b"small", b"again").unwrap());
}

#[test]
fn a_cache_evicts_what_nobody_views() {
    evicts::<Coherent>();
    evicts::<Noncoherent>();
}

#[test]
fn quotas_and_times_hold() {
    let (_folder, pool) = pool::<Coherent>(64 << 20);
    let settings = ObjectSettings {
        quota: Some(1 << 20),
        ..ObjectSettings::default()
    };
    let objects = pool.objects("small", &settings).unwrap();
    assert!(objects.insert(b"a", &[0; 600_000]).unwrap());
    assert!(matches!(
        objects.insert(b"b", &[0; 600_000]),
        Err(Error::Quota { limit: 1_048_576, .. })
    ));
    assert!(objects.delete(b"a").unwrap());
    assert!(objects.insert(b"b", &[0; 600_000]).unwrap());
    // The settings of the one that is there.
    let again = pool.objects("small", &ObjectSettings::cache()).unwrap();
    assert_eq!(again.settings(), &settings);

    let short = NewObject {
        ttl: Ttl::After(Duration::from_micros(1)),
        ..NewObject::default()
    };
    assert!(objects.insert_with(b"short", b"lived", &short).unwrap());
    assert!(objects.insert_with(b"other", b"one", &short).unwrap());
    assert!(objects.insert_with(b"third", b"one", &short).unwrap());
    std::thread::sleep(Duration::from_millis(5));
    assert!(objects.get(b"short").unwrap().is_none());
    // What is put over an expired object takes its place at once.
    assert!(objects.insert(b"third", b"two").unwrap());
    assert_eq!(objects.expire().unwrap(), 1);
    assert!(objects.insert(b"short", b"again").unwrap());
    assert_eq!(objects.evictions().expired, 3);

    assert!(matches!(
        objects.insert(&[0; 5000], b""),
        Err(Error::KeyTooLong { .. })
    ));
    assert!(matches!(
        objects.create(b"x", u64::MAX, &short),
        Err(Error::InvalidOption { .. })
    ));
    assert!(matches!(pool.map("small"), Err(Error::OtherKind { .. })));
    assert!(matches!(pool.existing_objects("none"), Err(Error::NoSuch { .. })));
    check(&pool, 3);
}

/// A store that does not evict refuses nothing beside objects whose time is over.
#[test]
fn what_has_expired_is_room() {
    let (_folder, pool) = pool::<Coherent>(4 << 20);
    let short = NewObject {
        ttl: Ttl::After(Duration::from_millis(1)),
        ..NewObject::default()
    };
    let (mut bytes, settings) = (2_900_000, ObjectSettings::default());
    let quota = ObjectSettings {
        quota: Some(1 << 20),
        ..settings
    };
    for settings in [settings, quota] {
        let objects = pool.objects(&format!("{:?}", settings.quota), &settings).unwrap();
        let refused = |objects: &Objects, id: &[u8], len| {
            let made = objects.insert(id, &vec![1; len]);
            matches!(made, Err(Error::Full { .. } | Error::Quota { .. }))
        };
        assert!(objects.insert(b"lives", &[1]).unwrap());
        // A refusal finds that nothing will expire, and that must not be remembered for ever.
        assert!(refused(&objects, b"large", 64 << 20));
        assert!(objects.insert_with(b"lived", &vec![1; bytes], &short).unwrap());
        std::thread::sleep(Duration::from_millis(5));
        assert!(objects.insert(b"new", &vec![2; bytes]).unwrap());
        assert!(refused(&objects, b"another", bytes));
        assert!(objects.contains(b"lives").unwrap());
        assert_eq!(objects.evictions().expired, 1);
        for id in ids(&objects, b"") {
            assert!(objects.delete(&id).unwrap());
        }
        pool.collect().unwrap();
        bytes = 900_000;
    }
}

#[test]
fn many_views_take_more_tables_of_slots() {
    let (_folder, pool) = pool::<Coherent>(64 << 20);
    let objects = pool.objects("store", &ObjectSettings::default()).unwrap();
    assert!(objects.insert(b"a", b"b").unwrap());
    let views: Vec<_> = (0..1000).map(|_| objects.get(b"a").unwrap().unwrap()).collect();
    assert!(objects.delete(b"a").unwrap());
    assert!(views.iter().all(|view| **view == *b"b"));
    drop(views);
    check(&pool, 0);
    assert_eq!(objects.bytes(), 0);
}

/// A process that opens a full cache has no slots yet, and no room for any.
fn opens_full<M: Backend>() {
    let (folder, pool) = pool::<M>(4 << 20);
    let objects = pool.objects("cache", &ObjectSettings::cache()).unwrap();
    let mut n = 0_u32;
    while objects.evictions().objects < 100 {
        assert!(
            objects
                .insert(&n.to_be_bytes(), &bytes(n as u8, 1 + n as usize % 5000))
                .unwrap()
        );
        n += 1;
    }
    let other = Pool::<M>::open(folder.path().join("pool"), &Options::default()).unwrap();
    let theirs = other.existing_objects("cache").unwrap();
    let last = n - 1;
    let view = theirs.get(&last.to_be_bytes()).unwrap().unwrap();
    assert_eq!(*view, bytes(last as u8, 1 + last as usize % 5000));
    assert!(theirs.insert(b"mine", &bytes(1, 5000)).unwrap());
    let views: Vec<_> = (0..200).map(|_| theirs.get(b"mine").unwrap().unwrap()).collect();
    assert!(views.iter().all(|view| **view == *bytes(1, 5000)));
}

#[test]
fn a_full_cache_can_be_opened() {
    opens_full::<Coherent>();
    opens_full::<Noncoherent>();
}

/// Who waits for an object sleeps on while others are sealed, nearly always: event counts are fewer than objects.
#[test]
fn who_waits_is_seldom_woken_for_another_object() {
    let (_folder, pool) = pool::<Coherent>(64 << 20);
    let settings = ObjectSettings::default();
    let (quiet, busy) = (
        pool.objects("quiet", &settings).unwrap(),
        pool.objects("busy", &settings).unwrap(),
    );
    let waits = {
        let pool = pool.clone();
        std::thread::spawn(move || {
            let objects = pool.existing_objects("quiet").unwrap();
            let found = objects.wait(b"last", Duration::from_secs(60)).unwrap();
            assert_eq!(found.unwrap().to_vec(), b"value");
        })
    };
    let worker = pool.worker().unwrap();
    let asleep = || (0..SEAL_EVENT_COUNTS).find(|&n| seal_events(n).load(worker.mem()) & 1 != 0);
    let by = loop {
        match asleep() {
            Some(by) => break seal_events(by),
            None => std::thread::yield_now(),
        }
    };
    let before = by.load(worker.mem()) >> 1;
    let mut woken = 0;
    for n in 0..64_u64 {
        busy.put(&n.to_le_bytes(), b"value").unwrap();
        woken += u64::from(by.load(worker.mem()) >> 1 != before + woken);
    }
    assert!(woken < 20, "for {woken} of 64 objects");
    quiet.insert(b"last", b"value").unwrap();
    waits.join().unwrap();
}

thread_local! {
    static KEPT: std::cell::RefCell<Option<ObjectView>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn a_view_in_a_thread_local_value_ends_with_its_thread() {
    let (_folder, pool) = pool::<Coherent>(64 << 20);
    let objects = pool.objects("store", &ObjectSettings::default()).unwrap();
    objects.insert(b"object", &[1; 100]).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Touched before the library's own values of the thread, and so dropped after them.
            KEPT.with_borrow(|kept| assert!(kept.is_none()));
            let objects = pool.existing_objects("store").unwrap();
            KEPT.set(Some(objects.get(b"object").unwrap().unwrap()));
        });
        // The scope alone does not wait for the thread's values.
        thread.join().unwrap();
    });
    assert!(objects.delete(b"object").unwrap());
    check(&pool, 0);
}
