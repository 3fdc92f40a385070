"""Places of maxima, which are handed on where the libraries agree on them, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.math.binary import add_n
from flowengine.kernels.nn import activations as nn_activations
from flowengine.kernels.numpy import pooling as nn_pool
from flowengine.kernels.onednn.layers.poolings import Pooling, max_gradient_at_places, max_with_places
from flowengine.kernels.onednn.library import search
from flowengine.kernels.onednn.pooling import GradientAtPlaces
from tests.effort import examples
from tests.kernels.onednn.rig import Rig, numbers

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")

LOWEST = np.finfo(np.float32).min

values = st.sampled_from(
    [np.nan, -np.inf, LOWEST, np.nextafter(LOWEST, np.float32(0)), -1.0, 0.0, 2.0, np.inf]
)


def gradient_node(pooling: Pooling) -> Any:
    """The gradient of a pooling of `x`, whose maxima are at `places`."""
    graph = fe.Graph()
    x, gradient = graph.placeholder("float32", name="x"), graph.placeholder("float32", name="gradient")
    attrs: dict[str, Any] = {
        "ksize": pooling.ksize,
        "strides": pooling.strides,
        "padding": pooling.padding,
        "data_format": pooling.data_format,
    }
    made = graph.ops.MaxPoolGrad(x, graph.ops.MaxPool(x, **attrs), gradient, **attrs)
    graph.ops.ReluGrad(made, x, name="behind")
    graph.ops.ReluGrad(made, graph.placeholder("float32", name="other"), name="behind_another")
    return graph[made.op.name], graph["behind"], graph["behind_another"]


def gradient_kernel(pooling: Pooling) -> GradientAtPlaces:
    def refuse(*given: Any) -> Any:
        pytest.fail("the library has not computed it")

    return GradientAtPlaces(gradient_node(pooling)[0], refuse)


def windows_of(x: Any, pooling: Pooling) -> list[Any]:
    """Each window of each image and channel, its elements in order; those outside are left out."""
    _, high, wide, _ = pooling.ksize
    _, down, across, _ = pooling.strides
    found = []
    if pooling.padding == b"SAME":
        rows, columns = -(-x.shape[1] // down), -(-x.shape[2] // across)
        top = max((rows - 1) * down + high - x.shape[1], 0) // 2
        left = max((columns - 1) * across + wide - x.shape[2], 0) // 2
    else:
        rows, columns = (x.shape[1] - high) // down + 1, (x.shape[2] - wide) // across + 1
        top = left = 0
    for i in range(rows):
        for j in range(columns):
            first, begin = i * down - top, j * across - left
            part = x[:, max(first, 0) : first + high, max(begin, 0) : begin + wide]
            found.append(part.reshape(len(x), -1, x.shape[3]))
    return found


@st.composite
def poolings(draw: Any) -> tuple[Pooling, Any]:
    side = st.integers(1, 3)
    pooling = Pooling(
        (1, draw(side), draw(side), 1),
        (1, draw(side), draw(side), 1),
        draw(st.sampled_from([b"SAME", b"VALID"])),
        b"NHWC",
    )
    x = np.round(np.random.default_rng(draw(st.integers(0, 99))).standard_normal((2, 5, 6, 16)) * 2)
    for _ in range(draw(st.integers(0, 3))):
        image, row, column = (draw(st.integers(0, n - 1)) for n in x.shape[:3])
        # One pixel, or everything from there on.
        x[image, row, slice(column, None if draw(st.booleans()) else column + 1)] = draw(values)
    return pooling, x.astype(np.float32)


@settings(max_examples=examples(150), deadline=None)
@given(poolings())
def test_places_are_given_where_both_libraries_find_the_same(case: tuple[Pooling, Any]) -> None:
    pooling, x = case
    layer = max_with_places(pooling, x.shape)
    assert layer is not None
    out, places = layer(x)
    found = windows_of(x, pooling)
    first_is_number = all(not np.isnan(window[:, 0]).any() for window in found)
    has_number = all((window > LOWEST).any(1).all() for window in found)
    if places.size:
        assert first_is_number
        assert has_number
        gradient = np.round(np.random.default_rng(1).standard_normal(out.shape) * 4).astype(np.float32)
        back = max_gradient_at_places(pooling, x.shape)
        assert back is not None
        attrs: dict[str, Any] = {"ksize": pooling.ksize, "strides": pooling.strides}
        wanted = nn_pool.max_pool_grad(
            x, out, gradient, padding=pooling.padding, data_format=b"NHWC", **attrs
        )
        np.testing.assert_array_equal(back(gradient, places), wanted)
    else:
        assert not has_number or np.isnan(x).any()


@settings(max_examples=examples(150), deadline=None)
@given(poolings(), st.lists(values, max_size=6))
def test_a_gradient_may_be_gated_before_it_is_placed(case: tuple[Pooling, Any], odd: list[float]) -> None:
    """The pooled values need not come from a Relu, nor need the gradient be finite."""
    pooling, x = case
    forward = max_with_places(pooling, x.shape)
    assert forward is not None
    maxima, places = forward(x)
    gradient = np.round(np.random.default_rng(2).standard_normal(maxima.shape) * 4).astype(np.float32)
    gradient.reshape(-1)[7 : 7 + len(odd)] = odd
    node, behind, behind_another = gradient_node(pooling)
    kernel = GradientAtPlaces(node, lambda *given: None)
    before, after = kernel.absorb([(behind, 0)]), kernel.absorb([(behind_another, 0)])
    assert before is not None
    assert after is not None
    assert (before[0], after[0]) == (1, 1)
    assert type(before[1]) is not type(after[1])
    made = before[1](x, maxima, gradient, places, x)
    if not places.size:
        assert made is None
        return
    np.testing.assert_array_equal(made, after[1](x, maxima, gradient, places, x))
    with np.errstate(invalid="ignore"):
        wanted = nn_activations.relu_grad(np, kernel(x, maxima, gradient, places), x)
    np.testing.assert_array_equal(made, wanted)
    assert before[1](x, maxima[:1], gradient, places, x) is None
    assert before[1](x, maxima, gradient[:1], places, x) is None


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("where", [None, (0, 0, 0, 0), (3, 510, 510, 5), (2, 4, 6, 1)])
def test_large_images_are_looked_through_to_the_last(stride: int, where: tuple[int, ...] | None) -> None:
    x = np.full((4, 512, 512, 8), -3.0, np.float32)
    if where is not None:
        x[where] = np.nan
    layer = max_with_places(Pooling((1, 2, 2, 1), (1, stride, stride, 1), b"VALID", b"NHWC"), x.shape)
    assert layer is not None
    assert bool(layer(x)[1].size) == (where is None)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("strided", [False, True])
def test_a_gradient_and_others_are_added_in_their_order(count: int, strided: bool) -> None:
    pooling = Pooling((1, 3, 3, 1), (1, 1, 1, 1), b"SAME", b"NHWC")
    x = numbers(0, 2, 9, 9, 24)
    forward = max_with_places(pooling, x.shape)
    assert forward is not None
    y, at = forward(x)
    kernel = gradient_kernel(pooling)
    gradient = numbers(1, *y.shape)
    made = kernel(x, y, gradient, at)
    others = [numbers(2 + n, *x.shape[:3], 48)[..., :24] for n in range(count - 1)]
    if not strided:
        others = [other.copy() for other in others]
    others[0][0, 0, 0, :3] = np.nan, np.inf, -0.0
    kept = [other.copy() for other in others]
    for place in range(count):
        graph = fe.Graph()
        inputs = [graph.placeholder("float32", None) for _ in range(count)]
        absorbed = kernel.absorb([(graph[graph.ops.AddN(inputs).op.name], place)])
        assert absorbed is not None
        taken, compute = absorbed
        assert taken == 1
        wanted = add_n(np, (*others[:place], made, *others[place:]))
        np.testing.assert_array_equal(compute(x, y, gradient, at, *others), wanted)
        # The other library's own way is taken where there are no places.
        assert compute(x, y, gradient, at[:0], *others) is None
        assert compute(x, y, gradient, at, *others[1:], others[0][:1]) is None
    for other, before in zip(others, kept, strict=True):
        np.testing.assert_array_equal(other, before)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_such_a_sum_can_be_joined(place: int) -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", None, name="x")
    how: dict[str, Any] = {"ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    y = ops.MaxPool(x, **how)
    parts = [ops.AvgPool(x, ksize=[1, n, n, 1], strides=[1, 1, 1, 1], padding="SAME") for n in (2, 3, 4)]
    parts.insert(place, ops.MaxPoolGrad(x, y, ops.Mul(y, y), **how))
    total = ops.AddN(parts)
    rig = Rig(graph, [ops.AvgPool(total, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME"), y])
    values = {"x": numbers(0, 2, 9, 9, 16)}
    rig.join(**values)
    # The maxima and three means, the gradient with the sum, and the mean of that.
    assert rig.joined == 6
    assert rig.ran_joined(x=numbers(1, 2, 9, 9, 16))
    assert not rig.ran_joined(x=np.full((2, 9, 9, 16), np.nan, np.float32))


def test_a_gate_before_a_gradient_is_placed_can_be_joined() -> None:
    graph = fe.Graph()
    ops = graph.ops
    x = graph.placeholder("float32", None, name="x")
    how: dict[str, Any] = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    means: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}
    features = ops.AvgPool(x, **means)
    y = ops.MaxPool(features, **how)
    gated = ops.ReluGrad(ops.MaxPoolGrad(features, y, ops.Mul(y, y), **how), features)
    rig = Rig(graph, [ops.AvgPool(gated, **means), y])
    rig.join(x=numbers(0, 2, 9, 9, 16))
    # A mean, the maxima, their gradient with the gate, and the mean of that.
    assert rig.joined == 4
    assert rig.ran_joined(x=numbers(1, 2, 9, 9, 16))
    assert not rig.ran_joined(x=np.full((2, 9, 9, 16), np.nan, np.float32))
