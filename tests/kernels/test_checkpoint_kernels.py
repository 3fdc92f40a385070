"""Saving, restoring and merging by the ops: what comes back, what is refused, and who waits meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.checkpoint import FileLayer
from flowengine.core import dtypes

WRITTEN = Path(__file__).parent.parent / "checkpoint" / "written_by_tensorflow"


def texts(*values: str | bytes) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = [v.encode() if isinstance(v, str) else v for v in values]
    return array


def floats(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def save(prefix: Path, values: dict[str, Any], specs: list[str] | None = None, **config: Any) -> None:
    graph = fe.Graph()
    names = texts(*values)
    tensors = [graph.ops.Const(value=v, dtype=dtypes.as_dtype(v.dtype)) for v in values.values()]
    at = graph.ops.Placeholder(dtype="string", name="at")
    graph.ops.SaveV2(
        prefix=at,
        tensor_names=names,
        shape_and_slices=texts(*(specs or [""] * len(values))),
        tensors=tensors,
        name="save",
    )
    async with fe.Session(graph, config=fe.Config(**config)) as session:
        await session.run([], {"at:0": str(prefix).encode()}, targets=["save"])


async def restore(prefix: Path, name: str, dtype: str, spec: str = "", op: str = "v2", **config: Any) -> Any:
    graph = fe.Graph()
    if op == "v2":
        graph.ops.RestoreV2(
            prefix=str(prefix).encode(),
            tensor_names=texts(name),
            shape_and_slices=texts(spec),
            dtypes=[dtype],
            name="restore",
        )
    else:
        graph.ops.RestoreSlice(
            file_pattern=str(prefix).encode(),
            tensor_name=name.encode(),
            shape_and_slice=spec.encode(),
            dt=dtype,
            name="restore",
        )
    async with fe.Session(graph, config=fe.Config(**config)) as session:
        return await session.run("restore:0")


async def test_what_is_saved_is_restored(tmp_path: Path) -> None:
    words = texts("a", b"", b"b\x00")
    await save(tmp_path / "m", {"x": floats(1, 2, 3), "words": words, "n": np.array(5)})
    assert (await restore(tmp_path / "m", "x", "float32")).tolist() == [1, 2, 3]
    assert (await restore(tmp_path / "m", "x", "float32", "3 1,2")).tolist() == [2, 3]
    assert (await restore(tmp_path / "m", "words", "string")).tolist() == words.tolist()
    assert await restore(tmp_path / "m", "n", "int64") == 5


async def test_several_tensors_at_once() -> None:
    graph = fe.Graph()
    graph.ops.RestoreV2(
        prefix=str(WRITTEN / "parts").encode(),
        tensor_names=texts("step", "parts"),
        shape_and_slices=texts("", "3 4 1,2:0,1"),
        dtypes=["int32", "float32"],
        name="restore",
    )
    async with fe.Session(graph) as session:
        step, part = await session.run(["restore:0", "restore:1"])
    assert step == 5
    assert part.tolist() == [[4], [8]]


@pytest.mark.parametrize("op", ["v2", "v1"])
async def test_the_old_format_is_restored(op: str) -> None:
    value = await restore(WRITTEN / "parts.v1", "parts", "float32", "3 4 2,1:-", op)
    assert value.tolist() == [[8, 9, 10, 11]]
    with pytest.raises(fe.errors.InvalidArgumentError, match="type"):
        await restore(WRITTEN / "parts.v1", "parts", "int32", "", op)
    with pytest.raises(fe.errors.InvalidArgumentError, match="shape"):
        await restore(WRITTEN / "parts.v1", "parts", "float32", "4 4 2,1:-", op)
    with pytest.raises(fe.errors.NotFoundError, match="other"):
        await restore(WRITTEN / "parts.v1", "other", "float32", "", op)


async def test_what_is_refused(tmp_path: Path) -> None:
    await save(tmp_path / "m", {"x": floats(1, 2, 3)})
    with pytest.raises(fe.errors.InvalidArgumentError, match="expected dtype int32 does not equal"):
        await restore(tmp_path / "m", "x", "int32")
    with pytest.raises(fe.errors.InvalidArgumentError, match="does not match the shape stored"):
        await restore(tmp_path / "m", "x", "float32", "4 0,1")
    with pytest.raises(fe.errors.InvalidArgumentError, match="Non numerical"):
        await restore(tmp_path / "m", "x", "float32", "3 a,b")
    with pytest.raises(fe.errors.NotFoundError, match="Key y not found"):
        await restore(tmp_path / "m", "y", "float32")
    with pytest.raises(fe.errors.NotFoundError, match="Failed to find any matching files"):
        await restore(tmp_path / "none", "y", "float32")
    with pytest.raises(fe.errors.InvalidArgumentError, match="its specification says"):
        await save(tmp_path / "n", {"x": floats(1, 2, 3)}, ["4 0,2"])
    with pytest.raises(fe.errors.NotFoundError):
        await save(tmp_path / "no" / "such" / "m", {"x": floats(1)})
    assert files_in(tmp_path) == ["m.data-00000-of-00001", "m.index"]


async def test_damage_names_file_and_tensor(tmp_path: Path) -> None:
    await save(tmp_path / "m", {"x": floats(1, 2, 3)})
    data = tmp_path / "m.data-00000-of-00001"
    data.write_bytes(b"\x01" + data.read_bytes()[1:])
    with pytest.raises(fe.errors.DataLossError, match=r"m\.data-00000-of-00001: tensor 'x'"):
        await restore(tmp_path / "m", "x", "float32")


async def test_file_access_is_obeyed(tmp_path: Path) -> None:
    for access in ("none", "read"):
        with pytest.raises(fe.errors.PermissionDeniedError, match="not allowed"):
            await save(tmp_path / "m", {"x": floats(1)}, file_access=access)
    assert files_in(tmp_path) == []
    assert await restore(WRITTEN / "parts", "step", "int32", file_access="read") == 5
    with pytest.raises(fe.errors.PermissionDeniedError, match="not allowed"):
        await restore(WRITTEN / "parts", "step", "int32", file_access="none")


async def test_merging_removes_the_folders_of_the_parts(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / "parts").mkdir(exist_ok=True)
        await save(tmp_path / "parts" / f"p{number}", {f"x{number}": floats(number)})
    graph = fe.Graph()
    graph.ops.MergeV2Checkpoints(
        checkpoint_prefixes=texts(*(str(tmp_path / "parts" / f"p{n}") for n in range(2))),
        destination_prefix=str(tmp_path / "m").encode(),
        name="merge",
    )
    async with fe.Session(graph) as session:
        await session.run([], targets=["merge"])
    assert (await restore(tmp_path / "m", "x1", "float32")).tolist() == [1]
    assert not (tmp_path / "parts").exists()


def test_names_of_shards(run_op: Callable[..., Any]) -> None:
    assert run_op("ShardedFilename", b"a/b", np.int32(3), np.int32(12)) == (b"a/b-00003-of-00012",)
    assert run_op("ShardedFilespec", b"a/b", np.int32(12)) == (b"a/b-?????-of-00012",)


async def test_others_run_while_a_save_is_under_way(tmp_path: Path) -> None:
    ran = 0

    async def count() -> None:
        nonlocal ran
        while True:
            await trio.lowlevel.checkpoint()
            ran += 1

    large = np.zeros((4000, 2000), np.float32)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        graph = fe.Graph()
        value = graph.ops.Placeholder(dtype="float32", name="value")
        graph.ops.SaveV2(
            prefix=str(tmp_path / "m").encode(),
            tensor_names=texts("x"),
            shape_and_slices=texts(""),
            tensors=[value],
            name="save",
        )
        async with fe.Session(graph) as session:
            await session.run([], {"value:0": large}, targets=["save"])
        nursery.cancel_scope.cancel()
    assert ran > 10


async def test_a_cancelled_save_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = FileLayer.write
    with trio.CancelScope() as scope:

        def write_and_cancel(self: FileLayer, file: Any, data: Any) -> None:
            write(self, file, data)
            trio.from_thread.run_sync(scope.cancel)

        monkeypatch.setattr(FileLayer, "write", write_and_cancel)
        await save(tmp_path / "m", {"x": floats(1), "y": floats(2)})
    assert scope.cancelled_caught
    assert files_in(tmp_path) == []
