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


class _Shared(MutableMapping):
    """What `MutableMapping` does in two steps, between which others may do something."""

    def setdefault(self, key: Any, default: Any = None) -> bytes:
        """The value of a key; if it has none, it gets this one. Of many that try at once one succeeds."""
        while (found := self.get(key)) is None:
            if default is None:
                raise TypeError("a value is bytes: give a default")
            self.insert(key, default)
        return found

    def pop(self, key: Any, *default: Any) -> Any:
        """Removes a key, and returns a value that it had shortly before. Of many that pop a key, one has it."""
        if len(default) > 1:
            raise TypeError(f"pop takes a key and a default, and got {1 + len(default)} arguments")
        found = self.get(key)
        if found is not None and self.remove(key):
            return found
        if default:
            return default[0]
        raise KeyError(key)

    def popitem(self) -> tuple[bytes, bytes]:
        """Removes any key, and returns it and a value that it had shortly before."""
        for key, value in self.items():
            if self.remove(key):
                return key, value
        raise KeyError("the map is empty")

    def clear(self) -> None:
        """Removes all keys that are there when it comes by."""
        for key in self:
            self.remove(key)


class Map(_named.Named, _native.Map, _Shared):
    """A hash map of a pool: a mutable mapping of bytes to bytes.

    Keys and values are bytes, a str (its UTF-8), or whatever has the buffer protocol; what comes back is bytes. Every
    operation on one key is atomic, and none waits for another process; `pop` and its kin look first, and then remove. An iteration returns each key that is there all
    the time once; one that is inserted or removed meanwhile may be returned. `len` is a count that every process keeps
    up to date.
    """

    def values(self) -> ValuesView:
        return _Values(self)

    def items(self) -> ItemsView:
        return _Items(self)


class OrderedMap(_named.Named, _native.OrderedMap, _Shared):
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
