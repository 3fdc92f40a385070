"""Agreement of oneDNN with NumPy, over shapes, layouts, strides, dilations and paddings."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.load import registry
from flowengine.kernels.onednn.library import search
from flowengine.kernels.onednn.programs import column_sums
from tests.effort import examples

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


def both(op: str, inputs: list[Any], **attrs: Any) -> tuple[list[Any], list[Any]]:
    """The outputs of a node from oneDNN's kernel and from NumPy's."""
    graph = fe.Graph()
    placeholders = [graph.ops.Placeholder(dtype=value.dtype) for value in inputs]
    made = getattr(graph.ops, op)(*placeholders, name="node", **attrs)
    first = made[0] if isinstance(made, tuple) else made
    node = graph[first.op.name]
    results = []
    for provider in ("onednn", "numpy"):
        kernel = registry(provider).find(node)
        assert kernel.provider == provider
        with np.errstate(all="ignore"):
            value = kernel.bind(node)(*inputs)
        results.append(list(value) if isinstance(value, tuple) else [value])
    return results[0], results[1]


def check(op: str, inputs: list[Any], rtol: float = 1e-4, **attrs: Any) -> None:
    for got, wanted in zip(*both(op, inputs, **attrs), strict=True):
        assert got.dtype == wanted.dtype
        assert got.shape == wanted.shape
        finite = wanted[np.isfinite(wanted)]
        scale = float(np.abs(finite).max()) if finite.size else 0.0
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-5 * max(scale, 1.0))


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def as_layout(x: Any, data_format: str) -> Any:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1)) if data_format == "NCHW" else x


def spread(values: tuple[int, int], data_format: str) -> list[int]:
    return [1, 1, *values] if data_format == "NCHW" else [1, *values, 1]


small = st.integers(1, 3)
pairs = st.tuples(small, small)


@st.composite
def convolutions(draw: Any) -> dict[str, Any]:
    window, strides = draw(pairs), draw(pairs)
    dilations = draw(pairs) if strides == (1, 1) else (1, 1)
    padding = draw(st.sampled_from(["SAME", "VALID", "EXPLICIT"]))
    data_format = draw(st.sampled_from(["NHWC", "NCHW"]))
    groups = draw(st.sampled_from([1, 1, 2]))
    attrs: dict[str, Any] = {
        "strides": spread(strides, data_format),
        "dilations": spread(dilations, data_format),
        "padding": padding,
        "data_format": data_format,
    }
    if padding == "EXPLICIT":
        edges = [draw(st.integers(0, 2)) for _ in range(4)]
        attrs["explicit_paddings"] = [0, 0, 0, 0, *edges] if data_format == "NCHW" else [0, 0, *edges, 0, 0]
    return {
        "sizes": (draw(st.integers(7, 13)), draw(st.integers(7, 13))),
        "batch": draw(small),
        "inward": draw(st.sampled_from([1, 3, 8, 16])),
        "outward": draw(st.sampled_from([2, 6, 16])),
        "groups": groups,
        "window": window,
        "attrs": attrs,
        "seed": draw(st.integers(0, 1000)),
    }


#: Two groups of so few channels that the gradient of one would be gathered in planes.
_TWO_NARROW_GROUPS: Final[dict[str, Any]] = {
    "sizes": (7, 8),
    "batch": 1,
    "inward": 1,
    "outward": 2,
    "groups": 2,
    "window": (1, 2),
    "attrs": {"strides": [1, 2, 1, 1], "dilations": [1, 1, 1, 1], "padding": "SAME", "data_format": "NHWC"},
    "seed": 0,
}


@settings(max_examples=examples(200), deadline=None)
@example(_TWO_NARROW_GROUPS)
@given(convolutions())
def test_convolutions_and_their_gradients(case: dict[str, Any]) -> None:
    attrs, groups, seed = case["attrs"], case["groups"], case["seed"]
    layout = attrs["data_format"]
    x = as_layout(numbers(seed, case["batch"], *case["sizes"], case["inward"] * groups), layout)
    w = numbers(seed + 1, *case["window"], case["inward"], case["outward"] * groups)
    check("Conv2D", [x, w], **attrs)
    y = both("Conv2D", [x, w], **attrs)[1][0]
    gradient = numbers(seed + 2, *y.shape)
    sizes = np.array(x.shape, np.int32)
    check("Conv2DBackpropInput", [sizes, w, gradient], **attrs)
    check("Conv2DBackpropFilter", [x, np.array(w.shape, np.int32), gradient], **attrs)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 2),
    st.sampled_from([(1, 1), (3, 3), (3, 2)]),
    st.integers(1, 2),
    st.sampled_from(["SAME", "VALID"]),
    st.sampled_from(["NHWC", "NCHW"]),
    st.sampled_from([1, 5, 16]),
)
def test_depthwise_convolutions(
    multiplier: int, window: tuple[int, int], stride: int, padding: str, layout: str, channels: int
) -> None:
    attrs: dict[str, Any] = {
        "strides": spread((stride, stride), layout),
        "padding": padding,
        "data_format": layout,
    }
    x = as_layout(numbers(1, 2, 9, 11, channels), layout)
    w = numbers(2, *window, channels, multiplier)
    check("DepthwiseConv2dNative", [x, w], **attrs)
    y = both("DepthwiseConv2dNative", [x, w], **attrs)[1][0]
    gradient = numbers(3, *y.shape)
    sizes = np.array(x.shape, np.int32)
    check("DepthwiseConv2dNativeBackpropInput", [sizes, w, gradient], **attrs)
    check("DepthwiseConv2dNativeBackpropFilter", [x, np.array(w.shape, np.int32), gradient], **attrs)


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    pairs,
    st.sampled_from(["SAME", "VALID"]),
    st.sampled_from(["NHWC", "NCHW"]),
    st.sampled_from([1, 6, 16]),
    st.integers(0, 1000),
)
def test_poolings_with_many_equal_elements(
    window: tuple[int, int], strides: tuple[int, int], padding: str, layout: str, channels: int, seed: int
) -> None:
    attrs: dict[str, Any] = {
        "ksize": spread(window, layout),
        "strides": spread(strides, layout),
        "padding": padding,
        "data_format": layout,
    }
    # Whole numbers from a small range: the first of equals gets the gradient.
    x = np.round(as_layout(numbers(seed, 2, 9, 8, channels), layout))
    check("MaxPool", [x], **attrs)
    check("AvgPool", [x], **attrs)
    y = both("MaxPool", [x], **attrs)[1][0]
    gradient = numbers(seed + 1, *y.shape)
    check("MaxPoolGrad", [x, y, gradient], **attrs)
    check("AvgPoolGrad", [np.array(x.shape, np.int32), gradient], **attrs)


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
@pytest.mark.parametrize("everywhere", [False, True])
def test_maxima_of_what_is_no_number(value: float, everywhere: bool) -> None:
    attrs: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    x = np.full((1, 6, 6, 16), value, np.float32) if everywhere else numbers(5, 1, 6, 6, 16)
    x[0, 2, 2] = value
    x[0, 3, 5] = value
    if everywhere and value == -np.inf:
        # The greatest of nothing but negative infinity is the lowest number, in TensorFlow too.
        assert (both("MaxPool", [x], **attrs)[0][0] == np.finfo(np.float32).min).all()
    else:
        check("MaxPool", [x], **attrs)
    y = both("MaxPool", [x], **attrs)[1][0]
    check("MaxPoolGrad", [x, y, numbers(6, *y.shape)], **attrs)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("channels", [1, 5, 32])
@pytest.mark.parametrize("mean", [0.5, 500.0])
def test_batch_normalisation(layout: str, training: bool, channels: int, mean: float) -> None:
    attrs: dict[str, Any] = {"is_training": training, "data_format": layout, "epsilon": 1e-3}
    x = as_layout(numbers(1, 3, 7, 6, channels) * 2 + np.float32(mean), layout)
    scale, offset = numbers(2, channels) + 1, numbers(3, channels)
    given = np.empty(0, np.float32)
    if not training:
        given = np.abs(numbers(4, channels)) + np.float32(mean)
    check("FusedBatchNormV3", [x, scale, offset, given, given], **attrs)
    saved = both("FusedBatchNormV3", [x, scale, offset, given, given], **attrs)[1]
    gradient = numbers(5, *x.shape)
    inputs = [gradient, x, scale, saved[3], saved[4]]
    check("FusedBatchNormGradV2", inputs, rtol=1e-3, **attrs)
    check("FusedBatchNormGradV3", [*inputs, saved[5]], rtol=1e-3, **attrs)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 7, 6), (2, 17, 19)])
@pytest.mark.parametrize("channels", [1, 5, 32, 1500])
def test_a_normalisation_by_given_statistics_has_the_same_bits(
    layout: str, sizes: tuple[int, int, int], channels: int
) -> None:
    x = as_layout(numbers(1, *sizes, channels), layout)
    vectors = [numbers(seed, channels) for seed in (2, 3, 4)]
    inputs = [x, *vectors, np.abs(numbers(5, channels))]
    attrs = {"is_training": False, "data_format": layout, "epsilon": 1e-3}
    for wanted, got in zip(*both("FusedBatchNormV3", inputs, **attrs), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("channels", [16, 96, 5])
@pytest.mark.parametrize("beta", [0.75, 0.5])
@pytest.mark.parametrize("radius", [1, 5])
def test_response_norms(channels: int, beta: float, radius: int) -> None:
    attrs: dict[str, Any] = {"depth_radius": radius, "bias": 1.5, "alpha": 1e-2, "beta": beta}
    x = numbers(1, 2, 5, 6, channels) * 5
    check("LRN", [x], **attrs)
    y = both("LRN", [x], **attrs)[1][0]
    check("LRNGrad", [numbers(2, *x.shape), x, y], **attrs)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("sizes", [(70, 90, 80), (1, 900, 700), (3, 500, 600), (300, 1, 2000), (4, 4, 4)])
def test_products(transpose_a: bool, transpose_b: bool, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    a = numbers(1, *((inner, rows) if transpose_a else (rows, inner)))
    b = numbers(2, *((columns, inner) if transpose_b else (inner, columns)))
    check("MatMul", [a, b], transpose_a=transpose_a, transpose_b=transpose_b)
    # Views, whose rows lie apart or whose columns do.
    wide = np.repeat(a, 2, axis=1)[:, ::2]
    check("MatMul", [wide, np.asfortranarray(b)], transpose_a=transpose_a, transpose_b=transpose_b)


@pytest.mark.parametrize("adj_x", [False, True])
@pytest.mark.parametrize("adj_y", [False, True])
@pytest.mark.parametrize(
    ("lead", "sizes"), [((16,), (64, 50, 60)), ((3, 7), (64, 1, 64)), ((2,), (3, 4, 5)), ((0,), (70, 70, 70))]
)
def test_batches_of_products(adj_x: bool, adj_y: bool, lead: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    rows, inner, columns = sizes
    x = numbers(1, *lead, *((inner, rows) if adj_x else (rows, inner)))
    y = numbers(2, *lead, *((columns, inner) if adj_y else (inner, columns)))
    check("BatchMatMulV2", [x, y], adj_x=adj_x, adj_y=adj_y)


def test_empty_tensors_and_views_are_served() -> None:
    attrs: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    w = numbers(1, 3, 3, 4, 8)
    check("Conv2D", [np.empty((0, 5, 5, 4), np.float32), w], **attrs)
    check("Conv2D", [numbers(2, 2, 9, 9, 8)[:, ::2, ::2, ::2], w], **attrs)
    check("Conv2D", [numbers(2, 2, 9, 9, 4), w[::-1].copy()[::-1]], **attrs)


def test_what_does_not_fit_has_the_error_that_numpy_gives() -> None:
    for provider in ("onednn", "numpy"):
        graph = fe.Graph()
        x, w = graph.ops.Placeholder(dtype=np.float32), graph.ops.Placeholder(dtype=np.float32)
        y = graph.ops.Conv2D(x, w, strides=[1, 1, 1, 1], padding="VALID", name="y")
        with fe.blocking.Session(graph, config=fe.Config(kernel_provider=provider)) as session:
            with pytest.raises(fe.errors.InvalidArgumentError, match="depth"):
                session.run(y, {x: numbers(1, 1, 5, 5, 3), w: numbers(2, 2, 2, 4, 4)})
            with pytest.raises(fe.errors.InvalidArgumentError, match="negative"):
                session.run(y, {x: numbers(1, 1, 2, 2, 3), w: numbers(2, 6, 6, 3, 4)})


@pytest.mark.parametrize("strided", [False, True])
def test_the_gradient_of_relu_to_the_last_bit(strided: bool) -> None:
    size = 1 << 16
    features, gradients = numbers(0, size, 2), numbers(1, size, 4 if strided else 2)[:, :2]
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45]
    features[:6, 0], features[:6, 1] = special, 1.0
    gradients[:6, 1], gradients[6:12, 0] = special, special
    got, wanted = both("ReluGrad", [gradients, features])
    np.testing.assert_array_equal(got[0], wanted[0])
    np.testing.assert_array_equal(np.signbit(got[0]), np.signbit(wanted[0]))


@pytest.mark.parametrize("op", ["ApplyGradientDescent", "ApplyMomentum", "Nesterov"])
def test_steps_of_gradient_descent_to_the_last_bit(op: str) -> None:
    start, gradient = numbers(0, 301, 302), numbers(1, 301, 302)
    results = []
    for provider in ("onednn", "numpy"):
        graph = fe.Graph()
        ops = graph.ops
        variables = [ops.VariableV2(shape=start.shape, dtype="float32", name=name) for name in ("v", "slot")]
        setup = [ops.Assign(variable, graph.constant(start)) for variable in variables]
        rate, share = (graph.constant(np.float32(number)) for number in (0.013, 0.9))
        delta = graph.placeholder("float32", None, name="delta")
        if op == "ApplyGradientDescent":
            step = ops.ApplyGradientDescent(variables[0], rate, delta)
        else:
            step = ops.ApplyMomentum(
                variables[0], variables[1], rate, delta, share, use_nesterov=op == "Nesterov"
            )
        with fe.blocking.Session(graph, config=fe.Config(kernel_provider=provider)) as session:
            session.run(setup)
            read = session.run(variables[0])
            for _ in range(3):
                session.run(step, {delta: gradient})
            session.run(step, {delta: gradient[::-1]})
            results.append(session.run(variables))
        # What was fetched before is not written to.
        np.testing.assert_array_equal(read, start)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_the_gradient_of_an_image_of_few_channels(
    strides: tuple[int, int], channels: int, padding: str
) -> None:
    attrs: dict[str, Any] = {"strides": [1, *strides, 1], "padding": padding}
    x, w = numbers(0, 3, 40, 41, channels), numbers(1, 5, 4, channels, 16)
    y = both("Conv2D", [x, w], **attrs)[1][0]
    sizes = np.array(x.shape, np.int32)
    check("Conv2DBackpropInput", [sizes, w, numbers(2, *y.shape)], **attrs)


@pytest.mark.parametrize("shape", [(70, 90, 100), (9000, 70)])
def test_the_gradient_of_a_bias(shape: tuple[int, ...]) -> None:
    check("BiasAddGrad", [numbers(0, *shape)])


def test_no_bit_of_a_sum_depends_on_who_computes_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = numbers(0, 9001, 70)
    here = both("BiasAddGrad", [gradient])[0][0]
    order: list[int] = []

    def backwards(piece: Any, count: int) -> None:
        for number in reversed(range(count)):
            order.append(number)
            piece(number)

    monkeypatch.setattr(column_sums, "spread", backwards)
    np.testing.assert_array_equal(both("BiasAddGrad", [gradient])[0][0], here)
    assert len(order) > 1
