//! Task lists through the public interface, on both backends: each result once, phases in order, work of the dead taken
//! over, costs as documented, damage that is an error.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use cenote::causes::Shortage;
use cenote::memory::{Counting, Counts, LINE, Mapped, SyncWord};
use cenote::pod::names::directory;
use cenote::{Coherent, Committed, Error, NextTask, Noncoherent, Options, Plan, Pool};
use rand::prelude::*;

/// A sync word.
#[inline(always)]
fn sync_word(at: u64) -> SyncWord {
    // SAFETY: a sync word of a pool of this test, which uses it in this way.
    unsafe { SyncWord::at(at) }
}

fn options() -> Options {
    Options {
        size: 1 << 20,
        max: 1 << 28,
        workers: 16,
        ..Options::default()
    }
}

fn with_pool<M: Mapped>(test: impl FnOnce(Pool<M>)) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    test(Pool::create(folder.path().join("pool"), &options()).unwrap());
}

fn on_both(coherent: impl FnOnce(Pool<Coherent>), noncoherent: impl FnOnce(Pool<Noncoherent>)) {
    with_pool(coherent);
    with_pool(noncoherent);
}

fn assert_clean<M: Mapped>(pool: &Pool<M>) {
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

/// A result that says which task it is of, of a length that any size of object may have.
fn result_of(task: u64, len: usize) -> Vec<u8> {
    task.to_le_bytes().iter().copied().cycle().take(len).collect()
}

fn one_of_each<M: Mapped>(pool: Pool<M>) {
    let tasks = pool.tasks("one", &Plan::single(5)).unwrap();
    assert_eq!(
        (tasks.len(), tasks.committed(), tasks.is_done().unwrap()),
        (5, 0, false)
    );
    assert_eq!(tasks.next().unwrap(), NextTask::Task(0));
    assert_eq!(tasks.commit(0, b"first").unwrap(), Committed::First);
    assert_eq!(tasks.commit(0, b"second").unwrap(), Committed::Second);
    assert_eq!(tasks.result(0).unwrap().as_deref(), Some(&b"first"[..]));
    assert!(tasks.result(1).unwrap().is_none());
    for (task, len) in [(1, 0), (2, 8), (3, 40_000), (4, 200_000)] {
        assert_eq!(
            tasks.commit(task, &result_of(task, len)).unwrap(),
            Committed::First
        );
    }
    for (task, len) in [(1, 0), (2, 8), (3, 40_000), (4, 200_000)] {
        assert_eq!(tasks.result(task).unwrap().unwrap()[..], result_of(task, len));
    }
    assert!(tasks.is_done().unwrap() && tasks.wait_all(None).unwrap());
    assert_eq!((tasks.next().unwrap(), tasks.committed()), (NextTask::Done, 5));
    assert_clean(&pool);
    // A discarded result counts as done, and its memory is free.
    for task in 0..5 {
        assert!(tasks.forget(task).unwrap());
        assert!(!tasks.forget(task).unwrap());
        assert!(tasks.result(task).unwrap().is_none() && tasks.has_result(task).unwrap());
        assert_eq!(tasks.commit(task, b"again").unwrap(), Committed::Second);
    }
    assert_eq!(tasks.next().unwrap(), NextTask::Done);
    let report = pool.fsck().unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert_eq!((report.tasks[0].done, report.tasks[0].results), (5, 0));
    assert_eq!(pool.stat().unwrap().tasks[0].done, 5);
}

#[test]
fn a_result_is_committed_once_and_forgotten_once() {
    on_both(one_of_each, one_of_each);
}

fn crowd<M: Mapped>(pool: Pool<M>) {
    let seed = crate::common::seed();
    let plan = Plan {
        phases: vec![300, 7, 1, 120],
        chunk: 5,
    };
    let firsts = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (pool, plan, firsts) = (&pool, &plan, &firsts);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed ^ thread);
                let tasks = pool.tasks("crowd", plan).unwrap();
                loop {
                    match tasks.take(2).unwrap() {
                        NextTask::Task(task) => {
                            let phase = tasks.position(task).unwrap().phase;
                            assert!(phase == 0 || tasks.is_phase_done(phase - 1).unwrap());
                            if random.random_range(0..20) == 0 {
                                // This thread gives the task up.
                                continue;
                            }
                            let value = task << 8 | thread;
                            if tasks.commit(task, &value.to_le_bytes()).unwrap() == Committed::First {
                                assert_eq!(firsts.lock().unwrap().insert(task, value), None);
                            }
                        }
                        NextTask::Wait => std::thread::yield_now(),
                        NextTask::Done => break,
                    }
                }
            });
        }
    });
    let tasks = pool.existing_tasks("crowd").unwrap();
    let firsts = firsts.into_inner().unwrap();
    assert_eq!((firsts.len() as u64, tasks.committed()), (428, 428));
    for (task, value) in firsts {
        assert_eq!(tasks.result(task).unwrap().unwrap()[..], value.to_le_bytes());
    }
    assert_clean(&pool);
}

