"""Object stores: bytes and arrays that are written once, and read where they are by all processes."""

from __future__ import annotations

import asyncio
import operator
import pickle
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cenote import _named, _native
from cenote._native import View, Writer

# The metadata of an object that `dump` has made.
_PICKLE = b"pickle5"
# Who waits for `asyncio` polls so often, in seconds, each time after twice as long: a thread that waited could not be
# notified that nobody is interested any more.
_POLL_MIN, _POLL_MAX = 0.001, 0.02
# Its buffers begin at multiples of this.
_ALIGNED = 64


class ObjectInfo(NamedTuple):
    """What is known of an object without viewing it."""

    id: bytes
    nbytes: int
    created: float
    """When it was made, in seconds since 1970."""
    expires: float | None
    """When its time is over, in seconds since 1970; None for never."""
    viewed: bool
    """Whether it was ever viewed."""
    metadata: bytes
    format: str | None
    """The elements of an array, as of the module `struct`; None of other objects."""
    shape: tuple[int, ...] | None
    """The shape of an array; None of other objects."""


class Evictions(NamedTuple):
    """What a store has evicted since it was made."""

    objects: int
    nbytes: int
    mean_age: float | None
    """Seconds from an object's making to its eviction; None if there was none."""
    expired: int
    """Objects that were deleted because their time was over; they are not among the others."""


def _info(native: Any) -> ObjectInfo:
    id, nbytes, created_ms, expires_ms, viewed, metadata, array = native
    format, shape = (None, None) if array is None else (array[0], tuple(array[1]))
    expires = expires_ms / 1000 if expires_ms else None
    return ObjectInfo(id, nbytes, created_ms / 1000, expires, viewed, metadata, format, shape)


def _write_stream(pyarrow: Any, sink: Any, table: Any) -> None:
    """Writes an Arrow IPC stream. Nothing refers to the sink's memory when this has returned."""
    with sink, pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)


