"""Objects that processes hand to each other by handles."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import Any

from cenote import _named
from cenote._native import Error, NotFoundError, View, Writer
from cenote._objects import loads
from cenote._pool import Pool
from cenote.ray._leases import LEASE_MIN, Leases

# What an object's metadata say if it is bytes; an array's say nothing.
_BYTES = b"bytes"
# Seconds, unless the store's creator says otherwise.
_LEASE = 10.0
# Processes, unless the pool's creator says otherwise: Ray has many, and a group of holders has no more members.
_PROCESSES = 120

# The stores that this process has open, by the pool's path and id, and the store's name.
_stores: dict[tuple[str, int, str], Store] = {}
_opening = threading.RLock()


class LostError(NotFoundError):
    """A handle's object is gone: it was freed, its time was over, or its holder ended and nobody adopted it."""


def _forked() -> None:
    """The child of a fork has none of its parent's threads, and so no leases."""
    global _opening
    _opening = threading.RLock()
    _stores.clear()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _ended() -> None:
    """Before threads are stopped: the others are told that this process has left, not that it died."""
    for store in list(_stores.values()):
        with suppress(Exception):
            store._leases.stop()


def _find(opening: Any, name: str) -> Store:
    """The store of a pickled handle or store, as this process has it open, or opened now."""
    with _opening:
        path, id, *_ = opening
        store = _stores.get((path, id, name))
        if store is None:
            store = Store._of(_named.reopen(*opening), name, None)
        return store


class Store:
    """An object store of a pool, whose objects processes hand to each other by handles.

    Store(path, *, name="ray", lease=10.0, size="64MiB", max="1TiB", processes=120)

    Any number of processes of one machine use it; it can be pickled, to tasks and actors of Ray too. The pool is made
    if it is not there; its file stays until somebody deletes it. `lease` is for how many seconds an object outlasts the
    process that answers for it: time for handles that are on their way. A store that is there keeps its own.

        store = cenote.ray.Store("/dev/shm/arrays")
        handle = store.put(numpy.ones((1000, 1000)))
        handle.get()            # in any process: read-only, and no copy
        handle.free()
    """

    def __init__(
        self,
        path: Any,
        *,
        name: str = "ray",
        lease: float = _LEASE,
        size: int | str = "64MiB",
        max: int | str = "1TiB",
        processes: int = _PROCESSES,
    ) -> None:
        if not LEASE_MIN <= lease < float("inf"):
            raise ValueError(f"lease is a number of seconds, {LEASE_MIN:.0f} or more, not {lease}")
        # Ray's processes have many threads that come by.
        pool = Pool(path, size=size, max=max, processes=processes, workers=8 * processes)
        self._open(pool, name, lease)

    @classmethod
    def _of(cls, pool: Pool, name: str, lease: float | None) -> Store:
        store = cls.__new__(cls)
        store._open(pool, name, lease)
        return store

    def _open(self, pool: Pool, name: str, lease: float | None) -> None:
        self.name = name
        self.pool = pool
        self._opening = _named.opening(pool)
        self._objects = pool.objects(name)
        self._leases = Leases(pool, self._objects, name, lease)
        self._process = os.getpid()
        with _opening:
            _stores.setdefault((*self._opening[:2], name), self)

    def _held(self) -> Leases:
        """This process's leases; the child of a fork gets its own."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._leases = Leases(self.pool, self._objects, self.name, None)
        return self._leases

    @property
    def lease(self) -> float:
        """For how many seconds an object outlasts the process that answers for it."""
        return self._leases.seconds

    @property
    def nbytes(self) -> int:
        """Bytes that its objects occupy, with what surrounds them."""
        return self._objects.nbytes

    def __len__(self) -> int:
        return len(self._objects.list())

    def put(self, value: Any, *, ttl: float | None = None) -> ObjectHandle:
        """Stores a value, and returns a handle of it. An array of numbers is copied once. Of any other value large
        buffers, such as the arrays in it, are stored beside its pickle. This process answers for the object: it stays
        until somebody frees it, `ttl` seconds have passed, or this process has ended."""
        leases = self._held()
        id = leases.new_id()
        try:
            if isinstance(value, (bytes, bytearray, memoryview)):
                self._objects.put(id, value, metadata=_BYTES, ttl=ttl)
            elif _is_plain_array(value):
                self._objects.put(id, value, ttl=ttl)
            else:
                self._objects.dump(id, value, ttl=ttl)
        except BaseException:
            leases.free(id)
            raise
        return ObjectHandle(self._opening, self.name, id, self)

    def create_array(
        self, shape: int | tuple[int, ...], dtype: Any = "float64", *, ttl: float | None = None
    ) -> tuple[Writer, ObjectHandle]:
        """An array that is filled where it is, without any copy, and its handle, which nobody can get before it is
        sealed: `writer, handle = store.create_array(3); with writer: writer.array()[:] = 1`. If it is given up, free
        the handle."""
        leases = self._held()
        id = leases.new_id()
        try:
            writer = self._objects.create_array(id, shape, dtype, ttl=ttl)
        except BaseException:
            leases.free(id)
            raise
        return writer, ObjectHandle(self._opening, self.name, id, self)

    def close(self) -> None:
        """Gives up this process's leases, as if it had ended, and closes the pool. Arrays that are there stay as they
        are, and keep the pool open."""
        with _opening:
            key = (*self._opening[:2], self.name)
            if _stores.get(key) is self:
                del _stores[key]
        if self._process == os.getpid():
            self._leases.stop()
        with suppress(BufferError):
            self.pool.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _find, (self._opening, self.name)

    def __repr__(self) -> str:
        return f"<cenote.ray.Store {self.name!r} in {self._opening[0]!r}>"


def _is_plain_array(value: Any) -> bool:
    """An array that is stored as it is: of numbers, in the byte order of the machine."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return False
    return value.dtype.kind in "biufc" and value.dtype.isnative and value.dtype.char not in "gG"


