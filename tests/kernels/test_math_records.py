"""Math, reduction, product and nn kernels against what TensorFlow 1.15 returned or raised.

The answers in `math_records.jsonl` were written by `record_arrays.py math_records.jsonl`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes, errors
from flowengine.core.arrays import to_array
from flowengine.ops.load import registry

_CASES = [
    json.loads(line) for line in (Path(__file__).parent / "math_records.jsonl").read_text().splitlines()
]

#: Relative and absolute tolerance: a few units in the last place of values around 1.
_TOLERANCE = {
    "float16": (4e-3, 4e-3),
    "bfloat16": (2e-2, 3e-2),
    "float32": (2e-5, 4e-6),
    "float64": (1e-11, 1e-12),
    "complex64": (2e-5, 4e-6),
}

#: TensorFlow reports these as errors of its own: the divisor is no less at fault here.
_ERRORS = {"InternalError": errors.InvalidArgumentError}


def _decode(record: dict[str, Any]) -> Any:
    dtype, values = dtypes.as_dtype(record["dtype"]), record["values"]
    if dtype is dtypes.string:
        array = np.empty(len(values), object)
        array[:] = [text.encode("latin-1") for text in values]
    elif dtype.is_complex:
        array = np.array([complex(real, imag) for real, imag in values], dtype.as_numpy_dtype)
    elif dtype.is_integer:
        array = np.array(values, dtype.as_numpy_dtype)
    else:
        array = np.array(values, np.float64).astype(dtype.as_numpy_dtype)
    return array.reshape(record["shape"])


def _attr(op: str, name: str, value: Any) -> Any:
    definition = registry()[op].attr(name)
    assert definition is not None
    if definition.type == "type":
        return dtypes.as_dtype(value)
    if definition.type == "string":
        return value.encode()
    return tuple(value) if isinstance(value, list) else value


def _as_scalar(array: Any) -> Any:
    return array[()] if not array.ndim else array


def _as_read_only_view(array: Any) -> Any:
    """The same values with gaps between them, where nobody may write."""
    view = np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("form", [_as_scalar, _as_read_only_view], ids=["scalars", "views"])
@pytest.mark.parametrize("case", _CASES, ids=[f"{c['op']}-{i}" for i, c in enumerate(_CASES)])
def test_agrees_with_tensorflow(run_op: Callable[..., Any], case: dict[str, Any], form: Any) -> None:
    definition = registry()[case["op"]]
    inputs = [
        [form(_decode(v)) for v in i] if isinstance(i, list) else form(_decode(i)) for i in case["inputs"]
    ]
    attrs = {name: _attr(case["op"], name, value) for name, value in case["attrs"].items()}
    if "error" in case:
        expected_error = _ERRORS.get(case["error"]) or getattr(errors, case["error"])
        # The executor words what NumPy raises for shapes that do not broadcast.
        with pytest.raises((expected_error, ValueError)):
            run_op(case["op"], *inputs, **attrs)
        return
    outputs = run_op(case["op"], *inputs, **attrs)
    assert len(outputs) == len(case["outputs"]) == len(definition.output_types(_typed(case, attrs)))
    for output, record in zip(outputs, case["outputs"], strict=True):
        actual, expected = to_array(output), _decode(record)
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        if expected.dtype.kind in "Oiub":
            assert actual.tolist() == expected.tolist()
        else:
            relative, absolute = _TOLERANCE[record["dtype"]]
            wide = np.complex128 if expected.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                actual.astype(wide), expected.astype(wide), rtol=relative, atol=absolute
            )


def _typed(case: dict[str, Any], attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes with those that the inputs give."""
    definition = registry()[case["op"]]
    complete = definition.with_defaults(attrs)
    for argument, value in zip(definition.inputs, case["inputs"], strict=True):
        first = value[0] if isinstance(value, list) else value
        if argument.type_attr is not None:
            complete[argument.type_attr] = dtypes.as_dtype(first["dtype"])
        if argument.number_attr is not None:
            complete[argument.number_attr] = len(value)
    return complete
