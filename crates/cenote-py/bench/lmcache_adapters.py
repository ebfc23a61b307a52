"""LMCache's own benchmark of L2 adapters: Cenote's beside those that LMCache has, in one run, interleaved.

    python crates/cenote-py/bench/lmcache_adapters.py [--rounds N] [--json] [--peers cenote,dax,fs_native,fs,...]

Each run is a process, `lmcache bench l2 --no-skip-verify`, with an adapter that has nothing in it: submits of 32
chunks, one after the other, of which the first is not counted and five are, first to store, then to load. It counts if
all chunks were stored and loaded, and those of the last submit are what they were. Figures are medians of the rounds'
runs, and the least and the most of them, of what LMCache calls the average throughput in MB/s; its MB has 1,048,576
bytes.

The adapters, with the parameters that they have by default, and all they keep on tmpfs:

- cenote: a pool, whose memory is reserved when it is made, in huge pages where the kernel gives them.
- dax: one mapped file for all chunks, in slots of a chunk's size, with a dictionary of its process: LMCache's own
  adapter for DAX devices, which takes a file too. The file's memory is reserved before, as a device's is there. No
  other process can use what is stored, and none of it is found again when the process has ended.
- dax_populated: the same, with all pages mapped before: on tmpfs, `dax` waits for a page fault for each 4 KiB that it
  stores, as it need not on a device with huge pages.
- fs_native: a file for each chunk, by threads in C++.
- fs: a file for each chunk, by `aiofiles` in Python.

Needs the packages `cenote` and `lmcache` (`pip install '.[lmcache]'`), and some 1.5 GiB on /dev/shm.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
CHUNKS = {"64 KiB": 64 * KIB, "256 KiB": 256 * KIB, "4 MiB": 4 * MIB}
# Chunks of a submit, and submits that count. With the submit that does not, the largest chunks fit in the room.
SUBMITTED, SUBMITS = 32, 5
ROOM = GIB
HERE = pathlib.Path(__file__).resolve().parent
LMCACHE = pathlib.Path(sys.executable).with_name("lmcache")


def cenote(folder: str, _size: int) -> dict:
    """Cenote's adapter, and a pool."""
    return {
        "type": "plugin",
        "module_path": "cenote.lmcache",
        "class_name": "CenoteL2Adapter",
        "adapter_params": {"path": f"{folder}/kv", "max_bytes": ROOM},
    }


def dax(folder: str, size: int, populate: bool = False) -> dict:
    """LMCache's adapter for DAX devices, and a file in place of one."""
    path = f"{folder}/kv"
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, ROOM)
    return {
        "type": "plugin",
        "module_path": "lmcache_dax",
        "class_name": "DaxWithShapes",
        "adapter_params": {
            "device_path": path,
            "max_dax_size_gb": ROOM / GIB,
            "slot_bytes": size,
            "populate": populate,
        },
    }


def dax_populated(folder: str, size: int) -> dict:
    """The same, with all pages mapped."""
    return dax(folder, size, populate=True)


def fs_native(folder: str, _size: int) -> dict:
    """LMCache's file system adapter in C++."""
    return {"type": "fs_native", "base_path": f"{folder}/kv"}


def fs(folder: str, _size: int) -> dict:
    """LMCache's file system adapter in Python."""
    return {"type": "fs", "base_path": f"{folder}/kv"}


ADAPTERS = {adapter.__name__: adapter for adapter in (cenote, dax, dax_populated, fs_native, fs)}


class BenchmarkError(Exception):
    """A run that does not count."""


