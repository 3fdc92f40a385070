"""Array kernels against what TensorFlow 1.15 returned or raised; `record_arrays.py` wrote the answers."""

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
    json.loads(line) for line in (Path(__file__).parent / "array_records.jsonl").read_text().splitlines()
]


def _decode(record: dict[str, Any]) -> Any:
    dtype, values = dtypes.as_dtype(record["dtype"]), record["values"]
    if dtype is dtypes.string:
        array = np.empty(len(values), object)
        array[:] = [text.encode("latin-1") for text in values]
    elif dtype.is_complex:
        array = np.array([complex(real, imag) for real, imag in values], dtype.as_numpy_dtype)
    else:
        array = np.array(values).astype(dtype.as_numpy_dtype)
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
    """Rank 0 in its other form: a NumPy scalar or bytes."""
    return array[()] if not array.ndim else array


def _as_read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("form", [_as_scalar, _as_read_only], ids=["scalars", "arrays"])
@pytest.mark.parametrize("case", _CASES, ids=[f"{c['op']}-{i}" for i, c in enumerate(_CASES)])
def test_agrees_with_tensorflow(run_op: Callable[..., Any], case: dict[str, Any], form: Any) -> None:
    definition = registry()[case["op"]]
    inputs = [
        [form(_decode(v)) for v in i] if isinstance(i, list) else form(_decode(i)) for i in case["inputs"]
    ]
    attrs = {name: _attr(case["op"], name, value) for name, value in case["attrs"].items()}
    types = {
        argument.type_attr: (i[0] if isinstance(i, list) else i)["dtype"]
        for argument, i in zip(definition.inputs, case["inputs"], strict=True)
        if argument.type_attr is not None
    }
    if "error" in case:
        with pytest.raises(getattr(errors, case["error"])):
            run_op(case["op"], *inputs, types=types, **attrs)
        return
    outputs = run_op(case["op"], *inputs, types=types, **attrs)
    assert len(outputs) == len(case["outputs"])
    for output, record in zip(outputs, case["outputs"], strict=True):
        actual, expected = to_array(output), _decode(record)
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        if expected.dtype == object:
            assert [type(v) for v in actual.flat] == [bytes] * actual.size
            assert actual.tolist() == expected.tolist()
        else:
            wide = np.complex128 if expected.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=1e-6)