def _value(view: View) -> Any:
    """What `put` has stored."""
    if view.metadata == _BYTES:
        return memoryview(view)
    return loads(view) if view.metadata else view.array()


class ObjectHandle:
    """An object's path, store and id: some hundred bytes when it is pickled, however large the object is.

    It goes wherever pickles go: to tasks and actors of Ray and back, into `ray.put`, through queues. It does not keep
    the object's bytes; what `get` returns does. If the process that answers for the object ends, one that has a handle
    of it takes its place.
    """

    __slots__ = ("_opening", "_name", "id", "_store", "__weakref__")

    def __init__(self, opening: Any, name: str, id: bytes, store: Store | None = None) -> None:
        self._opening = opening
        self._name = name
        self.id = id
        """The object's id in its store."""
        self._store = None
        if store is None:
            # Ray unpickles handles where an exception would end the process: `get` says what is wrong.
            with suppress(Error, OSError):
                self._keep(_find(opening, name))
        else:
            self._keep(store)

    def _keep(self, store: Store) -> None:
        store._held().handle_made(self.id)
        self._store = store

    def _opened(self) -> Store:
        if self._store is None:
            path = self._opening[0]
            try:
                self._keep(_find(self._opening, self._name))
            except FileNotFoundError as error:
                raise LostError(
                    f"{path}: there is no such pool, so the object {self.id.decode()} is out of reach. It was deleted, "
                    "or the handle comes from another machine"
                ) from error
        return self._store

    def get(self) -> Any:
        """The value. An array is read-only, and is the object's own memory, as are the arrays in other values: they
        stay as they are, whatever becomes of the object and of who put it. Of bytes a `memoryview`. LostError if the
        object is gone. As with every pickle, who may write the pool may run any code here."""
        store = self._opened()
        view = store._objects.get(self.id)
        if view is None:
            raise LostError(
                f"the object {self.id.decode()} in {self._opening[0]} is gone: it was freed, its time to live was "
                f"over, or the process that answered for it has ended and no other had a handle of it within {store.lease} s"
            )
        return _value(view)

    def take(self) -> Any:
        """The value, and frees the object: for its only reader. Its memory comes back when the value goes."""
        value = self.get()
        self.free()
        return value

    def free(self) -> bool:
        """Deletes the object: nobody gets it any more. Its memory comes back when the last array of it goes. Returns
        whether this call has done it; another one, or another process, may have been first."""
        return self._opened()._held().free(self.id)

    def __del__(self) -> None:
        store = getattr(self, "_store", None)
        if store is not None:
            store._leases.handle_gone(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectHandle) and (self.id, self._name) == (other.id, other._name)

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> Any:
        return ObjectHandle, (self._opening, self._name, self.id)

    def __repr__(self) -> str:
        return f"<cenote.ray.ObjectHandle {self.id.decode()} in {self._opening[0]!r}>"
