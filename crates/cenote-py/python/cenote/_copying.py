"""Threads that copy chunks, for LMCache's interfaces."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from lmcache.logging import init_logger

from cenote import ForkedError, FullError

logger = init_logger(__name__)

# Bytes that a thread copies in the time of waking some others.
_PIECE_BYTES_MIN = 1 << 20
# Bytes for which another task may have to wait.
_PIECE_BYTES_MAX = 4 << 20
# How long the start of threads may take.
_START_SECONDS = 30


class Copier:
    """Some threads. All of them copy for a large task, but each lets those that wait go first after every few MiB, so a
    small task passes a large one."""

    def __init__(self, threads: int) -> None:
        self._pid = os.getpid()
        self._threads = threads
        self._executor = ThreadPoolExecutor(threads, "cenote-lmcache")
        # All begin now. If there can be no more threads in this process, an executor that begins them later queues
        # what is submitted, and raises as well: then it would be copied when its memory is somebody else's.
        begun = threading.Barrier(threads + 1)
        try:
            for _ in range(threads):
                self._executor.submit(begun.wait)
            begun.wait(_START_SECONDS)
        except BaseException:
            begun.abort()
            self._executor.shutdown()
            raise

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future:
        """Has a thread make a call."""
        self._check()
        return self._executor.submit(call, *arguments)

    def run(self, task: Task) -> None:
        """Has threads do a task."""
        self._check()
        for _ in range(min(self._threads, task.pieces)):
            self._executor.submit(self._take_turns, task)

    def _take_turns(self, task: Task) -> None:
        while task.do_piece():
            try:
                self._executor.submit(self._take_turns, task)
                return
            except RuntimeError:
                # It is being closed: what is queued is done still.
                continue

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedError("the threads that copy chunks are those of the parent; open the store after the fork")

    def close(self) -> None:
        """Waits until all is done."""
        self._executor.shutdown()


class Task:
    """Chunks that are copied one by one, and what is done in the end with the numbers of those that were.

    `copy` says whether it has copied a chunk. If it finds no room, it is called for that chunk again at last, when no
    thread is in the middle of another one: what is being stored cannot be evicted."""

    def __init__(
        self,
        chunks: list[Any],
        threads: int,
        copy: Callable[[int], bool],
        end: Callable[[list[int]], None],
    ) -> None:
        self._copy, self._end = copy, end
        self._waiting = _pieces([_size(chunk) for chunk in chunks], threads)
        self.pieces = len(self._waiting)
        self._left = self.pieces
        self._lock = threading.Lock()
        self._done: list[int] = []
        self._refused: list[int] = []

    def do_piece(self) -> bool:
        """Copies the next few chunks; whether there are more."""
        with self._lock:
            if not self._waiting:
                return False
            piece = self._waiting.popleft()
        done: list[int] = []
        refused: list[int] = []
        try:
            self._copy_all(piece, done, refused)
        finally:
            with self._lock:
                self._done += done
                self._refused += refused
                self._left -= 1
                is_last, has_more = self._left == 0, bool(self._waiting)
            if is_last:
                self._finish()
        return has_more

    def _copy_all(self, numbers: Iterable[int], done: list[int], refused: list[int]) -> None:
        for n in numbers:
            try:
                if self._copy(n):
                    done.append(n)
            except FullError:
                refused.append(n)
            except Exception:
                logger.exception("a chunk was not copied")

    def _finish(self) -> None:
        refused: list[int] = []
        try:
            self._copy_all(sorted(self._refused), self._done, refused)
            if refused:
                logger.warning("there is no room for %d of the chunks", len(refused))
        finally:
            self._end(sorted(self._done))


def _size(chunk: Any) -> int:
    """A chunk's bytes; 0 if it says nothing, which is told when it is copied."""
    try:
        return memoryview(chunk.byte_array).nbytes
    except Exception:
        return 0


def _pieces(sizes: list[int], threads: int) -> deque[range]:
    """Chunks that follow one another, in pieces; one at least."""
    enough = min(_PIECE_BYTES_MAX, max(_PIECE_BYTES_MIN, sum(sizes) // threads))
    pieces: deque[range] = deque()
    begin, nbytes = 0, 0
    for n, size in enumerate(sizes):
        nbytes += size
        if nbytes >= enough:
            pieces.append(range(begin, n + 1))
            begin, nbytes = n + 1, 0
    if begin < len(sizes) or not pieces:
        pieces.append(range(begin, len(sizes)))
    return pieces