#[test]
fn threads_do_each_task_once_and_phases_in_order() {
    on_both(crowd, crowd);
}

#[test]
fn a_living_worker_that_is_stuck_is_helped_and_then_replaced() {
    with_pool::<Coherent>(|pool| {
        let plan = Plan {
            phases: vec![8],
            chunk: 8,
        };
        let stuck = pool.tasks("stuck", &plan).unwrap();
        assert_eq!(stuck.next().unwrap(), NextTask::Task(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut tasks = pool.tasks("stuck", &plan).unwrap();
                tasks.set_timeout(Duration::from_millis(20));
                // From the other end, except the task that the owner is at; that is done when the timeout has ended.
                let mut order = Vec::new();
                tasks
                    .run(|task| {
                        order.push(task);
                        Ok::<_, Error>(Vec::new())
                    })
                    .unwrap();
                assert_eq!(order, [7, 6, 5, 4, 3, 2, 1, 0]);
            });
        });
        assert_eq!(stuck.commit(0, b"late").unwrap(), Committed::Second);
        assert_eq!(stuck.next().unwrap(), NextTask::Done);
        assert_clean(&pool);
    });
}

#[test]
fn an_error_leaves_the_task_to_a_later_call() {
    with_pool::<Coherent>(|pool| {
        let tasks = pool.tasks("errors", &Plan::single(3)).unwrap();
        let full = || Error::Full {
            needed: 1,
            why: Shortage::AtMaximum,
            largest: None,
        };
        tasks
            .run(|task| if task == 1 { Err(full()) } else { Ok(Vec::new()) })
            .unwrap_err();
        assert_eq!(tasks.committed(), 1);
        assert!(!tasks.wait_all(Some(Duration::from_millis(3))).unwrap());
        assert_eq!(tasks.run(|_| Ok::<_, Error>(Vec::new())).unwrap(), 2);
        assert!(tasks.is_done().unwrap());
    });
}

#[test]
fn what_cannot_be_is_refused() {
    with_pool::<Coherent>(|pool| {
        pool.map("map").unwrap();
        let refused = |result: cenote::Result<cenote::Tasks>| result.err().unwrap().to_string();
        assert!(refused(pool.tasks("none", &Plan::single(0))).contains("at least one task"));
        assert!(refused(pool.tasks("map", &Plan::single(1))).contains("no task list"));
        assert!(refused(pool.existing_tasks("list")).contains("no task list named"));
        let tasks = pool.tasks("list", &Plan::single(2)).unwrap();
        assert!(refused(pool.tasks("list", &Plan::single(3))).contains("another name"));
        assert!(pool.map("list").is_err());
        assert!(tasks.commit(2, b"").is_err() && tasks.result(2).is_err() && tasks.forget(2).is_err());
        assert_eq!(tasks.position(2), None);
    });
}