def run(name: str, size: int, folder: str) -> tuple[float, float]:
    """One run of the benchmark: MB/s stored and loaded."""
    with tempfile.TemporaryDirectory(dir=folder) as ours:
        results = f"{ours}/results.json"
        command = [str(LMCACHE), "bench", "l2", "--no-skip-verify"]
        command += ["--l2-adapter", json.dumps(ADAPTERS[name](ours, size)), "--data-size-kb", str(size // KIB)]
        command += ["--num-keys", str(SUBMITTED), "--warmup-rounds", "1", "--rounds", str(SUBMITS)]
        command += ["--format", "json", "--output", results]
        # The plug-in for `dax` lies beside this program.
        path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "LMCACHE_DISABLE_BANNER": "1", "LMCACHE_TRACK_USAGE": "false"}
        try:
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired as error:
            raise BenchmarkError(f"{name}, chunks of {size} bytes: no end within {error.timeout} s") from None
        try:
            if ended.returncode != 0:
                raise BenchmarkError(f"it ended with {ended.returncode}")
            with open(results) as file:
                operations = {each.get("operation"): each for each in json.load(file)["metrics"].values()}
            return throughput(operations["Store"]), throughput(operations["Load"])
        except (BenchmarkError, OSError, ValueError, KeyError) as error:
            said = (ended.stdout + ended.stderr)[-4000:]
            raise BenchmarkError(f"{name}, chunks of {size} bytes: {error}; what it said last:\n{said}") from None


def throughput(operation: dict) -> float:
    """MB/s. The benchmark's are as high as if all chunks had been moved, also if some were not."""
    done, asked = operation["total_success"], SUBMITTED * SUBMITS
    if done != asked:
        raise BenchmarkError(f"{operation['operation']}: {done} of {asked} chunks")
    return operation["throughput_avg_mbps"]


def versions(names: list[str]) -> str:
    """Of the packages that are needed."""
    found = []
    for package in ["lmcache", *(["cenote"] if "cenote" in names else [])]:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            sys.exit(f"the package {package} is not installed for {sys.executable}; `pip install '.[lmcache]'` does so")
    if not LMCACHE.is_file():
        sys.exit(f"the command lmcache is not beside {sys.executable}, whose package lmcache is installed")
    return ", ".join(found)


def measure(names: list[str], rounds: int) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """What each run of each adapter stored and loaded, MB/s."""
    found = {(chunk, name): [] for chunk in CHUNKS for name in names}
    with tempfile.TemporaryDirectory(prefix="cenote-bench-", dir="/dev/shm") as folder:
        for number in range(rounds):
            # Each round begins with another adapter.
            first = number % len(names)
            for chunk, size in CHUNKS.items():
                for name in names[first:] + names[:first]:
                    found[chunk, name].append(run(name, size, folder))
    return found


def end(number: int, _frame: object) -> None:
    """Ends the program as an exception does, so that no file stays."""
    sys.exit(f"ended by {signal.Signals(number).name}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", action="store_true", help="a JSON object a line")
    options.add_argument("--peers", default=",".join(ADAPTERS))
    asked = options.parse_args()
    names = list(dict.fromkeys(asked.peers.split(",")))
    if unknown := set(names) - set(ADAPTERS):
        options.error(f"no adapter is called {', '.join(sorted(unknown))}; there are {', '.join(ADAPTERS)}")
    if asked.rounds < 1:
        options.error("there is at least one round")
    packages = versions(names)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        found = measure(names, asked.rounds)
    except BenchmarkError as error:
        sys.exit(f"a run failed: {error}")
    if not asked.json:
        print(f"{packages}; {asked.rounds} round(s); MB/s, least and most in brackets")
        print(f"{'':8} {'':13} {'store':>24} {'load':>24}")
    for (chunk, name), runs in found.items():
        stored, loaded = zip(*runs)
        if asked.json:
            row = {"adapter": name, "chunk": chunk, "rounds": asked.rounds}
            for what, figures in (("store", stored), ("load", loaded)):
                row[f"{what}_mb_s"] = statistics.median(figures)
                row |= {f"{what}_least": min(figures), f"{what}_most": max(figures)}
            print(json.dumps(row))
        else:
            columns = (f"{statistics.median(of):,.0f} ({min(of):,.0f} to {max(of):,.0f})" for of in (stored, loaded))
            print(f"{chunk:8} {name:13}", *(f"{column:>24}" for column in columns))


if __name__ == "__main__":
    main()
