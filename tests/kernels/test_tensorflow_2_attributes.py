"""Attributes that graphs of TensorFlow 2 have and those of TensorFlow 1 cannot: what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe


async def _run(graph: fe.Graph, fetches: Any, *, before: Any = ()) -> Any:
    async with fe.Session(graph) as session:
        for target in before:
            await session.run([], targets=[target])
        return await session.run(fetches)


async def test_lines_are_numbered_from_the_offset(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("a\nb\nc\n", encoding="utf-8")
    g = fe.Graph()
    table = g.ops.HashTableV2(key_dtype="string", value_dtype="int64", shared_name="words")
    fill = g.ops.InitializeTableFromTextFileV2(table, str(path), key_index=-2, value_index=-1, offset=10)
    found = g.ops.LookupTableFindV2(table, [b"c", b"a", b"?"], np.int64(-1), name="found")
    async with fe.Session(g) as session:
        await session.run([], targets=[fill])
        np.testing.assert_array_equal(await session.run(found), [12, 10, -1])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
async def test_offsets_of_parts_have_the_type_of_the_shapes(dtype: Any) -> None:
    g = fe.Graph()
    offsets = g.ops.ConcatOffset(1, [np.array([2, 3], dtype), np.array([2, 4], dtype)])
    first, second = await _run(g, list(offsets))
    assert first.dtype == second.dtype == dtype
    np.testing.assert_array_equal([first, second], [[0, 0], [0, 3]])


async def test_an_assignment_may_ask_for_the_shape_of_what_is_there() -> None:
    g = fe.Graph()
    handle = g.ops.VarHandleOp(dtype="float32", shape=None, shared_name="v")
    first = g.ops.AssignVariableOp(handle, np.zeros(3, np.float32), validate_shape=True, name="first")
    other = g.ops.AssignVariableOp(handle, np.zeros(2, np.float32), validate_shape=True, name="other")
    freely = g.ops.AssignVariableOp(handle, np.ones(2, np.float32), name="freely")
    value = g.ops.ReadVariableOp(handle, dtype="float32")
    async with fe.Session(g) as session:
        await session.run([], targets=[first])
        with pytest.raises(fe.errors.InvalidArgumentError, match="shape"):
            await session.run([], targets=[other])
        np.testing.assert_array_equal(await session.run(value), [0, 0, 0])
        await session.run([], targets=[freely])
        np.testing.assert_array_equal(await session.run(value), [1, 1])


@pytest.mark.parametrize("dtype", ["int16", "int64"])
async def test_places_of_the_greatest_have_the_type_asked_for(dtype: str) -> None:
    g = fe.Graph()
    top = g.ops.TopKV2(np.array([1, 3, 2], np.float32), np.int64(2), index_type=dtype)
    values, places = await _run(g, list(top))
    np.testing.assert_array_equal(values, [3, 2])
    np.testing.assert_array_equal(places, [1, 2])
    assert places.dtype == dtype


_X = np.array([[1, 2], [3, 4]], np.float32)
_OUTSIDE = np.array([[0], [5], [-1]], np.int32)
_ROWS = np.array([[10, 10], [20, 20], [30, 30]], np.float32)


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("TensorScatterAdd", [[11, 12], [3, 4]]),
        ("TensorScatterSub", [[-9, -8], [3, 4]]),
        ("TensorScatterMax", [[10, 10], [3, 4]]),
        ("TensorScatterMin", [[1, 2], [3, 4]]),
        ("TensorScatterUpdate", [[10, 10], [3, 4]]),
        ("ScatterNdNonAliasingAdd", [[11, 12], [3, 4]]),
    ],
)
async def test_rows_outside_are_passed_over_where_a_graph_says_so(op: str, wanted: Any) -> None:
    g = fe.Graph()
    make = getattr(g.ops, op)
    # What TensorFlow 2.21 gives.
    np.testing.assert_array_equal(
        await _run(g, make(_X, _OUTSIDE, _ROWS, bad_indices_policy="IGNORE")), wanted
    )
    for policy, words in (("", "index"), ("ERROR", "index"), ("Ignore", "Unknown bad indices handling")):
        with pytest.raises(fe.errors.InvalidArgumentError, match=words):
            await _run(g, make(_X, _OUTSIDE, _ROWS, bad_indices_policy=policy))


async def test_slices_outside_are_zero_and_so_is_what_flows_back_to_them() -> None:
    g = fe.Graph()
    x = g.constant(_X)
    taken = g.ops.GatherNd(x, _OUTSIDE, bad_indices_policy="IGNORE")
    put = g.ops.ScatterNd(_OUTSIDE, _ROWS, np.array([2, 2], np.int32), bad_indices_policy="IGNORE")
    gradient = fe.gradients(g.ops.Mul(taken, _ROWS), x)[0]
    got = await _run(g, [taken, put, gradient])
    np.testing.assert_array_equal(got[0], [[1, 2], [0, 0], [0, 0]])
    np.testing.assert_array_equal(got[1], [[10, 10], [0, 0]])
    np.testing.assert_array_equal(got[2], [[10, 10], [0, 0]])


@pytest.mark.parametrize(("kind", "wanted"), [("Add", [11, 12]), ("Update", [10, 10]), ("Max", [10, 10])])
async def test_rows_of_variables_outside_are_passed_over(kind: str, wanted: Any) -> None:
    g = fe.Graph()
    handle = g.ops.VarHandleOp(dtype="float32", shape=[2, 2], shared_name="v")
    first = g.ops.AssignVariableOp(handle, _X, name="first")
    make = getattr(g.ops, f"ResourceScatterNd{kind}")
    change = make(handle, _OUTSIDE, _ROWS, bad_indices_policy="IGNORE", name="change")
    value = g.ops.ReadVariableOp(handle, dtype="float32")
    np.testing.assert_array_equal(await _run(g, value, before=[first, change]), [wanted, [3, 4]])


async def test_checkpoints_that_are_missing_may_be_passed_over(tmp_path: Path) -> None:
    g = fe.Graph()
    there, gone, merged = (str(tmp_path / name) for name in ("there", "gone", "merged"))
    ops = g.ops
    save = ops.SaveV2(there, ["v"], [""], [np.float32(7)])

    def merge(prefixes: list[str], allow: bool) -> Any:
        return ops.MergeV2Checkpoints(prefixes, merged, delete_old_dirs=False, allow_missing_files=allow)

    strict, lenient, nothing = merge([there, gone], False), merge([there, gone], True), merge([gone], True)
    value = ops.RestoreV2(merged, ["v"], [""], dtypes=["float32"])
    async with fe.Session(g) as session:
        await session.run([], targets=[save])
        with pytest.raises(fe.errors.NotFoundError):
            await session.run([], targets=[strict])
        with pytest.raises(fe.errors.InvalidArgumentError, match="At least one"):
            await session.run([], targets=[nothing])
        await session.run([], targets=[lenient])
        np.testing.assert_array_equal(await session.run(value), [7])
