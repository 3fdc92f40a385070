"""Snapshots: what TensorFlow 2.21 kept is read, what is kept here is read again."""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
)
from flowengine.resources.data.saved import snappy
from flowengine.resources.data.saved.loading import METADATA
from tests.resources.data.test_saved import SAVED, shard_functions, written

pytest.importorskip("cramjam", reason="cramjam (the extra `snappy`) is not installed")

NUMBER: Final = 7906285420066110618
#: What TensorFlow 2.21 kept with Snappy: seven numbers, the odd ones in the second shard.
BY_TENSORFLOW: Final = {
    f"{NUMBER}/15193738370632945181/00000000.shard/00000000.snapshot": (
        "AAAAQngEDgAJASTF5Wk/CAkSACIICRAUAACIK5XqRh4AAAINHwwZTxJfRh4AAAQNHgxj7UrvRh4ALAYAAAAAAAAAUhHYWg=="
    ),
    f"{NUMBER}/15193738370632945181/00000001.shard/00000000.snapshot": (
        "AAAAOFoEDgAJASjF5Wk/CAkSACIIAQkREACgvd9URh4AAAMNHhAR4UTpDg0MGTwsBQAAAAAAAADLewlZ"
    ),
    f"{NUMBER}/snapshot.metadata": (
        "ChM3OTA2Mjg1NDIwMDY2MTEwNjE4EhQxNTE5MzczODM3MDYzMjk0NTE4MRj27tqAn6aYAyACKgEJwD4B"
    ),
}


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def graph_of(path: str, *, count: int = 5, **changes: Any) -> fe.Graph:
    """`make`, `next` over a snapshot of numbers, the shard of a number being its remainder by 2."""
    graph = fe.Graph()
    ops = graph.ops

    remainder, reader = shard_functions(graph)
    kinds: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}
    numbers = ops.RangeDataset(np.int64(0), np.int64(count), np.int64(1), **kinds)
    attrs = {"compression": "AUTO", "reader_func": reader.attr, "shard_func": remainder.attr, **kinds}
    kept = ops.SnapshotDatasetV2(numbers, path, [], [], **{**attrs, **changes})
    iterator = ops.IteratorV2(shared_name="it", container="", **kinds)
    ops.MakeIterator(kept, iterator, name="make")
    ops.IteratorGetNext(iterator, name="next", **kinds)
    ops.SerializeIterator(iterator, name="save")
    state = ops.Placeholder(dtype="variant", name="state")
    ops.DeserializeIterator(iterator, state, name="restore")
    return graph


async def rest(session: fe.Session) -> list[int]:
    found: list[int] = []
    while True:
        try:
            found.append(int(await session.run("next:0")))
        except OutOfRangeError:
            return found


def files_under(folder: Path) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names
    )


@pytest.mark.parametrize("compression", ["AUTO", "SNAPPY", "NONE", "", "GZIP", "ZLIB"])
async def test_what_is_kept_is_read_from_then_on(tmp_path: Path, compression: str) -> None:
    async with fe.Session(graph_of(str(tmp_path), compression=compression)) as session:
        await session.run([], targets=["make"])
        assert await rest(session) == [0, 1, 2, 3, 4]
        kept = files_under(tmp_path)
        assert [name.split(os.sep)[2:] for name in kept if name.endswith(".snapshot")] == [
            ["00000000.shard", "00000000.snapshot"],
            ["00000001.shard", "00000000.snapshot"],
        ]
        for _ in range(2):
            await session.run([], targets=["make"])
            assert await rest(session) == [0, 2, 4, 1, 3]  # a shard after the other
        assert files_under(tmp_path) == kept


async def test_other_datasets_are_kept_apart(tmp_path: Path) -> None:
    for count in (5, 4, 5):
        async with fe.Session(graph_of(str(tmp_path), count=count)) as session:
            await session.run([], targets=["make"])
            assert sorted(await rest(session)) == list(range(count))
    assert len(os.listdir(tmp_path)) == 2


async def test_the_number_may_be_given(tmp_path: Path) -> None:
    graph = graph_of(str(tmp_path / "in"), hash=_signed(NUMBER), hash_valid=True)
    async with fe.Session(graph) as session:
        await session.run([], targets=["make"])
        await rest(session)
    assert os.listdir(tmp_path / "in") == [str(NUMBER)]
    assert str(NUMBER).encode() in (tmp_path / "in" / str(NUMBER) / METADATA).read_bytes()


async def test_who_stops_before_the_end_leaves_nothing(tmp_path: Path) -> None:
    async with fe.Session(graph_of(str(tmp_path))) as session:
        await session.run([], targets=["make"])
        assert int(await session.run("next:0")) == 0
    assert files_under(tmp_path) == []


