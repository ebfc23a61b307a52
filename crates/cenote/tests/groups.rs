//! Groups through the public interface: order, tokens, room, deaths, and all ways to receive events.

use std::future::Future;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use cenote::causes::Structure;
use cenote::group::{EventKind, Status};
use cenote::memory::{Mapped, SyncWord};
use cenote::pod::format::host_entry::HostInstance;
use cenote::pod::names::directory;
use cenote::{Coherent, Error, Group, GroupSize, Membership, Noncoherent, Options, Pool};

/// A sync word of a pool of this test, which is damaged on purpose.
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a word of a group's header, which the test has looked up.
    unsafe { SyncWord::at(at) }
}

const TOKEN: &[u8] = b"open sesame";
/// A machine on its own.
const HERE: HostInstance = HostInstance {
    host: 0,
    generation: 0,
};
/// Longer than anything here takes.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

fn pool<M: Mapped>(run: impl FnOnce(&Pool<M>, &std::path::Path)) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    let options = Options {
        size: 4 << 20,
        max: 1 << 30,
        ..Options::default()
    };
    let pool: Pool<M> = Pool::create(&path, &options).unwrap();
    run(&pool, &path);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// What is left to read, as text.
fn rest<M: Mapped>(membership: &mut Membership<M>) -> Vec<String> {
    std::iter::from_fn(|| membership.try_next().unwrap())
        .map(|event| format!("{} {} {}", event.number, event.kind.name(), event.member))
        .collect()
}

fn order<M: Mapped>() {
    pool::<M>(|pool, _| {
        let group = pool.group("g", TOKEN).unwrap();
        assert!(matches!(pool.group("g", b"guess"), Err(Error::WrongToken { .. })));
        assert!(matches!(
            pool.existing_group("h", TOKEN),
            Err(Error::NoSuch {
                kind: Structure::Group,
                ..
            })
        ));
        pool.map("m").unwrap();
        assert!(matches!(pool.group("m", TOKEN), Err(Error::OtherKind { .. })));
        assert!(matches!(pool.map("g").map(drop), Err(Error::OtherKind { .. })));
        assert!(matches!(group.join("").map(drop), Err(Error::InvalidName { .. })));

        let mut all = group.observe().unwrap();
        let mut one = group.join("one").unwrap();
        let two = group.join("two").unwrap();
        assert!(matches!(
            group.join("two").map(drop),
            Err(Error::MemberTaken { .. })
        ));
        two.leave().unwrap();
        let mut two = group.join("two").unwrap();
        assert_eq!(
            rest(&mut one),
            ["1 joined one", "2 joined two", "3 left two", "4 rejoined two"]
        );
        assert_eq!(rest(&mut two), ["4 rejoined two"]);
        cenote::pod::group::host_died(&*pool.worker().unwrap(), HERE).unwrap();
        cenote::pod::group::host_died(&*pool.worker().unwrap(), HERE).unwrap();
        let end = ["5 host died ", "6 died one", "7 died two"];
        assert_eq!(rest(&mut all)[4..], end);
        let members = group.members().unwrap();
        assert!(
            members.iter().all(|member| member.status == Status::Died),
            "{members:?}"
        );
        // They are out: no further events come.
        drop((one, two));
        assert_eq!(rest(&mut all), [""; 0]);
    });
}

#[test]
fn events_come_in_one_order() {
    order::<Coherent>();
}

#[test]
fn so_they_do_on_incoherent_memory() {
    order::<Noncoherent>();
}

#[test]
fn who_does_not_read_holds_up_joins_and_no_deaths() {
    pool::<Coherent>(|pool, _| {
        let size = GroupSize {
            members: 4,
            events: 11,
        };
        let group = pool.group_of_size("g", TOKEN, size).unwrap();
        let mut lazy = group.join("lazy").unwrap();
        let mut joined = 0;
        let full = loop {
            match group.join("busy") {
                Ok(membership) => membership.leave().unwrap(),
                Err(error) => break error,
            }
            joined += 1;
        };
        assert_eq!(joined, 3);
        assert!(
            matches!(&full, Error::GroupFull { slowest, behind: 7 } if slowest == "lazy"),
            "{full}"
        );
        assert_eq!(rest(&mut lazy).len(), 7);
        let _others: Vec<_> = (0..3).map(|n| group.join(&n.to_string()).unwrap()).collect();
        assert!(matches!(
            group.join("more").map(drop),
            Err(Error::GroupCrowded { limit: 4 })
        ));
        // Four ends and that of their host have room, though nobody reads.
        cenote::pod::group::host_died(&*pool.worker().unwrap(), HERE).unwrap();
    });
}

