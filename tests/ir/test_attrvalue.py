"""Attribute values to their proto and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import FuncAttr, PlaceholderAttr, TensorAttr
from flowengine.ir.attrvalue import UnreadableAttr, decode_attr, encode_attr
from flowengine.ir.proto import AttrValue

shapes = st.builds(TensorShape, st.none() | st.lists(st.none() | st.integers(0, 1000), max_size=3))
plain = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "bool": st.booleans(),
    "bytes": st.binary(max_size=8),
    "type": st.sampled_from([d for base in dtypes.ALL for d in (base, base.ref)]),
    "shape": shapes,
}
values = st.recursive(
    st.one_of(*plain.values(), st.builds(PlaceholderAttr, st.text(max_size=4))),
    lambda inner: st.builds(FuncAttr, st.text(max_size=4), st.dictionaries(st.text(max_size=3), inner)),
    max_leaves=6,
)
lists = st.one_of(*(st.lists(strategy, max_size=5).map(tuple) for strategy in plain.values()))


@given(values | lists | st.none())
def test_every_value_comes_back(value: Any) -> None:
    proto = AttrValue.FromString(encode_attr(value).SerializeToString())
    back = decode_attr(proto)
    assert back == value
    assert type(back) is type(value)


@given(st.lists(st.builds(FuncAttr, st.text(max_size=3)), min_size=1, max_size=3))
def test_lists_of_functions_come_back(value: list[FuncAttr]) -> None:
    assert decode_attr(encode_attr(value)) == tuple(value)


def test_a_tensor_made_here_is_written() -> None:
    proto = encode_attr(TensorAttr.of(np.array([1, 2], np.float32), dtypes.float32))
    back = decode_attr(AttrValue.FromString(proto.SerializeToString()))
    assert back.dtype is dtypes.float32
    np.testing.assert_array_equal(back.value(), np.array([1, 2], np.float32))
    assert decode_attr(encode_attr((back, back)))[1].shape == TensorShape([2])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("type: 77", "77"),
        ("type: DT_INVALID", "0 is not"),
        ("shape {dim {size: -7}}", "-7"),
        ("tensor {dtype: DT_FLOAT tensor_shape {dim {size: -1}}}", "negative"),
    ],
)
def test_what_cannot_be_read_is_kept_with_a_reason(text: str, reason: str) -> None:
    proto = text_format.Parse(text, AttrValue())
    value = decode_attr(proto)
    assert isinstance(value, UnreadableAttr)
    assert reason in value.reason
    assert encode_attr(value) == proto
    several = text_format.Parse(f"list {{ {text} {text} }}", AttrValue())
    assert encode_attr(decode_attr(several)) == several


@pytest.mark.parametrize("value", [2**63, object(), (1, object()), 1j])
def test_what_no_attribute_can_be(value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        encode_attr(value)
