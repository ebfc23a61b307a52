"""Objects by many at a time, and what remains if one of them fails."""

import functools
import gc
import itertools
import signal
import threading

import numpy
import pytest

import cenote


@pytest.fixture
def objects(pool):
    yield pool.objects("objects")
    gc.collect()
    pool.collect()


def test_many_are_stored_viewed_and_deleted(objects):
    array = numpy.arange(6.0).reshape(2, 3)
    assert objects.put("b", b"here before")
    stored = objects.put_many({"a": b"one", "b": b"two", "c": array}, metadata=b"note", ttl=1000)
    assert stored == [True, False, True]
    assert objects.put_many([]) == [] and objects.get_many(()) == [] and objects.delete_many({}) == 0

    one, two, none, three, again = objects.get_many(["a", b"b", "none", bytearray(b"c"), "a"])
    assert (bytes(one), bytes(two), none, bytes(again)) == (b"one", b"here before", None, b"one")
    assert (three.array() == array).all() and three.array().shape == (2, 3) and three.id == b"c"
    assert one.metadata == three.metadata == b"note" and two.metadata == b"" and one.expires and not two.expires

    pairs = ((name, name.upper()) for name in ["a", "d"])
    assert objects.put_many(pairs, overwrite=True) == [True, True]
    assert [bytes(view) for view in objects.get_many("ad"[n] for n in range(2))] == [b"A", b"D"]
    assert bytes(one) == b"one"
    assert objects.delete_many(["a", "none", "c", "a"]) == 2
    assert set(objects) == {b"b", b"d"} and bytes(three)[:8] == bytes(8)
    assert objects.delete_many(objects) == 2


def test_a_batch_as_large_as_it_likes(objects):
    numbers = range(5000)
    assert all(objects.put_many((b"%d" % n, b"%d" % (n * n)) for n in numbers))
    views = objects.get_many(f"{n}" for n in numbers)
    assert [bytes(view) for view in views] == [b"%d" % (n * n) for n in numbers]
    assert objects.delete_many(f"{n}" for n in range(-10, 5000)) == 5000
    assert list(objects) == []


def test_an_error_in_the_middle_leaves_what_was_before(pool):
    objects = pool.objects("small", quota=100_000)
    objects.put("b", b"here before")
    items = [("a", b"a" * 1000), ("b", b"b"), ("c", b"c" * 200_000), ("d", b"d")]
    with pytest.raises(cenote.QuotaError) as failed:
        objects.put_many(items)
    assert failed.value.stored == [True, False]
    assert failed.value.__notes__ == ["put_many failed at item 2, counted from 0; of those before it, 1 were stored"]
    assert set(objects) == {b"a", b"b"} and bytes(objects["a"]) == b"a" * 1000
    # From there on again, as the list says.
    del items[len(failed.value.stored)]
    assert objects.put_many(items[len(failed.value.stored) :]) == [True]


def test_items_that_are_none(objects):
    for wrong in [("b", 7), (7, b"b"), "bc", ("b",), ["b", b"c", b"d"], None]:
        with pytest.raises(TypeError) as failed:
            objects.put_many([["a", b"a"], wrong, ("z", b"z")], overwrite=True)
        assert failed.value.stored == [True] and set(objects) == {b"a"}

    def items():
        yield "generated", b"g"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as failed:
        objects.put_many(items())
    assert failed.value.stored == [True] and "generated" in objects
    with pytest.raises(ValueError, match="ttl"):
        objects.put_many(items(), ttl=0)

    # Nothing is viewed, and nothing deleted, if one of the ids is none.
    for many in (objects.get_many, objects.delete_many):
        with pytest.raises(TypeError, match="not int"):
            many(["a", 7])
        for one in ("a", b"a"):
            with pytest.raises(TypeError, match="several ids"):
                many(one)
    assert "a" in objects


def test_a_closed_pool_in_the_middle(path):
    pool = cenote.Pool(path)
    objects = pool.objects("objects")

    def items():
        yield "a", b"a"
        pool.close()
        yield "b", b"b"

    with pytest.raises(cenote.ClosedError) as failed:
        objects.put_many(items())
    assert failed.value.stored == [True]
    for many in (objects.get_many, objects.delete_many):
        with pytest.raises(cenote.ClosedError) as failed:
            many(["a"])
        assert getattr(failed.value, "deleted", 0) == 0
    with cenote.Pool(path) as again:
        assert list(again.objects("objects")) == [b"a"]


def test_a_signal_ends_a_batch(objects):
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    # No code of Python's runs between these.
    items, before = itertools.repeat(("a", b"a"), 5_000_000), signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Stop) as failed:
            objects.put_many(items)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert 0 < len(failed.value.stored) < 5_000_000 and failed.value.stored[:2] == [True, False]


def test_other_threads_run_meanwhile(objects):
    given = {}

    def end_the_batch():
        while "first" not in objects:
            pass
        given["next"] = "end"

    # No code of Python's runs between these, which would let the thread run.
    items = iter(functools.partial(given.get, "next", ("a", b"a")), "end")
    thread = threading.Thread(target=end_the_batch)
    thread.start()
    stored = objects.put_many(itertools.chain([("first", b"")], itertools.islice(items, 5_000_000)))
    thread.join()
    assert len(stored) < 5_000_001
