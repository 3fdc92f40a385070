"""Strings, and what is read from them. A string takes the place of 64 numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.ir.proto.example_pb2 import Example
from tests.benchmarks.op_tables.bench import Bench, One, called, kept, lines


def _count(n: int) -> int:
    return max(n // 64, 1)


def _words(b: Bench, n: int) -> Any:
    return b.variable(lines([b"word number %d" % i for i in b.random.integers(0, 10_000, _count(n))]))


def _numbers(b: Bench, n: int) -> Any:
    return b.variable(lines([b"%.5f" % value for value in b.random.random(_count(n))]))


def _examples(b: Bench, n: int) -> Any:
    """Serialised: a label, eight floats, three sparse numbers. The last byte of none is 0."""
    texts = []
    for index in range(_count(n)):
        example = Example()
        features = example.features.feature
        features["label"].int64_list.value.append(index + 1)
        features["pixels"].float_list.value.extend([1.5] * 8)
        features["words"].int64_list.value.extend([1 + index % 7, 2, 3])
        texts.append(example.SerializeToString())
    return b.variable(lines(texts))


def _parsed(b: Bench, serialized: Any) -> Any:
    return b.ops.ParseExample(
        serialized,
        b.graph.constant([], "string"),
        [b.graph.constant("words", "string")],
        [b.graph.constant(key, "string") for key in ("label", "pixels")],
        [b.graph.constant([], "int64"), b.graph.constant([], "float32")],
        sparse_types=["int64"],
        Tdense=["int64", "float32"],
        dense_shapes=[[], [8]],
    )[3][0]


OPS: Final[dict[str, One]] = {
    "StringToHashBucketFast": kept(
        lambda b, n: (_words(b, n),), called("StringToHashBucketFast", num_buckets=1000)
    ),
    "StringJoin": kept(lambda b, n: (_words(b, n), _words(b, n)), lambda b, x, y: b.ops.StringJoin([x, y])),
    "StringSplit": kept(lambda b, n: (_words(b, n),), lambda b, x: b.ops.StringSplit(x, b" ")),
    "StringLength": kept(lambda b, n: (_words(b, n),), called("StringLength")),
    "Substr": kept(lambda b, n: (_words(b, n),), lambda b, x: b.ops.Substr(x, 2, 5)),
    "AsString": kept(lambda b, n: (b.floats(_count(n)),), called("AsString")),
    "StringToNumber": kept(lambda b, n: (_numbers(b, n),), called("StringToNumber")),
    "DecodeRaw": kept(
        lambda b, n: (b.variable(lines([b"0123456789abcdef" * 16] * _count(n))),),
        called("DecodeRaw", out_type="float32"),
    ),
    "ParseExample": kept(lambda b, n: (_examples(b, n),), _parsed),
    "DecodeCSV": kept(
        lambda b, n: (b.variable(lines([b"1,2.5,word,%d" % i for i in range(_count(n))])),),
        lambda b, x: b.ops.DecodeCSV(
            x, [np.zeros(1, np.float32), np.zeros(1, np.float32), [b""], np.zeros(1, np.int64)]
        ),
    ),
}
