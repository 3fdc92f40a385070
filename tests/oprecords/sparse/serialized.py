"""Sparse tensors as strings or variants, and maps that keep them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.dtypes import as_dtype
from flowengine.ir.proto import TensorProto
from flowengine.ir.tensorproto import decode_tensor, encode_tensor
from tests.oprecords.record import MOVED, OpRecord, bad, sample, strings

# Sparse tensors as strings; variants are tried in tests/kernels/test_sparse_maps.py.

_STRINGS: Final = ([[0, 1], [1, 0], [1, 3]], strings(b"", b"ab", b"c" * 200), [3, 4])
_A: Final = ([[0, 1], [1, 0], [1, 3]], [1.0, 2.0, 3.0], [3, 4])


def _decoded(data: bytes) -> Any:
    proto = TensorProto()
    proto.ParseFromString(data)
    return decode_tensor(proto)


def _text(value: Any, dtype: str) -> bytes:
    array = np.array(value, as_dtype(dtype).as_numpy_dtype)
    return encode_tensor(array, as_dtype(dtype)).SerializeToString()


def _row(indices: Any, values: Any, shape: Any) -> list[bytes]:
    return [_text(indices, "int64"), _text(values, "float32"), _text(shape, "int64")]


def _same(got: list[bytes], want: tuple[Any, Any, Any]) -> None:
    for text, array in zip(got, want, strict=True):
        read = _decoded(text)
        assert read.dtype == array.dtype
        assert read.tolist() == array.tolist()


def _one(outputs: list[Any], inputs: list[Any]) -> None:
    _same(outputs[0].tolist(), (inputs[0], inputs[1], inputs[2]))


def _many(outputs: list[Any], inputs: list[Any]) -> None:
    indices, values, shape = inputs
    assert outputs[0].shape == (shape[0], 3)
    for number, row in enumerate(outputs[0].tolist()):
        here = indices[:, 0] == number
        _same(row, (indices[here][:, 1:], values[here], shape[1:]))


_FIRST: Final = _row([[1], [2]], [1.0, 2.0], [4])
_SECOND: Final = _row([[0]], [3.0], [6])
_BOTH: Final = ([[0, 1], [0, 2], [1, 0]], [1.0, 2.0, 3.0], [2, 6])


def _rows(*rows: list[bytes]) -> Any:
    return strings(*(part for row in rows for part in row)).reshape(-1, 3)


def _expected(sparse: Any) -> tuple[Any, ...]:
    return np.array(sparse[0]), np.array(sparse[1], np.float32), np.array(sparse[2])


_FLOAT: Final = {"dtype": ["float32"]}
_TYPES: Final = [{"T": name, "out_type": "string"} for name in MOVED]

_OF_SERIALIZED: Final = [
    OpRecord(
        "SerializeSparse",
        [sample(*_A), sample(*_STRINGS, T="string"), sample(np.zeros((0, 1)), np.zeros(0), [3])],
        None,
        [bad("InvalidArgumentError", "matrix", [0], [1.0], [3])],
        only=_TYPES,
        check=_one,
    ),
    OpRecord(
        "SerializeManySparse",
        [sample(*_A), sample(*_STRINGS, T="string"), sample(np.zeros((0, 2)), np.zeros(0), [2, 3])],
        None,
        [
            bad("InvalidArgumentError", "rank", [[0]], [1.0], [3]),
            bad("InvalidArgumentError", "is not in", [[3, 0]], [1.0], [3, 1]),
        ],
        only=_TYPES,
        check=_many,
        partial=True,
    ),
    OpRecord(
        "DeserializeSparse",
        [
            sample(strings(*_FIRST)),
            sample(_rows(_FIRST, _SECOND)),
        ],
        lambda text: _expected(([[1], [2]], [1.0, 2.0], [4]) if text.ndim == 1 else _BOTH),
        [
            bad("InvalidArgumentError", "3 as the last", strings(b"", b"")),
            bad("InvalidArgumentError", "non-zero", np.zeros((0, 3), object)),
            bad("InvalidArgumentError", "float32", strings(_FIRST[0], _text([1], "int32"), _FIRST[2])),
            bad("InvalidArgumentError", "rank", _rows(_FIRST, _row(*_A))),
            bad("InvalidArgumentError", "parse", strings(b"\xff", _FIRST[1], _FIRST[2])),
        ],
        only=[{"dtype": "float32", "Tserialized": "string"}],
        partial=True,
    ),
    OpRecord(
        "DeserializeManySparse",
        [sample(_rows(_FIRST, _SECOND))],
        lambda text: _expected(_BOTH),
        [
            bad("InvalidArgumentError", "0 rows", np.zeros((0, 3), object)),
            bad("InvalidArgumentError", "3 columns", strings(*_FIRST)),
        ],
        _FLOAT,
        partial=True,
    ),
]


# Maps of sparse tensors.

#: {why they have no record: ops}


RECORDS: Final = [*_OF_SERIALIZED]

EXCUSED: Final = {
    "what one node keeps another takes: tests/kernels/test_sparse_maps.py": """
        AddManySparseToTensorsMap AddSparseToTensorsMap TakeManySparseFromTensorsMap
    """,
}
