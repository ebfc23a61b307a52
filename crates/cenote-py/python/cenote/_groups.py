"""Groups: who is there, and who has died."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from cenote import _native


EventKind = Literal["joined", "left", "died", "rejoined", "host_died"]
"""What can happen in a group, in the words of the command's JSON."""


class Event(NamedTuple):
    """Something that happened to a member of a group."""

    number: int
    """Counts the events of the group."""
    kind: EventKind
    """What has happened. After "host_died" come the deaths of the host's members."""
    member: str
    """The member's name; empty if a host died."""
    time_ns: int
    """When, in nanoseconds since 1970."""


class Member(NamedTuple):
    """A member of a group, or a former one."""

    name: str
    """Its name, the same when it joins again."""
    status: str
    """"joined", "left" or "died"."""


class Membership:
    """A thread's membership of a group; as a context it ends by leaving. An iteration waits for events for ever."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None if there is none within `timeout` seconds (None: waits for ever)."""
        event = self._native._next(timeout)
        return None if event is None else Event(*event)

    def leave(self) -> None:
        """Leaves the group: the others are notified that it left, not that it died."""
        self._native.leave()

    def __iter__(self) -> Iterator[Event]:
        while True:
            event = self.next()
            if event is not None:
                yield event

    def __enter__(self) -> Membership:
        return self

    def __exit__(self, *why: object) -> None:
        self.leave()


class Group(_native.Group):
    """A group of threads of any process that are notified of each other's deaths.

    A thread that joins is a member under a name that stays the same when it comes back. Its death, or that of its
    process, reaches the others as an event, once, and in the same order for all.
    """

    def join(self, name: str) -> Membership:
        """Becomes a member under a name of up to 31 bytes."""
        return Membership(self._join(name))

    def members(self) -> list[Member]:
        """The members, and those that have left or died."""
        return [Member(*each) for each in self._members()]

    def observe(self) -> Membership:
        """Receives events without being a member."""
        return Membership(self._observe())

    def __repr__(self) -> str:
        return f"<cenote.Group {self.name!r}>"
