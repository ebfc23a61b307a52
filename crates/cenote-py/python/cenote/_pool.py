"""Pools."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from cenote import _named, _native
from cenote._groups import Group
from cenote._locks import Lock, RwLock
from cenote._maps import Map, OrderedMap
from cenote._objects import Objects

# The child of a fork opens anew what its parent has open.
os.register_at_fork(after_in_child=_native._forked)


class Recovered(NamedTuple):
    """What `Pool.recover` has recovered."""

    processes: int
    """Dead processes whose places are free again."""
    workers: int
    """Their threads."""


class Pool(_native.Pool):
    """A pool: a file, normally in `/dev/shm`, that processes open at the same time.

    Pool(path, *, create=True, exclusive=False, size="16MiB", max="1TiB", ...)

    It is made if it is not there, unless `create` is false; with `exclusive` it must not be there. Sizes are numbers of
    bytes, or as in "512MiB". `size` and `max` (bytes at first, and at most), `processes`, `workers` (threads), `names`
    and `mode` matter when it is made. `lock_file` names the file of the liveness locks if it is not the pool.
    `trust_owner` opens a pool that another user may write. `background` has a thread of this process recover dead
    processes at once; without it, who is held up by a dead one recovers it. `trim_after` has that thread give memory
    back that has been free for so many seconds.

    It may be used by all threads, in the child of a fork, and pickled: then it is opened again, by its path.
    """

    def map(self, name: str, *, create: bool = True) -> Map:
        """The map of a name."""
        return Map(self, name, create=create)

    def ordered(self, name: str, *, create: bool = True) -> OrderedMap:
        """The ordered map of a name."""
        return OrderedMap(self, name, create=create)

    def objects(self, name: str, **settings: Any) -> Objects:
        """The object store of a name. See `Objects` for its settings."""
        return Objects(self, name, **settings)

    def lock(self, name: str, *, create: bool = True) -> Lock:
        """The lock of a name."""
        return Lock(self, name, create=create)

    def rwlock(self, name: str, *, create: bool = True) -> RwLock:
        """The reader-writer lock of a name."""
        return RwLock(self, name, create=create)

    def group(self, name: str, token: bytes | str = b"", *, create: bool = True) -> Group:
        """The group of a name. All that open it give the same token."""
        return Group(self, name, token, create=create)

    def recover(self) -> Recovered:
        """Recovers what dead processes have left. There is no need to call it: who is held up by a dead one recovers
        it."""
        return Recovered(*self._recover())

    def stat(self) -> dict[str, Any]:
        """What can be said of the pool, as `cenote stat --json` does."""
        return json.loads(self._stat())

    def fsck(self, *, repair: bool = False) -> dict[str, Any]:
        """Checks the pool, and mends it if `repair` says so, as `cenote fsck --json` does."""
        return json.loads(self._fsck(repair))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<cenote.Pool {str(self.path)!r}{', closed' if self.closed else ''}>"

    def __reduce__(self) -> Any:
        return _named.reopen, _named.opening(self)
