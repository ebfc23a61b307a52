"""Memory that processes share: maps, objects and locks in a pool that none of them can break.

    import cenote

    pool = cenote.Pool("/dev/shm/example")     # made if it is not there
    visits = pool.map("visits")
    visits["paris"] = b"12"

Any number of processes open the same pool, without a server. Each may be killed at any instruction: the others go on,
and nothing that was acknowledged is lost.
"""

from cenote._native import (
    ClosedError,
    CorruptError,
    DeadlockError,
    Error,
    ForkedError,
    FullError,
    HeldError,
    MemberTakenError,
    NotFoundError,
    QuotaError,
    RemovedError,
    RepairingError,
    View,
    Writer,
    WrongKindError,
    WrongTokenError,
    __version__,
)
from cenote._groups import Event, EventKind, Group, Member, Membership
from cenote._locks import Lock, RwLock
from cenote._maps import Map, OrderedMap
from cenote._objects import Evictions, ObjectInfo, Objects
from cenote._pool import Pool, Recovered

__all__ = [
    "ClosedError",
    "CorruptError",
    "DeadlockError",
    "Error",
    "Event",
    "EventKind",
    "Evictions",
    "ForkedError",
    "FullError",
    "Group",
    "HeldError",
    "Lock",
    "Map",
    "Member",
    "MemberTakenError",
    "Membership",
    "NotFoundError",
    "ObjectInfo",
    "Objects",
    "OrderedMap",
    "Pool",
    "QuotaError",
    "Recovered",
    "RemovedError",
    "RepairingError",
    "RwLock",
    "View",
    "Writer",
    "WrongKindError",
    "WrongTokenError",
    "__version__",
]
