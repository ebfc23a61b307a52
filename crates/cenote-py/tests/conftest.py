"""A pool for each test, and programs in other processes that use it."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap

import pytest

import cenote


@pytest.fixture
def folder():
    """A folder in shared memory, which goes at the end."""
    with tempfile.TemporaryDirectory(prefix="cenote-test-", dir="/dev/shm") as folder:
        yield pathlib.Path(folder)


@pytest.fixture
def path(folder):
    return folder / "pool"


@pytest.fixture
def pool(path):
    pool = cenote.Pool(path, size="1MiB", max="256MiB")
    yield pool
    check(pool)


def check(pool):
    """Nothing is wrong with a pool."""
    report = pool.fsck()
    assert report["problems"] == [], report["problems"]


class Program:
    """Python in another process, which is killed at the end if it has not ended. `pool` is the pool of the test."""

    def __init__(self, path, text):
        begin = f"import cenote, os, signal, sys, time\npool = cenote.Pool({str(path)!r}, create=False)\n"
        self.process = subprocess.Popen(
            [sys.executable, "-c", begin + textwrap.dedent(text)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self):
        """The next line that it says."""
        line = self.process.stdout.readline()
        assert line, f"the program has ended: {self.process.wait()}"
        return line.strip()

    def go(self):
        """Lets it go on after `input()`."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait(30) == -signal.SIGKILL

    def end(self):
        """Waits until it has ended well; the rest of what it said."""
        said, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return said.strip()

    def __enter__(self):
        return self

    def __exit__(self, *why):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def program(path):
    """Starts a program that uses the pool of the test."""
    started = []

    def start(text):
        started.append(Program(path, text))
        return started[-1]

    yield start
    for each in started:
        each.__exit__()


def in_child(work):
    """Forks; the child does some work, and the parent checks that it went well."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
