"""KV caches of LMCache in a pool: an L2 adapter that serving processes of one machine share, and that outlives them.

    {"type": "plugin", "module_path": "cenote.lmcache", "class_name": "CenoteL2Adapter",
     "adapter_params": {"path": "/dev/shm/kv", "max_bytes": 8589934592}}

A chunk is stored whole or not at all, whatever becomes of the process that stores it; what a lookup has found stays
until it is unlocked, whatever becomes of the chunk. If there is no room, chunks that were not used lately go.

Needs the package `lmcache` (`pip install 'cenote[lmcache]'`).
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lmcache.lmcache_native import Bitmap
from lmcache.logging import init_logger
from lmcache.v1.distributed.internal_api import L2StoreResult
from lmcache.v1.distributed.l2_adapters.base import AdapterUsage, L2AdapterInterface
from lmcache.v1.distributed.l2_adapters.config import L2AdapterConfigBase
from lmcache.v1.platform import create_event_notifier

from cenote import Error, FullError, _chunks

logger = init_logger(__name__)

# Bytes that a thread copies in the time of waking some other threads.
_PART_BYTES = 1 << 20


class CenoteL2AdapterConfig(L2AdapterConfigBase):
    """The parameters of `CenoteL2Adapter`."""

    def __init__(self, path: str, max_bytes: int, store: str, threads: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.store = store
        self.threads = threads

    @classmethod
    def from_dict(cls, d: dict) -> CenoteL2AdapterConfig:
        path, max_bytes = d.get("path"), d.get("max_bytes")
        store, threads = d.get("store", "lmcache"), d.get("threads", 2)
        _chunks.check(path, max_bytes, store, threads)
        return cls(path, max_bytes, store, threads)

    @classmethod
    def help(cls) -> str:
        return (
            "Cenote L2 adapter config fields:\n"
            "- path (str): the pool's file, normally in /dev/shm; made if it is not there (required)\n"
            "- max_bytes (int): bytes that chunks may occupy; reserved when the pool is made (required)\n"
            "- store (str): the name of the object store in the pool (default lmcache)\n"
            "- threads (int): threads that copy chunks (default 2)"
        )


def _id(key: Any) -> bytes:
    """The id of a key's object: its fields, of which the last may be any bytes."""
    fields = f"{key.model_name}@{key.kv_rank}@{key.object_group_id}@{key.cache_salt}@"
    return fields.encode() + key.chunk_hash


