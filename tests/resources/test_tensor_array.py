"""TensorArrays and stacks of a step; messages and results follow TensorFlow 1.15."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.resources.stack import Stack
from flowengine.resources.tensor_array import TensorArray


def _floats(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


def test_written_once_and_read_once() -> None:
    array = TensorArray(dtypes.float32, 3)
    array.write(0, _floats(1, 2))
    with pytest.raises(InvalidArgumentError, match="already been written to"):
        array.write(0, _floats(1, 2))
    assert array.get(0).tolist() == [1, 2]
    with pytest.raises(InvalidArgumentError, match="Could not read index 0 twice"):
        array.get(0)
    with pytest.raises(InvalidArgumentError, match="already been read"):
        array.write(0, _floats(1, 2))
    with pytest.raises(InvalidArgumentError, match="index 1: it was not written"):
        array.get(1)


def test_reading_again_without_clearing() -> None:
    array = TensorArray(dtypes.float32, 1, clear_after_read=False)
    array.write(0, _floats(1))
    assert array.get(0) is array.get(0)


@pytest.mark.parametrize("index", [-1, 3])
def test_bounds(index: int) -> None:
    array = TensorArray(dtypes.float32, 3)
    with pytest.raises(InvalidArgumentError, match=f"read from index {index} but array size is: 3"):
        array.get(index)
    with pytest.raises(InvalidArgumentError, match=f"write to index {index} but array is not resizeable"):
        array.write(index, _floats(1))
    with pytest.raises(InvalidArgumentError, match="Size should be >= 0"):
        TensorArray(dtypes.float32, -1)


@pytest.mark.parametrize(
    ("indices", "message"),
    [([0, 3], r"scatter index must be < array size \(3 vs. 3\)"), ([1, -1], "scatter index -1 is negative")],
)
def test_a_scatter_beyond_the_array_writes_nothing(indices: list[int], message: str) -> None:
    array = TensorArray(dtypes.float32, 3)
    with pytest.raises(InvalidArgumentError, match=message):
        array.scatter(indices, [_floats(1), _floats(2)])
    for index in range(3):
        array.write(index, _floats(3))  # each may be written once


def test_dynamic_size_grows_to_the_largest_index() -> None:
    array = TensorArray(dtypes.float32, 0, dynamic_size=True)
    array.write(7, _floats(1))
    assert array.size == 8
    with pytest.raises(InvalidArgumentError, match="array size is: 8"):
        array.get(8)


def test_element_shapes() -> None:
    array = TensorArray(dtypes.float32, 3, element_shape=TensorShape([2]))
    with pytest.raises(InvalidArgumentError, match=r"value shape is \[3\].*element shape: \[2\]"):
        array.write(0, _floats(1, 2, 3))
    assert array.get(1).tolist() == [0, 0], "an element of known shape that nobody wrote is zeros"
    same = TensorArray(dtypes.float32, 3, identical_element_shapes=True)
    same.write(0, _floats(1, 2))
    with pytest.raises(InvalidArgumentError, match=r"inferred element shape: \[2\]"):
        same.write(1, _floats(1))
    assert same.get(2).tolist() == [0, 0]


def test_gather_stacks_and_checks() -> None:
    array = TensorArray(dtypes.float32, 3, clear_after_read=False)
    for index in range(2):
        array.write(index, _floats(index, 10))
    assert array.gather([1, 0, 1], UNKNOWN_SHAPE).tolist() == [[1, 10], [0, 10], [1, 10]]
    array.write(2, _floats(1))
    with pytest.raises(InvalidArgumentError, match=r"Index 0 has shape: \[2\] but index 2 has shape: \[1\]"):
        array.gather([0, 2], UNKNOWN_SHAPE)
    with pytest.raises(UnimplementedError, match="not fully defined"):
        array.gather([], UNKNOWN_SHAPE)
    assert array.gather([], TensorShape([2])).shape == (0, 2)
    with pytest.raises(InvalidArgumentError, match=r"element_shape \[3\] which does not match"):
        array.gather([0], TensorShape([3]))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (dtypes.string, [b"a", b"bc\0"]),
        (dtypes.bfloat16, [ml_dtypes.bfloat16(1.5), ml_dtypes.bfloat16(2)]),
        (dtypes.bool_, [np.True_, np.False_]),
        (dtypes.complex64, [np.complex64(1j), np.complex64(2)]),
    ],
)
def test_scalars_of_every_kind_gather(dtype: dtypes.DType, values: list[Any]) -> None:
    array = TensorArray(dtype, 2)
    array.scatter([0, 1], values)
    result = array.gather([0, 1], UNKNOWN_SHAPE)
    assert result.dtype == dtype.as_numpy_dtype
    assert result.tolist() == values


def test_concat_and_split_are_inverse() -> None:
    array = TensorArray(dtypes.float32, 3)
    whole = np.arange(12, dtype=np.float32).reshape(6, 2)
    array.split([whole[:1], whole[1:1], whole[1:]])
    joined, lengths = array.concat(UNKNOWN_SHAPE)
    np.testing.assert_array_equal(joined, whole)
    assert lengths.tolist() == [1, 0, 5]
    assert lengths.dtype == np.int64


def test_concat_refuses() -> None:
    array = TensorArray(dtypes.float32, 2)
    array.write(0, np.float32(1))
    array.write(1, np.float32(1))
    with pytest.raises(InvalidArgumentError, match="Concat saw a scalar shape at index 0"):
        array.concat(UNKNOWN_SHAPE)
    array = TensorArray(dtypes.float32, 2)
    array.write(0, np.zeros((1, 2), np.float32))
    array.write(1, np.zeros((1, 3), np.float32))
    with pytest.raises(InvalidArgumentError, match=r"excepting dimension 0"):
        array.concat(UNKNOWN_SHAPE)
    empty = TensorArray(dtypes.float32, 0)
    with pytest.raises(UnimplementedError):
        empty.concat(UNKNOWN_SHAPE)
    assert empty.concat(TensorShape([3]))[0].shape == (0, 3)


def test_gradients_add_up_and_default_to_zeros() -> None:
    forward = TensorArray(dtypes.float32, 3, name="f")
    forward.write(0, _floats(1, 2))
    forward.write(1, _floats(3, 4))
    forward.get(1)
    gradient = forward.make_gradient("f@g")
    given_first = _floats(1, 1)
    gradient.write(0, given_first)
    gradient.write(0, _floats(5, 1))
    gradient.write(0, _floats(1, 0))
    assert gradient.get(0).tolist() == [7, 2]
    assert given_first.tolist() == [1, 1], "what was written belongs to who wrote it"
    assert gradient.get(1).tolist() == [0, 0], "its element was written and read: the shape is known"
    with pytest.raises(InvalidArgumentError, match="index 2"):
        gradient.get(2)
    gradient = forward.make_gradient("f@h")
    with pytest.raises(
        InvalidArgumentError, match=r"existing shape is \[2\] but the new input shape is \[3\]"
    ):
        gradient.write(0, _floats(1, 2, 3))


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_sum_that_was_read_stays_what_it_was(shape: tuple[int, ...]) -> None:
    """If elements are not cleared, a gradient may come after a read of the sum of those before."""
    forward = TensorArray(dtypes.float32, 1, element_shape=TensorShape(shape), clear_after_read=False)
    forward.write(0, np.float32(0) if not shape else _floats(0, 0))
    gradient = forward.make_gradient("g")
    one = np.ones(shape, np.float32)[()]
    read: list[Any] = []
    for _ in range(5):
        gradient.write(0, one)
        read += [gradient.get(0), gradient.get(0)]
    assert [value.tolist() for value in read] == [(n * one).tolist() for n in range(1, 6) for _ in range(2)]


def test_a_gradient_array_has_a_gradient_array_of_its_own() -> None:
    forward = TensorArray(dtypes.float32, 1, name="f")
    forward.write(0, _floats(1, 2))
    second = forward.make_gradient("f@g").make_gradient("f@g@h")
    second.write(0, _floats(1, 1))
    second.write(0, _floats(2, 0))
    assert second.get(0).tolist() == [3, 1]


def test_a_gradient_stops_growth_and_takes_the_marked_size() -> None:
    forward = TensorArray(dtypes.float32, 0, dynamic_size=True)
    forward.scatter([0, 1], [np.float32(1), np.float32(2)])
    gradient = forward.make_gradient("g")
    assert gradient.pack_size == 2
    with pytest.raises(InvalidArgumentError, match="not resizeable"):
        forward.write(5, np.float32(1))


def test_gradient_with_leading_dimensions() -> None:
    forward = TensorArray(dtypes.float32, 2)
    forward.write(0, _floats(1, 2))
    gradient = forward.make_gradient("g", (3,))
    assert gradient.get(0).shape == (3, 2)


def test_closed() -> None:
    array = TensorArray(dtypes.float32, 2)
    array.close()
    with pytest.raises(InvalidArgumentError, match="already been closed"):
        array.write(0, _floats(1))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), max_size=20),
    st.permutations(range(4)),
)
def test_gradient_sums_equal_numpys(writes: list[tuple[int, int]], order: list[int]) -> None:
    gradient = TensorArray(dtypes.int32, 4, element_shape=TensorShape([]), is_gradient=True)
    expected = np.zeros(4, np.int32)
    for index, value in writes:
        gradient.write(index, np.int32(value))
        expected[index] += value
    assert [int(gradient.get(index)) for index in order] == expected[list(order)].tolist()


def test_stack() -> None:
    stack = Stack(dtypes.float32, limit=2, name="s")
    stack.push(1.0)
    stack.push(2.0)
    with pytest.raises(InvalidArgumentError, match=r"Stack\[s\] overflowed its max_size \(2\)"):
        stack.push(3.0)
    assert [stack.pop(), stack.pop()] == [2.0, 1.0]
    with pytest.raises(InvalidArgumentError, match="is empty when calling Pop"):
        stack.pop()
    stack.close()
    with pytest.raises(InvalidArgumentError, match="already been closed"):
        stack.push(1.0)
