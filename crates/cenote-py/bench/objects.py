"""Objects between processes: Cenote beside what people use now, in one run, interleaved.

    pip install -r crates/cenote-py/bench/requirements.txt
    python crates/cenote-py/bench/objects.py [--rounds N] [--json] [--peers cenote,shared_memory,...]

One process stores arrays of bytes, another one gets each of them, looks at its first and last byte, and gets it again:
when it gets one first, nothing of it is in the processor's caches, nor, where the arrays are large, is anything else
that a get needs. A round has all stores, one after the other; figures are medians of the rounds' medians, in
microseconds. `copy` is what copying the bytes to memory that is there already takes: no store can put faster.

The stores are in `peers.py`. Those whose packages are not installed are left out. The servers of those that have one
run on this machine, for as long as the benchmark does. Mooncake's is asked for by name, as it listens on more than the
loopback interface: `--peers cenote,mooncake,mooncake_hot`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import signal
import statistics
import sys
import tempfile
import time

import numpy
from peers import DEFAULT, STORES

KIB, MIB = 1 << 10, 1 << 20
SIZES = {"1 KiB": KIB, "128 KiB": 128 * KIB, "1 MiB": MIB, "125 MiB": 125 * MIB}


def count(size: int) -> int:
    """Objects of a size in a round."""
    return max(6, min(200, 256 * MIB // size))


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
    if hasattr(store, "close"):
        store.close()


class Pair:
    """A store, its server if it has one, and another process that gets what is stored."""

    def __init__(self, kind: str, folder: str) -> None:
        with contextlib.ExitStack() as ends:
            if hasattr(STORES[kind], "server"):
                ends.enter_context(STORES[kind].server(folder))
            self.store = STORES[kind](folder)
            if hasattr(self.store, "close"):
                ends.callback(self.store.close)
            self.link, theirs = multiprocessing.get_context("spawn").Pipe()
            self.process = multiprocessing.get_context("spawn").Process(target=serve, args=(kind, folder, theirs))
            self.process.start()
            theirs.close()
            self.ends = ends.pop_all()

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
        with self.ends:
            with contextlib.suppress(BrokenPipeError):
                self.link.send(None)
            self.process.join(10)
            self.process.kill()
            self.process.join()


class Ray:
    """Ray's own object store; the process that gets is an actor."""

    def __init__(self) -> None:
        import ray

        self.ray = ray
        ray.init(num_cpus=2, object_store_memory=1 << 30, include_dashboard=False, log_to_driver=False)
        end_in_order()  # Ray has set a handler that aborts.

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


def end_in_order() -> None:
    """Ends servers and removes files when this process is told to end, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))


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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", action="store_true", help="a JSON object a line")
    options.add_argument("--peers", default=",".join([*DEFAULT, "ray"]))
    asked = options.parse_args()
    names = asked.peers.split(",")
    if unknown := set(names) - {*STORES, "ray"}:
        options.error(f"no store is called {unknown.pop()!r}; there are {', '.join([*STORES, 'ray'])}")
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="cenote-bench-", dir="/dev/shm") as folder, contextlib.ExitStack() as ends:
        pairs = {"copy": Copy()}
        for name in names:
            try:
                pairs[name] = Ray() if name == "ray" else Pair(name, folder)
            except ImportError as error:
                print(f"{name} is not measured: {error}", file=sys.stderr)
            else:
                ends.callback(pairs[name].end)
        found = {(name, size): [] for size in SIZES for name in pairs}
        for number in range(asked.rounds):
            for size, nbytes in SIZES.items():
                for name, pair in pairs.items():
                    found[name, size].append(pair.round(nbytes, number))
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
