"""Tensors that lie in files: what is mapped, that nobody writes to it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe


async def _read(path: Path, dtype: str, shape: list[int], **config: Any) -> Any:
    graph = fe.Graph()
    region = graph.ops.ImmutableConst(dtype=dtype, shape=shape, memory_region_name=str(path))
    async with fe.Session(graph, config=fe.Config(**config)) as session:
        return np.asarray(await session.run(region))


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128", "float16"])
async def test_a_file_is_a_tensor(tmp_path: Path, dtype: str) -> None:
    values = np.arange(6).astype(dtype).reshape(2, 3)
    (tmp_path / "region").write_bytes(values.tobytes() + b"more")
    found = await _read(tmp_path / "region", dtype, [2, 3])
    np.testing.assert_array_equal(found, values)
    assert not (await _read(tmp_path / "region", dtype, [0, 3])).size


async def test_a_variable_assigned_from_it_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "region"
    path.write_bytes(np.array([1.0, 2.0], np.float32).tobytes())
    graph = fe.Graph()
    ops = graph.ops
    region = ops.ImmutableConst(dtype="float32", shape=[2], memory_region_name=str(path))
    variable = ops.VariableV2(dtype="float32", shape=[2])
    start = ops.Assign(variable, region)
    more = ops.AssignAdd(variable, graph.constant([1.0, 1.0]))
    async with fe.Session(graph) as session:
        await session.run(start)
        assert (await session.run(more)).tolist() == [2.0, 3.0]
        assert (await session.run(region)).tolist() == [1.0, 2.0]
    assert path.read_bytes() == np.array([1.0, 2.0], np.float32).tobytes()


@pytest.mark.parametrize(
    ("content", "dtype", "error", "message"),
    [
        (b"1234567", "float32", "InvalidArgumentError", "7 bytes"),
        (b"", "float32", "InvalidArgumentError", "empty"),
        (b"12345678", "string", "UnimplementedError", "string"),
        (None, "float32", "NotFoundError", "region"),
    ],
)
async def test_what_is_no_such_tensor_is_told(
    tmp_path: Path, content: bytes | None, dtype: str, error: str, message: str
) -> None:
    if content is not None:
        (tmp_path / "region").write_bytes(content)
    with pytest.raises(getattr(fe.errors, error), match=message):
        await _read(tmp_path / "region", dtype, [2])


async def test_reading_may_be_forbidden(tmp_path: Path) -> None:
    (tmp_path / "region").write_bytes(b"12345678")
    with pytest.raises(fe.errors.PermissionDeniedError, match="file_access"):
        await _read(tmp_path / "region", "float32", [2], file_access="none")
