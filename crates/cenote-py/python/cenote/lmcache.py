"""KV caches of LMCache in a pool: an L2 adapter that serving processes of one machine share, and that outlives them.

    {"type": "plugin", "module_path": "cenote.lmcache", "class_name": "CenoteL2Adapter",
     "adapter_params": {"path": "/dev/shm/kv", "max_bytes": 8589934592}}

A chunk is stored whole or not at all, whatever becomes of the process that stores it; what a lookup has found stays
until it is unlocked, whatever becomes of the chunk. If there is no room, chunks that were not used lately go.

Needs the package `lmcache` (`pip install 'cenote[lmcache]'`).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from lmcache.lmcache_native import Bitmap
from lmcache.logging import init_logger
from lmcache.v1.distributed.internal_api import L2StoreResult
from lmcache.v1.distributed.l2_adapters.base import AdapterUsage, L2AdapterInterface
from lmcache.v1.distributed.l2_adapters.config import L2AdapterConfigBase
from lmcache.v1.platform import create_event_notifier

from cenote import _chunks
from cenote._copying import Copier, Task

logger = init_logger(__name__)


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
            "- threads (int): threads that copy chunks, each of which takes one of the pool's 256 places (default 2)"
        )


def _id(key: Any) -> bytes:
    """The id of a key's object: its fields, of which the last may be any bytes."""
    fields = f"{key.model_name}@{key.kv_rank}@{key.object_group_id}@{key.cache_salt}@"
    return fields.encode() + key.chunk_hash


def _check_lengths(keys: list[Any], objects: list[Any]) -> None:
    if len(keys) != len(objects):
        raise ValueError(f"{len(keys)} keys and {len(objects)} objects: each key needs one")


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
        self._copier = Copier(config.threads)
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
        _check_lengths(keys, objects)
        task = self._next_task()
        sizes: dict[int, int] = {}

        def put(n: int) -> bool:
            data = memoryview(objects[n].byte_array)
            # One that is there already is not stored again.
            if self._objects.put(_id(keys[n]), data):
                sizes[n] = data.nbytes
            return True

        def end(done: list[int]) -> None:
            stored = sorted(sizes)
            try:
                if stored:
                    self._notify_keys_stored([keys[n] for n in stored], [sizes[n] for n in stored])
            finally:
                with self._lock:
                    self._stored[task] = L2StoreResult(len(done) == len(keys), sum(sizes.values()))
                self._store_event.notify()

        self._copier.run(Task(objects, self._threads, put, end))
        return task

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
        except Exception:
            # A key that cannot be an object's, as well.
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
        _check_lengths(keys, objects)
        task = self._next_task()
        with self._lock:
            views = [self._views[key][-1] if key in self._views else None for key in keys]

        def load(n: int) -> bool:
            view, views[n] = views[n], None
            try:
                if view is None:
                    # One that was not locked may have gone.
                    view = self._objects.get(_id(keys[n]))
                if view is None:
                    return False
                view.readinto(objects[n].byte_array)
                return True
            finally:
                # Who keeps an exception keeps this frame.
                view = None

        def end(done: list[int]) -> None:
            loaded = Bitmap(len(keys))
            for n in done:
                loaded.set(n)
            try:
                if done:
                    self._notify_keys_accessed([keys[n] for n in done])
            finally:
                with self._lock:
                    self._loaded[task] = loaded
                self._load_event.notify()

        self._copier.run(Task(objects, self._threads, load, end))
        return task

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
        self._copier.close()
        with self._lock:
            self._views.clear()
        try:
            self._pool.close()
        finally:
            for event in (self._store_event, self._lookup_event, self._load_event):
                event.close()
