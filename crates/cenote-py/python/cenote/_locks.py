"""Locks of a pool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cenote import _named, _native


class Lock(_named.Named, _native.Lock):
    """A mutex that the threads of all processes share: as `threading.Lock`, but released by the thread that took it.

    If its owner dies, the next one has it at once, and is notified: `recovered` is the note that the dead owner left (0
    if it left none), else None. A thread that ends with the lock counts as dead.

        with pool.lock("stock") as lock:
            if lock.recovered is not None:
                ...  # what it protects may be half changed
    """


class RwLock(_named.Named, _native.RwLock):
    """A reader-writer lock that the threads of all processes share. A thread has it once."""

    @contextmanager
    def read(self, timeout: float = -1.0) -> Iterator[RwLock]:
        """Has the lock for reading, with other readers. TimeoutError if it cannot be had in time."""
        if not self.acquire_read(timeout=timeout):
            raise TimeoutError(f"the lock {self.name!r} could not be had in {timeout} s")
        try:
            yield self
        finally:
            self.release()

    @contextmanager
    def write(self, timeout: float = -1.0) -> Iterator[RwLock]:
        """Has the lock for writing, alone. TimeoutError if it cannot be had in time."""
        if not self.acquire_write(timeout=timeout):
            raise TimeoutError(f"the lock {self.name!r} could not be had in {timeout} s")
        try:
            yield self
        finally:
            self.release()
