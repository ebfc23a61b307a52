"""Tensors of PyTorch through the tensor transport. A program of its own, which `test_ray.py` runs: Ray imports PyTorch
in each of its processes if it is there, which takes them seconds."""

import gc
import os
import tempfile
import time

os.environ.setdefault("RAY_AUTH_MODE", "disabled")

import ray
import torch

import cenote.ray


def check(store: cenote.ray.Store) -> None:
    cenote.ray.register(store, "cenote_torch", torch.Tensor)

    @ray.remote(num_cpus=0)
    class Actor:
        @ray.method(tensor_transport="cenote_torch")
        def tensors(self):
            return self.made()

        def made(self):
            return [
                torch.arange(6.0).reshape(2, 3),
                torch.full((3,), 1.5, dtype=torch.bfloat16),
                torch.arange(12).reshape(3, 4).t(),
                torch.zeros((0, 3)),
                torch.tensor(5, dtype=torch.int8),
                torch.tensor([True, False]),
            ]

        def check(self, tensors):
            made = self.made()
            assert [tensor.dtype for tensor in tensors] == [tensor.dtype for tensor in made]
            assert all(torch.equal(one, other) for one, other in zip(tensors, made, strict=True))
            return len(tensors)

    actor, other = Actor.remote(), Actor.remote()
    reference = actor.tensors.remote()
    assert ray.get(other.check.remote(reference)) == 6
    first = ray.get(reference)[0]
    # Into the receiver's own tensors, as `set_target_for_ref` says.
    targets = [torch.empty_like(tensor).contiguous() for tensor in ray.get(reference)]
    if hasattr(ray.experimental, "set_target_for_ref"):
        ray.experimental.set_target_for_ref(reference, targets)
        got = ray.get(reference)
        assert all(torch.equal(one, target) for one, target in zip(got, targets, strict=True))
        assert got[0].data_ptr() == targets[0].data_ptr()
    del reference
    gc.collect()
    end = time.monotonic() + 60
    while len(store):
        assert time.monotonic() < end, "Ray has not had the tensors freed"
        time.sleep(0.05)
    assert torch.equal(first, torch.arange(6.0).reshape(2, 3))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="cenote-test-", dir="/dev/shm") as folder:
        with cenote.ray.Store(f"{folder}/pool", lease=1.0, max="64MiB") as store:
            ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=128 << 20)
            try:
                check(store)
            finally:
                ray.shutdown()
    print("tensors are what they were")


if __name__ == "__main__":
    main()
