"""Uses of `graph.ops` for type checkers: read by mypy and pyright, never run.

A line that is wrong has a comment that lets it pass; both report such a comment where nothing is wrong.
"""

from __future__ import annotations

from typing import assert_type

import numpy as np

import flowengine as fe


def right(graph: fe.Graph, x: fe.Tensor) -> None:
    ops = graph.ops
    assert_type(ops.MatMul(x, [[1.0], [2.0]], transpose_a=True, name="y"), fe.Tensor)
    assert_type(ops.NoOp(), fe.Operation)
    assert_type(ops.Any(x, [0]), fe.Tensor)
    assert_type(ops.Range(0, 3, 1), fe.Tensor)
    assert_type(ops.TopKV2(x, 2).indices, fe.Tensor)
    assert_type(ops.Split(0, x, num_split=2), tuple[fe.Tensor, ...])
    assert_type(ops.UniqueWithCounts(x).count, fe.Tensor)
    assert_type(ops.TensorArrayConcatV3(x, x, dtype="int32").lengths, fe.Tensor)
    ops.Placeholder(dtype="float32", shape=[None, 3])
    ops.Placeholder(dtype=np.float32, shape=fe.TensorShape(None))
    ops.Cast(x, DstT=fe.dtypes.int32)
    ops.Cast(x, DstT=np.dtype("int32"))
    ops.MaxPool(x, ksize=np.array([1, 2, 2, 1]), strides=(1, 2, 2, 1), padding="SAME", data_format=b"NHWC")
    ops.ReadVariableOp(graph.variable(1.0), dtype="float32")
    ops.PartitionedCall([x, 1.0], Tout=["float32"], f="body")
    ops.Pack([x, np.float32(1), 2.0], axis=1)
    ops["OpOfOnesOwn"](x, anything=1)


def wrong(graph: fe.Graph, x: fe.Tensor) -> None:
    ops = graph.ops
    ops.NoSuchOp(x)  # type: ignore
    ops.MatMul(x)  # type: ignore
    ops.MatMul(x, x, transpose_c=True)  # type: ignore
    ops.MatMul(x, x, transpose_a="yes")  # type: ignore
    ops.MatMul(x, ops.NoOp())  # type: ignore
    ops.MatMul(x, None)  # type: ignore
    ops.Pack(x)  # type: ignore
    ops.Assign(3.0, x)  # type: ignore
    ops.Reshape(x, shape=3.5, axis=1)  # type: ignore
    ops.Placeholder(shape=[2])  # type: ignore
    ops.Placeholder(dtype="float32", shape=2)  # type: ignore
    print(ops.TopKV2(x, 2).places)  # type: ignore
    print(ops.NoOp().dtype)  # type: ignore
