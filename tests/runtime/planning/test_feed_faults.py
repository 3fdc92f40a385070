"""Errors about values that cannot be fed."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.runtime.planning.feed_faults import feed_fault

GRAPH = fe.Graph()
CONSTANT = GRAPH.constant([1.0, 2.0], name="c")
VARIABLE = GRAPH.variable(1.0, name="v")
for _dtype in ("float32", "string", "variant"):
    GRAPH.ops.Identity(GRAPH.placeholder(_dtype, name=_dtype), name=f"{_dtype}_out")


@pytest.mark.parametrize("dtype", ["float32", "string"])
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (CONSTANT, "'c:0' is a Tensor of a graph, .* fetch it, and feed the value"),
        ([1.0, CONSTANT], r"'c:0' \(at \[1\]\) is a Tensor of a graph, .* fetch it, and feed the value"),
        (VARIABLE, "'v:0' is a .*Variable of a graph, .* fetch it, and feed the value"),
        (CONSTANT.op, "'c' is an Operation of a graph"),
        (None, "None cannot be fed"),
        ([["a"], [None]], r"None cannot be fed \(at \[1\]\[0\]\)"),
        (np.array([1, None]), r"None cannot be fed \(at \[1\]\)"),
        ([["a", "b"], ["c"]], r"rows of different lengths: \[0\] has 2 elements, \[1\] has 1 element$"),
        ([["a"], "b"], r"rows of different lengths: \[0\] has 1 element, \[1\] is a single element"),
        ([[["a"], ["b", "c"]]], r"lengths: \[0\]\[0\] has 1 element, \[0\]\[1\] has 2 elements"),
    ],
)
async def test_the_error_names_what_is_wrong_with_a_value(dtype: str, value: Any, fault: str) -> None:
    async with fe.Session(GRAPH) as session:
        with pytest.raises(InvalidArgumentError, match=f"Cannot feed .* for '{dtype}:0'.*: .*{fault}"):
            await session.run(f"{dtype}_out:0", {f"{dtype}:0": value})


async def test_a_tensor_is_no_variant() -> None:
    async with fe.Session(GRAPH) as session:
        with pytest.raises(InvalidArgumentError, match="'c:0' is a Tensor of a graph"):
            await session.run("variant_out:0", {"variant:0": CONSTANT})


def test_the_traceback_of_a_blocking_session_ends_in_the_users_line() -> None:
    with fe.blocking.Session(GRAPH) as session, pytest.raises(InvalidArgumentError) as caught:
        session.run("float32_out:0", {"float32:0": CONSTANT})
    assert "trio" not in str(caught.value)
    assert "session.run" in (traceback.extract_tb(caught.tb)[0].line or "")


@given(
    st.recursive(st.integers(0, 9), lambda inner: st.lists(inner, max_size=3), max_leaves=12).filter(
        lambda value: isinstance(value, list)
    )
)
def test_rows_are_of_different_lengths_where_numpy_makes_no_array(value: Any) -> None:
    try:
        np.array(value)
    except ValueError:
        assert "rows of different lengths" in feed_fault(value)
    else:
        assert not feed_fault(value)