#[test]
fn all_are_told_of_a_death_in_their_own_way() {
    pool::<Coherent>(|pool, path| {
        let group = pool.group("g", TOKEN).unwrap();
        let (says, hears) = mpsc::channel();
        let listener = group
            .listen(Some("listener"), move |event| {
                let event = event.unwrap();
                if event.kind == EventKind::Died {
                    says.send(event.member).unwrap();
                }
            })
            .unwrap();
        // Joined before the task whose joining it waits for.
        let mut own = group.join("blocking").unwrap();
        let task = std::thread::spawn({
            let pool = pool.clone();
            move || {
                let group = pool.group("g", TOKEN).unwrap();
                let mut membership = group.join("task").unwrap();
                loop {
                    let event = block_on(membership.next_event()).unwrap();
                    if event.kind == EventKind::Died {
                        return event.member;
                    }
                }
            }
        });
        await_event(&mut own, "task", EventKind::Joined);
        for n in 0..5 {
            let mut victim = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "groups::victim", "--nocapture"])
                .env("CENOTE_GROUPS_POOL", path)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            await_event(
                &mut own,
                "victim",
                if n == 0 {
                    EventKind::Joined
                } else {
                    EventKind::Rejoined
                },
            );
            victim.kill().unwrap();
            await_event(&mut own, "victim", EventKind::Died);
            victim.wait().unwrap();
            assert_eq!(hears.recv().unwrap(), "victim");
        }
        assert_eq!(task.join().unwrap(), "victim");
        drop(listener);
        await_event(&mut own, "listener", EventKind::Left);
        let stat = pool.stat().unwrap();
        assert!(
            stat.recent.iter().any(|one| one.done.contains(&"groups")),
            "{stat:#?}"
        );
        assert_eq!(own.next(Some(Duration::ZERO)).unwrap(), None);
    });
}

/// Waits for one event and skips others.
fn await_event(membership: &mut Membership, member: &str, kind: EventKind) {
    loop {
        let event = membership.next(LONG).unwrap().expect("an event comes");
        if (event.member.as_str(), event.kind) == (member, kind) {
            return;
        }
    }
}

/// The victim's side; does nothing unless it is started as one.
#[test]
fn victim() {
    let Ok(path) = std::env::var("CENOTE_GROUPS_POOL") else {
        return;
    };
    let pool: Pool = Pool::open(path, &Options::default()).unwrap();
    let group: Group = pool.group("g", TOKEN).unwrap();
    let _membership = group.join("victim").unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Words of a group's header.
const LOCK_AT: u64 = 64;
const COMMIT_AT: u64 = 256;

/// Each check says that a word cannot be right; but a worker that may takes a lock that nobody alive has from the dead.
fn garbage<M: Mapped>() {
    pool::<M>(|pool, path| {
        drop(pool.group("g", TOKEN).unwrap().join("one").unwrap());
        let worker = pool.worker().unwrap();
        let at = directory::find(&*worker, "g").unwrap().unwrap().offset;
        // What no place has, and a place's generation to come.
        for (word, value) in [
            (LOCK_AT, 0xdead_beef_dead_beef),
            (LOCK_AT, 3 | 77 << 32),
            (COMMIT_AT, 0xdead_beef_dead_beef),
            (COMMIT_AT, 7),
        ] {
            let word = sync_word(at + word);
            let before = word.load(worker.mem());
            word.store(worker.mem(), value);
            let report = Pool::<M>::open_read_only(path, &Options::default())
                .unwrap()
                .fsck();
            word.store(worker.mem(), before);
            let report = report.unwrap();
            assert_eq!(report.problems.len(), 1, "{value:#x} at {word:?}: {report:#?}");
        }
        let commit = sync_word(at + COMMIT_AT);
        commit.store(worker.mem(), 0xdead_beef_dead_beef);
        let report = pool.fsck().unwrap();
        commit.store(worker.mem(), 0);
        assert_eq!(report.problems.len(), 1, "{report:#?}");
    });
}

#[test]
fn garbage_in_a_groups_words_is_seen() {
    garbage::<Coherent>();
    garbage::<Noncoherent>();
}
