"""Types of eight bits and less: kept, moved, cast, and stored, but not computed in."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.checkpoint import BundleReader, BundleWriter, V1Writer
from flowengine.cli.results import storable
from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.graphs.errors import ConstructionTypeError

_TYPES: Final = [each for each in dtypes.ALL if each in dtypes.STORAGE]
#: Those of which an element does not fill its byte.
_BITS: Final = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}


def _every(dtype: DType) -> Array:
    """Every element that the type has, in rows of four."""
    count = 1 << _BITS.get(dtype.name, 8)
    return np.arange(count, dtype=np.uint8).view(dtype.as_numpy_dtype).reshape(-1, 4)


def _bytes(value: Any) -> Array:
    array = np.asarray(value)
    return np.frombuffer(array.tobytes(), np.uint8).reshape(array.shape)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
async def test_ops_that_move_elements_move_their_bytes(dtype: DType) -> None:
    values = _every(dtype)
    raw = _bytes(values)
    graph = fe.Graph()
    fed = graph.placeholder(dtype, [None, 4], name="fed")
    ops = graph.ops
    expected = {
        ops.Identity(fed): raw,
        ops.Transpose(fed, [1, 0]): raw.T,
        ops.Reshape(fed, [-1]): raw.reshape(-1),
        ops.ConcatV2([fed, graph.constant(values)], 0): np.concatenate([raw, raw]),
        ops.GatherV2(fed, [0, 0], 0): raw[[0, 0]],
        ops.GatherNd(fed, np.array([[0, 3]], np.int16)): raw[[0], [3]],
        ops.Pack([fed, fed], axis=1): np.stack([raw, raw], 1),
        ops.Slice(fed, [0, 1], [1, 2]): raw[:1, 1:3],
        fed[:1, ::-1]: raw[:1, ::-1],
        ops.BroadcastTo(fed[:1], [2, 4]): np.broadcast_to(raw[:1], (2, 4)),
        ops.Tile(fed, [1, 2]): np.tile(raw, (1, 2)),
        ops.Fill([3], graph.constant(values[0, 3])): np.full(3, raw[0, 3]),
        ops.Split(1, fed, num_split=2)[1]: raw[:, 2:],
    }
    async with fe.Session(graph) as session:
        for tensor, want in expected.items():
            for _ in range(3):  # in every tier
                got = await session.run(tensor, {fed: values})
                assert got.dtype == dtype.as_numpy_dtype
                np.testing.assert_array_equal(_bytes(got), want, tensor.name)


@given(st.sampled_from(_TYPES), st.sampled_from(["float32", "float64", "float16", "bfloat16"]), st.data())
def test_numbers_become_the_nearest_of_a_floating_type(
    dtype: DType, source: str, data: st.DataObject
) -> None:
    held = dtypes.as_dtype(source)
    numbers = data.draw(st.lists(st.floats(-500, 500, width=16), min_size=1, max_size=20))
    values = np.array(numbers).astype(held.as_numpy_dtype)
    if not dtype.is_floating:
        values = np.trunc(values.astype(np.float32)).astype(held.as_numpy_dtype)
    graph = fe.Graph()
    there = graph.ops.Cast(graph.constant(values), DstT=dtype)
    back = graph.ops.Cast(there, DstT="float32")
    with fe.blocking.Session(graph) as session:
        cast, seen = session.run([there, back])
    wide = values.astype(np.float32)
    # What has no number there is the library's choice, which is TensorFlow's: infinite, NaN or the largest.
    want = wide.astype(dtype.as_numpy_dtype) if dtype.is_floating else _wrapped(wide, dtype)
    np.testing.assert_array_equal(_bytes(cast), _bytes(want))
    np.testing.assert_array_equal(seen, want.astype(np.float32))


def _wrapped(numbers: Array, dtype: DType) -> Array:
    """The low bits of whole numbers."""
    bits = _BITS[dtype.name]
    low = numbers.astype(np.int64) & ((1 << bits) - 1)
    return low.astype(np.uint8).view(dtype.as_numpy_dtype)


def test_casts_are_those_of_tensorflow() -> None:
    """Told by TensorFlow 2.21."""
    numbers = np.array([449, 464, 465, 57344, 61440, 2.0**-9, 2.0**-10, 3e-3, np.nan, -np.inf], np.float32)
    graph = fe.Graph()
    casts = [graph.ops.Cast(numbers, DstT=name) for name in ("float8_e4m3fn", "float8_e5m2")]
    whole = graph.ops.Cast(np.arange(-20, 20, 5, dtype=np.int32), DstT="int4")
    unsigned = graph.ops.Cast(np.arange(-20, 20, 5, dtype=np.int64), DstT="uint4")
    with fe.blocking.Session(graph) as session:
        small, wide, signed, positive = session.run([*casts, whole, unsigned])
    assert _bytes(small).tolist() == [126, 126, 127, 127, 127, 1, 0, 2, 127, 255]
    assert _bytes(wide).tolist() == [95, 95, 95, 123, 124, 24, 20, 26, 126, 252]
    assert signed.astype(int).tolist() == [-4, 1, 6, -5, 0, 5, -6, -1]
    assert positive.astype(int).tolist() == [12, 1, 6, 11, 0, 5, 10, 15]


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
async def test_variables_hold_them_and_checkpoints_store_them(dtype: DType, tmp_path: Path) -> None:
    values = _every(dtype)
    graph = fe.Graph()
    handle = graph.ops.VarHandleOp(dtype=dtype, shape=values.shape, shared_name="v")
    written = graph.ops.AssignVariableOp(handle, graph.constant(values))
    read = graph.ops.ReadVariableOp(handle, dtype=dtype)
    async with fe.Session(graph) as session:
        await session.run([], targets=[written])
        held = await session.run(read)
    prefix = str(tmp_path / "model")
    with BundleWriter(prefix) as writer:
        writer.add(b"v", held, dtype)
    with BundleReader(prefix) as reader:
        assert reader.dtype(b"v") is dtype
        np.testing.assert_array_equal(_bytes(reader.read(b"v")), _bytes(values))
    # The first form of checkpoints has no field for them, in TensorFlow neither.
    with (
        pytest.raises(fe.errors.UnimplementedError, match=dtype.name),
        V1Writer(str(tmp_path / "old")) as old,
    ):
        old.add(b"v", held, dtype)


def test_nothing_computes_in_them() -> None:
    graph = fe.Graph()
    x = graph.constant(np.ones(2, ml_dtypes.float8_e5m2))
    with pytest.raises(ConstructionTypeError, match="float8_e5m2"):
        graph.ops.MatMul(x, x)
    with pytest.raises(ConstructionTypeError, match="float8_e5m2"):
        graph.ops.AddN([x, x])


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_files_of_numpy_hold_them_as_numbers(dtype: DType, tmp_path: Path) -> None:
    values = _every(dtype)
    np.save(tmp_path / "values.npy", storable(values, "values.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "values.npy"), values.astype(np.float32))
