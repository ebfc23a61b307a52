//! Groups that are dropped while members wait for events.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::{Context, Poll};
use std::time::Duration;

use cenote::group::EventKind;
use cenote::memory::Mapped;
use cenote::pod::format::superblock::GROUP_EVENTS;
use cenote::{Dropped, Error, Options, Pool};

const TOKEN: &[u8] = b"token";
/// After so long a test has failed.
const LONG: Duration = Duration::from_secs(30);

fn pool<M: Mapped>(folder: &tempfile::TempDir) -> Pool<M> {
    let options = Options {
        size: 1 << 20,
        max: 1 << 26,
        names: 8,
        ..Options::default()
    };
    Pool::create(folder.path().join("pool"), &options).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn is_dropped<T>(found: &Result<T, Error>) -> bool {
    matches!(found, Err(Error::Dropped))
}

fn every_handle_is_told<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let before = pool.fsck().unwrap().reachable_bytes;
    let group = pool.group("group", TOKEN).unwrap();
    let mut member = group.join("member").unwrap();
    let mut observer = group.observe().unwrap();
    assert_eq!(member.try_next().unwrap().unwrap().kind, EventKind::Joined);
    assert_eq!(pool.drop_named("group").unwrap(), Dropped::Freed);
    assert!(is_dropped(&member.try_next()));
    assert!(is_dropped(&observer.next(Some(LONG))));
    let [told, end] = {
        let mut events = member.events();
        [events.next(), events.next()]
    };
    assert!(is_dropped(&told.unwrap()) && end.is_none());
    assert!(is_dropped(&group.join("another")));
    assert!(is_dropped(&group.observe().map(drop)));
    assert!(is_dropped(&group.members()));
    member.leave().unwrap();
    drop((observer, group));
    assert!(matches!(
        pool.existing_group("group", TOKEN),
        Err(Error::NoSuch { .. })
    ));
    pool.collect().unwrap();
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert!(
        report.reachable_bytes <= before + (24 << 10),
        "{before}: {report:#?}"
    );
}

fn its_place_may_be_another_s<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let old = pool.group("group", TOKEN).unwrap();
    let mut member = old.join("member").unwrap();
    for n in 0..50 {
        assert_eq!(pool.drop_named("group").unwrap(), Dropped::Freed);
        pool.collect().unwrap();
        // A new group in its place, of the same name or none; or bytes of a map.
        let new = pool.group("group", b"another token").unwrap();
        let map = pool.map("map").unwrap();
        map.put(b"key", &vec![0xff; 60_000]).unwrap();
        assert!(is_dropped(&member.try_next()), "round {n}");
        assert!(is_dropped(&old.join("another")), "round {n}");
        assert!(new.members().unwrap().is_empty(), "round {n}");
        assert_eq!(*map.get(b"key").unwrap().unwrap(), [0xff; 60_000], "round {n}");
        let _ = pool.drop_named("map").unwrap();
    }
    member.leave().unwrap();
    assert!(pool.fsck().unwrap().is_clean());
}

fn sleepers_are_woken<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let (tell, told) = channel();
    let waits = |pool: Pool<M>, tell: std::sync::mpsc::Sender<bool>| {
        move || {
            let mut observer = pool.existing_group("group", TOKEN).unwrap().observe().unwrap();
            tell.send(false).unwrap();
            let next = observer.next(None);
            tell.send(is_dropped(&next)).unwrap();
        }
    };
    let group = pool.group("group", TOKEN).unwrap();
    let sleeper = std::thread::spawn(waits(pool.clone(), tell.clone()));
    assert!(!told.recv_timeout(LONG).unwrap());
    let listener = group
        .listen(None, move |event| tell.send(is_dropped(&event)).unwrap())
        .unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let _ = pool.drop_named("group").unwrap();
    for _ in 0..2 {
        assert!(told.recv_timeout(LONG).unwrap(), "an event, and no error");
    }
    sleeper.join().unwrap();
    drop(listener);
}

fn a_listener_ends_after_its_group<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let group = pool.group("group", TOKEN).unwrap();
    let listener = group.listen(Some("listener"), |_| {}).unwrap();
    let _ = pool.drop_named("group").unwrap();
    let map = pool.map("map").unwrap();
    map.put(b"key", &vec![0; 60_000]).unwrap();
    drop(listener);
    assert_eq!(*map.get(b"key").unwrap().unwrap(), [0; 60_000]);
    let other = pool.group("other", TOKEN).unwrap();
    let listener = other.listen(None, |_| {}).unwrap();
    drop(listener);
}

fn tasks_are_woken<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let group = pool.group("group", TOKEN).unwrap();
    let mut observer = group.observe().unwrap();
    let (wake, woken) = channel();
    let waker = sending_waker(wake);
    let mut future = pin!(observer.next_event());
    let mut context = Context::from_waker(&waker);
    assert!(future.as_mut().poll(&mut context).is_pending());
    let _ = pool.drop_named("group").unwrap();
    woken.recv_timeout(LONG).unwrap();
    assert!(matches!(
        future.as_mut().poll(&mut context),
        Poll::Ready(Err(Error::Dropped))
    ));
}

/// A waker that sends a message.
fn sending_waker(wake: std::sync::mpsc::Sender<()>) -> std::task::Waker {
    struct Sends(std::sync::Mutex<std::sync::mpsc::Sender<()>>);
    impl std::task::Wake for Sends {
        fn wake(self: std::sync::Arc<Self>) {
            let _ = self.0.lock().unwrap().send(());
        }
    }
    std::task::Waker::from(std::sync::Arc::new(Sends(std::sync::Mutex::new(wake))))
}

/// A member in another process dies after its group was dropped, and after another one was made in its place.
fn deaths_are_for_groups_that_are_there<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    let group = pool.group("group", TOKEN).unwrap();
    let thread = {
        let pool = pool.clone();
        std::thread::spawn(move || {
            let group = pool.existing_group("group", TOKEN).unwrap();
            // It leaves nothing in order: the thread ends, and its worker with it.
            std::mem::forget(group.join("mortal").unwrap());
        })
    };
    thread.join().unwrap();
    let _ = pool.drop_named("group").unwrap();
    drop(group);
    pool.collect().unwrap();
    let new = pool.group("group", TOKEN).unwrap();
    let mut observer = new.observe().unwrap();
    pool.recover().unwrap();
    assert!(observer.try_next().unwrap().is_none(), "a death in another group");
    assert!(new.members().unwrap().is_empty());
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// However many groups there are, and whether it is in one of them.
fn a_death_wakes_all_that_sleep_once<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(&folder);
    for n in 0..6 {
        pool.group(&format!("group {n}"), TOKEN).unwrap();
    }
    let worker = pool.worker().unwrap();
    let notifications = || GROUP_EVENTS.load(worker.mem()) >> 1;
    let before = notifications();
    let mortal = {
        let pool = pool.clone();
        std::thread::spawn(move || std::mem::forget(pool.worker().unwrap()))
    };
    mortal.join().unwrap();
    pool.recover().unwrap();
    assert_eq!(notifications() - before, 1);
}

on_both! {
    every_handle_is_told,
    its_place_may_be_another_s,
    sleepers_are_woken,
    a_listener_ends_after_its_group,
    tasks_are_woken,
    deaths_are_for_groups_that_are_there,
    a_death_wakes_all_that_sleep_once,
}
