"""The protocol's names of element types."""

from __future__ import annotations

from typing import Final

from flowengine.core import dtypes
from flowengine.core.dtypes import DType

#: {name in the protocol: type}
_TYPES: Final = {
    "BOOL": dtypes.bool_,
    "UINT8": dtypes.uint8,
    "UINT16": dtypes.uint16,
    "UINT32": dtypes.uint32,
    "UINT64": dtypes.uint64,
    "INT8": dtypes.int8,
    "INT16": dtypes.int16,
    "INT32": dtypes.int32,
    "INT64": dtypes.int64,
    "FP16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "FP32": dtypes.float32,
    "FP64": dtypes.float64,
    "BYTES": dtypes.string,
}
_NAMES: Final = {dtype: name for name, dtype in _TYPES.items()}
#: Types that JSON carries no values of, as in Triton.
BINARY_ONLY: Final = frozenset({"FP16", "BF16"})


def dtype_of(datatype: str) -> DType | None:
    """Return the type with a name; None if the protocol has no such name.

    >>> from flowengine.serving.v2.datatypes import dtype_of
    >>> dtype_of("FP32")
    flowengine.float32
    """
    return _TYPES.get(datatype)


def datatype_of(dtype: DType) -> str:
    """Return the name of a type, its own in capitals if the protocol has none for it.

    >>> from flowengine.serving.v2.datatypes import datatype_of
    >>> datatype_of(fe.dtypes.int8), datatype_of(fe.dtypes.complex64)
    ('INT8', 'COMPLEX64')
    """
    return _NAMES.get(dtype, dtype.name.upper())


__all__ = ["BINARY_ONLY", "datatype_of", "dtype_of"]
