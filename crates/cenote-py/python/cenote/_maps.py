"""Maps, as mutable mappings of bytes to bytes."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView
from typing import Any

from cenote import _named, _native


class _Values(ValuesView):
    def __iter__(self) -> Iterator[bytes]:
        return self._mapping._values()


class _Items(ItemsView):
    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._mapping._items()


class Map(_named.Named, _native.Map, MutableMapping):
    """A hash map of a pool: a mutable mapping of bytes to bytes.

    Keys and values are bytes, a str (its UTF-8), or whatever has the buffer protocol; what comes back is bytes. Every
    operation on one key is atomic, and none waits for another process. An iteration returns each key that is there all
    the time once; one that is inserted or removed meanwhile may be returned. `len` is a count that every process keeps
    up to date.
    """

    def values(self) -> ValuesView:
        return _Values(self)

    def items(self) -> ItemsView:
        return _Items(self)


class OrderedMap(_named.Named, _native.OrderedMap, MutableMapping):
    """An ordered map of a pool: as `Map`, with its keys in the order of their bytes.

    A slice is a scan: `ordered[b"a":b"c"]` are the pairs from `b"a"` on and before `b"c"`.
    """

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice):
            return self._get(key)
        if key.step not in (None, 1):
            raise ValueError("a slice of an ordered map has no step; scan(..., reverse=True) is in descending order")
        return self.scan(key.start, key.stop)

    def scan(self, start: Any = None, stop: Any = None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """The pairs from `start` on and before `stop`, in ascending order, or in descending order."""
        return self._scan(start, stop, reverse, 2)

    def keys_between(self, start: Any = None, stop: Any = None, *, reverse: bool = False) -> Iterator[bytes]:
        """The same, the keys alone."""
        return self._scan(start, stop, reverse, 0)

    def values(self) -> ValuesView:
        return _Values(self)

    def items(self) -> ItemsView:
        return _Items(self)

    def _values(self) -> Iterator[bytes]:
        return self._scan(None, None, False, 1)

    def _items(self) -> Iterator[tuple[bytes, bytes]]:
        return self._scan(None, None, False, 2)

    def __reversed__(self) -> Iterator[bytes]:
        return self._scan(None, None, True, 0)
