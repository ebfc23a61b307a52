"""The adapter for LMCache, with the released package: its own benchmark, and processes that are killed.

    cargo xtask test --lmcache        # installs what it needs

`CENOTE_LMCACHE_KILLS` says how many processes are killed (default 20).
"""

import json
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from lmcache.v1.distributed.api import ObjectKey

import cenote
from cenote.lmcache import CenoteL2Adapter, CenoteL2AdapterConfig

KILLS = int(os.environ.get("CENOTE_LMCACHE_KILLS", "20"))
SEED = int(os.environ.get("CENOTE_TEST_SEED", "1"))


class Chunk:
    """Memory of the caller's, as the adapter sees it."""

    def __init__(self, data):
        self.byte_array = memoryview(bytearray(data))


def key(n):
    return ObjectKey(chunk_hash=n.to_bytes(8, "big"), model_name="model/of-tests", kv_rank=0)


def data(n):
    """What is stored under a key: nothing else can be right. A task of many is copied by several threads."""
    return random.Random(n).randbytes(1 + n * 7919 % (3_000_000 if n % 8 == 0 else 200_000))


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="cenote-test-", dir="/dev/shm") as folder:
        yield pathlib.Path(folder)


def open_adapter(folder, max_bytes=64 << 20, threads=2):
    parameters = {"path": f"{folder}/kv", "max_bytes": max_bytes, "threads": threads}
    return CenoteL2Adapter(CenoteL2AdapterConfig.from_dict(parameters))


def wait(fd):
    assert select.select([fd], [], [], 30)[0], "nothing was completed"
    os.eventfd_read(fd)


def store(adapter, numbers):
    task = adapter.submit_store_task([key(n) for n in numbers], [Chunk(data(n)) for n in numbers])
    wait(adapter.get_store_event_fd())
    return adapter.pop_completed_store_tasks()[task]


def look_up(adapter, numbers):
    task = adapter.submit_lookup_and_lock_task([key(n) for n in numbers], {})
    wait(adapter.get_lookup_and_lock_event_fd())
    found = adapter.query_lookup_and_lock_result(task)
    assert adapter.query_lookup_and_lock_result(task) is None
    return [found.test(n) for n in range(len(numbers))]


def load(adapter, numbers):
    chunks = [Chunk(bytes(len(data(n)))) for n in numbers]
    task = adapter.submit_load_task([key(n) for n in numbers], chunks)
    wait(adapter.get_load_event_fd())
    loaded = adapter.query_load_result(task)
    return [bytes(chunk.byte_array) if loaded.test(n) else None for n, chunk in enumerate(chunks)]


def test_chunks_come_back(folder):
    adapter = open_adapter(folder)
    numbers = list(range(50))
    assert store(adapter, numbers).is_successful()
    # What is there already is not stored again.
    assert store(adapter, numbers).bytes_transferred() == 0
    assert look_up(adapter, [*numbers, 77]) == [True] * 50 + [False]
    assert load(adapter, [*numbers, 77]) == [*map(data, numbers), None]
    # What was found stays until it is unlocked.
    adapter.delete([key(n) for n in numbers])
    assert look_up(adapter, numbers) == [False] * 50
    assert load(adapter, numbers) == list(map(data, numbers))
    assert adapter.report_status()["locked"] == 50
    adapter.submit_unlock([key(n) for n in numbers])
    assert load(adapter, numbers) == [None] * 50
    assert adapter.report_status()["locked"] == 0 and adapter.get_usage().total_bytes_used == 0
    adapter.close()


def test_the_pool_stays_warm_over_restarts_and_is_shared(folder):
    first, second = open_adapter(folder), open_adapter(folder)
    store(first, [1, 2, 3])
    assert look_up(second, [1, 2, 3]) == [True] * 3
    first.close()
    second.close()
    third = open_adapter(folder)
    assert load(third, [1, 2, 3]) == list(map(data, [1, 2, 3]))
    third.close()


def test_a_small_pool_evicts(folder):
    adapter = open_adapter(folder, 4 << 20)
    for n in range(200):
        assert store(adapter, [n]).is_successful()
    assert 0 < adapter.get_usage().total_bytes_used <= 4 << 20 and adapter.report_status()["evicted"] > 100
    adapter.close()


def test_a_large_task_fits_where_its_chunks_do_one_by_one(folder):
    """What is being stored cannot be evicted: two threads at once have less room than one after the other."""
    adapter = open_adapter(folder, 4 << 20)
    for n in range(20):
        task = adapter.submit_store_task([key(2 * n), key(2 * n + 1)], [Chunk(bytes(3 << 20)) for _ in range(2)])
        wait(adapter.get_store_event_fd())
        assert adapter.pop_completed_store_tasks()[task].is_successful()
    adapter.close()


class Watched:
    """Memory of the caller's that does something when it is read."""

    def __init__(self, read):
        self._read = read

    @property
    def byte_array(self):
        return self._read()


def test_a_small_task_passes_a_large_one(folder):
    adapter = open_adapter(folder, 128 << 20)
    store(adapter, [1])
    submitted, loaded = threading.Event(), threading.Event()
    memory = memoryview(bytearray(4 << 20))
    asked = [0] * 8

    def read(n):
        # The first time it is asked for its size.
        asked[n] += 1
        if asked[n] > 1 and not (submitted if n < 2 else loaded).wait(30):
            raise TimeoutError("the load waits for the whole store")
        return memory

    chunks = [Watched(lambda n=n: read(n)) for n in range(8)]
    task = adapter.submit_store_task([key(100 + n) for n in range(8)], chunks)
    to = Chunk(bytes(len(data(1))))
    small = adapter.submit_load_task([key(1)], [to])
    submitted.set()
    wait(adapter.get_load_event_fd())
    loaded.set()
    assert adapter.query_load_result(small).test(0) and bytes(to.byte_array) == data(1)
    wait(adapter.get_store_event_fd())
    assert adapter.pop_completed_store_tasks()[task].is_successful()
    adapter.close()


