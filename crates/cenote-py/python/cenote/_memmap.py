"""Objects as `numpy.memmap`: arrays that other processes find again by a file and an offset, as joblib's do."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any


def of(memory: memoryview, path: Path, descriptor: int, offset: int) -> Any:
    """A view's memory, mapped again from the pool's file, which this process has open by a descriptor."""
    import numpy

    array = numpy.asarray(memory)
    if not array.nbytes:
        raise ValueError("an object without bytes cannot be mapped")
    with open(path, "rb") as file:
        if not os.path.samestat(os.fstat(file.fileno()), os.fstat(descriptor)):
            raise FileNotFoundError(errno.ENOENT, "another file has the name of the pool's by now", str(path))
        mapped = numpy.memmap(file, array.dtype, "r", offset, array.shape)
    # As long as the mapping is referred to, by this array or by what is made of it, the view is not released.
    mapped._view = memory
    return mapped
