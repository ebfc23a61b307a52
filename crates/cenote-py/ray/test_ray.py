"""Handles and the tensor transport in the released Ray: tasks, actors, `ray.put`, and processes that are killed.

    cargo xtask test --ray        # installs what it needs
"""

import gc
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

# Ray would make a token in the user's home: nobody but these tests talks to their cluster.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")

# Ray imports PyTorch in each of its processes if it is there, which takes them seconds: `tensors.py` needs it alone.
HAS_TORCH = importlib.util.find_spec("torch") is not None
sys.modules["torch"] = None

import numpy
import pytest
import ray

import cenote
import cenote.ray

# Workers of Ray do not find this module.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROOT = pathlib.Path(__file__).resolve().parents[3]
PYTHONPATH = os.environ.get("PYTHONPATH", "")
LEASE = 1.0
# Ray puts by a tensor transport in actors alone, in versions before this one.
DRIVER_PUTS = tuple(map(int, ray.__version__.split(".")[:2])) >= (2, 60)


@pytest.fixture(scope="module")
def store():
    """One for all tests, as transports are registered once in a process."""
    with tempfile.TemporaryDirectory(prefix="cenote-test-", dir="/dev/shm") as folder:
        store = cenote.ray.Store(f"{folder}/pool", lease=LEASE, size="64MiB", max="256MiB")
        cenote.ray.register(store)
        cenote.ray.register(store)
        pathlib.Path(folder, "torch.py").write_text("raise ImportError('hidden')")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, PYTHONPATH]))
        settings = {"include_dashboard": False, "object_store_memory": 256 << 20, "log_to_driver": False}
        ray.init(address="local", num_cpus=4, **settings)
        yield store
        ray.shutdown()
        store.close()


@pytest.fixture(autouse=True)
def empty(store):
    """Each test leaves nothing."""
    yield
    nothing_is_left(store)


def until(is_so, what):
    """Waits for what happens soon."""
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end, f"this did not happen: {what}"
        time.sleep(0.05)


def nothing_is_left(store):
    gc.collect()
    until(lambda: len(store) == 0, "all objects are deleted")
    until(lambda: store.nbytes == 0, "all memory comes back")
    report = store.pool.fsck()
    assert report["problems"] == [] and report["leaked_bytes"] == 0


@ray.remote(enable_tensor_transport=True)
class Actor:
    """Makes, keeps and reads arrays."""

    def __init__(self, store=None):
        self.kept = []
        if store is not None:
            # Ray does so too, but does not wait until it is done.
            cenote.ray.register(store)

    def pid(self):
        return os.getpid()

    def put(self, store, count, size=1000):
        return [store.put(numpy.full(size, n)) for n in range(count)]

    def frames(self, count, size=1000):
        return {"frames": [numpy.full(size, n) for n in range(count)], "name": "frames"}

    def ray_put(self, size):
        return [ray.put(numpy.full(size, 7), _tensor_transport="cenote")]

    def keep(self, value):
        self.kept.append(value.get() if isinstance(value, cenote.ray.ObjectHandle) else value)

    def kept_sum(self):
        return sum(int(array.sum()) for value in self.kept for array in arrays(value))

    def forget(self):
        self.kept.clear()
        gc.collect()

    def sum(self, value):
        assert all(not array.flags.owndata and not array.flags.writeable for array in arrays(value))
        return sum(int(array.sum()) for array in arrays(value))

    def get(self, references):
        return self.sum([ray.get(each) for each in references])


def arrays(value):
    if isinstance(value, dict):
        return value["frames"]
    return value if isinstance(value, list) else [value]


def frames(actor, count, size=1000):
    """By the transport. A class can say so too, by `@ray.method`, if the transport is registered before the class."""
    return actor.frames.options(tensor_transport="cenote").remote(count, size)


def kill(actor):
    pid = ray.get(actor.pid.remote())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the process is gone")


@ray.remote
def put_by_task(store, size):
    return store.put(numpy.arange(size))


@ray.remote
def sum_by_task(handle):
    array = handle.get()
    assert not array.flags.owndata and not array.flags.writeable
    return int(array.sum())


def test_handles_in_tasks_and_ray_put(store):
    for way in ("put", "ray.put", "task", "of a task"):
        handle = store.put(numpy.arange(1000)) if "put" in way else put_by_task.remote(store, 1000)
        if way == "ray.put":
            handle = ray.put(handle)
        elif way == "of a task":
            handle = ray.get(handle)
        assert ray.get(sum_by_task.remote(handle)) == 499500
        handle = ray.get(handle) if isinstance(handle, ray.ObjectRef) else handle
        assert handle.free() and not handle.free()
        with pytest.raises(ray.exceptions.RayTaskError, match="it was freed"):
            ray.get(sum_by_task.remote(handle))


