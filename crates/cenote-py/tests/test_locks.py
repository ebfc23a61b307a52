"""Locks, and what becomes of them when their owners die."""

import threading
import time
import typing

import pytest

import cenote


def test_a_lock_is_had_by_one(pool, program):
    lock = pool.lock("lock")
    with lock:
        assert lock.held and lock.recovered is None
        with pytest.raises(RuntimeError, match="already"):
            lock.acquire()
        child = program("""
            lock = pool.lock("lock")
            print(lock.acquire(blocking=False), lock.acquire(timeout=0.05), flush=True)
            with lock:
                print("mine", flush=True)
        """)
        assert child.line() == "False False"
    assert child.line() == "mine"
    child.end()
    with pytest.raises(RuntimeError, match="does not hold"):
        lock.release()
    with pytest.raises(RuntimeError, match="does not hold"):
        lock.recovered
    with pytest.raises(ValueError):
        lock.acquire(blocking=False, timeout=1)
    with pytest.raises(ValueError, match="seconds"):
        lock.acquire(timeout=-2)


def test_a_dead_owner_is_reported(pool, program):
    lock = pool.lock("lock")
    child = program("""
        lock = pool.lock("lock")
        lock.acquire()
        lock.set_note(17)
        print("mine", flush=True)
        time.sleep(1000)
    """)
    assert child.line() == "mine"
    assert not lock.acquire(timeout=0.05)
    child.kill()
    assert lock.acquire(timeout=30) and lock.recovered == 17
    token = lock.fencing_token()
    lock.release()
    with lock:
        assert lock.recovered is None and lock.fencing_token() > token


def test_a_thread_that_ends_with_a_lock_counts_as_dead(pool):
    lock = pool.lock("lock")
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
    assert lock.acquire(timeout=30) and lock.recovered == 0
    lock.release()


def test_threads_exclude_each_other_and_others_run_meanwhile(pool):
    lock, total = pool.lock("lock"), [0]

    def add():
        for _ in range(300):
            with lock:
                seen = total[0]
                time.sleep(0)
                total[0] = seen + 1

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total[0] == 1200


def test_a_reader_writer_lock(pool, program):
    lock = pool.rwlock("rw")
    with lock.read():
        assert lock.held == "read"
        child = program("""
            lock = pool.rwlock("rw")
            with lock.read():
                print("read", flush=True)
            print(lock.acquire_write(blocking=False), flush=True)
            with lock.write():
                print(lock.held, flush=True)
                input()
        """)
        assert child.line() == "read"
        assert child.line() == "False"
    assert child.line() == "write"
    with pytest.raises(TimeoutError):
        with lock.read(timeout=0.05):
            pass
    child.go()
    child.end()
    with lock.write():
        assert lock.recovered is None
    assert lock.held is None


def test_groups_notify_of_deaths(pool, program):
    group = pool.group("group", "secret")
    with group.join("parent") as parent:
        began = time.time_ns()
        event = parent.next(1)
        assert (event.number, event.kind, event.member) == (1, "joined", "parent")
        assert abs(event.time_ns - began) < 60 * 10**9
        child = program("""
            with pool.group("group", "secret").join("child") as membership:
                print("joined", flush=True)
                time.sleep(1000)
        """)
        assert child.line() == "joined"
        event = parent.next(30)
        assert (event.kind, event.member) == ("joined", "child")
        assert dict(group.members()) == {"parent": "joined", "child": "joined"}
        assert cenote.Member(name="child", status="joined") in group.members()
        with pytest.raises(cenote.MemberTakenError, match="child"):
            group.join("child")
        assert parent.next(0) is None
        child.kill()
        event = parent.next(30)
        assert (event.kind, event.member) == ("died", "child")
    assert {each.name: each.status for each in group.members()} == {"parent": "left", "child": "died"}
    with pytest.raises(cenote.WrongTokenError, match="token"):
        pool.group("group", "wrong")


def test_the_kinds_of_events_are_those_of_the_library():
    kinds = list(typing.get_args(cenote.EventKind))
    assert kinds == cenote._native._EVENT_KINDS and kinds[-1] == "host_died"


def test_a_lock_that_nobody_names_is_held(pool):
    assert pool.lock("lock").acquire()
    again = pool.lock("lock")
    with pytest.raises(cenote.DeadlockError):
        again.acquire(timeout=0.05)
    thread = threading.Thread(target=lambda: again.acquire(timeout=0.05) and again.release())
    thread.start()
    thread.join()


def test_locks_are_removed(pool, program):
    lock = pool.lock("lock")
    with lock, pytest.raises(cenote.DeadlockError):
        pool.remove_lock("lock")
    child = program("""
        with pool.lock("lock"):
            print("mine", flush=True)
            input()
    """)
    assert child.line() == "mine"
    for timeout in (0, 0.15):
        with pytest.raises(cenote.HeldError, match="lock"):
            pool.remove_lock("lock", timeout=timeout)
    threading.Timer(0.1, child.go).start()
    pool.remove_lock("lock")
    child.end()
    with pytest.raises(cenote.RemovedError):
        lock.acquire()
    with pool.lock("lock") as again:
        assert again.held


def test_a_pool_is_closed_while_somebody_waits_for_its_lock(path, program):
    pool = cenote.Pool(path)
    child = program("""
        with pool.lock("lock"):
            print("mine", flush=True)
            input()
        print("given back", flush=True)
    """)
    assert child.line() == "mine"
    lock, outcomes = pool.lock("lock"), []

    def wait():
        try:
            outcomes.append(lock.acquire(timeout=60))
        except cenote.ClosedError:
            outcomes.append("closed")

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    pool.close()
    child.go()
    assert child.line() == "given back"
    thread.join()
    assert outcomes == ["closed"]
    with cenote.Pool(path).lock("lock") as again:
        assert again.held


def test_a_handler_of_signals_leaves_a_group(pool):
    import signal

    membership = pool.group("group").join("me")
    before = signal.signal(signal.SIGALRM, lambda *_: membership.leave())
    try:
        assert membership.next(1).member == "me"
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(cenote.ClosedError):
            membership.next(30)
    finally:
        signal.signal(signal.SIGALRM, before)
