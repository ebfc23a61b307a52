//! Who is recovered, by whom, with which hooks, and what becomes of what cannot be recovered.

use super::tests::{Dying, Scene, one, place_of};
use super::*;
use crate::memory::SyncWord;
use crate::memory::checked::sync_word;
use crate::memory::{Coherent, Mapped};
use crate::pod::Pod;
use crate::pod::format::geometry::FRAME;
use crate::pod::instance::hooks::{Hooks, Step, StepOutcome};
use crate::pod::instance::limits::Limits;
use crate::pod::pool_for_tests::{TestPool, hooks, on_both, waiting_in};

/// Has a damaged record recovered: everything is as it was found, and counted as failed.
fn fails<M: Mapped>(pool: &TestPool<M>, worker: &Worker<M>, scene: &Scene, what: &str) {
    let place = place_of(scene.dead);
    scene.dead.record.announced().store(&pool.mem, 5);
    let state = pool.state(place);
    let recovered = recover_dead(worker).unwrap();
    assert_eq!(
        (recovered.failed, recovered.workers, recovered.processes),
        (1, 0, 0),
        "{what}"
    );
    assert_eq!(pool.state(place), state, "{what}");
    assert_eq!(scene.dead.record.announced().load(&pool.mem), 5, "{what}");
    assert_eq!(worker.pod().failures().len(), 1, "{what}");
    assert!(
        !waiting_in(worker, scene.dead.record).contains(&scene.old),
        "{what}"
    );
}

fn an_operation_of_no_kind_is_told_and_left<M: Mapped>() {
    for kind in [5, 77, u64::MAX] {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let scene = Dying::new(&pool).intends(kind).dies(&pool);
        fails(&pool, &worker, &scene, &format!("{kind}"));
    }
}

fn a_slot_that_can_be_none_is_told_and_its_record_left<M: Mapped>() {
    for kind in [operation::PUT, operation::REMOVE] {
        let pool = TestPool::<M>::of_frames(8);
        let worker = pool.worker();
        let scene = Dying::new(&pool).intends(kind).dies(&pool);
        let data = pool.geometry.data;
        for slot in [0, 64, data + 4, data + 8 * FRAME, !7] {
            let word = scene.dead.record.slot();
            word.set(&pool.mem, slot);
            pool.mem.persist(word.offset(), 8);
            fails(&pool, &worker, &scene, &format!("{kind} {slot:#x}"));
        }
    }
}

fn a_counter_that_can_be_none_is_told_and_its_record_left<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool).intends(operation::COMMITTED).dies(&pool);
    for counter in [8, pool.geometry.data + 4, pool.geometry.data + 8 * FRAME] {
        let word = scene.dead.record.counter();
        word.set(&pool.mem, counter);
        pool.mem.persist(word.offset(), 8);
        fails(&pool, &worker, &scene, &format!("{counter:#x}"));
    }
}

fn what_was_told_is_recovered_once_it_is_mended<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    let word = scene.dead.record.slot();
    word.set(&pool.mem, 4);
    pool.mem.persist(word.offset(), 8);
    fails(&pool, &worker, &scene, "damaged");
    word.set(&pool.mem, scene.slot.offset());
    pool.mem.persist(word.offset(), 8);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    scene.is_recovered(&pool);
    assert!(worker.pod().failures().is_empty());
}

fn one_record_that_is_damaged_keeps_no_other_from_being_recovered<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let damaged = Dying::new(&pool).intends(77).dies(&pool);
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    let recovered = recover_dead(&worker).unwrap();
    assert_eq!(
        (recovered.failed, recovered.workers, recovered.processes),
        (1, 1, 1)
    );
    scene.is_recovered(&pool);
    assert_eq!(pool.state(place_of(damaged.dead)).phase, Phase::Alive);
}

/// Says of a place that a recoverer has claimed it.
fn claim_for<M: Mapped>(pool: &TestPool<M>, recoverer: &Worker<M>, dead: Actor) -> State {
    let claim = recoverer.claim(pool.state(place_of(dead)).generation);
    dead.record.state().store(&pool.mem, claim.encode());
    claim
}

