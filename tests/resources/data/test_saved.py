"""Datasets on disk: what TensorFlow 2.21 saved is read, what is saved comes again."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    PermissionDeniedError,
)
from flowengine.core.files.access import SYSTEM
from flowengine.data import Dataset
from flowengine.resources.data.saved.loading import run_of
from flowengine.resources.data.saved.saving import SavedWriter

TYPES: Final = ["int64", "string"]
RUN: Final = "6935317313865975675"
#: What TensorFlow 2.21 wrote: three numbers and their texts, in two shards, the odd one in the second.
SAVED: Final = {
    f"{RUN}/00000000.shard/00000000.snapshot": (
        "DgAAAAAAAADF5Wk/CAkSACIIAAAAAAAAAACIK5XqCAAAAAAAAAD/hiQPCAcSACICATAMg07oDgAAAAAAAADF5Wk/CAkSACIIAgAA"
        "AAAAAAAZTxJfCAAAAAAAAAD/hiQPCAcSACICATIaRadG"
    ),
    f"{RUN}/00000001.shard/00000000.snapshot": (
        "DgAAAAAAAADF5Wk/CAkSACIIAQAAAAAAAACgvd9UCAAAAAAAAAD/hiQPCAcSACICATG7Z0/m"
    ),
    "snapshot.metadata": "EhM2OTM1MzE3MzEzODY1OTc1Njc1GP+sy7KCoJgDIAIqAgkHMAPAPgE=",
}


def written(folder: Path) -> str:
    for name, data in SAVED.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))
    return str(folder)


async def pairs(dataset: Dataset) -> list[tuple[int, bytes]]:
    return [(int(number), text) async for number, text in dataset]


def names_under(folder: Path) -> list[str]:
    return sorted(name for _, _, names in os.walk(folder) for name in names)


async def test_what_tensorflow_saved_is_read(tmp_path: Path) -> None:
    dataset = Dataset.load(written(tmp_path), TYPES, [[], []])
    assert await pairs(dataset) == [(0, b"0"), (2, b"2"), (1, b"1")]  # a shard after the other
    assert await pairs(dataset.skip(1).repeat(2)) == [(2, b"2"), (1, b"1")] * 2


@pytest.mark.parametrize("compression", ["", "ZLIB", "GZIP", "SNAPPY"])
async def test_what_is_saved_comes_again(tmp_path: Path, compression: str) -> None:
    path = str(tmp_path / "deep" / "saved")
    numbers = Dataset.range(3).map(lambda x: (x, x.graph.ops.Fill(np.array([400, 500]), x)))
    await numbers.prefetch(2).save(path, compression=compression)
    await numbers.skip(1).save(path, compression=compression)  # takes the place of the first
    again = Dataset.load(path, ["int64", "int64"], [[], [400, 500]], compression=compression)
    assert [(int(n), v.shape, int(v.max())) async for n, v in again] == [(n, (400, 500), n) for n in (1, 2)]
    await Dataset.range(0).save(path)
    assert [each async for each in Dataset.load(path, ["int64"])] == []


async def test_a_run_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = names_under(tmp_path)
    wrong = Dataset.range(5).map(lambda x: x.graph.ops.Gather(np.arange(3), x))
    with pytest.raises(InvalidArgumentError, match="indices"):
        await wrong.save(path)
    assert names_under(tmp_path) == before
    assert len(await pairs(Dataset.load(path, TYPES))) == 3


async def test_what_is_wrong_with_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="holds no saved dataset"):
        await pairs(Dataset.load(str(tmp_path), TYPES))
    path = written(tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"of \(int64, string\), not of \(float32\)"):
        await pairs(Dataset.load(path, ["float32"]))
    with pytest.raises(InvalidArgumentError, match="compression"):
        Dataset.load(path, TYPES, compression="BROTLI")
    file = tmp_path / RUN / "00000001.shard" / "00000000.snapshot"
    file.write_bytes(file.read_bytes()[:30])  # the first component of its element
    with pytest.raises(DataLossError, match="middle of an element"):
        await pairs(Dataset.load(path, TYPES))


@given(st.binary(max_size=60), st.integers(0, 41))
def test_metadata_is_read_or_refused(data: bytes, at: int) -> None:
    whole = base64.b64decode(SAVED["snapshot.metadata"])
    for given_data in (data, whole[:at], whole[:at] + data):
        try:
            run = run_of(given_data, "path")
        except (DataLossError, FailedPreconditionError):
            continue
        assert run.name.isdigit()
    assert run_of(whole, "path").name == RUN


def test_a_run_cannot_be_elsewhere() -> None:
    with pytest.raises(DataLossError, match="a run called"):
        run_of(b"\x12\x05../..\x20\x02\xc0\x3e\x01", "path")
    with pytest.raises(DataLossError, match="does not end"):
        run_of(b"\x12\x0212\x20" + b"\xff" * 1000 + b"\x01", "path")
    with pytest.raises(FailedPreconditionError, match="the dataset is incomplete"):
        run_of(b"\x12\x0212\x20\x02", "path")
    with pytest.raises(FailedPreconditionError, match="version 1"):
        run_of(b"\x12\x0212\x20\x01\xc0\x3e\x01", "path")


def shard_functions(graph: fe.Graph) -> tuple[Any, Any]:
    """The remainder of a number by 2, as its shard; what goes through all shards, one after the other."""

    @fe.function(graph, ["int64"])
    def remainder(number: Any) -> Any:
        return number.graph.ops.FloorMod(number, np.int64(2))

    @fe.function(graph, ["variant"])
    def itself(shard: Any) -> Any:
        return shard.graph.ops.Identity(shard)

    @fe.function(graph, ["variant"])
    def reader(shards: Any) -> Any:
        return shards.graph.ops.FlatMapDataset(
            shards, [], f=itself.attr, output_types=["int64"], output_shapes=[[]]
        )

    return remainder, reader


def saving(path: str) -> fe.Graph:
    """`make`, `next`: loads what `save` saves, the shard of a number is its remainder by 2."""
    graph = fe.Graph()
    ops = graph.ops

    remainder, reader = shard_functions(graph)
    kinds: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}
    numbers = ops.RangeDataset(np.int64(0), np.int64(5), np.int64(1), **kinds)
    ops.SaveDataset(numbers, path, [], shard_func=remainder.attr, name="save")
    loaded = ops.LoadDataset(path, [], reader_func=reader.attr, **kinds)
    iterator = ops.IteratorV2(shared_name="it", container="", **kinds)
    ops.MakeIterator(loaded, iterator, name="make")
    ops.IteratorGetNext(iterator, name="next", **kinds)
    return graph


async def elements(session: fe.Session) -> list[int]:
    found: list[int] = []
    while True:
        try:
            found.append(int(await session.run("next:0")))
        except OutOfRangeError:
            return found


async def test_nodes_save_into_shards_and_load(tmp_path: Path) -> None:
    path = str(tmp_path / "saved")
    async with fe.Session(saving(path)) as session:
        await session.run([], targets=["save"])
        assert len(names_under(tmp_path)) == 3
        await session.run([], targets=["make"])
        assert await elements(session) == [0, 2, 4, 1, 3]


async def test_nothing_is_saved_where_writing_is_forbidden(tmp_path: Path) -> None:
    config = fe.Config(file_access="none")
    async with fe.Session(saving(str(tmp_path / "saved")), config=config) as session:
        with pytest.raises(PermissionDeniedError):
            await session.run([], targets=["save"])
        await session.run([], targets=["make"])
        with pytest.raises(PermissionDeniedError):
            await session.run("next:0")
    assert names_under(tmp_path) == []


async def test_a_large_dataset_is_not_kept_in_memory_until_its_end(tmp_path: Path) -> None:
    """Elements larger than a piece are written as they come; small elements wait for each other."""
    writer = SavedWriter(SYSTEM, str(tmp_path), (fe.dtypes.int64,), "")

    def written_so_far() -> int:
        return sum(path.stat().st_size for path in tmp_path.rglob("*.snapshot"))

    for _ in range(10):
        await writer.add((np.zeros(8, np.int64),))
    few = written_so_far()
    assert few == 0
    for _ in range(10):
        await writer.add((np.zeros(100_000, np.int64),))
    assert written_so_far() >= 0.8 * 8_000_000
    await writer.finish()
    counts = [len(value) async for value in Dataset.load(str(tmp_path), ["int64"], [[None]])]
    assert counts == [8] * 10 + [100_000] * 10
