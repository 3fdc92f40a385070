"""The first form of snapshots: what is kept is read, each mode does what it says."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError, NotFoundError, OutOfRangeError, PermissionDeniedError
from flowengine.ir.wire import bytes_field, field
from flowengine.resources.data.saved.loading import (
    METADATA,
    RUN_FIELD,
    TIME_FIELD,
    TYPES_FIELD,
    VERSION_FIELD,
)

KINDS: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}


def graph_of(path: str, **attrs: Any) -> fe.Graph:
    """`make`, `next`, `save`, `restore` over a snapshot of five numbers."""
    graph = fe.Graph()
    ops = graph.ops
    numbers = ops.RangeDataset(np.int64(0), np.int64(5), np.int64(1), **KINDS)
    kept = ops.SnapshotDataset(numbers, path, **KINDS, **attrs)
    iterator = ops.IteratorV2(shared_name="it", container="", **KINDS)
    ops.MakeIterator(kept, iterator, name="make")
    ops.IteratorGetNext(iterator, name="next", **KINDS)
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


async def gone_through(path: str, **attrs: Any) -> list[int]:
    async with fe.Session(graph_of(path, **attrs)) as session:
        await session.run([], targets=["make"])
        return await rest(session)


def files_under(folder: Path) -> list[str]:
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


def write_run(folder: Path, begun_seconds_ago: float) -> None:
    """The metadata of a run that somebody else has begun and not ended."""
    (number,) = folder.iterdir()
    begun = time.time_ns() // 1000 - int(begun_seconds_ago * 10**6)
    data = bytes_field(RUN_FIELD, b"12") + field(TIME_FIELD, begun) + field(VERSION_FIELD, 2)
    (number / METADATA).write_bytes(data + bytes_field(TYPES_FIELD, b"\x09"))


@pytest.mark.parametrize("compression", ["", "GZIP"])
async def test_it_is_kept_once_and_read_from_then_on(tmp_path: Path, compression: str) -> None:
    kept: list[str] = []
    for _ in range(3):
        assert await gone_through(str(tmp_path), compression=compression) == [0, 1, 2, 3, 4]
        kept = files_under(tmp_path)
        assert len(kept) == 2  # one file of elements, one that says which run counts
    (elements,) = (name for name in kept if name.endswith(".snapshot"))
    os.truncate(elements, 0)
    assert await gone_through(str(tmp_path), compression=compression) == []  # it was read, not computed


async def test_modes(tmp_path: Path) -> None:
    assert await gone_through(str(tmp_path), mode="passthrough") == [0, 1, 2, 3, 4]
    assert files_under(tmp_path) == []
    with pytest.raises(NotFoundError, match="holds no saved dataset"):
        await gone_through(str(tmp_path), mode="read")
    assert await gone_through(str(tmp_path), mode="write") == [0, 1, 2, 3, 4]
    first = files_under(tmp_path)
    assert await gone_through(str(tmp_path), mode="read") == [0, 1, 2, 3, 4]
    assert files_under(tmp_path) == first
    assert await gone_through(str(tmp_path), mode="write") == [0, 1, 2, 3, 4]
    assert len(files_under(tmp_path)) == 3  # another run, which counts now


@pytest.mark.parametrize(("ago", "count"), [(50.0, 2), (150.0, 3)])
async def test_another_s_run_is_left_to_it_for_as_long_as_the_node_says(
    tmp_path: Path, ago: float, count: int
) -> None:
    await gone_through(str(tmp_path))
    write_run(tmp_path, ago)
    assert await gone_through(str(tmp_path), pending_snapshot_expiry_seconds=100) == [0, 1, 2, 3, 4]
    assert len(files_under(tmp_path)) == count


async def test_a_name_and_a_prefix_say_where(tmp_path: Path) -> None:
    prefix = str(tmp_path) + "/"
    both: dict[str, Any] = {"reader_path_prefix": prefix, "writer_path_prefix": prefix}
    assert await gone_through("in", **both, snapshot_name="mine") == [0, 1, 2, 3, 4]
    assert len(files_under(tmp_path / "in" / "custom-mine")) == 2
    assert await gone_through("in", **both, snapshot_name="mine", mode="read") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"compression": "ZLIB"}, "compression must be either '', 'GZIP' or 'SNAPPY'"),
        ({"mode": "never"}, "mode must be one of 'auto', 'read', 'write', 'passthrough'"),
        ({"pending_snapshot_expiry_seconds": 0}, "must be at least 1 second"),
        ({"reader_path_prefix": "/x"}, "Give both, or neither"),
        ({"snapshot_name": "../up"}, "must be the name of a folder"),
    ],
)
async def test_settings_that_are_refused(tmp_path: Path, attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        await gone_through(str(tmp_path), **attrs)


async def test_a_place_that_is_forbidden(tmp_path: Path) -> None:
    access = fe.FileAccess(read=[str(tmp_path)], write=[])
    async with fe.Session(graph_of(str(tmp_path)), config=fe.Config(file_access=access)) as session:
        await session.run([], targets=["make"])
        with pytest.raises(PermissionDeniedError):
            await session.run("next:0")


async def test_where_it_stands_is_kept(tmp_path: Path) -> None:
    await gone_through(str(tmp_path))
    async with fe.Session(graph_of(str(tmp_path))) as session:
        await session.run([], targets=["make"])
        assert [int(await session.run("next:0")) for _ in range(2)] == [0, 1]
        state = await session.run("save:0")
    async with fe.Session(graph_of(str(tmp_path))) as session:  # which has never seen the dataset
        await session.run([], {"state:0": state}, targets=["restore"])
        assert await rest(session) == [2, 3, 4]
