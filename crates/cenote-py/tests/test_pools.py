"""Pools: how they are opened, closed and pickled, and what abuse does to them."""

import ctypes
import gc
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy
import pytest

import cenote
from conftest import in_child


def test_opening(folder):
    path = folder / "pool"
    with pytest.raises(FileNotFoundError):
        cenote.Pool(path, create=False)
    with cenote.Pool(path, size="2MiB", max=8 << 20, mode=0o640) as pool:
        assert path.stat().st_mode & 0o777 == 0o640 and pool.path == path
        assert pool.stat()["max_bytes"] <= 8 << 20
        with pytest.raises(FileExistsError):
            cenote.Pool(path, exclusive=True)
        pool.map("map")
        assert pool.names() == ["map"]
    assert pool.closed and "closed" in repr(pool)
    pool.close()
    with pytest.raises(cenote.ClosedError):
        pool.map("map")
    with pytest.raises(ValueError, match="unit"):
        cenote.Pool(folder / "other", size="7 furlongs")
    (folder / "text").write_text("no pool " * 1000)
    with pytest.raises(cenote.CorruptError):
        cenote.Pool(folder / "text")


def test_what_is_in_a_closed_pool_says_so(folder):
    pool = cenote.Pool(folder / "pool")
    handles = [pool.map("map"), pool.ordered("ordered"), pool.objects("objects")]
    lock = pool.lock("lock")
    iteration = iter(handles[0])
    pool.close()
    for handle in handles:
        with pytest.raises(cenote.ClosedError):
            "key" in handle
    with pytest.raises(cenote.ClosedError):
        lock.acquire()
    with pytest.raises(cenote.ClosedError):
        next(iteration)


def test_idle_threads_give_their_places_up(folder):
    pool = cenote.Pool(folder / "pool")
    map = pool.map("map")
    begun, go_on = threading.Barrier(2), threading.Barrier(2)

    def work():
        map["thread"] = b"here"
        begun.wait()
        go_on.wait()
        with pytest.raises(cenote.ClosedError):
            map["thread"]

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    pool.close()
    go_on.wait()
    thread.join()
    again = cenote.Pool(folder / "pool")
    assert len(again.stat()["processes"]) == 1


def test_pickled_pools_are_one(folder):
    with cenote.Pool(folder / "pool") as pool:
        pool.map("map")["key"] = b"value"
        one, two = pickle.loads(pickle.dumps([pool, pool]))
        assert one is two and one.map("map")["key"] == b"value"
        assert pickle.loads(pickle.dumps(pool)) is one


def test_forks_of_forks(pool):
    map = pool.map("map")

    def child():
        map["child"] = b"1"
        in_child(lambda: map.update({"grandchild": b"2"}))
        assert map["grandchild"] == b"2"

    in_child(child)
    assert dict(map) == {b"child": b"1", b"grandchild": b"2"}


def test_a_child_ends_what_is_its_parents(pool):
    objects = pool.objects("objects")
    objects.put("object", b"bytes")
    view, writer, lock = objects["object"], objects.create("new", 10), pool.lock("lock")
    lock.acquire()

    def child():
        nonlocal view, writer
        with pytest.raises(RuntimeError, match="does not hold"):
            lock.release()
        assert not lock.acquire(blocking=False)
        with pytest.raises(RuntimeError, match="thread that made it"):
            writer.seal()
        view = writer = None
        gc.collect()

    in_child(child)
    assert lock.held and bytes(view) == b"bytes"
    assert writer.seal()
    lock.release()
    assert objects.delete("object") and bytes(view) == b"bytes"


def test_a_writer_outlives_its_thread_harmlessly(pool):
    objects = pool.objects("objects")
    made = []

    def make():
        made.append(pool.objects("objects").create("object", 1000))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="thread that made it"):
        made[0].seal()
    memory = numpy.frombuffer(made[0], "u1")
    others = [objects.put(f"{n}", b"o" * 1000) for n in range(100)]
    memory[:] = 255
    assert all(others) and all(bytes(objects[f"{n}"]) == b"o" * 1000 for n in range(100))


