"""Objects: what is put is viewed where it is, and stays as long as somebody looks."""

import asyncio
import gc
import pickle
import time

import numpy
import pytest

import cenote
from conftest import in_child


@pytest.fixture
def objects(pool):
    yield pool.objects("objects")
    gc.collect()
    pool.collect()


def test_objects_are_bytes(objects):
    assert objects.put("one", b"first", metadata="about it")
    assert not objects.put("one", b"second")
    view = objects["one"]
    assert bytes(view) == b"first" and view.metadata == b"about it" and view.id == b"one"
    assert len(view) == view.nbytes == 5 and memoryview(view).readonly
    assert objects.put("one", b"second", overwrite=True)
    assert bytes(view) == b"first" and bytes(objects["one"]) == b"second"
    assert "one" in objects and objects.get("two") is None and objects.get("two", 7) == 7
    del objects["one"]
    assert bytes(view) == b"first" and "one" not in objects
    with pytest.raises(KeyError, match="one"):
        objects["one"]
    with pytest.raises(KeyError, match="one"):
        del objects["one"]
    assert objects.put("empty", b"") and bytes(objects["empty"]) == b""


@pytest.mark.parametrize("dtype", ["u1", "?", "i2", "f2", "f4", "f8", "c16", "i8"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4), (100, 1000)])
def test_arrays_come_back_as_arrays(objects, dtype, shape):
    array = (numpy.arange(numpy.prod(shape)) % 100).astype(dtype).reshape(shape)
    assert objects.put("array", array, metadata=b"note", overwrite=True)
    view = objects["array"]
    found = view.array()
    assert found.dtype == array.dtype and found.shape == array.shape and (found == array).all()
    assert not found.flags.writeable and view.metadata == b"note"
    # No copy: it lies where the view lies.
    address = numpy.frombuffer(view, "u1").ctypes.data if array.size else None
    assert address is None or (found.ctypes.data == address and address % 64 == 0)
    same = numpy.from_dlpack(view)
    assert (same == array).all() and (same.size == 0 or same.ctypes.data == found.ctypes.data)


def test_arrays_in_another_order_are_stored_in_order(objects):
    array = numpy.arange(24).reshape(2, 3, 4)
    for n, odd in enumerate([array.T, array[:, ::-1], array[:, :, 1], numpy.asfortranarray(array)]):
        assert objects.put(f"{n}", odd)
        assert (objects[f"{n}"].array() == odd).all()


def test_an_object_is_filled_where_it_is(objects):
    with objects.create_array("array", (10, 3), "f4", metadata="made") as new:
        new.array()[:] = 7
        assert "array" not in objects
    assert (objects["array"].array() == numpy.full((10, 3), 7, "f4")).all()
    assert objects.create("array", 10) is None

    writer = objects.create("bytes", 5)
    memory = memoryview(writer)
    with pytest.raises(BufferError, match="1 buffers still refer"):
        writer.seal()
    memory[:] = b"12345"
    memory.release()
    assert writer.seal()
    with pytest.raises(cenote.ClosedError):
        writer.seal()
    with pytest.raises(BufferError, match="sealed or given up"):
        memoryview(writer)
    assert bytes(objects["bytes"]) == b"12345"


def test_what_is_not_sealed_is_gone(objects):
    with pytest.raises(ZeroDivisionError):
        with objects.create("given up", 1000):
            1 / 0
    assert objects.put("given up", b"another")
    objects.create("dropped", 1000)
    gc.collect()
    assert objects.put("dropped", b"another")
    writer = objects.create("late", 4)
    writer.abort()
    writer.abort()
    assert "late" not in objects


def test_of_two_writers_the_first_to_seal_stays(objects):
    first, second = objects.create("object", 4), objects.create("object", 4)
    for writer, text in ((first, b"one."), (second, b"two.")):
        memoryview(writer)[:] = text
    assert second.seal() and not first.seal()
    assert bytes(objects["object"]) == b"two." and objects.create("object", 4) is None
    with pytest.raises(FileExistsError, match="object"):
        with objects.create("other", 1), objects.create("other", 1):
            pass


