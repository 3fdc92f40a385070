"""Named sets of types, for attributes of ops: `T: realnumbertype` says what `T: {float, double, ...}` would.

The first four are TensorFlow's own, each whatever the table of types says. The others are lists that
several ops share, in the order in which those ops give them; a list of one op stands in its text.
"""

from __future__ import annotations

import functools
from typing import Final

from flowengine.core import dtypes
from flowengine.core.dtypes import DType

_QUANTIZED_NUMBERS: Final = frozenset({dtypes.qint8, dtypes.quint8, dtypes.qint32})

_GROUPS: Final[dict[str, tuple[DType, ...]]] = {
    "numbertype": tuple(
        d for d in dtypes.COMPUTED if d.is_floating or d.is_integer or d.is_complex or d in _QUANTIZED_NUMBERS
    ),
    "realnumbertype": tuple(d for d in dtypes.COMPUTED if d.is_floating or d.is_integer),
    "quantizedtype": tuple(d for d in dtypes.ALL if d.is_quantized),
    "floattype": tuple(d for d in dtypes.COMPUTED if d.is_floating),
}

#: {name: its types}
_LISTS: Final[dict[str, str]] = {
    # Positions, sizes and axes.
    "indextype": "int32 int64",
    "shortindextype": "int16 int32 int64",
    "integertype": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "complextype": "complex64 complex128",
    # Real and complex numbers that are not whole.
    "inexacttype": "bfloat16 half float double complex64 complex128",
    "anysignedtype": "bfloat16 half float double int8 int16 int32 int64 complex64 complex128",
    "signedtype": "bfloat16 half float double int32 int64 complex64 complex128",
    "arithmetictype": (
        "bfloat16 half float double uint8 int8 uint16 int16 int32 uint32 uint64 int64 complex64 complex128"
    ),
    # What can be compared for being equal.
    "equatabletype": (
        "bfloat16 half float double uint8 int8 int16 int32 int64 uint16 uint32 uint64 complex64 quint8 qint8 "
        "qint32 quint16 qint16 string bool complex128"
    ),
    "numberorbooltype": (
        "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 uint16 "
        "complex128 half uint32 uint64 bool"
    ),
    # What libraries of linear algebra take.
    "linalgtype": "double float half complex64 complex128",
    # Channels of a pixel.
    "imagetype": "int8 uint8 int16 uint16 int32 int64 half float double bfloat16",
    # What a feature of a serialised example holds.
    "featuretype": "float int64 string",
}


@functools.cache
def named_types(name: str) -> tuple[DType, ...] | None:
    """The types of a set, None where no set has this name."""
    if name in _LISTS:
        return tuple(dtypes.as_dtype(each) for each in _LISTS[name].split())
    return _GROUPS.get(name)