def _parts(chunks: list[Any], threads: int) -> list[range]:
    """The chunks of a task, divided between the threads where there is much to copy."""
    nbytes = sum(memoryview(chunk.byte_array).nbytes for chunk in chunks)
    parts = max(1, min(threads, len(chunks), nbytes // _PART_BYTES))
    bounds = [len(chunks) * n // parts for n in range(parts + 1)]
    return [range(begin, end) for begin, end in itertools.pairwise(bounds)]


class _Parts:
    """The parts of a task that different threads do."""

    def __init__(self, parts: int) -> None:
        self._lock = threading.Lock()
        self._left = parts
        self.done: list[Any] = []
        self.is_whole = True

    def end(self, done: list[Any], is_whole: bool = True) -> bool:
        """Ends a part; whether it is the last."""
        with self._lock:
            self.done += done
            self.is_whole &= is_whole
            self._left -= 1
            return self._left == 0


class CenoteL2Adapter(L2AdapterInterface):
    """Chunks of KV caches as objects of a pool."""

    def __init__(self, config: CenoteL2AdapterConfig, l1_memory_desc: Any = None) -> None:
        # The store itself evicts, for all processes that share it.
        super().__init__(max_capacity_bytes=0)
        self._pool, self._objects = _chunks.open_store(config.path, config.max_bytes, config.store)
        self._max_bytes = config.max_bytes
        self._store_event = create_event_notifier()
        self._lookup_event = create_event_notifier()
        self._load_event = create_event_notifier()
        self._threads = config.threads
        self._executor = ThreadPoolExecutor(config.threads, "cenote-lmcache")
        self._lock = threading.Lock()
        self._last_task = 0
        self._stored: dict[int, L2StoreResult] = {}
        self._found: dict[int, Bitmap] = {}
        self._loaded: dict[int, Bitmap] = {}
        # A view for each time that a key was found and not unlocked since.
        self._views: defaultdict[Any, list[Any]] = defaultdict(list)

    def get_store_event_fd(self) -> int:
        return self._store_event.fileno()

    def get_lookup_and_lock_event_fd(self) -> int:
        return self._lookup_event.fileno()

    def get_load_event_fd(self) -> int:
        return self._load_event.fileno()

    def _next_task(self) -> int:
        with self._lock:
            self._last_task += 1
            return self._last_task

    def submit_store_task(self, keys: list[Any], objects: list[Any]) -> int:
        task, parts = self._next_task(), _parts(objects, self._threads)
        shared = _Parts(len(parts))
        for part in parts:
            self._executor.submit(self._store, task, shared, part, keys, objects)
        return task

    def _store(self, task: int, shared: _Parts, part: range, keys: list[Any], objects: list[Any]) -> None:
        stored: list[tuple[Any, int]] = []
        is_whole = False
        try:
            for n in part:
                data = memoryview(objects[n].byte_array)
                if self._objects.put(_id(keys[n]), data):
                    stored.append((keys[n], data.nbytes))
            is_whole = True
        except FullError as error:
            logger.warning("a chunk was not stored: %s", error)
        except Exception:
            logger.exception("chunks were not stored")
        if not shared.end(stored, is_whole):
            return
        try:
            if shared.done:
                self._notify_keys_stored([key for key, _ in shared.done], [size for _, size in shared.done])
        finally:
            with self._lock:
                self._stored[task] = L2StoreResult(shared.is_whole, sum(size for _, size in shared.done))
            self._store_event.notify()

    def pop_completed_store_tasks(self) -> dict[int, L2StoreResult]:
        with self._lock:
            stored, self._stored = self._stored, {}
        return stored

    def submit_lookup_and_lock_task(self, keys: list[Any], group_layout_descs: Any) -> int:
        # A lookup takes a microsecond, less than handing it to another thread.
        task, found = self._next_task(), Bitmap(len(keys))
        views: list[tuple[Any, Any]] = []
        try:
            for n, key in enumerate(keys):
                view = self._objects.get(_id(key))
                if view is not None:
                    found.set(n)
                    views.append((key, view))
        except Error:
            logger.exception("chunks were not looked up")
            found = Bitmap(len(keys))
            views = []
        with self._lock:
            for key, view in views:
                self._views[key].append(view)
            self._found[task] = found
        self._lookup_event.notify()
        return task

    def query_lookup_and_lock_result(self, task_id: int) -> Bitmap | None:
        with self._lock:
            return self._found.pop(task_id, None)

    def submit_unlock(self, keys: list[Any]) -> None:
        ended = []
        with self._lock:
            for key in keys:
                views = self._views.get(key)
                if views:
                    ended.append(views.pop())
                if not views:
                    self._views.pop(key, None)
        # Outside the lock: each ends when nothing reads it any more.
        del ended

    def submit_load_task(self, keys: list[Any], objects: list[Any]) -> int:
        task = self._next_task()
        with self._lock:
            views = [self._views[key][-1] if key in self._views else None for key in keys]
        parts = _parts(objects, self._threads)
        shared = _Parts(len(parts))
        for part in parts:
            theirs = views[part.start : part.stop]
            self._executor.submit(self._load, task, shared, part, keys, theirs, objects)
        return task

    def _load(
        self, task: int, shared: _Parts, part: range, keys: list[Any], views: list[Any], objects: list[Any]
    ) -> None:
        done = []
        for n, view in zip(part, views, strict=True):
            try:
                # One that was not locked may have gone.
                view = view if view is not None else self._objects.get(_id(keys[n]))
                if view is not None:
                    view.readinto(objects[n].byte_array)
                    done.append(n)
            except Exception:
                logger.exception("a chunk was not loaded")
        view = None
        views.clear()
        if not shared.end(done):
            return
        loaded = Bitmap(len(keys))
        for n in shared.done:
            loaded.set(n)
        try:
            if shared.done:
                self._notify_keys_accessed([keys[n] for n in shared.done])
        finally:
            with self._lock:
                self._loaded[task] = loaded
            self._load_event.notify()

    def query_load_result(self, task_id: int) -> Bitmap | None:
        with self._lock:
            return self._loaded.pop(task_id, None)

    def delete(self, keys: list[Any]) -> None:
        deleted, sizes = [], []
        for key in keys:
            known = self._objects.stat(_id(key))
            if known is not None and self._objects.delete(_id(key)):
                deleted.append(key)
                sizes.append(known.nbytes)
        if deleted:
            self._notify_keys_deleted(deleted, sizes)

    def get_usage(self) -> AdapterUsage:
        """Of all processes that share the store. The store evicts by itself, so nobody else need."""
        return AdapterUsage(total_bytes_used=self._objects.nbytes, total_capacity_bytes=0)

    def report_status(self) -> dict:
        with self._lock:
            locked = sum(len(views) for views in self._views.values())
        evicted = self._objects.evictions
        return {
            "is_healthy": True,
            "type": "CenoteL2Adapter",
            "pool": str(self._pool.path),
            "bytes": self._objects.nbytes,
            "max_bytes": self._max_bytes,
            "locked": locked,
            "evicted": evicted.objects,
            "evicted_mean_age_s": evicted.mean_age,
        }

    def close(self) -> None:
        self._executor.shutdown()
        with self._lock:
            self._views.clear()
        try:
            self._pool.close()
        finally:
            for event in (self._store_event, self._lookup_event, self._load_event):
                event.close()
