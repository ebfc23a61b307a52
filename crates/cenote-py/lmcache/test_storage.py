"""The storage plug-in, loaded by the released LMCache as its configuration says, with its allocator of chunks."""

import asyncio
import pathlib
import tempfile
import threading
from collections import OrderedDict

import pytest
import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.pin_monitor import PinMonitor
from lmcache.v1.storage_backend import storage_plugin_launcher
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend

import cenote
from cenote.lmcache_storage import CenoteStorageBackend

SHAPE = torch.Size([2, 4, 16, 64])


def key(n):
    return CacheEngineKey("model/of-tests", 1, 0, n, torch.bfloat16)


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="cenote-test-", dir="/dev/shm") as folder:
        yield pathlib.Path(folder)


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


METADATA = LMCacheMetadata("model/of-tests", 1, 1, 0, 0, torch.bfloat16, (4, 2, 16, 1, 64), role="worker", chunk_size=16)


def launched(folder, loop, max_bytes=64 << 20):
    """What LMCache makes of its configuration."""
    extra = {
        "storage_plugin.cenote.module_path": "cenote.lmcache_storage",
        "storage_plugin.cenote.class_name": "CenoteStorageBackend",
        "cenote.path": f"{folder}/kv",
        "cenote.max_bytes": max_bytes,
    }
    config = LMCacheEngineConfig.from_defaults(
        local_cpu=False, max_local_cpu_size=0.1, storage_plugins=["cenote"], extra_config=extra
    )
    # The engine makes one.
    PinMonitor.GetOrCreate(config)
    cpu = LocalCPUBackend(config, METADATA, "cpu")
    backends = OrderedDict()
    storage_plugin_launcher(config, METADATA, loop, cpu, "cpu", backends)
    backend = backends["cenote"]
    assert isinstance(backend, CenoteStorageBackend)
    return backend


def chunk(backend, n):
    made = backend.local_cpu_backend.allocate(SHAPE, torch.bfloat16, MemoryFormat.KV_2LTD)
    made.tensor[:] = torch.arange(made.tensor.numel(), dtype=torch.float32).reshape(SHAPE).to(torch.bfloat16) + n
    return made


def put(backend, numbers):
    chunks = [chunk(backend, n) for n in numbers]
    done = []
    for future in backend.batched_submit_put_task([key(n) for n in numbers], chunks, None, done.append) or []:
        future.result(30)
    assert [a.get_ref_count() for a in chunks] == [1] * len(chunks)
    for a in chunks:
        a.ref_count_down()
    return len(done)


def check(loaded, backend, n):
    expected = chunk(backend, n)
    assert loaded.get_memory_format() == MemoryFormat.KV_2LTD and torch.equal(loaded.tensor, expected.tensor)
    expected.ref_count_down()
    loaded.ref_count_down()


def test_chunks_come_back_by_the_configuration(folder, loop):
    backend = launched(folder, loop)
    assert put(backend, range(20)) == 20
    # What is there already is not stored again.
    assert put(backend, range(20)) == 0
    assert backend.contains(key(3)) and not backend.contains(key(77)) and not backend.exists_in_put_tasks(key(3))
    assert backend.batched_contains([key(0), key(1), key(77), key(2)]) == 2
    for n, loaded in enumerate(backend.batched_get_blocking([key(n) for n in range(20)])):
        check(loaded, backend, n)
    assert backend.get_blocking(key(77)) is None
    backend.close()


def test_what_is_pinned_stays(folder, loop):
    backend = launched(folder, loop)
    put(backend, [1])
    assert backend.contains(key(1), pin=True)
    assert not backend.remove(key(1), force=False) and backend.contains(key(1))
    assert backend.unpin(key(1)) and not backend.unpin(key(1))
    assert backend.remove(key(1), force=False) and not backend.contains(key(1))
    backend.close()


