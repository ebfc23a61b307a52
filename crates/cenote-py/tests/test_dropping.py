"""Maps and object stores that are dropped by their names, in this process and in others."""

import gc
import subprocess
import sys

import numpy
import pytest

import cenote


def test_dropped_and_made_again(pool):
    map, ordered, objects = pool.map("map"), pool.ordered("ordered"), pool.objects("objects")
    map[b"a"], ordered[b"a"] = b"1", b"1"
    objects.put("a", b"1")
    for name in ["map", "ordered", "objects"]:
        assert pool.drop(name)
    assert pool.names() == []
    for use in [lambda: map[b"a"], lambda: ordered[b"a"], lambda: objects["a"], lambda: map.update({b"b": b"2"})]:
        with pytest.raises(cenote.RemovedError, match="dropped"):
            use()
    with pytest.raises(cenote.NotFoundError):
        pool.drop("map")
    assert len(pool.map("map")) == 0 and pool.ordered("ordered").get(b"a") is None
    assert pool.objects("objects").get("a") is None


def test_an_array_stays_while_it_is_used(pool):
    objects = pool.objects("arrays")
    objects.put("a", numpy.arange(1000))
    array = objects["a"].array()
    assert not pool.drop("arrays")
    gc.collect()
    assert array.sum() == 499500
    del array
    gc.collect()
    pool.collect()
    assert pool.stat()["dropped"] == 0
    report = pool.fsck()
    assert report["leaked_bytes"] == 0 and report["problems"] == []


def test_another_process_drops(pool):
    map = pool.map("map")
    map[b"a"] = b"1"
    code = f"import cenote; cenote.Pool({str(pool.path)!r}).drop('map')"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(cenote.RemovedError):
        map[b"a"]


def test_what_cannot_be_dropped(pool):
    pool.lock("lock")
    with pytest.raises(cenote.WrongKindError):
        pool.drop("lock")
    with pytest.raises(TypeError):
        pool.drop(7)


def test_members_of_a_group_are_told(pool):
    group = pool.group("group", b"token")
    with group.join("me") as membership:
        assert membership.next(1).kind == "joined"
        code = f"import cenote; cenote.Pool({str(pool.path)!r}).drop('group')"
        waiter = subprocess.Popen([sys.executable, "-c", code])
        with pytest.raises(cenote.RemovedError, match="dropped"):
            membership.next(60)
        assert waiter.wait() == 0
    assert pool.group("group", b"another token").members() == []
