"""The stores that `objects.py` measures. Each has an object in the process that puts, and one in the process that gets;
both are made with the same folder, in memory, which is removed at the end.

    put(key, data) -> handle     stores a copy of the bytes; what it returns is sent to the process that gets
    get(key, handle) -> array    the bytes, as an array
    delete(key, handle)          in the process that has put
    forget(key)                  in the process that gets, once the array is gone, for stores that need it
    close()                      at the end, for stores that need it
    server(folder)               a context, for stores that have a server: it runs inside

A store whose package is not installed raises `ImportError`, and is left out.

The packages of vineyard and Mooncake have their servers with them. Mooncake's need the libraries of libibverbs1,
libnuma1 and libcurl4 as well, and those of its package `mooncake-transfer-engine`, with CUDA, also CUDA's driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from multiprocessing import shared_memory

import numpy

MIB = 1 << 20
LARGEST = 125 * MIB


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


def free_port() -> int:
    """A port of the loopback interface that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def answers(address: str | tuple[str, int]) -> bool:
    """Whether a server listens: on a Unix socket, or on a host and port."""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as link:
        return link.connect_ex(address) == 0


@contextlib.contextmanager
def running(command: list[str], address: str | tuple[str, int], log: str, settings: dict[str, str]) -> Iterator[None]:
    """A server, from when it answers until the end of the block, where it is told to end, and killed if it does not."""
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | settings)
    try:
        until = time.monotonic() + 30
        while not answers(address):
            if process.poll() is not None or time.monotonic() > until:
                with open(log, errors="replace") as output:
                    raise RuntimeError(f"{command[0]} does not answer; it wrote:\n{output.read()}")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Vineyard:
    """Blobs of vineyard: a put copies the bytes to where the blob is, and a get copies nothing.

    The server is asked by its Unix socket, and no port is open. A blob is known by a number, which is the handle: a
    name would be one more request.
    """

    name = "vineyard"

    @staticmethod
    @contextlib.contextmanager
    def server(folder: str) -> Iterator[None]:
        from vineyard.deploy.utils import find_vineyardd_path

        at = f"{folder}/vineyard.sock"
        command = [find_vineyardd_path(), "--meta=local", "--norpc", f"--socket={at}", "--size=1Gi"]
        with running(command, at, f"{folder}/vineyard.log", {}):
            yield

    def __init__(self, folder: str) -> None:
        import vineyard

        self.id = vineyard.ObjectID
        self.client = vineyard.connect(f"{folder}/vineyard.sock")

    def put(self, _key: str, data: numpy.ndarray) -> object:
        blob = self.client.create_blob(data.nbytes)
        numpy.frombuffer(blob, "u1")[:] = data
        return int(blob.seal(self.client).id)

    def get(self, _key: str, handle: object) -> numpy.ndarray:
        return numpy.frombuffer(self.client.get_blob(self.id(handle)), "u1")

    def delete(self, _key: str, handle: object) -> None:
        self.client.delete(self.id(handle))


class Mooncake:
    """Mooncake's store on one machine: its master; one client, a server too, which has the memory of the objects; and a
    "dummy" client in each of the two processes, which shares memory with that client.

    That client copies an object from memory that it shares with the process that puts (`put_from`). So the bytes are
    copied there before, and this counts. `put`, which needs no such memory, sends them by TCP, and takes longer where
    they are many. For a get (`get_buffer`), the client copies the object to memory that it shares with the process that
    gets.

    The master and the client listen on the loopback interface. The client's transfer engine, which only other clients
    would use, has two more ports, on all interfaces, and no setting for that. Where it matters, run all of it where
    there are no others: `unshare --net sh -c 'ip link set lo up; python crates/cenote-py/bench/objects.py'`.
    """

    name = "mooncake"
    settings: dict[str, str] = {}

    @classmethod
    @contextlib.contextmanager
    def server(cls, folder: str) -> Iterator[None]:
        os.environ.setdefault("MC_LOG_LEVEL", "ERROR")
        import mooncake.store

        at = os.path.dirname(mooncake.store.__file__)
        master, metrics, client = free_port(), free_port(), free_port()
        with contextlib.ExitStack() as servers:
            command = [f"{at}/mooncake_master", "--logtostderr", "--rpc_address=127.0.0.1", f"--rpc_port={master}"]
            command += ["--metrics_host=127.0.0.1", f"--metrics_port={metrics}"]
            servers.enter_context(running(command, ("127.0.0.1", master), f"{folder}/{cls.name}-master.log", {}))
            command = [f"{at}/mooncake_client", "--logtostderr", "--host=127.0.0.1", f"--port={client}"]
            command += [f"--master_server_address=127.0.0.1:{master}", "--metadata_server=P2PHANDSHAKE"]
            command += ["--protocol=tcp", "--global_segment_size=1GB"]
            log = f"{folder}/{cls.name}-client.log"
            servers.enter_context(running(command, ("127.0.0.1", client), log, cls.settings))
            with open(f"{folder}/{cls.name}", "w") as file:
                file.write(f"127.0.0.1:{client}")
            yield

    def __init__(self, folder: str) -> None:
        from mooncake.store import MooncakeDistributedStore

        self.store = MooncakeDistributedStore()
        with open(f"{folder}/{self.name}") as file:
            assert self.store.setup_dummy(2 * LARGEST, 2 * LARGEST, file.read()) == 0
        self.place = self.store.alloc_from_mem_pool(LARGEST)
        assert self.store.register_buffer(self.place, LARGEST) == 0
        self.shared = numpy.frombuffer((ctypes.c_ubyte * LARGEST).from_address(self.place), "u1")
        self.shared[:] = 0

    def put(self, key: str, data: numpy.ndarray) -> object:
        self.shared[: data.nbytes] = data
        assert self.store.put_from(key, self.place, data.nbytes) == 0
        return None

    def get(self, key: str, _handle: object) -> numpy.ndarray:
        return numpy.frombuffer(self.store.get_buffer(key), "u1")

    def delete(self, key: str, _handle: object) -> None:
        assert self.store.remove(key, True) == 0

    def close(self) -> None:
        self.store.close()


class MooncakeHot(Mooncake):
    """Mooncake with a hot cache that the client shares: the first get copies the object there, and others copy nothing.

    It has eight places, of 128 MiB each whatever is in them. By default an object comes there with its second get.
    """

    name = "mooncake_hot"
    settings = {
        "MC_STORE_LOCAL_HOT_CACHE_SIZE": str(1024 * MIB),
        "MC_STORE_LOCAL_HOT_BLOCK_SIZE": str(128 * MIB),
        "MC_STORE_LOCAL_HOT_CACHE_USE_SHM": "1",
        "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD": "1",
    }


DEFAULT = {store.name: store for store in (Cenote, SharedMemory, Files, Vineyard)}
STORES = DEFAULT | {store.name: store for store in (Mooncake, MooncakeHot)}
