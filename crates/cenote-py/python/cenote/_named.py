"""What has a name in a pool, and how other processes find it again."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from cenote import _native

# What has been unpickled opens a pool once, however many handles of it there are; by the pool's path and id.
_open: weakref.WeakValueDictionary[tuple[str, int], Any] = weakref.WeakValueDictionary()
_opening = threading.RLock()


def _renew() -> None:
    """The child of a fork has a copy of the lock, which another thread of the parent may have held."""
    global _opening
    _opening = threading.RLock()


os.register_at_fork(after_in_child=_renew)


def reopen(path: str, id: int, lock_file: str | None, trust_owner: bool, background: bool) -> Any:
    """The pool of a path, as this process has unpickled it before, or opened now. Error if it is another one by now."""
    from cenote._pool import Pool

    with _opening:
        pool = _open.get((path, id))
    if pool is None or pool.closed:
        pool = Pool(path, create=False, lock_file=lock_file, trust_owner=trust_owner, background=background)
        if pool._opening[1] != id:
            pool.close()
            raise _native.Error(f"{path}: another pool has been made in the place of the one that was pickled")
        with _opening:
            other = _open.get((path, id))
            if other is not None and not other.closed:
                return other
            _open[path, id] = pool
    return pool


def opening(of: Any) -> tuple[str, int, str | None, bool, bool]:
    """What `reopen` needs to open the pool of something."""
    path, id, lock_file, trust_owner, background = of._opening
    return str(path), id, None if lock_file is None else str(lock_file), trust_owner, background


def find(kind: Any, opening: tuple[str, int, str | None, bool, bool], name: str) -> Any:
    """What has a name in a pool."""
    return kind(reopen(*opening), name, create=False)


class Named:
    """It is pickled as its name, and opened again where it is unpickled."""

    def __reduce__(self) -> Any:
        return find, (type(self), opening(self), self.name)

    def __repr__(self) -> str:
        return f"<cenote.{type(self).__name__} {self.name!r} in {str(self._opening[0])!r}>"
