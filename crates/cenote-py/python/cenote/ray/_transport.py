"""A tensor transport for Ray Direct Transport: arrays and tensors that actors return lie in a pool, and are read there.

Ray calls `extract_tensor_transport_metadata` where the arrays were made, sends the metadata, which have a handle for
each array, and calls `recv_multiple_tensors` where they are used. When no reference to them is left, it calls
`garbage_collect` where they were made. If that process is dead by then, its leases say what becomes of them.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

from ray.experimental import TensorTransportManager, register_tensor_transport
from ray.experimental.rdt.tensor_transport_manager import CommunicatorMetadata, TensorTransportMetadata
from ray.experimental.rdt.util import get_tensor_transport_manager

from cenote.ray._store import ObjectHandle, Store


@dataclass
class CenoteTransportMetadata(TensorTransportMetadata):
    """A handle for each array, in the order of `tensor_meta`."""

    handles: list[ObjectHandle] = field(default_factory=list)


class CenoteTransport(TensorTransportManager):
    """Arrays of NumPy, in a store. `register` makes a class of it that knows its store: Ray makes the instances."""

    store: Store
    name: str

    def tensor_transport_backend(self) -> str:
        return self.name

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        # A transfer waits for nobody, so there is nothing to abort, and no reason to kill actors.
        return True

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: list[Any]) -> CenoteTransportMetadata:
        handles: list[ObjectHandle] = []
        try:
            for each in rdt_object:
                handles.append(self.store.put(self._bytes_of(each)))
        except BaseException:
            for handle in handles:
                handle.free()
            raise
        meta = [(each.shape, each.dtype) for each in rdt_object]
        return CenoteTransportMetadata(meta, "cpu" if meta else None, handles)

    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        return CommunicatorMetadata()

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: Any,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: list[Any] | None = None,
    ) -> list[Any]:
        meta, handles = tensor_transport_metadata.tensor_meta, tensor_transport_metadata.handles
        received = [self._of_bytes(handle.get(), *each) for handle, each in zip(handles, meta, strict=True)]
        if not target_buffers:
            return received
        for target, each in zip(target_buffers, received, strict=True):
            target[...] = each
        return target_buffers

    def send_multiple_tensors(
        self, tensors: list[Any], tensor_transport_metadata: Any, communicator_metadata: CommunicatorMetadata
    ) -> None:
        raise NotImplementedError("the receiver reads what is in the pool: nothing is sent")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: Any, tensors: list[Any]) -> None:
        for handle in tensor_transport_meta.handles:
            handle.free()

    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        pass

    @staticmethod
    def _bytes_of(array: Any) -> Any:
        """What is put of an array."""
        return array

    @staticmethod
    def _of_bytes(stored: Any, shape: Any, dtype: Any) -> Any:
        """The array of what was put."""
        return stored


class CenoteTorchTransport(CenoteTransport):
    """Tensors of PyTorch in the processor's memory, of any element type."""

    @staticmethod
    def _bytes_of(tensor: Any) -> Any:
        import torch

        if tensor.device.type != "cpu":
            raise ValueError(f"a tensor on {tensor.device} is in no memory that processes share: move it by .cpu()")
        return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()

    @staticmethod
    def _of_bytes(stored: Any, shape: Any, dtype: Any) -> Any:
        import torch

        if not math.prod(shape):
            return torch.empty(shape, dtype=dtype)
        with warnings.catch_warnings():
            # PyTorch has no read-only tensors, and says so.
            warnings.filterwarnings("ignore", message=".*not writable.*")
            return torch.from_numpy(stored).view(dtype).reshape(shape)


def register(store: Store, name: str = "cenote", data_type: type | None = None) -> None:
    """Registers a tensor transport that keeps arrays in a store: before the actors that use it are made, and in the
    process that makes them.

    `data_type` is what it transports, wherever it is in a value: `numpy.ndarray` (if it is None) or `torch.Tensor`, one
    for each name.

        cenote.ray.register(store)

        @ray.remote
        class Actor:
            @ray.method(tensor_transport="cenote")
            def frames(self): return numpy.zeros((128, 210, 160, 3), "uint8")

        ray.put(array, _tensor_transport="cenote")
    """
    if data_type is None:
        import numpy

        data_type = numpy.ndarray
    module = data_type.__module__.partition(".")[0]
    if (module, data_type.__name__) == ("numpy", "ndarray"):
        kind = CenoteTransport
    elif (module, data_type.__name__) == ("torch", "Tensor"):
        kind = CenoteTorchTransport
    else:
        raise TypeError(f"data_type is numpy.ndarray or torch.Tensor, not {data_type.__name__}: use handles for others")
    # Of no module's, so that it is pickled with its store.
    made = type(kind.__name__, (kind,), {"store": store, "name": name.upper(), "__module__": "__main__"})
    try:
        register_tensor_transport(name, ["cpu"], made, data_type)
    except ValueError:
        # Ray, or this program, may have registered the same in this process before.
        found = get_tensor_transport_manager(name.upper())
        if type(found).__bases__ != (kind,) or found.store._opening != store._opening or found.store.name != store.name:
            raise