@pytest.mark.parametrize(
    "text",
    [
        "pass",
        "view = pool.objects('objects')['object']; array = view.array()",
        "pool.lock('lock').acquire()",
        "import threading; threading.Thread(target=lambda: (pool.map('map'), time.sleep(1000)), daemon=True).start(); time.sleep(0.1)",
        "os.unlink(pool.path); pool.map('map')['key'] = b'value'; assert pool.map('map')['key'] == b'value'",
        "keep = pool.objects('objects').create('new', 10); memory = memoryview(keep)",
        "sys.setprofile(lambda *_: None); import atexit; map = pool.map('map'); atexit.register(lambda: map.get('key'))",
        "class Late:\n    def __del__(self): self.map.get('key')\nlate = Late(); late.map = pool.map('map'); sys.late = late",
        "pool.map('map'); del pool",
    ],
)
def test_interpreters_end_well(folder, text):
    path = folder / "pool"
    pool = cenote.Pool(path)
    pool.objects("objects").put("object", numpy.arange(1000))
    begin = f"import cenote, os, signal, sys, time\npool = cenote.Pool({str(path)!r}, create=False)\n"
    ended = subprocess.run([sys.executable, "-c", begin + text], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    pool.recover()
    assert len(pool.stat()["processes"]) == 1


def test_another_pool_in_the_place_of_one_is_not_taken_for_it(folder):
    path = folder / "pool"
    pool = cenote.Pool(path)
    map = pool.map("map")
    map["key"] = b"old"
    pickled = pickle.dumps(map)
    path.unlink()
    other = cenote.Pool(path)
    other.map("map")["key"] = b"new"
    with pytest.raises(cenote.Error, match="another pool"):
        pickle.loads(pickled)

    def child():
        with pytest.raises(cenote.Error, match="another pool"):
            map["key"]

    in_child(child)
    assert map["key"] == b"old" and other.map("map")["key"] == b"new"


def test_a_pool_with_a_lock_file_is_found_again(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with cenote.Pool("pool", lock_file="locks") as pool:
        map = pool.map("map")
        map["key"] = b"value"
        pickled = pickle.dumps(map)
        (folder / "elsewhere").mkdir()
        monkeypatch.chdir(folder / "elsewhere")
        assert pickle.loads(pickled)["key"] == b"value"

        def child():
            assert map["key"] == b"value"

        in_child(child)
        assert list((folder / "elsewhere").iterdir()) == []


def test_sizes_that_make_no_sense(folder):
    for size in (-1, 2**64):
        with pytest.raises(ValueError, match="size is a number of bytes"):
            cenote.Pool(folder / "pool", size=size)
    with pytest.raises(TypeError, match="not float"):
        cenote.Pool(folder / "pool", max=1.5)
    with pytest.raises(ValueError, match="at most"):
        cenote.Pool(folder / "pool", size="2GiB", max="1GiB")
    with pytest.raises(FileNotFoundError):
        cenote.Pool(folder / "pool", lock_file=folder / "none" / "locks")


def test_unpickling_while_others_fork(folder):
    path = folder / "pool"
    pool = cenote.Pool(path, processes=100)
    pickled, stop = pickle.dumps(pool.map("map")), threading.Event()

    def unpickle():
        while not stop.is_set():
            pickle.loads(pickled)
            gc.collect()

    thread = threading.Thread(target=unpickle)
    thread.start()
    for _ in range(10):
        in_child(lambda: pickle.loads(pickled))
    stop.set()
    thread.join()


def test_errors_can_be_told_apart():
    names = [name for name in cenote.__all__ if name.endswith("Error")]
    assert len(names) == 14 and names == sorted(names)
    for name in names:
        kind = getattr(cenote, name)
        assert issubclass(kind, cenote.Error) and kind.__module__ == "cenote" and kind.__doc__
        assert type(pickle.loads(pickle.dumps(kind("text")))) is kind


def test_what_is_recovered_has_names(pool, program):
    child = program("""
        map = pool.map("map")
        map["key"] = b"value"
        print("ready", flush=True)
        time.sleep(1000)
    """)
    assert child.line() == "ready"
    assert pool.recover() == cenote.Recovered(processes=0, workers=0)
    child.kill()
    recovered = pool.recover()
    assert (recovered.processes, recovered.workers) == (1, 1)


def test_a_child_that_python_does_not_know_of_is_refused(pool):
    """A fork by C, after which Python calls no hook."""
    map = pool.map("map")
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        status = 1
        try:
            map["key"] = b"value"
        except cenote.ForkedError:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(map) == 0


def test_a_pool_that_is_being_repaired_is_refused(path, program):
    with cenote.Pool(path, size="16MiB") as pool:
        objects = pool.objects("objects")
        for n in range(2000):
            objects.put(f"{n}", b"o" * 1000)
    child = program("""
        print("ready", flush=True)
        while True:
            try:
                pool.fsck(repair=True)
            except (cenote.Error, ValueError):
                pass  # the other process was there first
    """)
    assert child.line() == "ready"
    until = time.monotonic() + 60
    with pytest.raises(cenote.RepairingError, match="repaired"):
        while time.monotonic() < until:
            cenote.Pool(path, create=False).close()
