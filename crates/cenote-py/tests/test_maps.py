"""Maps as mappings."""

import pickle
import random
import threading

import pytest

import cenote


def test_a_map_is_a_mapping(pool):
    map = pool.map("map")
    map["text"] = "Grüße"
    map[b"bytes"] = bytearray(b"value")
    map[memoryview(b"view")] = memoryview(b"xyz")[1:]
    assert map[b"text"] == "Grüße".encode()
    assert dict(map) == {b"text": "Grüße".encode(), b"bytes": b"value", b"view": b"yz"}
    assert len(map) == 3 and "bytes" in map and b"none" not in map
    assert map.get("none") is None and map.get("none", 7) == 7
    assert sorted(map.values()) == sorted(dict(map).values())
    assert map.pop("bytes") == b"value"
    assert map.setdefault("bytes", b"again") == b"again"
    del map["text"]
    with pytest.raises(KeyError, match="text"):
        map["text"]
    with pytest.raises(KeyError, match="text"):
        del map["text"]
    map.update({"a": "1", "b": "2"})
    assert map.get_many(["a", "none", b"b"]) == [b"1", None, b"2"]
    map.clear()
    assert len(map) == 0 and list(map) == []


@pytest.mark.parametrize("kind", ["map", "ordered"])
def test_conditional_operations(pool, kind):
    map = getattr(pool, kind)("map")
    assert map.insert("key", "1")
    assert not map.insert("key", "2")
    assert not map.replace("key", "2", "3")
    assert map.replace("key", "1", "3")
    assert map["key"] == b"3"
    assert map.remove("key") and not map.remove("key")
    assert not map.replace("key", "3", "4")


def test_an_ordered_map_is_scanned(pool):
    ordered = pool.ordered("ordered")
    keys = [b"%05d" % n for n in range(5000)]
    for key in random.Random(1).sample(keys, len(keys)):
        ordered[key] = key[::-1]
    assert list(ordered) == keys
    assert list(reversed(ordered)) == keys[::-1]
    assert list(ordered[b"00100":b"00103"]) == [(key, key[::-1]) for key in keys[100:103]]
    assert [key for key, _ in ordered[b"04998":]] == keys[4998:]
    assert list(ordered.keys_between(stop=b"00300", reverse=True)) == keys[299::-1]
    assert ordered.first()[0] == keys[0] and ordered.last()[0] == keys[-1]
    assert ordered.successor("00010")[0] == keys[11] and ordered.predecessor("00010")[0] == keys[9]
    assert ordered.predecessor(keys[0]) is None
    assert ordered.count(b"00100", b"00200") == 100 and ordered.count() == len(ordered) == 5000
    with pytest.raises(ValueError, match="step"):
        ordered[b"a":b"b":2]


def test_what_is_no_bytes_is_refused(pool):
    map = pool.map("map")
    with pytest.raises(TypeError, match="buffer protocol is needed, not int"):
        map[1] = b"value"
    with pytest.raises(TypeError, match="not NoneType"):
        map["key"] = None
    with pytest.raises(ValueError, match="bytes"):
        map[b"k" * 100_000] = b"value"
    with pytest.raises(cenote.NotFoundError, match="none"):
        pool.map("none", create=False)
    with pytest.raises(cenote.WrongKindError, match="map"):
        pool.ordered("map")


def test_a_full_pool_says_so_and_goes_on(folder):
    pool = cenote.Pool(folder / "small", size="1MiB", max="2MiB")
    map = pool.map("map")
    with pytest.raises(cenote.FullError):
        for n in range(100_000):
            map[b"%d" % n] = b"v" * 1000
    for key in list(map)[:100]:
        del map[key]
    map["after"] = b"a" * 1000
    assert map["after"] == b"a" * 1000


def test_threads_and_processes_share(pool, program):
    map = pool.map("map")
    child = program("""
        map = pool.map("map")
        for n in range(1000):
            map[b"child %d" % n] = b"%d" % n
    """)

    def put(name):
        for n in range(1000):
            map[b"%s %d" % (name, n)] = b"%d" % n

    threads = [threading.Thread(target=put, args=(name,)) for name in (b"one", b"two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    child.end()
    assert len(map) == 3000
    assert all(map[b"%s %d" % (name, n)] == b"%d" % n for name in (b"one", b"two", b"child") for n in range(1000))


def test_a_pickled_map_is_opened_elsewhere(pool, path, program):
    pool.map("map")["key"] = b"value"
    pickled = pickle.dumps(pool.map("map"))
    assert len(pickled) < 150
    again = pickle.loads(pickled)
    assert again["key"] == b"value" and again.name == "map"
    child = program(f"""
        import pickle
        print(pickle.loads({pickled!r})["key"])
    """)
    assert child.end() == "b'value'"


def test_an_iterator_that_is_asked_by_itself_says_so(pool):
    map = cenote.Map(pool, "map")
    map["key"] = b"value"
    iterator, asked = iter(map.items()), []

    def ask(_):
        try:
            next(iterator)
        except (ValueError, StopIteration) as error:
            asked.append(type(error))

    import weakref

    gone = weakref.ref(map, ask)
    del map
    assert list(iterator) == [(b"key", b"value")]
    del iterator
    assert gone() is None and asked


def test_cycles_of_maps_and_iterators_are_collected(pool):
    import gc
    import weakref

    for kind in (cenote.Map, cenote.OrderedMap):
        map = kind(pool, kind.__name__)
        map["key"] = b"value"
        map.iterator = iter(map)
        gone = weakref.ref(map)
        del map
        gc.collect()
        assert gone() is None


def test_many_that_pop_and_set_agree(pool, program):
    map = pool.map("map")
    text = """
        map = pool.map("map")
        won = 0
        print("ready", flush=True)
        input()
        for n in range(2000):
            won += map.setdefault(f"{n % 50}", b"%d" % os.getpid()) == b"%d" % os.getpid()
            map.pop(f"{n % 50}", None)
            if n % 100 == 0:
                map.clear()
        print(won, flush=True)
    """
    children = [program(text) for _ in range(2)]
    assert all(child.line() == "ready" for child in children)
    for child in children:
        child.go()
    for child in children:
        assert int(child.end()) > 0
    with pytest.raises(KeyError):
        map.clear() or map.popitem()


def test_thousands_of_handles_come_and_go(pool):
    handles = [pool.map("map") for _ in range(5000)]
    handles[0]["key"] = b"value"
    assert all(handle["key"] == b"value" for handle in handles[::100])
    del handles
    assert pool.map("map")["key"] == b"value"
