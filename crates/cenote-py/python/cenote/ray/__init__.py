"""Arrays and other values of Ray's tasks and actors in a pool: written once, read where they are by all processes.

    store = cenote.ray.Store("/dev/shm/arrays")
    handle = store.put(numpy.ones((1000, 1000)))        # some hundred bytes, for tasks, actors and `ray.put`
    handle.get()                                        # in any process: read-only, and no copy

    cenote.ray.register(store)                          # a tensor transport: Ray itself hands arrays over, and
                                                        # counts who refers to them

If the process that put an object is killed, those who read it go on, and its memory comes back: see `_leases`.

`register` needs the package `ray` (`pip install 'cenote[ray]'`), 2.55 or newer. Handles need nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cenote.ray._store import LostError, ObjectHandle, Store

if TYPE_CHECKING:
    from cenote.ray._transport import register

__all__ = ["LostError", "ObjectHandle", "Store", "register"]


def __getattr__(name: str) -> Any:
    """What needs Ray is there when it is asked for."""
    if name == "register":
        from cenote.ray._transport import register

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