def loads(view: View) -> Any:
    """The value of an object that `Objects.dump` has stored."""
    not_dumped = f"the object {view.id!r} was not stored by dump()"
    if view.metadata != _PICKLE:
        raise ValueError(not_dumped)
    memory = memoryview(view)
    try:
        (count,) = struct.unpack_from("<Q", memory)
        lens = struct.unpack_from(f"<{count}Q", memory, 8)
    except struct.error as error:
        raise ValueError(not_dumped) from error
    parts, end = [], 8 + 8 * count
    for nbytes in lens:
        begin = -(-end // _ALIGNED) * _ALIGNED
        end = begin + nbytes
        parts.append(memory[begin:end])
    return pickle.loads(parts[0], buffers=parts[1:])


class Objects(_named.Named, _native.Objects):
    """An object store of a pool.

    Objects(pool, name, *, create=True, evict=False, quota=0, ttl=None)

    An object is stored whole, under an id, and never changes. `get` returns a `View` of the object's own memory, in any
    process, whatever its size; as long as the view is there, or anything that was made of it (a memoryview, an array),
    the bytes stay, even if the object is deleted, replaced or evicted. If a process dies, what it viewed is released,
    and what it had not finished is gone.

    A store that is made with `evict` is a cache: if there is no room it evicts objects that were not viewed lately.
    `quota` are the bytes that its objects may occupy (0: as many as the pool has), `ttl` is how many seconds objects
    live that say nothing else. A store that is there keeps its own settings.

        objects = pool.objects("arrays")
        objects.put("weights", numpy.ones((1000, 1000)))
        objects["weights"].array()      # in any process: read-only, and no copy
    """

    def create_array(
        self,
        id: Any,
        shape: int | tuple[int, ...],
        dtype: Any = "float64",
        *,
        metadata: Any = None,
        ttl: float | None = None,
        overwrite: bool = False,
    ) -> Writer | None:
        """Makes an array to be filled where it is: `with objects.create_array("a", (3, 4)) as new: new.array()[:] = 1`.
        None if there is an object of this id, unless `overwrite` says that it is to be replaced."""
        import numpy

        elements = memoryview(numpy.empty(0, dtype))
        shape = tuple(shape) if isinstance(shape, Iterable) else (operator.index(shape),)
        return self._create_array(id, elements.format, elements.itemsize, shape, metadata, ttl, overwrite)

    async def wait(self, id: Any, timeout: float | None = None) -> View | None:
        """For `asyncio`: a view of an object as soon as it is sealed; None if `timeout` seconds are over before."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        pause = _POLL_MIN
        while True:
            view = self.get(id)
            now = loop.time()
            if view is not None or (until is not None and now >= until):
                return view
            await asyncio.sleep(pause if until is None else min(pause, until - now))
            pause = min(2 * pause, _POLL_MAX)

    def stat(self, id: Any) -> ObjectInfo | None:
        """What is known of an object; None if there is none."""
        found = self._stat(id)
        return None if found is None else _info(found)

    def list(self, prefix: Any = b"") -> list[ObjectInfo]:
        """All objects whose ids begin with a prefix, by their ids."""
        return [_info(each) for each in self._list(prefix)]

    def __iter__(self) -> Iterator[bytes]:
        return iter([each[0] for each in self._list(b"")])

    @property
    def evictions(self) -> Evictions:
        """What was evicted since the store was made."""
        objects, nbytes, ages_ms, expired = self._evictions()
        return Evictions(objects, nbytes, ages_ms / 1000 / objects if objects else None, expired)

    def dump(self, id: Any, value: Any, *, ttl: float | None = None, overwrite: bool = False) -> bool:
        """Stores any value that can be pickled. Large buffers in it, such as arrays, are stored out of band (pickle's
        protocol 5): `load` returns them without copying. False if there is an object of this id."""
        buffers: list[memoryview] = []
        stream = pickle.dumps(value, protocol=5, buffer_callback=lambda each: buffers.append(each.raw()))
        lens = [len(stream), *(each.nbytes for each in buffers)]
        head = struct.pack(f"<{1 + len(lens)}Q", len(lens), *lens)
        places, end = [], len(head)
        for nbytes in lens:
            begin = -(-end // _ALIGNED) * _ALIGNED
            places.append(begin)
            end = begin + nbytes
        writer = self.create(id, end, metadata=_PICKLE, ttl=ttl, overwrite=overwrite)
        if writer is None:
            return False
        with memoryview(writer) as memory:
            memory[: len(head)] = head
            for begin, part in zip(places, [stream, *buffers]):
                memory[begin : begin + len(part)] = part
        return writer.seal()

    def load(self, id: Any, *, timeout: float | None = None) -> Any:
        """The value that `dump` has stored; KeyError if there is none. Its arrays are read-only, and are the object's
        own memory. As with every pickle, who may write the pool may run any code here."""
        view = self.get(id, timeout=timeout)
        if view is None:
            raise KeyError(id)
        return loads(view)

    def put_arrow(
        self, id: Any, table: Any, *, metadata: Any = None, ttl: float | None = None, overwrite: bool = False
    ) -> bool:
        """Stores a `pyarrow.Table` or `RecordBatch` as an Arrow IPC stream, which is written where it is: no copy but
        that. False if there is an object of this id, unless `overwrite` says that it is to be replaced."""
        import pyarrow

        # Counts the stream's bytes without writing them.
        size = pyarrow.MockOutputStream()
        _write_stream(pyarrow, size, table)
        writer = self.create(id, size.size(), metadata=metadata, ttl=ttl, overwrite=overwrite)
        if writer is None:
            return False
        _write_stream(pyarrow, pyarrow.FixedSizeBufferWriter(pyarrow.py_buffer(writer)), table)
        return writer.seal()

    def get_arrow(self, id: Any, *, timeout: float | None = None) -> Any:
        """The `pyarrow.Table` of an Arrow IPC stream, as `put_arrow` stores it; KeyError if there is no object of this
        id, `pyarrow.ArrowInvalid` (a ValueError) if it is something else. The table's buffers are the object's own
        memory, and keep a view of it. Who may write the pool may store what is no valid table:
        `table.validate(full=True)` finds that."""
        import pyarrow

        view = self.get(id, timeout=timeout)
        if view is None:
            raise KeyError(id)
        with pyarrow.ipc.open_stream(pyarrow.py_buffer(view)) as stream:
            return stream.read_all()
