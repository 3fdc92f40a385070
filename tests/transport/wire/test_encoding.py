"""Tensors to the wire and back: every dtype and shape, from any memory, without needless copies."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.transport.errors import RemoteProtocolError
from flowengine.transport.wire.encoding import IncomingTensor, encode, read_scalar

FIXED = [d for d in dtypes.ALL if not d.as_numpy_dtype.hasobject]


def carry(value: Any, *, inline: bool) -> Any:
    """A value over the wire, as an inline payload or as a stream."""
    encoded = encode(value)
    data = b"".join(encoded.buffers)
    assert len(data) == encoded.size
    incoming = IncomingTensor(encoded.description)
    assert incoming.size == encoded.size
    if inline:
        # Behind three bytes of another tensor, so that nothing is aligned.
        end = incoming.adopt(bytearray(b"abc" + data), 3)
        assert end == 3 + encoded.size
    else:
        view = incoming.allocate()
        assert (view is None) == (not data)
        if view is not None:
            view[:] = data
    return incoming.value()


def same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.hasobject:
        return bool(a.tolist() == b.tolist())
    return bool(a.tobytes() == b.tobytes())


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("dtype", FIXED, ids=str)
def test_every_dtype_and_rank(dtype: dtypes.DType, inline: bool) -> None:
    for shape in ((), (1,), (0,), (3, 0, 2), (5, 7), (2, 3, 4, 5)):
        raw = np.arange(np.prod(shape, dtype=int) * dtype.size, dtype=np.uint8)
        if dtype is dtypes.bool_:
            raw %= 2
        array = raw.view(dtype.as_numpy_dtype).reshape(shape)
        assert same(carry(array, inline=inline), array)


@given(hnp.arrays(np.dtype("<f8"), hnp.array_shapes(min_dims=0, max_dims=5, min_side=0)), st.booleans())
def test_random_shapes(array: Any, inline: bool) -> None:
    assert same(carry(array, inline=inline), array)


@given(
    hnp.arrays(object, hnp.array_shapes(min_dims=1, min_side=0, max_side=4), elements=st.binary(max_size=40)),
    st.booleans(),
)
def test_random_strings(array: Any, inline: bool) -> None:
    back = carry(array, inline=inline)
    assert back.shape == array.shape
    assert back.dtype == object
    assert back.tolist() == array.tolist()


@pytest.mark.parametrize("text", [b"", b"a", b"trailing\0\0", b"\xff" * 100_000])
def test_a_string_of_rank_0_is_bytes(text: bytes) -> None:
    assert carry(text, inline=False) == text
    box = np.empty((), object)
    box[()] = text
    assert carry(box, inline=True) == text


def test_contiguous_tensors_are_sent_from_where_they_lie() -> None:
    for dtype in (np.float32, ml_dtypes.bfloat16, np.complex128, np.float16, np.bool_):
        array = np.zeros((100, 30), dtype)
        encoded = encode(array)
        assert encoded.copied == 0
        assert np.shares_memory(np.frombuffer(encoded.buffers[0], np.uint8), array.view(np.uint8))


def test_a_stream_is_received_where_it_stays() -> None:
    incoming = IncomingTensor([1, [1000, 10]])
    view = incoming.allocate()
    assert view is not None
    assert np.shares_memory(np.frombuffer(view, np.uint8), incoming.value().view(np.uint8))


def test_inline_tensors_become_their_message() -> None:
    data = np.arange(100, dtype=np.float32)
    buffer = bytearray(data.tobytes())
    incoming = IncomingTensor([1, [100]])
    incoming.adopt(buffer, 0)
    value = incoming.value()
    assert np.shares_memory(value, np.frombuffer(buffer, np.uint8))
    assert value.flags.aligned
    assert value.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(60.0).reshape(6, 10)[::2, ::3],
        np.arange(12, dtype=np.int16).reshape(3, 4).T,
        np.arange(5, dtype=">i4"),
        np.broadcast_to(np.float32(3), (4, 5)),
        np.arange(8, dtype=ml_dtypes.bfloat16)[::-1],
    ],
    ids=["strided", "transposed", "big-endian", "broadcast", "reversed"],
)
def test_what_cannot_be_sent_as_it_lies_is_copied_once_and_counted(array: Any) -> None:
    assert encode(array).copied == array.nbytes
    back = carry(array, inline=False)
    assert back.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(back, array)


def test_scalars_and_python_numbers() -> None:
    assert carry(np.float16(1.5), inline=True) == np.float16(1.5)
    assert isinstance(carry(np.int8(-3), inline=True), np.int8)
    assert carry(3, inline=True) == 3


def test_fixed_width_strings_travel_as_bytes() -> None:
    assert carry(np.array([b"ab", b"c"]), inline=False).tolist() == [b"ab", b"c"]
    assert carry(np.array(["ä", "c"]), inline=False).tolist() == ["ä".encode(), b"c"]


def test_long_strings_are_not_joined() -> None:
    array = np.empty(3, object)
    array[:] = [b"x" * 100_000, b"y" * 50_000, b""]
    encoded = encode(array)
    assert encoded.copied == 0
    assert carry(array, inline=False).tolist() == array.tolist()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "only tensors can"),
        (np.array([b"a", 3], object), "element 1 of a string tensor is a int"),
        (np.array(["2020-01-01"], "datetime64[D]"), "no tensor of FlowEngine"),
        (None, "only tensors can"),
    ],
)
def test_what_is_no_tensor_does_not_travel(value: Any, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        encode(value)


@pytest.mark.parametrize(
    "description",
    [
        None, [], [1], "x", [1, 3], [1, [-1]], [1, [1.5]], [1, [True]], [1, [1 << 62]], [1, [1], 3],
        [0, [1]], [20, [1], 8], [21, [1]], [99, [1]], [True, [1]], [7, [1]], [7, [1], 7], [7, [2], 15],
        [7, [0], 1], [7, [1], -8], [7, [1], "8"], [1, [1] * 65], [101, [1]], [1.0, [1]], {}, [[1], [1]],
    ],
    ids=repr,
)  # fmt: skip
def test_a_description_that_describes_no_tensor(description: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        IncomingTensor(description)


def test_absurd_shapes_allocate_nothing() -> None:
    huge = IncomingTensor([2, [0, (1 << 62) - 1, (1 << 62) - 1]])
    assert huge.size == 0
    with pytest.raises(RemoteProtocolError, match="no tensor has the shape"):
        huge.allocate()
    with pytest.raises(RemoteProtocolError, match="no tensor has the shape"):
        IncomingTensor([2, [0, (1 << 62) - 1, (1 << 62) - 1]]).adopt(bytearray(), 0)


def test_bytes_that_make_no_such_tensor() -> None:
    flags = IncomingTensor([10, [2]])
    flags.adopt(bytearray(b"\x01\x02"), 0)
    with pytest.raises(RemoteProtocolError, match="neither 0 nor 1"):
        flags.value()
    for lengths in ([5, 0], [(1 << 64) - 1, 5], [1 << 63, 1 << 63]):
        text = IncomingTensor([7, [2], 20])
        text.adopt(bytearray(np.array(lengths, "<u8").tobytes() + b"abcd"), 0)
        with pytest.raises(RemoteProtocolError, match="do not add up"):
            text.value()


@pytest.mark.parametrize(
    "descriptions",
    [[], [[]], [[1]], [[1, [], 0]], [[1, [1]]], [[1, []], [1, []]], [(1, [])], [["1", []]], [[99, []]]],
)
def test_what_describes_no_number_is_read_the_longer_way(descriptions: list[Any]) -> None:
    assert read_scalar([[1, []]], bytearray(4)) == np.float32(0)
    assert read_scalar(descriptions, bytearray(4)) is None


def test_a_truth_is_looked_at_before_it_is_one() -> None:
    """Numbers are read at once where they are all that comes; of bytes that say true or false only two do."""
    for dtype in dtypes.ALL:
        if not dtype.size or dtype.is_quantized:
            continue
        value = np.ones((), dtype.as_numpy_dtype)
        read = read_scalar([[dtype.number, []]], bytearray(value.tobytes()))
        assert (read is None) == (dtype is dtypes.bool_), dtype
        assert read is None or (read.dtype == value.dtype and read == value)
    assert read_scalar([[dtypes.bool_.number, []]], bytearray(b"\x02")) is None
    assert read_scalar([[dtypes.int32.number, []]], bytearray(3)) is None
    assert read_scalar([[dtypes.int32.number, [1]]], bytearray(4)) is None
    assert read_scalar([[dtypes.int8.number, []]] * 2, bytearray(2)) is None
