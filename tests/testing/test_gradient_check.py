"""`check_gradient` passes right gradients, finds wrong ones, and says what it cannot check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry


def cube(factor: float) -> Any:
    """The third power, whose gradient is said to be `factor * x**2`."""

    @fe.custom_gradient
    def function(x: fe.Tensor) -> Any:
        return x * x * x, lambda upstream: upstream * (x * x * factor)

    return function


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(0.5, 2), min_size=1, max_size=4))
def test_a_custom_gradient_is_checked(at: list[float]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float64", [len(at)])
    assert fe.testing.check_gradient(cube(3.0)(x), x, {x: at}) < 1e-6
    with pytest.raises(AssertionError, match=r"gradient of '.*' by 'Placeholder:0' is .* differences of val"):
        fe.testing.check_gradient(cube(2.0)(x), x, {x: at})


def test_several_xs_and_complex_numbers() -> None:
    graph = fe.Graph()
    x, y = graph.placeholder("float64", [2]), graph.placeholder("complex128", [2])
    scale = graph.placeholder("float64", [])
    product = fe.cast(x * scale, "complex128") * y
    feeds = {x: [1.0, 2.0], y: [1 + 2j, 3 - 1j], scale: 0.5}
    assert fe.testing.check_gradient(product, [x, y], feeds) < 1e-6


async def test_it_works_within_a_trio_program() -> None:
    x = fe.Graph().placeholder("float64", [])
    assert fe.testing.check_gradient(fe.tanh(x), x, {x: 0.3}) < 1e-6


def test_kernels_of_ones_own() -> None:
    ops = fe.OpRegistry(parent=registry())
    ops.register(fe.OpDef.parse("TwiceOf(x: T) -> y: T", "T: {float, double}", shape=lambda c: [c.input(0)]))
    kernels = fe.KernelRegistry(parent=load_all())
    kernels.kernel("TwiceOf")(lambda x: x * 2)
    graph = fe.Graph(registry=ops)
    x = graph.placeholder("float64", [2])

    @fe.custom_gradient
    def twice(x: fe.Tensor) -> Any:
        return graph.ops["TwiceOf"](x), lambda upstream: upstream * 2.0

    assert fe.testing.check_gradient(twice(x), x, {x: [1.0, 2.0]}, kernels=kernels) < 1e-6


def test_a_gradient_of_nan_is_found() -> None:
    x = fe.Graph().placeholder("float64", [])
    with pytest.raises(AssertionError, match="is nan along"), np.errstate(all="ignore"):
        fe.testing.check_gradient(fe.sqrt(x * 0.0) * x, x, {x: 1.0})


def test_what_cannot_be_checked_is_refused() -> None:
    graph = fe.Graph()
    x, narrow = graph.placeholder("float64", [2]), graph.placeholder("float32", [2])
    with pytest.raises(InvalidArgumentError, match="is float32: a gradient is checked in float64"):
        fe.testing.check_gradient(narrow * 2.0, narrow, {narrow: [1, 2]})
    with pytest.raises(InvalidArgumentError, match="feeds has no value for 'Placeholder:0'"):
        fe.testing.check_gradient(x * 2.0, x, {})