def test_a_view_is_released_when_nothing_refers_to_it(pool, objects):
    objects.put("array", numpy.arange(1000))
    view = objects["array"]
    array = view.array()[10:20]
    with pytest.raises(BufferError, match="still refer"):
        view.release()
    with pytest.raises(BufferError, match="1 views"):
        pool.close()
    del view
    gc.collect()
    assert objects.delete("array")
    before = objects.nbytes
    assert (array == numpy.arange(10, 20)).all()
    del array
    gc.collect()
    assert objects.nbytes == 0 < before
    objects.put("object", b"bytes")
    with pytest.raises(TypeError, match="read-only"):
        memoryview(objects["object"])[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        objects["object"].array()[0] = 1


def test_views_and_contexts(objects):
    objects.put("object", b"bytes")
    with objects["object"] as view:
        assert not view.released
    assert view.released and "released" in repr(view)
    with pytest.raises(BufferError):
        memoryview(view)
    with pytest.raises(cenote.ClosedError):
        bytes(view)


def test_a_cache_evicts(pool):
    cache = pool.objects("cache", evict=True, quota=1 << 20)
    kept = None
    for n in range(1000):
        assert cache.put(f"{n}", b"v" * 10_000)
        kept = kept or cache["0"]
    assert 50 < len(list(cache)) < 110
    assert bytes(kept) == b"v" * 10_000
    found = cache.evictions
    assert found.objects > 800 and found.nbytes > 8_000_000 and found.mean_age >= 0
    assert cache.evict(100_000) >= 100_000
    small = pool.objects("small", quota=100_000)
    with pytest.raises(cenote.QuotaError):
        small.put("large", b"v" * 200_000)


def test_times_to_live(objects):
    objects.put("short", b"lived", ttl=0.05)
    objects.put("long", b"lived", ttl=1000)
    view = objects["short"]
    assert objects.stat("long").expires > time.time() + 900
    time.sleep(0.1)
    assert "short" not in objects and bytes(view) == b"lived"
    assert [each.id for each in objects.list()] == [b"long"]


def test_what_is_known_of_objects(objects):
    objects.put("a/1", numpy.zeros((2, 3), "f4"), metadata="first")
    objects.put("a/2", b"plain")
    objects.put("b/1", b"plain")
    assert [each.id for each in objects.list("a/")] == [b"a/1", b"a/2"]
    first, second = objects.list("a/")
    assert (first.nbytes, first.format, first.shape, first.metadata) == (24, "f", (2, 3), b"first")
    assert (second.nbytes, second.format, second.shape) == (5, None, None)
    assert abs(first.created - time.time()) < 60 and first.expires is None and not first.viewed
    objects["a/1"]
    assert objects.stat("a/1").viewed and objects.stat("none") is None


def test_values_are_pickled_out_of_band(objects):
    value = {"weights": numpy.arange(100_000.0), "bias": [numpy.ones(3), "text"], "n": 7}
    assert objects.dump("value", value) and not objects.dump("value", 1)
    found = objects.load("value")
    assert (found["weights"] == value["weights"]).all() and found["bias"][1] == "text" and found["n"] == 7
    assert not found["weights"].flags.writeable and not found["weights"].flags.owndata
    assert found["weights"].ctypes.data % 64 == 0
    del objects["value"]
    assert found["weights"][99_999] == 99_999
    objects.put("plain", b"bytes")
    with pytest.raises(ValueError, match="not stored by dump"):
        objects.load("plain")
    with pytest.raises(KeyError):
        objects.load("none")


def test_waiting(objects, program):
    began = time.monotonic()
    assert objects.get("late", timeout=0.05) is None
    assert time.monotonic() - began >= 0.05
    child = program("""
        input()
        pool.objects("objects").put("late", b"now")
    """)
    child.go()
    assert bytes(objects.get("late", timeout=30)) == b"now"
    child.end()


def test_waiting_for_many_with_asyncio(objects, program):
    child = program("""
        objects = pool.objects("objects")
        input()
        for n in range(5):
            objects.put(f"{n}", b"%d" % n)
    """)

    async def wait():
        waiting = [objects.wait(f"{n}", 30) for n in range(5)]
        child.go()
        return await asyncio.gather(*waiting, objects.wait("none", 0.05))

    *found, none = asyncio.run(wait())
    assert [bytes(each) for each in found] == [b"%d" % n for n in range(5)] and none is None
    child.end()


def test_the_child_of_a_fork_opens_anew(pool, objects):
    objects.put("object", b"parent's")
    view = objects["object"]
    map = pool.map("map")

    def work():
        map["child"] = b"was here"
        mine = objects["object"]
        assert bytes(mine) == b"parent's"
        objects.put("from the child", b"child's")

    in_child(work)
    assert map["child"] == b"was here" and bytes(objects["from the child"]) == b"child's"
    assert bytes(view) == b"parent's"


def test_a_killed_process_leaves_nothing(pool, objects, program):
    objects.put("viewed", b"v" * 100_000)
    child = program("""
        objects = pool.objects("objects")
        view = objects["viewed"]
        writer = objects.create("unfinished", 1_000_000)
        memoryview(writer)[:] = b"u" * 1_000_000
        print("ready", flush=True)
        time.sleep(1000)
    """)
    assert child.line() == "ready"
    assert objects.delete("viewed")
    child.kill()
    pool.recover()
    assert "unfinished" not in objects and objects.put("unfinished", b"another")
    del objects["unfinished"]
    pool.collect()
    assert objects.nbytes == 0


def test_handles_of_objects_are_pickled(objects, path):
    objects.put("object", b"bytes")
    again = pickle.loads(pickle.dumps(objects))
    assert bytes(again["object"]) == b"bytes" and repr(again) == f"<cenote.Objects 'objects' in {str(path)!r}>"


@pytest.mark.parametrize(
    "array",
    [
        numpy.array([1, "text", None], dtype=object),
        numpy.zeros(3, ">i4"),
        numpy.zeros(3, [("a", "i4"), ("b", "f8")]),
        numpy.array(["text"]),
    ],
    ids=["objects", "big-endian", "structured", "text"],
)
def test_elements_that_are_nothing_elsewhere_are_refused(objects, array):
    with pytest.raises(TypeError, match="cannot be kept as an array"):
        objects.put("array", array)
    with pytest.raises(TypeError, match="cannot be kept as an array"):
        objects.create_array("array", (3,), array.dtype)
    assert "array" not in objects
    assert objects.dump("array", array) and str(objects.load("array")) == str(array)


@pytest.mark.parametrize("said", [b"array:O:8:1;", b"array:d:1:8;", b"array:q:8:1;mine", b"array:;", b"array:"])
def test_metadata_that_looks_like_a_description_is_the_users(objects, said):
    assert objects.put("put", b"12345678", metadata=said)
    with objects.create("made", 8, metadata=said) as new:
        memoryview(new)[:] = b"12345678"
    for id in ("put", "made"):
        assert objects[id].metadata == said and objects.stat(id).metadata == said
        assert memoryview(objects[id]).format == "B" and objects[id].array().dtype == "u1"
    array = numpy.arange(3)
    assert objects.put("array", array, metadata=said) and objects["array"].metadata == said
    assert (objects["array"].array() == array).all()


def test_buffers_are_given_as_they_are(objects):
    objects.put("array", numpy.arange(6.0).reshape(2, 3))
    view = objects["array"]
    memory = memoryview(view)
    assert (memory.shape, memory.strides, memory.format) == ((2, 3), (24, 8), "d")
    assert memory.c_contiguous and not memory.f_contiguous
    objects.put("number", numpy.float64(7))
    assert memoryview(objects["number"]).shape == () and objects["number"].array() == 7
    released = objects["array"]
    released.release()
    with pytest.raises(BufferError, match="released"):
        released.array()


def test_times_that_make_no_sense(pool, objects):
    for ttl in (0, -1, float("nan"), 1e-20):
        with pytest.raises(ValueError, match="ttl"):
            objects.put("object", b"bytes", ttl=ttl)
    with pytest.raises(ValueError, match="ttl"):
        pool.objects("other", ttl=0)
    with pytest.raises(ValueError, match="seconds"):
        objects.get("object", timeout=-1)


def test_waiting_with_asyncio_can_be_given_up(objects):
    async def wait():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(objects.wait("none"), 0.05)
        return await asyncio.gather(*(objects.wait("none", 0.05) for _ in range(100)))

    assert asyncio.run(wait()) == [None] * 100


def test_a_parents_view_is_none_of_the_childs(objects):
    objects.put("object", b"bytes")
    view, writer = objects["object"], objects.create("new", 10)

    def child():
        assert view.released
        for use in (lambda: memoryview(view), lambda: memoryview(writer), view.array):
            with pytest.raises(BufferError, match="parent's|released"):
                use()
        with pytest.raises(cenote.ClosedError):
            bytes(view)
        assert bytes(objects["object"]) == b"bytes"

    in_child(child)
    assert bytes(view) == b"bytes" and writer.seal()


def test_deaths_leave_the_bytes_in_use_right(pool, program):
    cache = pool.objects("cache", evict=True, quota=200_000)
    for n in range(12):
        child = program("""
            cache = pool.objects("cache")
            print("ready", flush=True)
            for n in range(10**9):
                cache.put(f"{n % 100}", b"v" * (n % 5000), overwrite=True)
        """)
        assert child.line() == "ready"
        for _ in range(n):
            cache.put("another", b"a" * 1000, overwrite=True)
        child.kill()
    pool.recover()
    cache.evict(10**9)
    assert list(cache) == [] and cache.nbytes == 0
    for n in range(20):
        assert cache.put(f"{n}", b"v" * 5000)


def test_forged_pickles_are_refused(objects):
    for forged in (b"", b"1234567", b"\xff" * 8):
        objects.put("forged", forged, metadata=b"pickle5", overwrite=True)
        with pytest.raises(ValueError, match="not stored by dump"):
            objects.load("forged")


def test_an_object_is_copied_to_a_buffer(objects):
    objects.put("object", bytes(range(256)) * 4096)
    view = objects["object"]
    buffer = bytearray(1 << 20)
    assert view.readinto(buffer) == 1 << 20 and buffer == bytes(view)
    array = numpy.zeros(1 << 18, "f4")
    assert view.readinto(array) == 1 << 20 and array.tobytes() == bytes(view)
    for wrong in (bytearray(7), bytearray(0)):
        with pytest.raises(ValueError, match="bytes, and the object"):
            view.readinto(wrong)
    with pytest.raises(BufferError):
        view.readinto(bytes(1 << 20))
    view.release()
    with pytest.raises(cenote.ClosedError):
        view.readinto(buffer)
