"""Checks at each call of layers that are computed as one program: sizes, order, elements that are NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.errors import OpError
from flowengine.kernels.onednn import convolution
from flowengine.kernels.onednn.layers.shapes import WindowAttributes
from flowengine.kernels.onednn.library import search
from tests.kernels.onednn.joint_kinds import KINDS, batch_normalized, drawn, joined_between
from tests.kernels.onednn.rig import ONE, Rig, numbers

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


SIZED: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    # Sizes, others, and those that do not fit.
    "Conv2DBackpropInput": ((1, 10, 10, 16), (1, 9, 9, 16), (1, 20, 20, 16)),
    "Conv2DBackpropFilter": ((3, 3, 16, 24), (5, 5, 16, 24), (3, 3, 16, 7)),
    "AvgPoolGrad": ((1, 10, 10, 24), (1, 9, 9, 24), (1, 20, 20, 24)),
}


@pytest.mark.parametrize("op", SIZED)
def test_sizes_are_looked_at_each_time(op: str) -> None:
    """A gradient of what has 10 rows and of what has 9, from the same gradient."""
    graph = fe.Graph()
    ops = graph.ops
    sizes = graph.placeholder("int32", None, name="sizes")
    gradient = graph.placeholder("float32", None, name="gradient")
    how: dict[str, Any] = {"strides": [1, 2, 2, 1], "padding": "SAME"}
    one, two, misfit = SIZED[op]
    before = ops.MaxPool(gradient, ksize=[1, 2, 2, 1], **ONE)
    values = {"gradient": numbers(2, 1, 5, 5, 24)}
    if op == "Conv2DBackpropInput":
        other = graph.constant(numbers(1, 3, 3, 16, 24))
        y = ops.Conv2DBackpropInput(sizes, other, before, name="node", **how)
    elif op == "Conv2DBackpropFilter":
        other = graph.constant(numbers(1, 1, 9, 9, 16))
        y = ops.Conv2DBackpropFilter(other, sizes, before, name="node", **how)
    else:
        y = ops.AvgPoolGrad(sizes, before, name="node", ksize=[1, 3, 3, 1], **how)
    rig = Rig(graph, [y])
    rig.join(**values, sizes=np.array(one, np.int32))
    for run in range(60):
        kind = np.int32 if run % 2 else np.int64
        wanted = two if run % 5 == 4 or run > 30 else one
        (got,) = rig.check(**values, sizes=np.array(wanted, kind))
        assert got.shape == wanted
    assert rig.joined == 2
    with pytest.raises(OpError) as caught:
        rig.check(**values, sizes=np.array(misfit, np.int32))
    assert caught.value.node_name == "node"


@pytest.mark.parametrize(("size", "stride"), [(7, 2), (5, 1), (3, 2), (7, 4)])
def test_gradients_of_images_of_few_channels_are_computed_as_alone(size: int, stride: int) -> None:
    """In blocks or in planes: by more than programs."""
    graph = fe.Graph()
    w, gradient = (graph.placeholder("float32", None, name=name) for name in ("w", "gradient"))
    before = graph.ops.MaxPool(gradient, ksize=[1, 2, 2, 1], **ONE)
    before = graph.ops.AvgPool(before, ksize=[1, 2, 2, 1], **ONE)
    how: dict[str, Any] = {"strides": [1, stride, stride, 1], "padding": "SAME"}
    y = graph.ops.Conv2DBackpropInput(np.array([1, 24, 24, 3], np.int32), w, before, name="node", **how)
    rig = Rig(graph, [graph.ops.AvgPool(y, ksize=[1, 3, 3, 1], **ONE)])
    side = -(-24 // stride)
    for run in range(6):
        rig.check(w=numbers(run, size, size, 3, 24), gradient=numbers(run + 9, 1, side, side, 24))
    sliding = WindowAttributes(tuple(how["strides"]), (1, 1, 1, 1), b"SAME", (), False)
    layer = convolution.input_gradient(sliding, (1, 24, 24, 3), (size, size, 3, 24))
    assert layer is not None
    is_program = layer._product is None and layer._blocks is None and layer._planes is None
    assert ("node" in rig.sequence.joined) == is_program


def test_what_must_lie_as_it_did_is_looked_at() -> None:
    """Features whose gate is computed with the gradient of a pooling: in other places, with gaps."""
    graph = fe.Graph()
    ops = graph.ops
    x, above, features = (
        graph.placeholder("float32", None, name=name) for name in ("x", "above", "features")
    )
    how: dict[str, Any] = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    y = ops.MaxPool(x, **how)
    made = ops.ReluGrad(ops.MaxPoolGrad(x, y, above, **how), features)
    rig = Rig(graph, [ops.AvgPool(made, ksize=[1, 3, 3, 1], **ONE), y])
    values = {"x": numbers(0, 2, 9, 9, 16), "above": numbers(1, 2, 5, 5, 16)}
    wide = numbers(2, 2, 9, 9, 32)
    rig.join(**values, features=wide[..., :16].copy())
    assert rig.joined == 3
    assert rig.ran_joined(**values, features=wide[..., 16:].copy())
    assert not rig.ran_joined(**values, features=wide[..., 16:])
    assert not rig.ran_joined(**values, features=np.asfortranarray(wide[..., 16:]))
    # No places are kept where the libraries may not agree on them.
    values["x"] = np.full_like(values["x"], np.nan)
    assert not rig.ran_joined(**values, features=wide[..., :16].copy())


@pytest.mark.parametrize("op", ["FusedBatchNormGrad", "FusedBatchNormGradV3"])
def test_every_output_is_given(op: str) -> None:
    """Three that are computed and two that are always the same."""
    graph = fe.Graph()
    ops = graph.ops
    g, x = (graph.placeholder("float32", None, name=name) for name in "gx")
    vectors = [graph.placeholder("float32", None, name=f"v/{n}/16") for n in range(3)]
    before = ops.AvgPool(g, ksize=[1, 3, 3, 1], **ONE)
    if op == "FusedBatchNormGradV3":
        nothing = graph.constant(np.zeros((), np.float32))
        made = ops[op](before, x, *vectors, nothing, is_training=True)
    else:
        made = ops[op](before, x, *vectors, is_training=True)
    rig = Rig(graph, [*list(made)[:5], ops.AvgPool(made[0], ksize=[1, 3, 3, 1], **ONE), before])
    for run in range(6):
        values = drawn(rig, run, (2, 9, 9, 16))
        values["g"] = numbers(run + 5, 2, 9, 9, 16)
        assert rig.ran_joined(**values) == (run > 1)
    assert rig.joined == 3


@pytest.mark.parametrize("given", [(), (1,), (3, 4), (1, 2, 3, 4)], ids=str)
@pytest.mark.parametrize("rectified", [False, True])
def test_statistics_of_a_batch_are_given_to_who_takes_them(given: tuple[int, ...], rectified: bool) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    y = batch_normalized(graph, graph.ops.AvgPool(x, ksize=[1, 3, 3, 1], **ONE), "NHWC")
    made = graph.ops.AvgPool(graph.ops.Relu(y) if rectified else y, ksize=[1, 3, 3, 1], **ONE)
    rig = Rig(graph, [made, *(y.op.outputs[n] for n in given)])
    for run in range(6):
        values = drawn(rig, run, (2, 9, 9, 16))
        assert rig.ran_joined(**values) == (run > 1)
    assert rig.joined == 3


@pytest.mark.parametrize("odd", ["x", "v/0/16", "v/1/16"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 3e38])
def test_what_a_library_finds_of_odd_numbers_is_not_believed(odd: str, number: float) -> None:
    rig = joined_between(fe.Graph(), "NHWC", "rectified")
    values = drawn(rig, 0, (2, 9, 9, 16))
    rig.join(**values)
    assert rig.ran_joined(**values)
    strange = values[odd].copy()
    strange[..., 3] = number
    assert not rig.ran_joined(**{**values, odd: strange})
    assert rig.ran_joined(**values)


def test_means_far_from_zero_are_found_by_the_kernel_from_then_on() -> None:
    rig = joined_between(fe.Graph(), "NHWC", "FusedBatchNormV3")
    values = drawn(rig, 0, (2, 9, 9, 16))
    rig.join(**values)
    assert rig.joined == 3
    far = {**values, "x": values["x"] + np.float32(1e4)}
    assert not rig.ran_joined(**far)
    rig.join(**far)
    assert rig.joined == 0


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_number_passes_as_it_does_alone(kind: str, layout: str) -> None:
    shape = (2, 9, 9, 16) if layout == "NHWC" else (2, 16, 9, 9)
    rig = joined_between(fe.Graph(), layout, kind)
    values = drawn(rig, 0, shape, constants=True)
    random = np.random.default_rng(5)
    joined = 0
    for run in range(14):
        for name in rig.names:
            if name.startswith("x"):
                values[name] = numbers(run, *shape)
                if run > 3:
                    odd = random.choice([np.nan, np.inf, -np.inf, -0.0, 3e38, -3e38, 1e-45], shape)
                    values[name] = np.where(random.random(shape) < 0.02 * run, odd, values[name]).astype("f4")
        joined += rig.ran_joined(**values)
    # Where maxima are is not kept where there is none; statistics that are no numbers are NumPy's.
    assert joined > 9 or kind in ("MaxPoolGrad", "FusedBatchNormV3", "rectified")