@pytest.mark.parametrize(("hours", "expected"), [(1, 1), (25, 3)])
async def test_a_run_that_others_have_begun(tmp_path: Path, hours: int, expected: int) -> None:
    """For a day it is theirs, and elements pass."""
    begun = time.time_ns() // 1000 - hours * 3600 * 10**6
    data = b"\x12\x0212\x18"
    while begun > 127:
        data += bytes([begun & 127 | 128])
        begun >>= 7
    folder = tmp_path / str(NUMBER)
    folder.mkdir()
    (folder / METADATA).write_bytes(data + bytes([begun]) + b"\x20\x02\x2a\x01\x09")
    async with fe.Session(graph_of(str(tmp_path), hash=_signed(NUMBER), hash_valid=True)) as session:
        await session.run([], targets=["make"])
        assert await rest(session) == [0, 1, 2, 3, 4]
    assert len(files_under(tmp_path)) == expected


async def test_where_it_stands_is_kept(tmp_path: Path) -> None:
    async with fe.Session(graph_of(str(tmp_path))) as session:
        await session.run([], targets=["make"])
        for _ in range(2):
            await session.run("next:0")
        state = await session.run("save:0")
        assert await rest(session) == [2, 3, 4]
        end = await session.run("save:0")
        kept = files_under(tmp_path)
        await session.run([], {"state:0": state}, targets=["restore"])
        assert await rest(session) == [2, 3, 4]  # they pass: the first two would be missing
        assert files_under(tmp_path) == kept
        await session.run([], {"state:0": end}, targets=["restore"])
        assert await rest(session) == []
        await session.run([], targets=["make"])
        assert [int(await session.run("next:0")) for _ in range(2)] == [0, 2]
        inside = await session.run("save:0")  # the reader's function has a dataset of each shard
        assert await rest(session) == [4, 1, 3]
        await session.run([], {"state:0": inside}, targets=["restore"])
        assert await rest(session) == [4, 1, 3]
    async with fe.Session(graph_of(str(tmp_path))) as session:  # which has never seen the dataset
        await session.run([], {"state:0": inside}, targets=["restore"])
        assert await rest(session) == [4, 1, 3]


async def test_prefixes(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="Give both, or neither"):
        async with fe.Session(graph_of("x", reader_prefix=str(tmp_path))) as session:
            await session.run([], targets=["make"])
    both: dict[str, Any] = {"reader_prefix": str(tmp_path), "writer_prefix": str(tmp_path)}
    async with fe.Session(graph_of("/inside", **both)) as session:
        await session.run([], targets=["make"])
        await rest(session)
    assert len(files_under(tmp_path / "inside")) == 3


async def test_the_parts_of_a_snapshot(tmp_path: Path) -> None:
    """The nodes that TensorFlow itself makes where it reads one."""
    shard = Path(written(tmp_path)) / next(iter(SAVED)).rsplit("/", 1)[0]
    graph = fe.Graph()
    kinds: dict[str, Any] = {"output_types": ["int64", "string"], "output_shapes": [[], []]}
    ops = graph.ops
    directory = ops.SnapshotDatasetReader(str(shard), np.int64(1), version=2, **kinds)
    chunk = ops.SnapshotChunkDataset(str(shard / "00000000.snapshot"), **kinds)
    nested = ops.SnapshotNestedDatasetReader([directory, chunk], **kinds)

    @fe.function(graph, ["variant"])
    def itself(shard: Any) -> Any:
        return shard.graph.ops.Identity(shard)

    flat = ops.FlatMapDataset(nested, [], f=itself.attr, **kinds)
    iterator = ops.IteratorV2(shared_name="it", container="", **kinds)
    ops.MakeIterator(flat, iterator, name="make")
    ops.IteratorGetNext(iterator, name="next", **kinds)
    async with fe.Session(graph) as session:
        await session.run([], targets=["make"])
        assert await rest(session) == [2, 0, 2]
    wrong = ops.SnapshotDatasetReader(str(shard), np.int64(0), version=1, **kinds)
    async with fe.Session(graph) as session:
        with pytest.raises(InvalidArgumentError, match="only version 2"):
            await session.run(wrong)


def test_damaged_blocks_are_told(tmp_path: Path) -> None:
    whole = snappy.SnappyBlocks().compress(b"abc" * 50_000)
    path = tmp_path / "blocks"

    def read(data: bytes) -> bytes:
        path.write_bytes(data)
        with path.open("rb") as file:
            source = snappy.SnappySource(file, b"blocks")
            parts = []
            while part := source.read(70_001):
                parts.append(part)
            return b"".join(parts)

    assert read(whole) == b"abc" * 50_000
    assert read(b"") == b""
    for data, why in [
        (whole[:2], "length of a block"),
        (whole[:40], "cut off in a block"),
        (b"\xff" + whole, "a block of"),
        (whole[:4] + b"\xff" * 30 + whole[34:], "damaged before offset"),
    ]:
        with pytest.raises(DataLossError, match=why):
            read(data)


def test_without_cramjam_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cramjam", None)
    with pytest.raises(FailedPreconditionError, match="pip install 'cramjam"):
        snappy.SnappyBlocks()


async def test_what_tensorflow_kept_is_read(tmp_path: Path) -> None:
    for name, data in BY_TENSORFLOW.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))
    graph = graph_of(str(tmp_path), hash=_signed(NUMBER), hash_valid=True)
    async with fe.Session(graph) as session:
        await session.run([], targets=["make"])
        assert await rest(session) == [0, 2, 4, 6, 1, 3, 5]
