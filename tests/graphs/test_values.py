"""From Python and NumPy values to constants."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flowengine.core import dtypes as dt
from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.values import natural_dtype, to_value


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (1, dt.int32, ()),
        (2**31 - 1, dt.int32, ()),
        (2**31, dt.int64, ()),
        (-(2**31), dt.int32, ()),
        (1.5, dt.float32, ()),
        (True, dt.bool_, ()),
        (1j, dt.complex128, ()),
        ("text", dt.string, ()),
        (b"\x00ab\x00", dt.string, ()),
        ([1, 2], dt.int32, (2,)),
        ([1, 2.5], dt.float32, (2,)),
        ([1, 2**40], dt.int64, (2,)),
        ([], dt.float32, (0,)),
        ([[], []], dt.float32, (2, 0)),
        (["a", b"bc"], dt.string, (2,)),
        ([[b"a\x00"], [b""]], dt.string, (2, 1)),
        (np.float64(1), dt.float64, ()),
        (np.zeros((2, 3), np.int64), dt.int64, (2, 3)),
        (np.array(["a", "bc"]), dt.string, (2,)),
        (np.array([b"a", b"bc"], object), dt.string, (2,)),
        (ml_dtypes.bfloat16(1), dt.bfloat16, ()),
        (np.array([], np.uint8), dt.uint8, (0,)),
        (TensorShape([2, 3]), dt.int32, (2,)),
        (range(3), dt.int32, (3,)),
    ],
)
def test_natural_type_and_shape(value: Any, dtype: dt.DType, shape: tuple[int, ...]) -> None:
    converted, found = to_value(value)
    assert found is dtype
    assert to_array(converted).shape == shape
    assert natural_dtype(value) is dtype


def test_rank_zero_is_a_scalar_and_strings_are_bytes() -> None:
    assert type(to_value(1)[0]) is np.int32
    assert to_value("ü")[0] == "ü".encode()
    assert to_value(["a\x00"])[0].tolist() == [b"a\x00"]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, dt.float32, 1.0),
        (1, dt.bfloat16, 1.0),
        (0.1, dt.float64, 0.1),
        ([1, 2], dt.complex64, [1, 2]),
        (200, dt.uint8, 200),
        (7, dt.qint8, 7),
        (2**40, dt.int64, 2**40),
        (np.int64(3), dt.int32, 3),
        ([], dt.int32, []),
        ([], dt.string, []),
    ],
)
def test_a_value_takes_the_type_that_is_asked_for(value: Any, dtype: dt.DType, expected: Any) -> None:
    converted, found = to_value(value, dtype)
    array = to_array(converted)
    assert found is dtype
    assert array.dtype == dtype.as_numpy_dtype
    assert array.tolist() == expected


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (1.5, dt.int32, "1.5 is float32 and cannot become int32"),
        (True, dt.int32, "True is bool and cannot become int32"),
        (1, dt.bool_, "cannot become bool"),
        ("a", dt.float32, "'a' is string and cannot become float32"),
        (1, dt.string, "cannot become string"),
        (300, dt.uint8, "300 does not fit into uint8"),
        (-1, dt.uint32, "-1 does not fit into uint32"),
        (2**40, dt.int32, "does not fit into int32"),
        (1j, dt.float32, "cannot become float32"),
        (np.array([1.5]), dt.int64, "cannot become int64"),
        (None, None, "None is not a tensor"),
        ([[1], [1, 2]], None, "is not a tensor"),
        ([1, "a"], None, "is not a tensor"),
        (["a", 1], None, "it mixes strings with 1"),
        (object(), None, "is not a tensor"),
        ({"a": 1}, None, "is not a tensor"),
        (2**70, None, "is not a tensor"),
        (TensorShape([None]), None, "is not fully known"),
    ],
)
def test_what_cannot_be_converted_is_said(value: Any, dtype: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        to_value(value, dtype)


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.int64, np.uint8, np.bool_]), hnp.array_shapes(min_dims=0, min_side=0)
    )
)
def test_arrays_are_copied_unchanged(array: Any) -> None:
    before = array.copy()
    converted, dtype = to_value(array)
    array[...] = 1
    np.testing.assert_array_equal(to_array(converted), before)
    assert dtype.as_numpy_dtype == array.dtype
    if isinstance(converted, np.ndarray):
        assert not converted.flags.writeable


@given(
    st.recursive(st.integers(-100, 100), lambda inner: st.lists(inner, min_size=2, max_size=2), max_leaves=8)
)
def test_nested_lists_are_numpys(value: Any) -> None:
    try:
        expected = np.array(value)
    except ValueError:
        with pytest.raises(InvalidArgumentError):
            to_value(value)
        return
    np.testing.assert_array_equal(to_array(to_value(value)[0]), expected)


def test_constant_takes_a_shape() -> None:
    graph = Graph()
    assert graph.constant([1, 2, 3, 4], shape=[2, 2]).op.get_attr("value").value().tolist() == [
        [1, 2],
        [3, 4],
    ]
    filled = graph.constant(7.0, shape=(2, 3))
    assert filled.shape == TensorShape([2, 3])
    assert filled.op.get_attr("value").value().tolist() == [[7.0] * 3] * 2
    assert graph.constant([5], shape=[]).shape == TensorShape([])
    assert graph.constant("a", shape=[2]).op.get_attr("value").value().tolist() == [b"a", b"a"]
    with pytest.raises(InvalidArgumentError, match=r"3 elements cannot fill the shape \[2\]"):
        graph.constant([1, 2, 3], shape=[2])
    with pytest.raises(InvalidArgumentError, match="needs a fully known shape"):
        graph.constant([1, 2, 3], shape=[None])
    assert graph.constant(1, "float64").dtype is dt.float64


def test_the_const_constructor_takes_its_type_from_the_value() -> None:
    graph = Graph()
    assert graph.ops.Const(value=np.int64(3)).dtype is dt.int64
    assert graph.ops.Const(value=[1.0, 2.0], dtype="float32").shape == TensorShape([2])
