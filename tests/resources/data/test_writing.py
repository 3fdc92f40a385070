"""Records that a node has written of a dataset come back, and nothing is left where it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError, NotFoundError, OutOfRangeError, PermissionDeniedError
from flowengine.resources.event_files import framed

STRING: dict[str, Any] = {"output_types": [dtypes.string], "output_shapes": [fe.TensorShape([])]}
RECORDS = [b"", b"a", b"x" * 300_000, b"\0\n", b"end"]


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def sliced(graph: fe.Graph, values: Any, dtype: fe.DType = dtypes.string) -> Any:
    array = np.array(values, object if dtype is dtypes.string else dtype.as_numpy_dtype)
    return graph.ops.TensorSliceDataset(
        [graph.constant(array, dtype)],
        Toutput_types=[dtype],
        output_shapes=[fe.TensorShape(list(array.shape[1:]))],
    )


def written(
    graph: fe.Graph, dataset: Any, path: Path, compression: bytes = b"", op: str = "DatasetToTFRecord"
) -> Any:
    return getattr(graph.ops, op)(dataset, graph.constant(str(path).encode()), graph.constant(compression))


@pytest.mark.parametrize("op", ["DatasetToTFRecord", "ExperimentalDatasetToTFRecord"])
@pytest.mark.parametrize("compression", [b"", b"ZLIB", b"GZIP"])
async def test_records_come_back(tmp_path: Path, op: str, compression: bytes) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"what was there before")
    graph = fe.Graph()
    write = written(graph, sliced(graph, RECORDS), path, compression, op)
    read = graph.ops.TFRecordDataset(
        graph.constant(str(path).encode()), graph.constant(compression), graph.constant(np.int64(0))
    )
    iterator = graph.ops.IteratorV2(shared_name="", container="", **STRING)
    begin = graph.ops.MakeIterator(read, iterator)
    following = graph.ops.IteratorGetNext(iterator, **STRING)
    async with fe.Session(graph) as session:
        await session.run([], targets=[write])
        await session.run([], targets=[begin])
        assert [(await session.run(list(following)))[0] for _ in RECORDS] == RECORDS
        with pytest.raises(OutOfRangeError):
            await session.run(list(following))
    assert names_in(tmp_path) == ["records"]
    if not compression:
        assert path.read_bytes() == b"".join(map(framed, RECORDS))


@pytest.mark.parametrize(
    "make",
    [
        lambda graph: sliced(graph, [1, 2], dtypes.int64),
        lambda graph: sliced(graph, [[b"a", b"b"]]),
    ],
    ids=["numbers", "vectors"],
)
async def test_other_elements_are_refused(tmp_path: Path, make: Any) -> None:
    graph = fe.Graph()
    write = written(graph, make(graph), tmp_path / "records")
    async with fe.Session(graph) as session:
        with pytest.raises(InvalidArgumentError):
            await session.run([], targets=[write])
    assert not names_in(tmp_path)


async def test_an_error_of_the_dataset_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"before")
    graph = fe.Graph()
    missing = graph.ops.TextLineDataset(
        graph.constant(str(tmp_path / "none").encode()), graph.constant(b""), graph.constant(np.int64(0))
    )
    write = written(graph, missing, path)
    async with fe.Session(graph) as session:
        with pytest.raises(NotFoundError):
            await session.run([], targets=[write])
    assert path.read_bytes() == b"before"
    assert names_in(tmp_path) == ["records"]


async def test_a_folder_that_is_not_there_and_writing_that_is_forbidden(tmp_path: Path) -> None:
    graph = fe.Graph()
    write = written(graph, sliced(graph, [b"a"]), tmp_path / "none" / "records")
    async with fe.Session(graph) as session:
        with pytest.raises(NotFoundError):
            await session.run([], targets=[write])
    async with fe.Session(graph, config=fe.Config(file_access="read")) as session:
        with pytest.raises(PermissionDeniedError):
            await session.run([], targets=[write])