def test_what_cannot_be_copied_fails_alone(folder):
    def fail():
        raise NotImplementedError("on a device")

    adapter = open_adapter(folder)
    chunks = [Chunk(data(1)), Watched(fail), Chunk(data(3))]
    task = adapter.submit_store_task([key(1), key(2), key(3)], chunks)
    wait(adapter.get_store_event_fd())
    assert not adapter.pop_completed_store_tasks()[task].is_successful()
    assert look_up(adapter, [1, 2, 3]) == [True, False, True]
    task = adapter.submit_load_task([key(1), key(3)], [Chunk(data(1)), Watched(fail)])
    wait(adapter.get_load_event_fd())
    loaded = adapter.query_load_result(task)
    assert [loaded.test(0), loaded.test(1)] == [True, False]
    for submit in (adapter.submit_store_task, adapter.submit_load_task):
        with pytest.raises(ValueError, match="1 keys and 2 objects"):
            submit([key(1)], chunks[:2])
    assert look_up(adapter, [1]) == [True]
    # No object has such an id.
    long = ObjectKey(chunk_hash=b"x" * 5000, model_name="m", kv_rank=0)
    task = adapter.submit_lookup_and_lock_task([long], {})
    wait(adapter.get_lookup_and_lock_event_fd())
    assert not adapter.query_lookup_and_lock_result(task).test(0)
    adapter.close()


def test_threads_that_cannot_begin_are_an_error_at_once(folder, monkeypatch):
    begun = []
    start = threading.Thread.start

    def refuse(thread):
        if thread.name.startswith("cenote-lmcache") and begun:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        open_adapter(folder)
    assert begun
    for thread in begun:
        thread.join(30)
        assert not thread.is_alive()


def test_a_child_has_no_threads(folder):
    adapter = open_adapter(folder)
    child = os.fork()
    if child == 0:
        try:
            adapter.submit_store_task([key(1)], [Chunk(data(1))])
        except cenote.ForkedError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store(adapter, [1]).is_successful()
    adapter.close()


def test_parameters_that_make_no_sense():
    for wrong in ({}, {"path": "/dev/shm/x"}, {"path": "/dev/shm/x", "max_bytes": 1}, {"path": 7, "max_bytes": 1 << 20}):
        with pytest.raises(ValueError):
            CenoteL2AdapterConfig.from_dict(wrong)


# All chunks of the writers fit.
ROOM = 1 << 30

WRITER = """
import sys
sys.path.insert(0, {tests!r})
from test_lmcache import *
adapter = open_adapter({folder!r}, ROOM, threads=4)
print("ready", flush=True)
numbers = random.Random({seed}).sample(range(2000), 2000)
for n in range(0, 2000, 16):
    store(adapter, numbers[n : n + 16])
"""


def test_killed_processes_leave_nothing_unfinished(folder):
    print("seed", SEED)
    chance = random.Random(SEED)
    for n in range(KILLS):
        text = WRITER.format(tests=os.path.dirname(__file__), folder=str(folder), seed=SEED * 1000 + n)
        writer = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0, 0.2))
        writer.send_signal(signal.SIGKILL)
        assert writer.wait(30) == -signal.SIGKILL
        writer.stdout.close()
    adapter = open_adapter(folder, ROOM)
    numbers = list(range(2000))
    there = [n for n, found in zip(numbers, look_up(adapter, numbers)) if found]
    assert there
    loaded = load(adapter, there)
    assert all(chunk == data(n) for n, chunk in zip(there, loaded)), "a chunk is not what was stored"
    adapter.submit_unlock([key(n) for n in numbers])
    # Every key can be stored again, and nothing has leaked.
    assert store(adapter, numbers[:200]).is_successful()
    assert look_up(adapter, numbers[:200]) == [True] * 200
    adapter.submit_unlock([key(n) for n in numbers])
    adapter.delete([key(n) for n in numbers])
    adapter.close()
    pool = cenote.Pool(folder / "kv", create=False)
    pool.recover()
    pool.collect()
    report = pool.fsck()
    assert report["problems"] == [] and report["leaked_bytes"] == 0
    assert pool.objects("lmcache", create=False).nbytes == 0


@pytest.mark.parametrize("kib", [16, 256, 4096])
def test_lmcaches_own_benchmark_verifies(folder, kib):
    adapter = {
        "type": "plugin",
        "module_path": "cenote.lmcache",
        "class_name": "CenoteL2Adapter",
        "adapter_params": {"path": f"{folder}/kv", "max_bytes": 1 << 30},
    }
    command = ["lmcache", "bench", "l2", "--l2-adapter", json.dumps(adapter), "--data-size-kb", str(kib)]
    command += ["--num-keys", "16", "--rounds", "2", "--no-skip-verify"]
    ended = subprocess.run(
        [str(pathlib.Path(sys.executable).parent / command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=300,
    )
    print(ended.stdout, ended.stderr)
    assert ended.returncode == 0