fn a_claim_of_a_dead_recoverer_is_taken_over<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, recoverer) = (pool.worker(), pool.worker());
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    claim_for(&pool, &recoverer, scene.dead);
    pool.kill(recoverer);
    let recovered = recover_dead(&worker).unwrap();
    assert_eq!(
        (recovered.workers, recovered.processes, recovered.undone),
        (2, 2, 1)
    );
    scene.is_recovered(&pool);
}

fn a_claim_of_a_living_recoverer_is_left_to_it<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, recoverer) = (pool.worker(), pool.worker());
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    let claim = claim_for(&pool, &recoverer, scene.dead);
    let recovered = recover_dead(&worker).unwrap();
    assert_eq!((recovered.workers, recovered.undone, recovered.failed), (0, 0, 0));
    assert_eq!(pool.state(place_of(scene.dead)), claim);
    assert_eq!(scene.dead.record.operation().peek(&pool.mem), operation::PUT);
}

fn a_claim_of_a_place_that_is_not_there_is_taken_over<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    let claim = State {
        phase: Phase::Recovering,
        process: 0xffff,
        ..pool.state(place_of(scene.dead))
    };
    scene.dead.record.state().store(&pool.mem, claim.encode());
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
    scene.is_recovered(&pool);
}

fn a_state_that_is_none_keeps_nobody_from_recovering_others<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let damaged = pool.worker();
    damaged.record().state().store(&pool.mem, 0xff);
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    let recovered = recover_dead(&worker).unwrap();
    assert_eq!(recovered.undone, 1);
    scene.is_recovered(&pool);
    std::mem::forget(damaged);
}

#[test]
fn a_thread_that_died_alone_is_recovered_and_its_process_stays() {
    let pool = TestPool::<Coherent>::of_frames(8);
    let worker = pool.worker();
    let other = pool.join();
    let dead = std::thread::scope(|scope| {
        let dying = scope.spawn(|| {
            let worker = Worker::attach(&other, false).unwrap();
            let actor = worker.actor();
            std::mem::forget(worker);
            actor
        });
        dying.join().unwrap()
    });
    let recovered = recover_dead(&worker).unwrap();
    assert_eq!(
        (recovered.workers, recovered.processes, recovered.failed),
        (1, 0, 0)
    );
    assert_eq!(pool.state(place_of(dead)).phase, Phase::Free);
    let entry = ProcessRecord::new(&pool.geometry, other.index())
        .state()
        .load(&pool.mem);
    assert_eq!(State::decode(entry).phase, Phase::Alive);
}

fn all_workers_of_a_dead_process_are_recovered_and_its_place_once<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let process = pool.join();
    let workers = [(); 3].map(|()| Worker::attach(&process, false).unwrap());
    let [first, second, third] = workers;
    let places = [&first, &second, &third].map(|worker| place_of(worker.actor()));
    std::mem::forget((first, second, process));
    pool.kill(third);
    let expected = Recovered {
        workers: 3,
        ..one(0, 0)
    };
    assert_eq!(recover_dead(&worker).unwrap(), expected);
    for place in places {
        assert_eq!(pool.state(place).phase, Phase::Free);
    }
}

fn generations_go_on_from_their_beginning_and_the_last_one_is_recovered<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = pool.worker();
    let place = u32::from(worker.me());
    // The next to come gets the last generation there is, and the one after that the first.
    pool.record(place)
        .state()
        .store(&pool.mem, State::free(u32::MAX - 1).encode());
    for generation in [u32::MAX, 0] {
        let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
        assert_eq!(
            (place_of(scene.dead), pool.state(place).generation),
            (place, generation)
        );
        assert_eq!(recover_dead(&worker).unwrap(), one(0, 1));
        assert_eq!(pool.state(place), State::free(generation));
    }
}

fn a_worker_that_recovers_with<M: Mapped>(pool: &TestPool<M>, hooks: Hooks<M>) -> Worker<M> {
    let pod: std::sync::Arc<Pod<M>> = pool.join_with(Limits::usual::<M>(), hooks);
    Worker::attach(&pod, false).unwrap()
}

