"""Where chunks of KV caches are kept: what both of LMCache's interfaces share."""

from __future__ import annotations

from typing import Any

from cenote import Pool


def check(path: Any, max_bytes: Any, store: Any, threads: Any, name: str = "{}") -> None:
    """Refuses parameters that cannot be; `name` makes what the user calls one of ours."""
    if not isinstance(path, str) or not path:
        raise ValueError(f"{name.format('path')} names the pool's file, as in /dev/shm/kv")
    if not isinstance(max_bytes, int) or max_bytes < 1 << 20:
        raise ValueError(f"{name.format('max_bytes')} is how many bytes the chunks may occupy, a MiB at least")
    if not isinstance(store, str) or not store:
        raise ValueError(f"{name.format('store')} is the name of the object store in the pool")
    if not isinstance(threads, int) or not 1 <= threads <= 64:
        raise ValueError(f"{name.format('threads')} is how many copy chunks, 1 to 64")


def open_store(path: str, max_bytes: int, store: str) -> tuple[Any, Any]:
    """The pool and its object store. Memory for all chunks is reserved when the pool is made, which takes about a
    second for 2 GiB: no store waits for memory."""
    # Beside the chunks there are their keys, and room for what is being replaced.
    room = max_bytes + max_bytes // 4 + (16 << 20)
    pool = Pool(path, size=room, max=room)
    return pool, pool.objects(store, evict=True, quota=max_bytes)
