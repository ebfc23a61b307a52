"""Arrow tables as objects."""

import gc

import numpy
import pytest

import cenote

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture
def objects(pool):
    yield pool.objects("objects")
    gc.collect()


@pytest.fixture
def table():
    return pyarrow.table(
        {
            "number": numpy.arange(10_000),
            "text": [f"row {n}" for n in range(10_000)],
            "gaps": pyarrow.array([None, 1.5] * 5_000),
            "words": pyarrow.array(["one", "two"] * 5_000).dictionary_encode(),
        },
        metadata={"made": "by the test"},
    )


def buffers(table):
    for column in table.columns:
        for chunk in column.chunks:
            words = chunk.dictionary.buffers() if pyarrow.types.is_dictionary(chunk.type) else []
            yield from (buffer for buffer in [*chunk.buffers(), *words] if buffer is not None)


def test_a_table_lies_in_the_pool(pool, objects, table):
    assert objects.put_arrow("table", table, metadata="note") and not objects.put_arrow("table", table)
    found = objects.get_arrow("table")
    assert found.equals(table, check_metadata=True)
    found.validate(full=True)
    view = objects["table"]
    begin = numpy.frombuffer(view, "u1").ctypes.data
    lies = [begin <= each.address and each.address + each.size <= begin + view.nbytes for each in buffers(found)]
    assert len(lies) > 5 and all(lies) and view.metadata == b"note"
    del view

    # The table keeps the view, whatever becomes of the object.
    gc.collect()
    with pytest.raises(BufferError, match="1 views"):
        pool.close()
    assert objects.delete("table") and objects.nbytes > 0
    assert objects.put_arrow("table", table.slice(0, 10)) and found.equals(table)
    del found
    gc.collect()
    assert objects.delete("table") and objects.nbytes == 0


def test_tables_of_all_sizes(objects, table):
    small = table.slice(17, 5)
    chunks = pyarrow.table({"n": pyarrow.chunked_array([[1, 2], [], [3]])})
    for value in (small, table.slice(0, 0), chunks, table.schema.empty_table()):
        assert objects.put_arrow("table", value, overwrite=True)
        assert objects.get_arrow("table").equals(value)
    assert objects.put_arrow("small", small) and objects.stat("small").nbytes < 2000
    batch = table.to_batches()[0]
    assert objects.put_arrow("batch", batch, ttl=1000) and objects.get_arrow("batch").to_batches()[0].equals(batch)
    assert objects.stat("batch").expires is not None


def test_another_process_reads_it(objects, table, program):
    objects.put_arrow("table", table)
    child = program("""
        objects = pool.objects("objects")
        table = objects.get_arrow("table")
        print(table.num_rows, table.column("number")[-1].as_py(), flush=True)
        objects.put_arrow("child", table.select(["number"]))
    """)
    assert child.line() == "10000 9999"
    child.end()
    assert objects.get_arrow("child", timeout=30).equals(table.select(["number"]))


def test_what_is_no_table(objects, table):
    with pytest.raises(KeyError, match="none"):
        objects.get_arrow("none")
    for n, junk in enumerate([b"", b"text", b"\xff" * 100, bytes(100)]):
        objects.put(f"{n}", junk)
        with pytest.raises((ValueError, OSError)):
            objects.get_arrow(f"{n}").validate(full=True)
    for wrong in (7, "table", numpy.arange(3)):
        with pytest.raises((AttributeError, TypeError)):
            objects.put_arrow("wrong", wrong)
    assert "wrong" not in objects


def test_a_table_without_room_leaves_nothing(pool, table):
    small = pool.objects("small", quota=10_000)
    with pytest.raises(cenote.QuotaError):
        small.put_arrow("table", table)
    assert small.nbytes == 0 and small.put_arrow("table", table.slice(0, 10))


def test_a_table_that_cannot_be_written_leaves_nothing(objects, table, monkeypatch):
    class Small(pyarrow.MockOutputStream):
        def size(self):
            return super().size() // 2

    monkeypatch.setattr(pyarrow, "MockOutputStream", Small)
    with pytest.raises((OSError, ValueError)) as failed:
        objects.put_arrow("table", table)
    assert not isinstance(failed.value, BufferError)
    del failed
    gc.collect()
    assert "table" not in objects and objects.nbytes == 0
