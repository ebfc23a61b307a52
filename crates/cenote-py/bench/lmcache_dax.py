"""LMCache's `dax` adapter as a plug-in of LMCache, so that its benchmark can measure it.

`dax` asks each chunk for its `shapes`, which the allocators of LMCache's server set. `lmcache bench l2` of 0.5.6 makes
chunks with a `shape` only, of which `dax` stores none: an assertion fails for each. Here they are given their `shapes`,
and the adapter is LMCache's as it is.
"""

from __future__ import annotations

from typing import Any

from lmcache.v1.distributed.l2_adapters.dax_l2_adapter import DaxL2Adapter, DaxL2AdapterConfig

# Of Linux 5.14; `mmap` has no name for it.
MADV_POPULATE_WRITE = 23


class DaxWithShapesConfig(DaxL2AdapterConfig):
    """The parameters of `dax`, and `populate`: all pages are mapped at the start, as `dax` does not do by itself."""

    populate = False

    @classmethod
    def from_dict(cls, d: dict) -> DaxWithShapesConfig:
        config = super().from_dict(d)
        config.populate = d.get("populate", False)
        return config


class DaxWithShapes(DaxL2Adapter):
    """`dax`, for chunks without `shapes`."""

    def __init__(self, config: DaxWithShapesConfig, l1_memory_desc: Any = None) -> None:
        super().__init__(config)
        if config.populate:
            for device in self._devices:
                device.core.mmap_obj.madvise(MADV_POPULATE_WRITE)

    def submit_store_task(self, keys: list[Any], objects: list[Any]) -> int:
        give_shapes(objects)
        return super().submit_store_task(keys, objects)

    def submit_load_task(self, keys: list[Any], objects: list[Any]) -> int:
        give_shapes(objects)
        return super().submit_load_task(keys, objects)


def give_shapes(chunks: list[Any]) -> None:
    """Once for each chunk: the benchmark has the same ones in all submits, the first of which it does not count."""
    for chunk in chunks:
        if chunk.meta.shapes is None:
            chunk.meta.shapes, chunk.meta.dtypes = [chunk.meta.shape], [chunk.meta.dtype]
