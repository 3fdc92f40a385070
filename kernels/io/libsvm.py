"""Lines of LIBSVM's text format: a label, then `index:value` for each feature that is not 0.

1 3:0.5 7:2.25
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType, int64
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.elements import shown, to_number


def _cost(lines: Any) -> float:
    """Microseconds: some 20 a line."""
    return 20.0 * getattr(lines, "size", 1)


@kernel("DecodeLibsvm", fresh=True, heavy=_cost)
def decode_libsvm(
    lines: Value, *, num_features: int, dtype: DType, label_dtype: DType
) -> tuple[Array, Array, Array, Array]:
    """Return the labels of lines, of their shape, and their features as a sparse tensor of one more axis.

    Features stay in the order of the line, and one beyond `num_features` stays too, as in TensorFlow. Raises
    InvalidArgumentError for a line without a label, and for one that cannot be read.
    """
    array = to_array(lines)
    labels, indices, values = [], [], []
    for place, line in zip(np.ndindex(array.shape), array.reshape(-1).tolist(), strict=True):
        label, *features = line.split() or [b""]
        if not label:
            raise InvalidArgumentError(f"No label found for input{_at(place)}: {shown(line)}")
        labels.append(_number(label, label_dtype, "Label format incorrect: ", label))
        for feature in features:
            index, colon, value = feature.partition(b":")
            if not colon:
                raise InvalidArgumentError(f"Invalid feature {shown(feature)}")
            number = _number(index, int64, "Feature format incorrect: ", feature)
            if number < 0:
                raise InvalidArgumentError(f"Feature index should be >= 0, got {number}")
            indices.append((*place, number))
            values.append(_number(value, dtype, "Feature format incorrect: ", feature))
    return (
        _numbers(labels, label_dtype).reshape(array.shape),
        np.array(indices, np.int64).reshape(len(indices), array.ndim + 1),
        _numbers(values, dtype),
        np.array([*array.shape, num_features], np.int64),
    )


def _at(place: tuple[int, ...]) -> str:
    return "".join(f"[{index}]" for index in place)


def _numbers(found: list[float | int], dtype: DType) -> Array:
    with np.errstate(over="ignore"):  # what is too large for a float is an infinity
        return np.array(found, dtype.as_numpy_dtype)


def _number(text: bytes, dtype: DType, complaint: str, whole: bytes) -> float | int:
    """The number; InvalidArgumentError with the complaint and the whole that it is a part of."""
    try:
        return to_number(text, dtype, "")
    except InvalidArgumentError:
        raise InvalidArgumentError(f"{complaint}{shown(whole)}") from None