fn worked<M: Mapped>(pool: Pool<Counting<M>>) -> [Counts; 3] {
    let plan = Plan {
        phases: vec![4096],
        chunk: 64,
    };
    let tasks = pool.tasks("costs", &plan).unwrap();
    // The middle one of many: now and then there is a fresh chunk, a block, a chunk of a list.
    let mut counts: [Vec<Counts>; 3] = Default::default();
    let mut count = |n: usize, work: &dyn Fn()| {
        Counts::reset();
        work();
        counts[n].push(Counts::current());
    };
    let taken = std::cell::Cell::new(0);
    for _ in 0..1000 {
        count(0, &|| match tasks.next().unwrap() {
            NextTask::Task(task) => taken.set(task),
            other => panic!("{other:?}"),
        });
        count(1, &|| {
            assert_eq!(tasks.commit(taken.get(), &[1; 24]).unwrap(), Committed::First)
        });
        count(2, &|| {
            assert_eq!(tasks.commit(taken.get(), &[1; 24]).unwrap(), Committed::Second)
        });
    }
    counts.map(|mut counts| {
        counts.sort_by_key(|counts| counts.lines_from_memory() + 2 * counts.exchanges);
        counts[counts.len() / 2]
    })
}

#[test]
fn costs_are_those_of_the_documentation() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let [take, first, second] =
        worked::<Noncoherent>(Pool::create(folder.path().join("incoherent"), &options()).unwrap());
    assert_eq!(
        (take.sync_loads, take.exchanges, take.line_fetches),
        (2, 0, 0),
        "{take:?}"
    );
    assert_eq!((first.exchanges, first.sync_loads), (1, 1), "{first:?}");
    assert_eq!((second.exchanges, second.sync_loads), (0, 1), "{second:?}");
    let [take, first, _] =
        worked::<Coherent>(Pool::create(folder.path().join("coherent"), &options()).unwrap());
    assert_eq!((take.exchanges, take.fences), (0, 0), "{take:?}");
    assert_eq!(first.exchanges, 1, "{first:?}");
}

#[test]
fn damage_is_an_error() {
    let seed = crate::common::seed();
    let mut random = StdRng::seed_from_u64(seed);
    with_pool::<Coherent>(|pool| {
        let plan = Plan {
            phases: vec![20, 3],
            chunk: 4,
        };
        let tasks = pool.tasks("damaged", &plan).unwrap();
        for task in 0..10 {
            tasks.commit(task, &result_of(task, 100)).unwrap();
        }
        let worker = pool.worker().unwrap();
        let header = directory::find(&*worker, "damaged").unwrap().unwrap().offset;
        let mem = worker.mem();
        let slots = header + 128 + 16 * LINE + LINE + (6 * 16u64).next_multiple_of(LINE);
        let words = [0, 8, 16, 24, 32, 128 + 16 * LINE, 128 + 16 * LINE + 8];
        for word in words.map(|at| header + at).into_iter().chain(slots..slots + 10) {
            let (at, before) = (word & !7, sync_word(word & !7).load(mem));
            for _ in 0..20 {
                let value = match random.random_range(0..3) {
                    0 => before ^ 1 << random.random_range(0..64),
                    1 => random.random(),
                    _ => random.random_range(0..300),
                };
                sync_word(at).store(mem, value);
                let is_slot = word >= slots;
                assert!(
                    value == before || !pool.fsck().is_ok_and(|report| report.is_clean()),
                    "{value:#x} at {:#x} is not seen",
                    at - header
                );
                match is_slot {
                    true => drop(
                        tasks
                            .result((at - slots) / 8)
                            .map(|result| result.map(|r| r.len())),
                    ),
                    false => drop(pool.existing_tasks("damaged").and_then(|tasks| tasks.next())),
                }
                sync_word(at).store(mem, before);
            }
        }
        assert_clean(&pool);
    });
}