def test_asynchronous_loads(folder, loop):
    backend = launched(folder, loop)
    put(backend, [1, 2, 3])
    keys = [key(1), key(2), key(3), key(4)]
    assert asyncio.run_coroutine_threadsafe(backend.batched_async_contains("x", keys, True), loop).result(30) == 3
    chunks = asyncio.run_coroutine_threadsafe(backend.batched_get_non_blocking("x", keys), loop).result(30)
    assert len(chunks) == 3
    for n, loaded in zip([1, 2, 3], chunks):
        loaded.unpin()
        check(loaded, backend, n)
    assert all(backend.unpin(a) for a in keys[:3])
    backend.close()


def test_the_pool_stays_warm_and_is_shared(folder, loop):
    first, second = launched(folder, loop), launched(folder, loop)
    put(first, [1, 2])
    check(second.get_blocking(key(2)), second, 2)
    first.close()
    second.close()
    third = launched(folder, loop)
    check(third.get_blocking(key(1)), third, 1)
    third.close()
    pool = cenote.Pool(folder / "kv", create=False)
    report = pool.fsck()
    assert report["problems"] == [] and report["leaked_bytes"] == 0


def test_a_small_pool_evicts(folder, loop):
    backend = launched(folder, loop, 1 << 20)
    for n in range(300):
        assert put(backend, [n]) == 1
    there = sum(backend.contains(key(n)) for n in range(300))
    assert 10 < there < 300
    backend.close()


def test_what_is_cancelled_keeps_nothing(folder, loop, monkeypatch):
    backend = launched(folder, loop)
    # Both threads are busy.
    go_on = threading.Event()
    busy = [backend._copier.submit(go_on.wait, 30) for _ in range(2)]
    made = chunk(backend, 1)
    [future] = backend.batched_submit_put_task([key(1)], [made])
    assert backend.exists_in_put_tasks(key(1)) and future.cancel()
    go_on.set()
    assert all(one.result(30) for one in busy)
    assert made.get_ref_count() == 1 and not backend.exists_in_put_tasks(key(1))
    made.ref_count_down()
    assert put(backend, range(3)) == 3
    # A load is cancelled while it runs.
    runs, go_on, loaded = threading.Event(), threading.Event(), []
    allocate = backend.local_cpu_backend.allocate

    def watch(*arguments, **named):
        runs.set()
        go_on.wait(30)
        loaded.append(allocate(*arguments, **named))
        return loaded[-1]

    monkeypatch.setattr(backend.local_cpu_backend, "allocate", watch)
    keys = [key(n) for n in range(3)]
    load = asyncio.run_coroutine_threadsafe(backend.batched_get_non_blocking("x", keys), loop)
    assert runs.wait(30)
    load.cancel()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(30)
    go_on.set()
    backend.close()
    assert [(one.get_ref_count(), one.is_pinned) for one in loaded] == [(0, False)] * 3


def test_what_another_version_has_stored_is_a_miss(folder, loop):
    backend = launched(folder, loop)
    put(backend, [1])
    for n, metadata in enumerate([b"", b"{}", b'{"shapes": [[1]], "dtypes": ["of tomorrow"], "format": "X", "positions": null}']):
        backend._objects.put(key(100 + n).to_string().encode(), b"bytes", metadata=metadata)
        assert backend.get_blocking(key(100 + n)) is None
        load = backend.batched_get_non_blocking("x", [key(1), key(100 + n)])
        [loaded] = asyncio.run_coroutine_threadsafe(load, loop).result(30)
        loaded.unpin()
        check(loaded, backend, 1)
    backend.close()


def test_parameters_that_make_no_sense():
    for wrong in ({}, {"cenote.path": "/dev/shm/x"}, {"cenote.path": "/dev/shm/x", "cenote.max_bytes": 1}):
        with pytest.raises(ValueError):
            CenoteStorageBackend(config=LMCacheEngineConfig.from_defaults(extra_config=wrong))
