"""Objects between processes: Cenote beside what people use now, in one run, interleaved.

    python crates/cenote-py/bench/objects.py [--rounds N] [--json] [--peers cenote,shared_memory,file,ray]

One process stores arrays of bytes, another one gets each of them, looks at its first and last byte, and gets it again:
when it gets one first, nothing of it is in the processor's caches, nor, where the arrays are large, is anything else
that a get needs. A round has all stores, one after the other; figures are medians of the rounds' medians, in microseconds. `copy` is what copying the
bytes to memory that is there already takes: no store can put faster. Ray is measured if it is installed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from multiprocessing import shared_memory

import numpy

KIB, MIB = 1 << 10, 1 << 20
SIZES = {"1 KiB": KIB, "128 KiB": 128 * KIB, "1 MiB": MIB, "125 MiB": 125 * MIB}


def count(size: int) -> int:
    """Objects of a size in a round."""
    return max(6, min(200, 256 * MIB // size))


class Cenote:
    """`Objects` of a pool."""

    name = "cenote"

    def __init__(self, folder: str) -> None:
        import cenote

        self.pool = cenote.Pool(f"{folder}/pool", size="1GiB", max="4GiB")
        self.objects = self.pool.objects("objects")

    def put(self, key: str, data: numpy.ndarray) -> object:
        assert self.objects.put(key, data)
        return key

    def get(self, key: str, _handle: object) -> numpy.ndarray:
        return self.objects[key].array()

    def delete(self, key: str, _handle: object) -> None:
        assert self.objects.delete(key)


class SharedMemory:
    """`multiprocessing.shared_memory`: a block of its own for each object."""

    name = "shared_memory"

    def __init__(self, folder: str) -> None:
        self.prefix = os.path.basename(folder)
        self.blocks = {}

    def put(self, key: str, data: numpy.ndarray) -> object:
        block = shared_memory.SharedMemory(f"{self.prefix}-{key}", create=True, size=data.nbytes)
        numpy.frombuffer(block.buf, "u1", data.nbytes)[:] = data
        self.blocks[key] = block
        return data.nbytes

    def get(self, key: str, handle: object) -> numpy.ndarray:
        block = shared_memory.SharedMemory(f"{self.prefix}-{key}")
        self.blocks[key] = block
        return numpy.frombuffer(block.buf, "u1", handle)

    def delete(self, key: str, _handle: object) -> None:
        block = self.blocks.pop(key)
        block.unlink()
        block.close()

    def forget(self, key: str) -> None:
        self.blocks.pop(key).close()


class Files:
    """A file on tmpfs for each object, mapped by the reader."""

    name = "file"

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def put(self, key: str, data: numpy.ndarray) -> object:
        with open(f"{self.folder}/{key}.new", "wb") as file:
            file.write(data)
        os.rename(f"{self.folder}/{key}.new", f"{self.folder}/{key}")
        return None

    def get(self, key: str, _handle: object) -> numpy.ndarray:
        return numpy.memmap(f"{self.folder}/{key}", "u1", "r")

    def delete(self, key: str, _handle: object) -> None:
        os.unlink(f"{self.folder}/{key}")


STORES = {store.name: store for store in (Cenote, SharedMemory, Files)}


def serve(kind: str, folder: str, link) -> None:
    """The process that gets."""
    store = STORES[kind](folder)
    while (asked := link.recv()) is not None:
        keys, handles = asked
        first, again = [], []
        for key, of in zip(keys, handles):
            for times in (first, again):
                began = time.perf_counter_ns()
                array = store.get(key, of)
                times.append((time.perf_counter_ns() - began) / 1000)
                assert array[0] == array[-1] == 7
                del array
                if hasattr(store, "forget"):
                    store.forget(key)
        link.send((first, again))


class Pair:
    """A store, and another process that gets what is stored."""

    def __init__(self, kind: str, folder: str) -> None:
        self.store = STORES[kind](folder)
        self.link, theirs = multiprocessing.get_context("spawn").Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=serve, args=(kind, folder, theirs))
        self.process.start()

    def round(self, size: int, number: int) -> tuple[float, float, float]:
        data = numpy.full(size, 7, "u1")
        keys = [f"{size}-{number}-{n}" for n in range(count(size))]
        puts, handles = [], []
        for key in keys:
            began = time.perf_counter_ns()
            handles.append(self.store.put(key, data))
            puts.append((time.perf_counter_ns() - began) / 1000)
        self.link.send((keys, handles))
        first, again = self.link.recv()
        for key, of in zip(keys, handles):
            self.store.delete(key, of)
        return statistics.median(puts), statistics.median(first), statistics.median(again)

    def end(self) -> None:
        self.link.send(None)
        self.process.join()


class Ray:
    """Ray's own object store; the process that gets is an actor."""

    def __init__(self) -> None:
        import ray

        self.ray = ray
        ray.init(num_cpus=2, object_store_memory=1 << 30, include_dashboard=False, log_to_driver=False)

        @ray.remote
        class Getter:
            def get(self, refs):
                first, again = [], []
                for ref in refs:
                    for times in (first, again):
                        began = time.perf_counter_ns()
                        array = ray.get(ref)
                        times.append((time.perf_counter_ns() - began) / 1000)
                        assert array[0] == array[-1] == 7
                        del array
                return first, again

        self.getter = Getter.remote()
        ray.get(self.getter.get.remote([]))

    def round(self, size: int, _number: int) -> tuple[float, float, float]:
        data = numpy.full(size, 7, "u1")
        puts, refs = [], []
        for _ in range(count(size)):
            began = time.perf_counter_ns()
            refs.append(self.ray.put(data))
            puts.append((time.perf_counter_ns() - began) / 1000)
        first, again = self.ray.get(self.getter.get.remote(refs))
        return statistics.median(puts), statistics.median(first), statistics.median(again)

    def end(self) -> None:
        self.ray.shutdown()


