"""KV caches of LMCache in a pool: a storage plug-in for LMCache's engine in the serving process.

    storage_plugins: ["cenote"]
    extra_config:
      storage_plugin.cenote.module_path: cenote.lmcache_storage
      storage_plugin.cenote.class_name: CenoteStorageBackend
      cenote.path: /dev/shm/kv
      cenote.max_bytes: 8589934592

`cenote.lmcache` is the adapter for LMCache's server of several processes. What this one stores is the same: whole chunks
or nothing, kept over restarts, shared by all processes of the machine that name the same pool.

Needs the package `lmcache` (`pip install 'cenote[lmcache]'`).
"""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import torch
from lmcache.logging import init_logger
from lmcache.utils import STR_DTYPE_TO_TORCH_DTYPE, TORCH_DTYPE_TO_STR_DTYPE, CacheEngineKey
from lmcache.v1.memory_management import MemoryFormat, MemoryObj
from lmcache.v1.storage_backend.abstract_backend import StoragePluginInterface

from cenote import Error, FullError, _chunks
from cenote._copying import Copier

logger = init_logger(__name__)


class CenoteStorageBackend(StoragePluginInterface):
    """Chunks of KV caches as objects of a pool, each with its shapes as metadata."""

    def __init__(
        self,
        dst_device: str = "cpu",
        config: Any = None,
        metadata: Any = None,
        local_cpu_backend: Any = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(dst_device, config, metadata, local_cpu_backend, loop)
        extra = (config.extra_config if config is not None else None) or {}
        path, max_bytes = extra.get("cenote.path"), extra.get("cenote.max_bytes")
        store, threads = extra.get("cenote.store", "lmcache-storage"), extra.get("cenote.threads", 2)
        _chunks.check(path, max_bytes, store, threads, "extra_config['cenote.{}']")
        self._pool, self._objects = _chunks.open_store(path, max_bytes, store)
        self._copier = Copier(threads)
        self._lock = threading.Lock()
        self._put: Counter[bytes] = Counter()
        # A view for each time that a key was pinned and not unpinned since.
        self._views: defaultdict[bytes, list[Any]] = defaultdict(list)

    def __str__(self) -> str:
        return "CenoteStorageBackend"

    def contains(self, key: CacheEngineKey, pin: bool = False) -> bool:
        if not pin:
            return _id(key) in self._objects
        return self.pin(key)

    def pin(self, key: CacheEngineKey) -> bool:
        view = self._objects.get(_id(key))
        if view is None:
            return False
        with self._lock:
            self._views[_id(key)].append(view)
        return True

    def unpin(self, key: CacheEngineKey) -> bool:
        view = None
        with self._lock:
            views = self._views.get(_id(key))
            if views:
                view = views.pop()
            if not views:
                self._views.pop(_id(key), None)
        return view is not None

    def exists_in_put_tasks(self, key: CacheEngineKey) -> bool:
        with self._lock:
            return self._put[_id(key)] > 0

    def batched_submit_put_task(
        self,
        keys: Sequence[CacheEngineKey],
        objs: list[MemoryObj],
        transfer_spec: Any = None,
        on_complete_callback: Callable[[CacheEngineKey], None] | None = None,
    ) -> list[Future] | None:
        futures = []
        for key, chunk in zip(keys, objs, strict=True):
            if _id(key) in self._objects or self.exists_in_put_tasks(key):
                continue
            with self._lock:
                self._put[_id(key)] += 1
            chunk.ref_count_up()
            try:
                future = self._copier.submit(self._store, key, chunk, on_complete_callback)
            except Exception:
                self._end_put(key, chunk)
                raise
            future.add_done_callback(functools.partial(self._end_cancelled, key, chunk))
            futures.append(future)
        return futures or None

    def _store(
        self,
        key: CacheEngineKey,
        chunk: MemoryObj,
        on_complete_callback: Callable[[CacheEngineKey], None] | None,
    ) -> None:
        is_there = False
        try:
            # Another process may have stored it meanwhile, which is as good.
            self._objects.put(_id(key), memoryview(chunk.byte_array), metadata=_described(chunk))
            is_there = True
        except FullError as error:
            logger.warning("a chunk was not stored: %s", error)
        except Exception:
            logger.exception("a chunk was not stored")
        finally:
            self._end_put(key, chunk)
        if is_there and on_complete_callback is not None:
            try:
                on_complete_callback(key)
            except Exception:
                logger.exception("on_complete_callback failed")

    def _end_put(self, key: CacheEngineKey, chunk: MemoryObj) -> None:
        chunk.ref_count_down()
        with self._lock:
            self._put[_id(key)] -= 1
            if not self._put[_id(key)]:
                del self._put[_id(key)]

    def _end_cancelled(self, key: CacheEngineKey, chunk: MemoryObj, future: Future) -> None:
        """After a put that was cancelled before it began."""
        if future.cancelled():
            self._end_put(key, chunk)

    def get_blocking(self, key: CacheEngineKey) -> MemoryObj | None:
        return self._load(key, busy_loop=True)

    def batched_get_blocking(self, keys: list[CacheEngineKey]) -> list[MemoryObj | None]:
        return [self.get_blocking(key) for key in keys]

    def _load(self, key: CacheEngineKey, busy_loop: bool) -> MemoryObj | None:
        if self.local_cpu_backend is None:
            # A scheduler only asks what is there.
            return None
        view = self._objects.get(_id(key))
        if view is None:
            return None
        chunk = None
        try:
            shapes, dtypes, fmt, positions = _description(view.metadata)
            if len(shapes) == 1:
                shapes, dtypes = shapes[0], dtypes[0]
            chunk = self.local_cpu_backend.allocate(shapes, dtypes, fmt, busy_loop=busy_loop)
            if chunk is None:
                logger.warning("no memory to load a chunk to")
                return None
            if len(chunk.byte_array) != view.nbytes:
                raise Error(f"a chunk has {view.nbytes} bytes, and its shapes say {len(chunk.byte_array)}")
            view.readinto(chunk.byte_array)
            chunk.metadata.cached_positions = positions
        except Exception:
            # Also what another version of LMCache has stored, in a form that this one does not know.
            logger.exception("a chunk was not loaded")
            if chunk is not None:
                chunk.ref_count_down()
            return None
        finally:
            # Who keeps an exception keeps this frame.
            view = None
        return chunk

    async def batched_async_contains(self, lookup_id: str, keys: list[CacheEngineKey], pin: bool = False) -> int:
        return self.batched_contains(keys, pin)

    async def batched_get_non_blocking(
        self,
        lookup_id: str,
        keys: list[CacheEngineKey],
        transfer_spec: Any = None,
    ) -> list[MemoryObj]:
        future = self._copier.submit(self._load_until_missing, keys)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            future.add_done_callback(_give_back)
            raise

    def _load_until_missing(self, keys: list[CacheEngineKey]) -> list[MemoryObj]:
        chunks = []
        for key in keys:
            chunk = self._load(key, busy_loop=False)
            if chunk is None:
                break
            chunk.pin()
            chunks.append(chunk)
        return chunks

    def remove(self, key: CacheEngineKey, force: bool = True) -> bool:
        with self._lock:
            is_pinned = _id(key) in self._views
        return (force or not is_pinned) and self._objects.delete(_id(key))

    def get_allocator_backend(self) -> Any:
        return self.local_cpu_backend

    def touch_cache(self) -> None:
        """The store marks what is viewed, by itself."""

    def close(self) -> None:
        self._copier.close()
        with self._lock:
            self._views.clear()
        self._pool.close()


def _give_back(future: Future) -> None:
    """Releases chunks that nobody waits for any more."""
    if future.cancelled() or future.exception() is not None:
        return
    for chunk in future.result():
        chunk.unpin()
        chunk.ref_count_down()


def _id(key: CacheEngineKey) -> bytes:
    return key.to_string().encode()


def _described(chunk: MemoryObj) -> bytes:
    """What a chunk's bytes are, for whoever loads them."""
    positions = chunk.metadata.cached_positions
    described = {
        "shapes": [list(shape) for shape in chunk.get_shapes()],
        "dtypes": [TORCH_DTYPE_TO_STR_DTYPE[dtype] for dtype in chunk.get_dtypes()],
        "format": chunk.get_memory_format().name,
        "positions": None if positions is None else positions.tolist(),
    }
    return json.dumps(described).encode()


def _description(metadata: bytes) -> tuple[list[torch.Size], list[torch.dtype], MemoryFormat, torch.Tensor | None]:
    described = json.loads(metadata)
    positions = described["positions"]
    return (
        [torch.Size(shape) for shape in described["shapes"]],
        [STR_DTYPE_TO_TORCH_DTYPE[dtype] for dtype in described["dtypes"]],
        MemoryFormat[described["format"]],
        None if positions is None else torch.tensor(positions),
    )