def test_handles_in_actors(store):
    actor, other = Actor.remote(), Actor.remote()
    handles = ray.get(actor.put.remote(store, 3))
    ray.get([other.keep.remote(handle) for handle in handles])
    assert [handle.free() for handle in handles] == [True] * 3
    assert ray.get(other.kept_sum.remote()) == 3000
    assert store.nbytes > 0
    ray.get(other.forget.remote())


def test_a_task_whose_worker_has_ended(store):
    """Ray ends workers that have nothing to do; the driver has the handle, and adopts the object."""

    @ray.remote(max_calls=1)
    def put_and_end():
        return store.put(numpy.arange(1000)), os.getpid()

    handle, pid = ray.get(put_and_end.remote())
    until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the worker has ended")
    time.sleep(2 * LEASE + 1)
    assert ray.get(sum_by_task.remote(handle)) == 499500
    del handle


def test_the_transport_between_actors_and_to_the_driver(store):
    actor, other = Actor.remote(), Actor.remote()
    reference = frames(actor, 3)
    for _ in range(2):
        assert ray.get(other.sum.remote(reference)) == 3000
    value = ray.get(reference)
    assert value["name"] == "frames" and [array[0] for array in value["frames"]] == [0, 1, 2]
    assert not value["frames"][0].flags.owndata and not value["frames"][0].flags.writeable
    assert len(store) == 3
    del reference
    # Ray counts who refers to it: nobody. Who has the arrays has their memory.
    until(lambda: len(store) == 0, "Ray has the objects freed")
    assert [array.sum() for array in value["frames"]] == [0, 1000, 2000]


def test_the_transport_of_no_arrays(store):
    actor, other = Actor.remote(), Actor.remote()
    assert ray.get(other.sum.remote(frames(actor, 0))) == 0


def test_the_transport_in_ray_put(store):
    actor, other = Actor.remote(store), Actor.remote(store)
    assert ray.get(other.get.remote(ray.get(actor.ray_put.remote(1000)))) == 7000
    if DRIVER_PUTS:
        reference = ray.put(numpy.full(1000, 7), _tensor_transport="cenote")
        assert ray.get(other.get.remote([reference])) == 7000 and ray.get(other.sum.remote(reference)) == 7000


def test_handles_of_a_killed_actor(store):
    actor, other = Actor.remote(), Actor.remote()
    handles = ray.get(actor.put.remote(store, 4))
    ray.get([other.keep.remote(handle) for handle in handles[:2]])
    kept = handles[2]
    del handles
    kill(actor)
    # The one that the driver has a handle of stays; two that are read stay where they are read; one is reclaimed.
    until(lambda: len(store) == 1, "objects that nobody has a handle of are reclaimed")
    assert ray.get(sum_by_task.remote(kept)) == 2000
    assert ray.get(other.kept_sum.remote()) == 1000
    del kept
    until(lambda: len(store) == 0, "the adopted object is given up")
    assert store.nbytes > 0 and ray.get(other.kept_sum.remote()) == 1000
    ray.get(other.forget.remote())


def test_the_transports_arrays_of_a_killed_actor(store):
    actor, other = Actor.remote(), Actor.remote()
    read, unread = frames(actor, 3), frames(actor, 2)
    ray.get(other.keep.remote(read))
    ray.wait([read, unread], num_returns=2)
    kill(actor)
    time.sleep(2 * LEASE + 1)
    # Who reads goes on; who has the reference still gets the arrays, as the driver has adopted them.
    assert ray.get(other.kept_sum.remote()) == 3000
    assert ray.get(other.sum.remote(unread)) == 1000
    assert len(ray.get(read)["frames"]) == 3
    del read, unread
    until(lambda: len(store) == 0, "what nobody refers to is reclaimed")
    assert ray.get(other.kept_sum.remote()) == 3000
    ray.get(other.forget.remote())


def test_a_task_whose_worker_is_killed_is_done_again(store):
    @ray.remote(max_retries=1)
    def put_and_be_killed(path):
        handles = [store.put(numpy.full(1000, n)) for n in range(3)]
        if not os.path.exists(path):
            pathlib.Path(path).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return handles

    mark = f"{store.pool.path}.mark"
    handles = ray.get(put_and_be_killed.remote(mark))
    os.unlink(mark)
    until(lambda: len(store) == 3, "what the killed worker has put is reclaimed")
    assert [ray.get(sum_by_task.remote(handle)) for handle in handles] == [0, 1000, 2000]
    del handles
    # The worker that put them still lives, and answers for them.
    for info in store._objects.list():
        store._leases.free(info.id)