/// Says in a word of the superblock's page that nobody uses here in what phase it found the dead.
fn note_phase<M: Memory>(worker: &Worker<M>, dead: Dead) -> Result<StepOutcome> {
    let state = WorkerRecord::new(worker.geometry(), dead.index)
        .state()
        .load(worker.mem());
    LOGGED_PHASE.store(worker.mem(), 1 + State::decode(state).phase as u64);
    Ok(StepOutcome::Recovered)
}

const LOGGED_PHASE: SyncWord = sync_word(4032);

fn registered_steps_are_run_before_the_record_is_claimed<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = a_worker_that_recovers_with(
        &pool,
        Hooks {
            steps: &[Step {
                name: "a test's",
                run: note_phase,
            }],
            ..hooks()
        },
    );
    let dead = pool.worker();
    pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert_eq!(LOGGED_PHASE.load(&pool.mem), 1 + Phase::Alive as u64);
}

fn a_step_that_fails_is_told_and_keeps_nothing_from_being_recovered<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = a_worker_that_recovers_with(
        &pool,
        Hooks {
            steps: &[
                Step {
                    name: "one that fails",
                    run: |_, _| Err(Error::corrupt("a test's structure", 8)),
                },
                Step {
                    name: "another",
                    run: note_phase,
                },
            ],
            ..hooks()
        },
    );
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    let expected = Recovered {
        failed: 1,
        ..one(0, 1)
    };
    assert_eq!(recover_dead(&worker).unwrap(), expected);
    scene.is_recovered(&pool);
    assert_ne!(LOGGED_PHASE.load(&pool.mem), 0, "the step after it was run");
}

fn a_damaged_lock_keeps_the_place_and_no_memory<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let worker = a_worker_that_recovers_with(
        &pool,
        Hooks {
            recover_held: |_, _| Err(Error::corrupt("a test's lock", 8)),
            ..hooks()
        },
    );
    let scene = Dying::new(&pool).intends(operation::PUT).dies(&pool);
    let recovered = recover_dead(&worker).unwrap();
    assert_eq!(
        (recovered.workers, recovered.processes, recovered.failed),
        (0, 0, 1)
    );
    assert_eq!(pool.state(place_of(scene.dead)).phase, Phase::Alive);
    let record = scene.dead.record;
    assert_eq!(record.announced().load(&pool.mem), IDLE);
    assert_eq!(record.operation().peek(&pool.mem), operation::NONE);
}

fn a_level_that_the_dead_was_retiring_is_finished_by_its_index<M: Mapped>() {
    let pool = TestPool::<M>::of_frames(8);
    let (worker, dead) = (pool.worker(), pool.worker());
    dead.record().root().set(&pool.mem, 4096);
    dead.record().write_back(&pool.mem);
    let dead = pool.kill(dead);
    assert_eq!(recover_dead(&worker).unwrap(), one(0, 0));
    assert_eq!(dead.record.root().peek(&pool.mem), 0, "the hook has been called");
}

on_both! {
    an_operation_of_no_kind_is_told_and_left,
    a_slot_that_can_be_none_is_told_and_its_record_left,
    a_counter_that_can_be_none_is_told_and_its_record_left,
    what_was_told_is_recovered_once_it_is_mended,
    one_record_that_is_damaged_keeps_no_other_from_being_recovered,
    a_claim_of_a_dead_recoverer_is_taken_over,
    a_claim_of_a_living_recoverer_is_left_to_it,
    a_claim_of_a_place_that_is_not_there_is_taken_over,
    a_state_that_is_none_keeps_nobody_from_recovering_others,
    all_workers_of_a_dead_process_are_recovered_and_its_place_once,
    generations_go_on_from_their_beginning_and_the_last_one_is_recovered,
    registered_steps_are_run_before_the_record_is_claimed,
    a_step_that_fails_is_told_and_keeps_nothing_from_being_recovered,
    a_damaged_lock_keeps_the_place_and_no_memory,
    a_level_that_the_dead_was_retiring_is_finished_by_its_index,
}
