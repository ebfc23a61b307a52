"""Handles of `cenote.ray`, and the leases behind them: without Ray, between any processes."""

import gc
import os
import pickle
import random
import signal
import threading
import time

import numpy
import pytest

import cenote
import cenote.ray

from conftest import check, in_child

KILLS = int(os.environ.get("CENOTE_HANDLE_KILLS", "10"))
SEED = int(os.environ.get("CENOTE_TEST_SEED", "1"))
LEASE = 1.0


@pytest.fixture
def store(path):
    store = cenote.ray.Store(path, lease=LEASE, size="1MiB", max="256MiB")
    yield store
    check(store.pool)
    store.close()


def until(is_so, what):
    """Waits for what happens soon."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end, f"this did not happen: {what}"
        time.sleep(0.02)


def nothing_is_left(store):
    gc.collect()
    until(lambda: len(store) == 0, "all objects are reclaimed")
    until(lambda: len(store.pool.map("ray leases")) == 1, "all entries of leases are removed")
    store.pool.recover()
    store.pool.collect()
    assert store.nbytes == 0
    report = store.pool.fsck()
    assert report["problems"] == [] and report["leaked_bytes"] == 0


PRODUCER = """
import cenote.ray, numpy, pickle
store = pickle.loads(bytes.fromhex({store!r}))
handles = [store.put(numpy.full(1000, n)) for n in range({count})]
print(pickle.dumps(handles).hex(), flush=True)
input()
"""


def producer(program, store, count=3):
    started = program(PRODUCER.format(store=pickle.dumps(store).hex(), count=count))
    return started, bytes.fromhex(started.line())


@pytest.mark.parametrize(
    "value",
    [
        numpy.arange(6.0).reshape(2, 3),
        numpy.arange(24).reshape(4, 6)[::2, ::3],
        numpy.array(5),
        numpy.zeros((0, 3), "u1"),
        numpy.array([True, False]),
        numpy.array([1 + 2j]),
        numpy.array([1, 2], ">i4"),
        numpy.array(["a", "b"]),
        numpy.array([1], "M8[s]"),
        numpy.zeros(2, [("a", "i4")]),
        {"frames": numpy.ones((3, 4), "f4"), "name": "x"},
        None,
    ],
    ids=repr,
)
def test_values_come_back(store, value):
    found = store.put(value).get()
    assert type(found) is type(value)
    numpy.testing.assert_equal(found, value)


def test_bytes_come_back(store):
    for value in (b"abc", bytearray(b"abc"), memoryview(b"abc"), b""):
        found = store.put(value).get()
        assert found.readonly and found == value


def test_arrays_are_not_copied(store):
    handle = store.put(numpy.arange(1000))
    one, other = handle.get(), handle.get()
    assert not one.flags.owndata and not one.flags.writeable
    assert numpy.shares_memory(one, other)
    frames = store.put([numpy.arange(1000)]).get()[0]
    assert not frames.flags.owndata and not frames.flags.writeable


def test_a_handle_is_small(store):
    handle = store.put(numpy.zeros(1_000_000))
    assert len(pickle.dumps(handle)) < 200
    again = pickle.loads(pickle.dumps(handle))
    assert again == handle and hash(again) == hash(handle) and (again.get() == 0).all()


def test_an_array_is_filled_where_it_is(store):
    writer, handle = store.create_array((3, 4), "f4")
    with pytest.raises(cenote.ray.LostError):
        handle.get()
    with writer:
        writer.array()[:] = 7
    assert (handle.get() == numpy.full((3, 4), 7, "f4")).all()
    given_up, other = store.create_array(5)
    given_up.abort()
    assert other.free() and handle.free()
    nothing_is_left(store)


def test_what_is_freed_is_gone_but_not_what_was_read(store):
    handle = store.put(numpy.arange(1000))
    array = handle.get()
    assert handle.free() and not handle.free()
    with pytest.raises(cenote.ray.LostError, match="it was freed"):
        handle.get()
    assert array.sum() == 499500
    assert store.nbytes > 0
    del array
    nothing_is_left(store)


def test_the_only_reader_takes(store):
    array = store.put(numpy.arange(1000)).take()
    assert array.sum() == 499500 and len(store) == 0
    del array
    nothing_is_left(store)


def test_a_time_to_live(store):
    handle = store.put(b"x", ttl=0.01)
    time.sleep(0.05)
    with pytest.raises(cenote.ray.LostError):
        handle.get()
    assert not handle._opened()._objects.delete(handle.id)
    handle.free()
    nothing_is_left(store)


def test_an_object_that_does_not_fit(store):
    with pytest.raises(cenote.FullError, match="do not fit"):
        store.put(numpy.zeros(1 << 28, "u1"))
    with pytest.raises(cenote.FullError):
        store.put({"array": numpy.zeros(1 << 28, "u1")})
    with pytest.raises(cenote.FullError):
        store.create_array(1 << 28, "u1")
    with pytest.raises(TypeError):
        store.put(numpy.zeros(3), ttl="soon")
    nothing_is_left(store)


def test_arguments_that_make_no_sense(path):
    for lease in (-1, 0.5, float("nan"), float("inf")):
        with pytest.raises(ValueError):
            cenote.ray.Store(path, lease=lease)
    assert not path.exists()


def test_a_killed_producers_objects(store, program):
    started, handles = producer(program, store)
    first, second, third = pickle.loads(handles)
    array = first.get()
    del first, third
    started.kill()
    # Who reads goes on; who has a handle adopts the object; the others are reclaimed.
    until(lambda: len(store) == 1, "objects that nobody has a handle of are reclaimed")
    time.sleep(2 * LEASE)
    assert (array == 0).all() and (second.get() == 1).all()
    for lost in pickle.loads(handles)[::2]:
        with pytest.raises(cenote.ray.LostError, match="has ended"):
            lost.get()
    del lost, second
    until(lambda: len(store) == 0, "an adopted object is given up when the last handle has gone")
    assert (array == 0).all()
    del array
    nothing_is_left(store)


def test_a_handle_that_arrives_late(store, program):
    started, handles = producer(program, store)
    started.kill()
    until(lambda: store._leases._ended, "the death is noticed")
    handles = pickle.loads(handles)
    time.sleep(2 * LEASE)
    assert [handle.get()[0] for handle in handles] == [0, 1, 2]
    del handles
    nothing_is_left(store)


def test_a_producer_that_ends(store, program):
    started, handles = producer(program, store)
    kept = pickle.loads(handles)[0]
    gc.collect()
    started.go()
    started.end()
    until(lambda: len(store) == 1, "what nobody has a handle of is reclaimed")
    assert (kept.get() == 0).all() and kept.free()
    nothing_is_left(store)


def test_an_adopter_that_is_killed_has_an_adopter(store, program):
    started, handles = producer(program, store, count=1)
    adopter = program(
        f"""
        import cenote.ray, pickle
        (handle,) = pickle.loads(bytes.fromhex({handles.hex()!r}))
        assert (handle.get() == 0).all()
        print("ready", flush=True)
        input()
        """
    )
    assert adopter.line() == "ready"
    holders = store.pool.map("ray leases")
    (id,) = [id for id in holders if id != b"lease"]
    dead = holders[id]
    started.kill()
    until(lambda: holders[id] != dead, "the object is adopted")
    (handle,) = pickle.loads(handles)
    adopter.kill()
    until(lambda: holders[id] == store._leases.holder, "the object is adopted once more")
    time.sleep(2 * LEASE)
    assert (handle.get() == 0).all()
    del handle
    nothing_is_left(store)


def test_an_adopter_whose_handle_goes_has_an_adopter(store, program):
    started, handles = producer(program, store, count=1)
    adopter = program(
        f"""
        import cenote.ray, pickle
        (handle,) = pickle.loads(bytes.fromhex({handles.hex()!r}))
        print("ready", flush=True)
        input()
        del handle
        print("gone", flush=True)
        input()
        """
    )
    assert adopter.line() == "ready"
    holders = store.pool.map("ray leases")
    (id,) = [id for id in holders if id != b"lease"]
    dead = holders[id]
    started.kill()
    until(lambda: holders[id] != dead, "the object is adopted")
    (handle,) = pickle.loads(handles)
    adopter.go()
    assert adopter.line() == "gone"
    until(lambda: holders[id] == store._leases.holder, "the object is adopted once more")
    time.sleep(2 * LEASE)
    assert (handle.get() == 0).all()
    del handle
    nothing_is_left(store)


def test_a_producer_that_is_stopped_keeps_its_leases(store, program):
    started, handles = producer(program, store)
    started.process.send_signal(signal.SIGSTOP)
    time.sleep(3 * LEASE)
    assert len(store) == 3
    started.process.send_signal(signal.SIGCONT)
    assert [handle.get()[0] for handle in pickle.loads(handles)] == [0, 1, 2]
    started.kill()
    nothing_is_left(store)


def test_if_all_are_dead_the_next_one_reclaims(path, program):
    cenote.Pool(path, size="1MiB", max="256MiB").close()
    first = program(
        f"""
        import cenote.ray, numpy
        store = cenote.ray.Store({str(path)!r}, lease={LEASE})
        handles = [store.put(numpy.ones(1000)) for _ in range(10)]
        print("ready", flush=True)
        input()
        """
    )
    assert first.line() == "ready"
    first.kill()
    with cenote.ray.Store(path, lease=99) as store:
        assert store.lease == LEASE and len(store) == 10
        nothing_is_left(store)


WRITER = """
import cenote.ray, numpy, pickle
store = pickle.loads(bytes.fromhex({store!r}))
print("ready", flush=True)
handles = []
for n in range(100_000):
    handles.append(store.put(numpy.full(n % 5000, n)))
    if len(handles) > 20:
        handles.pop(0).free()
