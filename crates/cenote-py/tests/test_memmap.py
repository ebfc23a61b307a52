"""Objects as `numpy.memmap`, which other processes map again."""

import gc
import multiprocessing
import os
import pickle

import numpy
import pytest

import cenote


@pytest.fixture
def array():
    return numpy.arange(100_000.0).reshape(100, 1000)


@pytest.fixture
def objects(pool, array):
    objects = pool.objects("objects")
    # Not at the beginning of a page.
    objects.put("other", b"another")
    objects.put("array", array)
    yield objects
    gc.collect()


def total(filename, dtype, offset, shape):
    """What a worker does with an array."""
    return float(numpy.memmap(filename, dtype, "r", offset, shape).sum())


def found(array):
    """How joblib has an array come to a worker."""
    return type(array).__name__, str(getattr(array, "filename", None)), float(array.sum()), os.getpid()


def test_an_object_is_mapped_where_it_is(objects, array, path):
    mapped = objects["array"].as_memmap()
    assert isinstance(mapped, numpy.memmap) and (mapped == array).all()
    assert (mapped.dtype, mapped.shape, mapped.mode) == (array.dtype, array.shape, "r")
    assert mapped.filename == str(path) and mapped.offset % 64 == 0 and not mapped.flags.writeable
    with open(path, "rb") as file:
        file.seek(mapped.offset)
        assert file.read(array.nbytes) == array.tobytes()
    small = objects["other"].as_memmap()
    assert small.dtype == "u1" and bytes(small) == b"another"
    assert (pickle.loads(pickle.dumps(mapped)) == array).all()


def test_another_process_maps_it_again(objects, array):
    mapped = objects["array"].as_memmap()
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        arguments = mapped.filename, mapped.dtype.str, mapped.offset, mapped.shape
        assert workers.apply(total, arguments) == array.sum()
        # Deleted and replaced, but still viewed here.
        assert objects.delete("array")
        assert objects.put("array", numpy.zeros_like(array))
        assert workers.apply(total, arguments) == array.sum() == mapped.sum()


def test_it_keeps_the_view(pool, objects, array):
    view = objects["array"]
    part = view.as_memmap()[10:20, ::2]
    with pytest.raises(BufferError, match="1 buffers still refer"):
        view.release()
    del view
    gc.collect()
    with pytest.raises(BufferError, match="1 views"):
        pool.close()
    objects.delete_many(["array", "other"])
    for _ in range(3):
        objects.put("array", numpy.zeros_like(array), overwrite=True)
    assert (numpy.asarray(part) == array[10:20, ::2]).all()
    del objects["array"]
    assert objects.nbytes > array.nbytes
    del part
    gc.collect()
    assert objects.nbytes == 0


def test_what_cannot_be_mapped(objects, path):
    objects.put("empty", b"")
    with pytest.raises(ValueError, match="without bytes"):
        objects["empty"].as_memmap()
    view = objects["array"]
    moved = path.with_name("moved")
    path.rename(moved)
    with pytest.raises(FileNotFoundError):
        view.as_memmap()
    path.write_bytes(bytes(1 << 20))
    with pytest.raises(FileNotFoundError, match="another file"):
        view.as_memmap()
    moved.rename(path)
    assert view.as_memmap().nbytes == view.nbytes
    view.release()
    with pytest.raises(BufferError, match="released"):
        view.as_memmap()


@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_workers_of_joblib_map_it_again(objects, array, path, backend):
    joblib = pytest.importorskip("joblib")
    mapped = objects["array"].as_memmap()
    parts = [mapped, mapped[10:], mapped[:, ::2]]
    # Whatever is not mapped is sent by its bytes.
    with joblib.Parallel(2, backend=backend, max_nbytes=None) as parallel:
        whole, rows, columns = parallel(joblib.delayed(found)(part) for part in parts)
    assert whole[:3] == ("memmap", str(path), array.sum())
    assert rows[:3] == ("memmap", str(path), array[10:].sum())
    assert columns[2] == array[:, ::2].sum()
    assert os.getpid() not in {whole[3], rows[3], columns[3]}
    if backend == "loky":
        joblib.externals.loky.get_reusable_executor().shutdown()
