"""What has a name in a pool, and how other processes find it again."""

from __future__ import annotations

import threading
import weakref
from typing import Any

# What has been unpickled opens a pool once, however many handles of it there are.
_open: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def reopen(path: str) -> Any:
    """The pool of a path, as this process has unpickled it before, or opened now."""
    from cenote._pool import Pool

    with _opening:
        pool = _open.get(path)
        if pool is None or pool.closed:
            pool = Pool(path, create=False)
            _open[path] = pool
        return pool


def find(kind: Any, path: str, name: str) -> Any:
    """What has a name in the pool of a path."""
    return kind(reopen(path), name, create=False)


class Named:
    """It is pickled as its name, and opened again where it is unpickled."""

    def __reduce__(self) -> Any:
        return find, (type(self), str(self._path), self.name)

    def __repr__(self) -> str:
        return f"<cenote.{type(self).__name__} {self.name!r} in {str(self._path)!r}>"
