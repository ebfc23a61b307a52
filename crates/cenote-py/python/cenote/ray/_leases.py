"""Leases: which process answers for an object, and what becomes of its objects when it ends.

State, in the pool: a map from each object's id to its *holder*, and a group whose members are the holders. A process
that has a store open is a holder, by a thread of its own. The operating system shows its death, so there are no
heartbeats: a process that is stopped for an hour keeps its leases, one that is killed loses them at once.

- An object's holder is the process that put it. Its name begins the object's id.
- When a holder ends, the others are told. A process that has a handle of one of its objects *adopts* it: it becomes the
  holder, by one compare-exchange in the map.
- What nobody has adopted after the lease's time is reclaimed, by all that are left; the first one does it.
- When the last handle of an adopter goes, it *releases* the object: the map says so. Others that have handles look for
  that from time to time, and one adopts it; after the lease's time the one that released it reclaims it.

To reclaim or free an object is to exchange its holder for `FREED`, which decides; to delete the object; to remove the
entry. An entry is made before its object. So whatever a dead process leaves is an entry whose holder is not alive, with
or without an object, and each holder looks for such entries when it begins and when another one ends.
"""

from __future__ import annotations

import heapq
import itertools
import os
import secrets
import struct
import threading
import time
from collections import deque
from typing import Any

from cenote._native import Error
from cenote._objects import Objects
from cenote._pool import Pool

# The holder of an object that is being deleted.
FREED = b"-"
# Before the name of a holder that has released the object.
_RELEASED = b"~"
# The map's entry that says how long leases are; ids have another form.
_SECONDS = b"lease"
# The thread looks so often, in seconds, for holders that have ended. Waiting would notice a death at once, but a thread
# that waits watches all others, and where there are more than 128 it costs a hundredth of a processor.
_POLL = 0.25
# All have looked by then.
LEASE_MIN = 4 * _POLL


class Leases:
    """The leases of this process on objects of one store."""

    def __init__(self, pool: Pool, objects: Objects, name: str, seconds: float | None) -> None:
        self._pool = pool
        self._objects = objects
        self._holders = pool.map(f"{name} leases")
        self._group = pool.group(f"{name} holders")
        if seconds is not None:
            self._holders.insert(_SECONDS, struct.pack("<d", seconds))
        (self.seconds,) = struct.unpack("<d", self._holders[_SECONDS])
        # Never the same twice, so what is not alive never will be.
        self.holder = f"{os.getpid()}-{secrets.token_hex(8)}".encode()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        # How many handles of an id this process has. Those that have gone are in a queue, as a handle may go anywhere,
        # and so under the lock as well.
        self._handles: dict[bytes, int] = {}
        self._gone: deque[bytes] = deque()
        # Handles of objects whose first holder has ended: this process, or another, has adopted them.
        self._watched: set[bytes] = set()
        # Holders that have ended and whose objects are not reclaimed yet.
        self._ended: set[bytes] = set()
        # What is to be reclaimed when: all that a holder has left, or an object that this process has released.
        self._due: list[tuple[float, bytes, bool]] = []
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        joined = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(joined,), name="cenote-leases", daemon=True)
        self._thread.start()
        joined.wait()
        if self._failure is not None:
            raise self._failure

    def new_id(self) -> bytes:
        """The id of an object that this process is about to make, and answers for from now on."""
        if not self._thread.is_alive():
            raise Error("this process has no lease: the store is closed, or its thread has failed") from self._failure
        id = self.holder + b"/%d" % next(self._numbers)
        self._holders.insert(id, self.holder)
        return id

    def free(self, id: bytes) -> bool:
        """Deletes an object, if this is the first to do so."""
        freed = False
        while (holder := self._holders.get(id)) is not None and not freed:
            if holder == FREED:
                break
            freed = self._holders.replace(id, holder, FREED)
        if holder is not None:
            self._delete(id)
        return freed

    def _delete(self, id: bytes) -> None:
        self._objects.delete(id)
        self._holders.remove(id)

    def handle_made(self, id: bytes) -> None:
        """This process has another handle."""
        with self._lock:
            self._handles[id] = self._handles.get(id, 0) + 1
        holder = self._holders.get(id)
        if holder != _first_holder(id) or holder in self._ended:
            self._watch(id)

    def handle_gone(self, id: bytes) -> None:
        """One less. Called from finalizers: takes no lock."""
        self._gone.append(id)

    def _watch(self, id: bytes) -> None:
        """Adopts an object that has no holder, if this process has a handle of it."""
        holder = self._holders.get(id)
        with self._lock:
            if id not in self._handles or holder in (None, FREED):
                self._watched.discard(id)
                return
            self._watched.add(id)
        if holder.startswith(_RELEASED) or holder in self._ended:
            # Another one may be first, and may release it again: it is watched.
            self._holders.replace(id, holder, self.holder)

    def stop(self) -> None:
        """Gives up all leases: the others adopt or reclaim what this process has put."""
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self, joined: threading.Event) -> None:
        try:
            with self._group.join(self.holder.decode()) as membership:
                self._look_for_ended()
                joined.set()
                while not self._stopping.wait(self._pause()):
                    # Whichever process comes by first recovers a dead one, and the group's other members are told.
                    self._pool.recover()
                    while (event := membership.next(timeout=0)) is not None:
                        if event.kind in ("left", "died"):
                            self._holder_ended(event.member.encode())
                    self._count_down()
                    self._do_what_is_due()
                    for id in list(self._watched):
                        self._watch(id)
        except BaseException as failure:
            self._failure = failure
        finally:
            joined.set()

    def _pause(self) -> float:
        if not self._due:
            return _POLL
        return min(_POLL, max(0.0, self._due[0][0] - time.monotonic()))

    def _look_for_ended(self) -> None:
        """Finds holders that ended when nobody was there to be told. The map first: each holder in it has joined."""
        holders = {holder.removeprefix(_RELEASED) for id, holder in self._holders.items() if id != _SECONDS}
        alive = {member.name.encode() for member in self._group.members() if member.status == "joined"}
        for holder in holders - alive:
            self._holder_ended(holder)

    def _holder_ended(self, holder: bytes) -> None:
        with self._lock:
            self._ended.add(holder)
            ids = [id for id in self._handles if _first_holder(id) == holder]
        for id in [*ids, *self._watched]:
            self._watch(id)
        heapq.heappush(self._due, (time.monotonic() + self.seconds, holder, False))

    def _count_down(self) -> None:
        """Handles that have gone since the last time."""
        while self._gone:
            id = self._gone.popleft()
            with self._lock:
                left = self._handles.pop(id) - 1
                if left:
                    self._handles[id] = left
                    continue
                self._watched.discard(id)
            if _first_holder(id) != self.holder and self._holders.replace(id, self.holder, _RELEASED + self.holder):
                heapq.heappush(self._due, (time.monotonic() + self.seconds, id, True))

    def _do_what_is_due(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic():
            _, what, is_released = heapq.heappop(self._due)
            if not is_released:
                self._reclaim(what)
            elif self._holders.replace(what, _RELEASED + self.holder, FREED):
                self._delete(what)

    def _reclaim(self, ended: bytes) -> None:
        """Deletes what a holder has left, and what others had begun to delete."""
        for id, holder in list(self._holders.items()):
            if id == _SECONDS or holder not in (ended, _RELEASED + ended, FREED):
                continue
            if holder == FREED or self._holders.replace(id, holder, FREED):
                self._delete(id)
        with self._lock:
            self._ended.discard(ended)


def _first_holder(id: bytes) -> bytes:
    """The process that put an object."""
    return id.partition(b"/")[0]
