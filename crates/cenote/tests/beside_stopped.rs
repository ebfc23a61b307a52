//! Threads that wait beside a process that is dead or stopped in the middle of something: they are told what has
//! happened, they sleep while nothing does, and they wait for no stranger.

use std::path::Path;
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use cenote::group::EventKind;
use cenote::memory::Mapped;
use cenote::objects::ObjectSettings;
use cenote::{Coherent, Error, Noncoherent, Options, Pool};

use crate::stopped::wait_until_stopped;

const TOKEN: &[u8] = b"token";
/// Longer than anything takes that is not stuck.
const LONG: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 256 << 20,
        ..Options::default()
    }
}

/// This program again, in a role.
fn start<M: Mapped>(pool: &Path, role: &str, variable: &str, point: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "beside_stopped::role", "--nocapture"])
        .env("CENOTE_BESIDE_POOL", pool)
        .env("CENOTE_BESIDE_KIND", M::NAME)
        .env("CENOTE_BESIDE_ROLE", role)
        .env(variable, point)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The other side; does nothing unless it is started as one.
#[test]
fn role() {
    match std::env::var("CENOTE_BESIDE_KIND").as_deref() {
        Ok("noncoherent") => act::<Noncoherent>(),
        Ok(_) => act::<Coherent>(),
        Err(_) => {}
    }
}

fn act<M: Mapped>() {
    let variable = |name| std::env::var(name).unwrap();
    let pool = Pool::<M>::open(variable("CENOTE_BESIDE_POOL"), &options()).unwrap();
    match &variable("CENOTE_BESIDE_ROLE")[..] {
        "join" => {
            let group = pool.group("theirs", TOKEN).unwrap();
            let _ = group.join("stopped");
        }
        "attach" => drop(pool.worker().unwrap()),
        name => drop(pool.drop_named(name).unwrap()),
    }
}

/// A pool with a group and an object store, both of which may be dropped.
fn pool<M: Mapped>(folder: &Path) -> Pool<M> {
    let pool = Pool::create(folder.join("pool"), &options()).unwrap();
    pool.group("group", TOKEN).unwrap();
    let objects = pool.objects("objects", &ObjectSettings::default()).unwrap();
    objects.insert(b"some", b"thing").unwrap();
    pool
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// Their dropper has died before it told anybody, and nobody comes by who would finish that.
fn waiters_are_told<M: Mapped>() {
    let folder = folder();
    let path = folder.path().join("pool");
    let pool = pool::<M>(folder.path());
    let waits = {
        let pool = pool.clone();
        let (objects, is_open) = channel();
        let waits = std::thread::spawn(move || {
            let store = pool.existing_objects("objects").unwrap();
            objects.send(()).unwrap();
            store.wait(b"never", LONG).map(|view| view.is_some())
        });
        is_open.recv().unwrap();
        waits
    };
    let mut observer = pool.existing_group("group", TOKEN).unwrap().observe().unwrap();
    for name in ["objects", "group"] {
        let ended = start::<M>(&path, name, "CENOTE_CRASH", "drop.marked:1")
            .wait()
            .unwrap();
        assert!(!ended.success(), "{ended}");
    }
    let told = observer.next(Some(LONG)).map(|event| event.is_some());
    assert!(matches!(told, Err(Error::Dropped)), "{told:?}");
    let told = waits.join().unwrap();
    assert!(matches!(told, Err(Error::Dropped)), "{told:?}");
    drop(observer);
    pool.recover().unwrap();
    pool.collect().unwrap();
    assert!(pool.fsck().unwrap().is_clean());
}

#[test]
fn waiters_are_told_what_a_dead_dropper_did_not_tell() {
    waiters_are_told::<Coherent>();
    waiters_are_told::<Noncoherent>();
}

/// A task that is woken meanwhile is told, and not woken again and again.
fn tasks_are_told<M: Mapped>() {
    let folder = folder();
    let pool = pool::<M>(folder.path());
    let mut observer = pool.existing_group("group", TOKEN).unwrap().observe().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut event = pin!(observer.next_event());
    assert!(event.as_mut().poll(&mut context).is_pending());
    let path = folder.path().join("pool");
    let mut dropper = start::<M>(&path, "group", "CENOTE_STOP", "drop.marked:1");
    assert!(wait_until_stopped(&dropper));
    let polled = event.as_mut().poll(&mut context);
    dropper.kill().unwrap();
    dropper.wait().unwrap();
    assert!(matches!(polled, Poll::Ready(Err(Error::Dropped))));
}

#[test]
fn tasks_are_told_what_a_stopped_dropper_has_not_told() {
    tasks_are_told::<Coherent>();
    tasks_are_told::<Noncoherent>();
}

/// A thread of no group dies, and a group has an event that is committed by somebody who is stopped.
#[test]
fn members_do_not_wait_for_who_is_stopped_in_another_group() {
    let folder = folder();
    let pool = pool::<Coherent>(folder.path());
    let ((ready, is_ready), (go, goes), (tell, told)) = (channel(), channel::<()>(), channel());
    let waits = {
        let pool = pool.clone();
        std::thread::spawn(move || {
            let mut observer = pool.existing_group("group", TOKEN).unwrap().observe().unwrap();
            ready.send(()).unwrap();
            goes.recv().unwrap();
            let found = observer.next(Some(Duration::from_millis(300)));
            tell.send(found.map(|event| event.is_some())).unwrap();
        })
    };
    is_ready.recv().unwrap();
    let path = folder.path().join("pool");
    let mut stopped = start::<Coherent>(&path, "join", "CENOTE_STOP", "group.committed:1");
    assert!(wait_until_stopped(&stopped));
    {
        let pool = pool.clone();
        let mortal = std::thread::spawn(move || std::mem::forget(pool.worker().unwrap()));
        mortal.join().unwrap();
    }
    go.send(()).unwrap();
    let found = told.recv_timeout(LONG);
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    waits.join().unwrap();
    assert!(matches!(found, Ok(Ok(false))), "{found:?}");
}

fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Its place was that of a worker that died, as its death slot says still.
#[test]
fn members_sleep_beside_who_is_stopped_as_it_attaches() {
    let folder = folder();
    let pool = pool::<Coherent>(folder.path());
    let group = pool.existing_group("group", TOKEN).unwrap();
    let mut member = group.join("member").unwrap();
    {
        let pool = pool.clone();
        let mortal = std::thread::spawn(move || {
            let group = pool.existing_group("group", TOKEN).unwrap();
            std::mem::forget(group.join("mortal").unwrap());
        });
        mortal.join().unwrap();
    }
    while member.next(Some(LONG)).unwrap().unwrap().kind != EventKind::Died {}
    let path = folder.path().join("pool");
    let mut stopped = start::<Coherent>(&path, "attach", "CENOTE_STOP", "attach.claimed:1");
    assert!(wait_until_stopped(&stopped));
    let (before, began) = (processor_time(), Instant::now());
    let second = Duration::from_secs(1);
    while began.elapsed() < second {
        let left = second.saturating_sub(began.elapsed());
        assert!(member.next(Some(left)).unwrap().is_none());
    }
    let used = processor_time() - before;
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    // Of the processor, however busy that is: a thread that sleeps needs some milliseconds.
    assert!(used < second / 5, "{used:?}");
}
