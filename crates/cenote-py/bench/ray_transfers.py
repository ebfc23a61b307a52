"""Two transfers between processes of Ray: through Cenote, and through Ray's own object store, in one run, interleaved.

    python crates/cenote-py/bench/ray_transfers.py [--rounds N] [--hosts N] [--json] [--ways ray,handles,transport]

They are those of "Guidelines for Building Indexes on Partially Cache-Coherent CXL Shared Memory", figure 16:

- small: 1,000 arrays of 128 KiB, put by one process; each of 8 receivers gets its share.
- large: one array of 125 MiB, put by one process; each of 8 receivers gets it.

A receiver looks at the first and the last byte of each array, so that nothing is put off. `put` is the time until all
arrays are put, `get` that from the request to the receivers until the last of them has answered; figures are medians
of the rounds, in milliseconds, after a round that is not counted.

With `--hosts 8`, the default, each receiver is on a Ray node of its own, and the producer on another: nodes of
`ray.cluster_utils`, with an object store each, on this one machine. Ray copies an array to each node's store, by TCP;
all nodes use one pool. With `--hosts 1` there is one node, whose object store Ray's processes share without copies.

The ways: `ray` is `ray.put` and `ray.get`; `handles` are `cenote.ray.Store.put` and `ObjectHandle.get`, whose handles
Ray transports; `transport` is `ray.put` and `ray.get` by the tensor transport that `cenote.ray.register` registers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time

import numpy
import ray
from ray.cluster_utils import Cluster

import cenote.ray

KIB, MIB = 1 << 10, 1 << 20
RECEIVERS = 8
# Arrays, and bytes of each.
TRANSFERS = {"small": (1000, 128 * KIB), "large": (1, 125 * MIB)}
WAYS = ("ray", "handles", "transport")


def register(way: str, store: cenote.ray.Store | None) -> None:
    """In each process: Ray does so too in actors, but does not wait until it is done."""
    if way == "transport":
        cenote.ray.register(store)


class Producer:
    """Puts arrays in one way."""

    def __init__(self, way: str, store: cenote.ray.Store, size: int) -> None:
        register(way, store)
        self.way, self.store = way, store
        self.data = numpy.full(size, 7, "u1")
        self.handles = []

    def put(self, count: int, size: int) -> list:
        data = self.data[:size]
        if self.way == "ray":
            return [ray.put(data) for _ in range(count)]
        if self.way == "transport":
            return [ray.put(data, _tensor_transport="cenote") for _ in range(count)]
        self.handles = [self.store.put(data) for _ in range(count)]
        return self.handles

    def free(self) -> int:
        """Frees what Ray does not free; returns how many objects are left."""
        for handle in self.handles:
            handle.free()
        self.handles = []
        return 0 if self.way == "ray" else len(self.store)


class Receiver:
    """Gets arrays."""

    def __init__(self, way: str, store: cenote.ray.Store) -> None:
        register(way, store)

    def get(self, references: list) -> int:
        if references and isinstance(references[0], cenote.ray.ObjectHandle):
            arrays = [handle.get() for handle in references]
        else:
            arrays = ray.get(references)
        assert all(array[0] == array[-1] == 7 for array in arrays)
        return sum(array.nbytes for array in arrays)


class Way:
    """A producer, and receivers."""

    def __init__(self, way: str, folder: str, hosts: int) -> None:
        # A pool of its own, all of which is reserved from the beginning, as Ray's store is.
        self.store = None if way == "ray" else cenote.ray.Store(f"{folder}/{way}", size=512 * MIB, max=512 * MIB)
        register(way, self.store)
        places = [{"resources": {f"host{n if hosts > 1 else 0}": 0.01}} for n in range(RECEIVERS + 1)]
        made = ray.remote(num_cpus=0, enable_tensor_transport=way == "transport")
        largest = max(size for _, size in TRANSFERS.values())
        self.producer = made(Producer).options(**places[0]).remote(way, self.store, largest)
        self.receivers = [made(Receiver).options(**place).remote(way, self.store) for place in places[1:]]
        ray.get([receiver.get.remote([]) for receiver in self.receivers])

    def round(self, count: int, size: int) -> tuple[float, float]:
        began = time.perf_counter()
        references = ray.get(self.producer.put.remote(count, size))
        put = time.perf_counter()
        if count == 1:
            shares = [references] * RECEIVERS
        else:
            shares = [references[n::RECEIVERS] for n in range(RECEIVERS)]
        answers = ray.get([receiver.get.remote(share) for receiver, share in zip(self.receivers, shares)])
        ended = time.perf_counter()
        assert sum(answers) == size * (count if count > 1 else RECEIVERS)
        del references, shares
        # Nothing of this round is there in the next one.
        until = time.monotonic() + 60
        while ray.get(self.producer.free.remote()):
            assert time.monotonic() < until, "objects of the last round are still there"
            time.sleep(0.05)
        time.sleep(0.5)
        return (put - began) * 1000, (ended - put) * 1000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--hosts", type=int, default=8, choices=(1, 8))
    options.add_argument("--json", action="store_true", help="a JSON object a line")
    options.add_argument("--ways", default=",".join(WAYS))
    asked = options.parse_args()
    ways = asked.ways.split(",")
    if unknown := set(ways) - set(WAYS):
        options.error(f"no way is called {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    node = {"num_cpus": 2, "object_store_memory": 512 * MIB, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "resources": {"host0": 1}})
    try:
        for n in range(1, RECEIVERS + 1 if asked.hosts > 1 else 1):
            cluster.add_node(**{**node, "num_cpus": 1, "resources": {f"host{n}": 1}})
        ray.init(address=cluster.address, log_to_driver=False)
        with tempfile.TemporaryDirectory(prefix="cenote-bench-", dir="/dev/shm") as folder:
            measure(asked, {way: Way(way, folder, asked.hosts) for way in ways})
    finally:
        ray.shutdown()
        cluster.shutdown()


def measure(asked: argparse.Namespace, ways: dict[str, Way]) -> None:
    found = {(transfer, way): [] for transfer in TRANSFERS for way in ways}
    for number in range(asked.rounds + 1):
        for transfer, (count, size) in TRANSFERS.items():
            # Each round begins with another way.
            names = list(ways)
            for way in names[number % len(names) :] + names[: number % len(names)]:
                times = ways[way].round(count, size)
                if number:
                    found[transfer, way].append(times)
    if not asked.json:
        print(f"Ray {ray.__version__}, {asked.hosts} host(s), {RECEIVERS} receivers, {asked.rounds} rounds; ms")
        print(f"{'':8}{'':12}{'put':>10}{'get':>10}{'both':>10}{'least':>10}{'most':>10}{'less than ray':>15}")
    for transfer in TRANSFERS:
        rays = [sum(times) for times in found.get((transfer, "ray"), [])]
        for way in ways:
            rounds = found[transfer, way]
            put = statistics.median(put for put, _ in rounds)
            get = statistics.median(get for _, get in rounds)
            both = [sum(times) for times in rounds]
            total = statistics.median(both)
            less = 1 - total / statistics.median(rays) if rays else None
            if asked.json:
                print(
                    json.dumps(
                        {"transfer": transfer, "way": way, "hosts": asked.hosts, "ray": ray.__version__}
                        | {"rounds": asked.rounds, "put_ms": put, "get_ms": get, "total_ms": total}
                        | {"total_min_ms": min(both), "total_max_ms": max(both), "less_than_ray": less}
                    )
                )
            else:
                shown = "" if less is None or way == "ray" else f"{less:14.0%}"
                print(
                    f"{transfer:8}{way:12}{put:10.1f}{get:10.1f}{total:10.1f}{min(both):10.1f}{max(both):10.1f}"
                    f"{shown:>15}"
                )


if __name__ == "__main__":
    main()