class Copy:
    """Copying to memory that is there already, and as much of it, which is what a put cannot do without."""

    def round(self, size: int, _number: int) -> tuple[float, float, float]:
        data = numpy.full(size, 7, "u1")
        places = [numpy.ones(size, "u1") for _ in range(count(size))]
        times = []
        for to in places:
            began = time.perf_counter_ns()
            to[:] = data
            times.append((time.perf_counter_ns() - began) / 1000)
        return statistics.median(times), float("nan"), float("nan")

    def end(self) -> None:
        pass


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", action="store_true", help="a JSON object a line")
    options.add_argument("--peers", default="cenote,shared_memory,file,ray")
    asked = options.parse_args()
    names = asked.peers.split(",")
    with tempfile.TemporaryDirectory(prefix="cenote-bench-", dir="/dev/shm") as folder:
        pairs = {"copy": Copy()}
        for name in names:
            if name == "ray":
                try:
                    pairs[name] = Ray()
                except ImportError:
                    print("ray is not installed, and not measured")
            elif name in STORES:
                pairs[name] = Pair(name, folder)
            else:
                options.error(f"no store is called {name!r}; there are {', '.join([*STORES, 'ray'])}")
        try:
            found = {(name, size): [] for size in SIZES for name in pairs}
            for number in range(asked.rounds):
                for size, nbytes in SIZES.items():
                    for name, pair in pairs.items():
                        found[name, size].append(pair.round(nbytes, number))
        finally:
            for pair in pairs.values():
                pair.end()
    if not asked.json:
        print(f"{'':14} {'':8} {'put, µs':>12} {'of a copy':>10} {'get, µs':>10} {'again, µs':>10}")
    for size in SIZES:
        copied = statistics.median(put for put, _, _ in found["copy", size])
        for name in pairs:
            put, get, again = (statistics.median(figures) for figures in zip(*found[name, size]))
            of_copy = put / copied
            if asked.json:
                row = {"store": name, "size": size, "put_us": put, "of_a_copy": of_copy}
                if name != "copy":
                    row |= {"get_us": get, "get_again_us": again}
                print(json.dumps(row))
            else:
                got = "" if name == "copy" else f"{get:10.2f} {again:10.2f}"
                print(f"{name:14} {size:8} {put:12.2f} {of_copy:10.2f} {got}")


if __name__ == "__main__":
    main()