def test_a_killed_consumer_keeps_nothing(store):
    actor, other = Actor.remote(), Actor.remote()
    (handle,) = ray.get(actor.put.remote(store, 1, 1_000_000))
    ray.get(other.keep.remote(handle))
    assert handle.free() and store.nbytes > 8_000_000
    kill(other)


def test_objects_that_do_not_fit(store):
    actor, other = Actor.remote(), Actor.remote()
    with pytest.raises(cenote.FullError, match="do not fit"):
        ray.get(actor.put.remote(store, 1, 1 << 28))
    reference = frames(actor, 2, 1 << 25)
    with pytest.raises(Exception, match="do not fit"):
        ray.get(reference, timeout=60)
    del reference
    # Both go on.
    assert ray.get(other.sum.remote(frames(actor, 2))) == 1000


def test_a_receiver_that_comes_too_late(store):
    actor, other = Actor.remote(), Actor.remote()
    reference = frames(actor, 1)
    ray.wait([reference])
    until(lambda: len(store) == 1, "the array is put")
    for info in store._objects.list():
        assert store._leases.free(info.id)
    with pytest.raises(Exception, match="it was freed"):
        ray.get(reference)
    with pytest.raises(Exception, match="it was freed"):
        ray.get(other.sum.remote(reference))
    # Neither actor is killed.
    assert ray.get([actor.pid.remote(), other.pid.remote()])


def test_a_pool_that_is_deleted(store):
    with tempfile.TemporaryDirectory(prefix="cenote-test-", dir="/dev/shm") as folder:
        with cenote.ray.Store(f"{folder}/pool", lease=LEASE, max="64MiB") as short:
            handle = short.put(numpy.arange(1000))
            os.unlink(f"{folder}/pool")
            with pytest.raises(cenote.ray.LostError, match="there is no such pool"):
                ray.get(sum_by_task.remote(handle))
            with pytest.raises(Exception, match="No such file"):
                ray.get(put_by_task.remote(short, 10))
            del handle


def test_what_cannot_be_registered(store):
    with pytest.raises(TypeError, match="use handles"):
        cenote.ray.register(store, "cenote_lists", list)
    with tempfile.TemporaryDirectory(prefix="cenote-test-", dir="/dev/shm") as folder:
        with cenote.ray.Store(f"{folder}/pool", max="64MiB") as other:
            with pytest.raises(ValueError, match="already registered"):
                cenote.ray.register(other)


def test_the_documentation(tmp_path):
    blocks = re.findall(r"^```py\n(.*?)^```", (ROOT / "docs/python.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    with tempfile.TemporaryDirectory(prefix="cenote-test-", dir="/dev/shm") as folder:
        begin = "import numpy, ray, cenote.ray\nray.init(address='local', include_dashboard=False)"
        text = "\n".join([begin, *blocks, "ray.shutdown()"])
        assert "/dev/shm/arrays" in text
        (tmp_path / "page.py").write_text(text.replace("/dev/shm/arrays", f"{folder}/arrays"))
        run([str(tmp_path / "page.py")])


def test_tensors():
    if not HAS_TORCH:
        pytest.skip("PyTorch is not installed")
    assert "tensors are what they were" in run(["crates/cenote-py/ray/tensors.py"], needs_torch=True)


@pytest.mark.parametrize("transport", ["cenote", "ray"])
def test_the_example(store, transport):
    ended = run(["crates/cenote-py/ray/actor_learner.py", "--transport", transport, "--seconds", "3", "--json"])
    said = json.loads(ended.splitlines()[-1])
    assert said["transport"] == transport and said["batches"] > 0 and said["frames_per_second"] > 0


def test_the_benchmark(store):
    command = ["crates/cenote-py/bench/ray_transfers.py", "--rounds", "1", "--hosts", "1", "--json"]
    said = [json.loads(line) for line in run(command).splitlines() if line.startswith("{")]
    assert {(each["transfer"], each["way"]) for each in said} == {
        (transfer, way) for transfer in ("small", "large") for way in ("ray", "handles", "transport")
    }


def run(command, needs_torch=False):
    """A program of this repository, with a Ray of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    if needs_torch:
        environment["PYTHONPATH"] = PYTHONPATH
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