"""


def test_killed_writers_leave_nothing(store, program):
    print("seed", SEED)
    chance = random.Random(SEED)
    for _ in range(KILLS):
        writer = program(WRITER.format(store=pickle.dumps(store).hex()))
        assert writer.line() == "ready"
        time.sleep(chance.uniform(0, 0.2))
        writer.kill()
    nothing_is_left(store)


def test_a_reader_and_a_producer_that_end_at_once(store, program):
    print("seed", SEED)
    chance = random.Random(SEED)
    for _ in range(KILLS):
        started, handles = producer(program, store, count=1)
        reader = program(
            f"""
            import cenote.ray, pickle
            (handle,) = pickle.loads(bytes.fromhex({handles.hex()!r}))
            array = handle.get()
            print("ready", flush=True)
            input()
            """
        )
        assert reader.line() == "ready"
        (handle,) = pickle.loads(handles)
        assert handle.free()
        reader.process.send_signal(signal.SIGKILL)
        time.sleep(chance.choice([0, 0.001, 0.005]))
        # It may be in the middle of recovering the reader.
        started.go() if chance.random() < 0.5 else started.kill()
        until(lambda: store.nbytes == 0, "what the reader had a view of comes back")
        del handle
    nothing_is_left(store)


def test_threads_put_and_free(store):
    def work():
        for n in range(200):
            handle = store.put(numpy.full(100, n))
            assert (pickle.loads(pickle.dumps(handle)).get() == n).all()
            assert handle.free()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    nothing_is_left(store)


def test_one_of_many_frees(store):
    handles = [store.put(n) for n in range(100)]
    freed = []

    def work():
        freed.extend(handle.free() for handle in handles)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(freed) == 100
    nothing_is_left(store)


def test_the_pools_file_is_deleted(store, path):
    handle = store.put(numpy.arange(10))
    pickled = pickle.dumps(handle)
    path.unlink()
    # Who has it open goes on.
    assert pickle.loads(pickled).get().sum() == 45
    moved = pickled.replace(b"/pool", b"/none")
    lost = pickle.loads(moved)
    with pytest.raises(cenote.ray.LostError, match="there is no such pool"):
        lost.get()
    with pytest.raises(cenote.ray.LostError):
        lost.free()
    cenote.Pool(path.with_name("none")).close()
    with pytest.raises(cenote.Error, match="another pool has been made"):
        pickle.loads(moved).get()


def test_a_closed_store(path):
    store = cenote.ray.Store(path, lease=LEASE, size="1MiB", max="64MiB")
    handle = store.put(numpy.arange(10))
    array = handle.get()
    store.close()
    store.close()
    assert array.sum() == 45
    with pytest.raises(cenote.Error):
        store.put(1)
    del array
    with cenote.ray.Store(path) as other:
        nothing_is_left(other)


def test_a_fork_has_leases_of_its_own(store):
    handle = store.put(numpy.arange(10))

    def child():
        assert handle.get().sum() == 45
        other = store.put(numpy.arange(5))
        assert other.get().sum() == 10 and store._leases.holder != holder
        assert pickle.loads(pickle.dumps(handle)).get().sum() == 45

    holder = store._leases.holder
    in_child(child)
    until(lambda: len(store) == 1, "what the child has put is reclaimed")
    assert handle.get().sum() == 45 and handle.free()
    nothing_is_left(store)
