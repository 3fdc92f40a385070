"""Layers that the library computes as one program give what they give one by one, to the last bit."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import InternalError, OpError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.common.pieces import Fixed, Placed
from flowengine.kernels.onednn import convolution
from flowengine.kernels.onednn.layers.shapes import Sliding
from flowengine.kernels.onednn.library import address, search
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.kernels.onednn.programs.program import PrimitiveProgram
from flowengine.resources.variable import Variable
from tests.kernels.onednn.rig import ENOUGH, ONE, Rig, chain, constant, inputs_of_chain, numbers, same
from tests.kernels.turns import Turns

pytestmark = pytest.mark.skipif(search().library is None, reason=f"no oneDNN: {search().reason}")


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("constants", [False, True])
def test_a_chain_of_layers_is_one_program(constants: bool, layout: str) -> None:
    rig = chain(layout)
    fixed = inputs_of_chain(layout=layout)
    if constants:
        fixed.update({name: constant(fixed[name]) for name in ("w1", "b1", "w2")})
    for run in range(6):
        values = {**fixed, "x": inputs_of_chain(10 * run, layout=layout)["x"]}
        if not constants:
            values["w1"] = numbers(run, 3, 3, 16, 24)
        # NCHW has its bias behind the convolution, by a kernel that tells nothing.
        assert rig.ran_joined(**values) == (run > 1), run
        assert rig.joined == (0 if run < 1 else 3 if layout == "NHWC" else 2)


def windows(layout: str, size: int) -> list[int]:
    return [1, size, size, 1] if layout == "NHWC" else [1, 1, size, size]


#: What makes a node "node" of x, (2, 9, 9, 16) or the same in another order.
_Making = Callable[[fe.Graph, Any, str], Any]


def _conv(graph: fe.Graph, x: Any, layout: str, stride: int = 1, side: int = 3, deep: int = 24) -> Any:
    w = graph.placeholder("float32", None, name=f"w/{side}/16/{deep}")
    return graph.ops.Conv2D(
        x, w, strides=windows(layout, stride), padding="SAME", data_format=layout, name="node"
    )


def _input_gradient(graph: fe.Graph, x: Any, layout: str) -> Any:
    """x as the gradient of a convolution of something with 24 channels."""
    sizes = np.array([2, 9, 9, 24] if layout == "NHWC" else [2, 24, 9, 9], np.int32)
    w = graph.placeholder("float32", None, name="w/3/24/16")
    return graph.ops.Conv2DBackpropInput(sizes, w, x, **ONE, data_format=layout, name="node")


def _filter_gradient(graph: fe.Graph, x: Any, layout: str) -> Any:
    sizes = np.array([3, 3, 16, 16], np.int32)
    return graph.ops.Conv2DBackpropFilter(x, sizes, x, **ONE, data_format=layout, name="node")


def _max_gradient(graph: fe.Graph, x: Any, layout: str) -> Any:
    """Of a pooling behind a Relu, whose gradient is computed in place."""
    how: dict[str, Any] = {"ksize": windows(layout, 3), "strides": windows(layout, 2), "data_format": layout}
    y = graph.ops.MaxPool(x, padding="SAME", name="maxima", **how)
    above = graph.ops.Mul(y, y)
    made = graph.ops.MaxPoolGrad(x, y, above, padding="SAME", name="places", **how)
    return graph.ops.ReluGrad(made, x, name="node")


def _mean_gradient(graph: fe.Graph, x: Any, layout: str) -> Any:
    sizes = np.array([2, 17, 17, 16] if layout == "NHWC" else [2, 16, 17, 17], np.int32)
    how: dict[str, Any] = {"ksize": windows(layout, 3), "strides": windows(layout, 2), "data_format": layout}
    return graph.ops.AvgPoolGrad(sizes, x, padding="SAME", name="node", **how)


def _pool(op: str) -> _Making:
    def make(graph: fe.Graph, x: Any, layout: str) -> Any:
        how: dict[str, Any] = {
            "ksize": windows(layout, 3),
            "strides": windows(layout, 2),
            "data_format": layout,
        }
        return getattr(graph.ops, op)(x, padding="VALID", name="node", **how)

    return make


def _normalized(graph: fe.Graph, x: Any, layout: str) -> Any:
    y = _conv(graph, x, layout)
    vectors = [graph.placeholder("float32", None, name=f"v/{n}/24") for n in range(4)]
    made = graph.ops.FusedBatchNorm(y, *vectors, is_training=False, data_format=layout)
    return graph.ops.Relu6(made[0])


def _depthwise(op: str) -> _Making:
    def make(graph: fe.Graph, x: Any, layout: str) -> Any:
        of_input = np.array([2, 9, 9, 16] if layout == "NHWC" else [2, 16, 9, 9], np.int32)
        of_filters = np.array([3, 3, 16, 1], np.int32)
        w = None if op.endswith("Filter") else graph.placeholder("float32", None, name="w/3/16/1")
        taken = {"": (x, w), "BackpropInput": (of_input, w, x), "BackpropFilter": (x, of_filters, x)}
        kernel = getattr(graph.ops, f"DepthwiseConv2dNative{op}")
        return kernel(*taken[op], **ONE, data_format=layout, name="node")

    return make


def _normalization_gradient(graph: fe.Graph, x: Any, layout: str) -> Any:
    before = graph.placeholder("float32", None, name="x/before")
    vectors = [graph.placeholder("float32", None, name=f"v/{n}/16") for n in range(3)]
    made = graph.ops.FusedBatchNormGrad(x, before, *vectors, is_training=True, data_format=layout)
    return graph.ops.ReluGrad(made[0], before, name="node")


def _batch_normalized(graph: fe.Graph, x: Any, layout: str) -> Any:
    vectors = [graph.placeholder("float32", None, name=f"v/{n}/16") for n in range(2)]
    nothing = graph.constant(np.zeros(0, np.float32))
    given = (x, *vectors, nothing, nothing)
    made = graph.ops.FusedBatchNormV3(*given, is_training=True, data_format=layout, name="node")
    return made[0]


def _gate(graph: fe.Graph, x: Any, layout: str) -> Any:
    return graph.ops.ReluGrad(x, graph.placeholder("float32", None, name="x/features"), name="node")


KINDS: dict[str, _Making] = {
    "Conv2D": _conv,
    "strided": lambda graph, x, layout: _conv(graph, x, layout, 2),
    "pointwise": lambda graph, x, layout: _conv(graph, x, layout, 1, 1, 64),
    "normalized": _normalized,
    "Conv2DBackpropInput": _input_gradient,
    "Conv2DBackpropFilter": _filter_gradient,
    "DepthwiseConv2dNative": _depthwise(""),
    "DepthwiseConv2dNativeBackpropInput": _depthwise("BackpropInput"),
    "DepthwiseConv2dNativeBackpropFilter": _depthwise("BackpropFilter"),
    "MaxPoolGrad": _max_gradient,
    "ReluGrad": _gate,
    "FusedBatchNormV3": _batch_normalized,
    "rectified": lambda graph, x, layout: graph.ops.Relu(_batch_normalized(graph, x, layout)),
    "FusedBatchNormGrad": _normalization_gradient,
    "AvgPoolGrad": _mean_gradient,
    "ConcatV2": lambda graph, x, layout: graph.ops.ConcatV2([x, x], graph.constant(1), name="node"),
    "MaxPool": _pool("MaxPool"),
    "AvgPool": _pool("AvgPool"),
}


def drawn(rig: Rig, seed: int, x: tuple[int, ...], constants: bool = False) -> dict[str, Any]:
    """Values for placeholders that say in their names what they are."""
    values = {}
    for place, name in enumerate(rig.names):
        kind, *sizes = name.split("/")
        if kind == "x":
            values[name] = numbers(seed + place, *x)
        elif kind == "w":
            side, inward, outward = map(int, sizes)
            values[name] = numbers(seed + place, side, side, inward, outward)
        elif kind == "v":
            values[name] = np.abs(numbers(seed + place, int(sizes[1]))) + np.float32(0.5)
        if constants and kind in ("w", "v"):
            values[name] = constant(values[name])
    return values


def _between(graph: fe.Graph, layout: str, kind: str) -> Rig:
    """A kind of layer between two poolings, the second over what it gives."""
    x = graph.placeholder("float32", None, name="x")
    one: dict[str, Any] = {
        "strides": [1, 1, 1, 1],
        "ksize": windows(layout, 3),
        "padding": "SAME",
        "data_format": layout,
    }
    before = graph.ops.AvgPool(x, name="before", **one)
    made = KINDS[kind](graph, before, layout)
    behind = graph.ops.MaxPool(made, name="behind", **one) if not kind.endswith("Filter") else made
    return Rig(graph, [behind])


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_layer_is_joined(kind: str, layout: str, constants: bool) -> None:
    rig = _between(fe.Graph(), layout, kind)
    shape = (2, 9, 9, 16) if layout == "NHWC" else (2, 16, 9, 9)
    fixed = drawn(rig, 0, shape, constants)
    for run in range(6):
        values = {
            **(fixed if constants else drawn(rig, run, shape)),
            "x": numbers(run, *shape),
        }
        rig.check(**values)
    # Else the factors are computed of other variances each time.
    is_joined = constants or kind != "normalized"
    # No library's: what makes the gradient of the maxima.
    assert rig.sequence.joined == (rig.sequence.names - {"Mul"} if is_joined else set())


@settings(max_examples=80)
@given(st.data())
def test_random_networks_keep_every_bit(data: st.DataObject) -> None:
    """Chains and branches of layers and gradients, whose results others take as well."""
    graph = fe.Graph()
    layout = data.draw(st.sampled_from(["NHWC", "NHWC", "NCHW"]))
    net = _Network(graph, layout, data.draw)
    for _ in range(data.draw(st.integers(2, 9))):
        net.grow()
    made = net.pool[1:]
    others = data.draw(st.lists(st.sampled_from(made), max_size=2, unique_by=lambda item: item[0].name))
    gives = {tensor.port: tensor for tensor, _ in (made[-1], *others)}
    rig = Rig(graph, list(gives.values()))
    fixed = {name: numbers(place, *shape) for place, (name, shape) in enumerate(net.given.items())}
    for name in fixed:
        # Variances are among them.
        fixed[name] = np.abs(fixed[name]) + 1 if name.startswith("v") else fixed[name]
        if data.draw(st.booleans()):
            fixed[name] = constant(fixed[name])
    for run in range(data.draw(st.integers(3, 12))):
        if data.draw(st.sampled_from([False, False, False, True])):
            name = data.draw(st.sampled_from(sorted(fixed)))
            if not fixed[name].flags.writeable:
                fixed[name] = constant(fixed[name] / 2)
        values = dict(fixed)
        for name, value in fixed.items():
            if value.flags.writeable and (name == "x" or run % 2):
                values[name] = value * np.float32(1 + run / 8)
        turns = Turns(data.draw(st.lists(st.booleans(), max_size=10)))
        rig.check(turns=turns, **values)


class _Network:
    """A network that grows by what is drawn. `pool`: tensors and their (count, side, channels)."""

    def __init__(self, graph: fe.Graph, layout: str, draw: Callable[..., Any]) -> None:
        self.graph, self._layout, self._draw = graph, layout, draw
        self.given: dict[str, tuple[int, ...]] = {}
        form = (draw(st.integers(1, 2)), draw(st.integers(4, 8)), draw(st.sampled_from([3, 8, 16])))
        self.pool = [(self._placeholder("x", self._shape(*form)), form)]

    def _shape(self, count: int, side: int, deep: int) -> tuple[int, ...]:
        return (count, side, side, deep) if self._layout == "NHWC" else (count, deep, side, side)

    def _placeholder(self, kind: str, shape: tuple[int, ...]) -> Any:
        name = kind if kind == "x" else f"{kind}{len(self.given)}"
        self.given[name] = shape
        return self.graph.placeholder("float32", None, name=name)

    def _sizes(self, *sizes: int) -> Any:
        return self.graph.constant(np.array(sizes, np.int32))

    def _filters(self, inward: int) -> tuple[Any, int, int]:
        side, outward = self._draw(st.sampled_from([1, 3])), self._draw(st.sampled_from([8, 16]))
        return self._placeholder("w", (side, side, inward, outward)), side, outward

    def grow(self) -> None:
        x, (count, side, deep) = self._draw(st.sampled_from(self.pool))
        laid: dict[str, Any] = {"data_format": self._layout}
        ops = self.graph.ops
        stride = self._draw(st.sampled_from([1, 1, 2]))
        less = -(-side // stride)
        how: dict[str, Any] = {"strides": windows(self._layout, stride), "padding": "SAME", **laid}
        kinds = ["conv", "conv", "conv", "pool", "concat", "sum", "gradients", "gate", "pool gradient"]
        kind = self._draw(st.sampled_from(kinds))
        fellows = [tensor for tensor, form in self.pool if form == (count, side, deep)]
        if kind == "conv":
            w, _, outward = self._filters(deep)
            y = self._followed(ops.Conv2D(x, w, **how), outward, (count, less, outward))
            self.pool.append((y, (count, less, outward)))
        elif kind == "pool":
            op = self._draw(st.sampled_from([ops.MaxPool, ops.AvgPool]))
            y = op(x, ksize=windows(self._layout, self._draw(st.integers(1, 3))), **how)
            self.pool.append((y, (count, less, deep)))
        elif kind == "concat":
            axis = self.graph.constant(3 if self._layout == "NHWC" else 1)
            other = self._draw(st.sampled_from(fellows))
            self.pool.append((ops.ConcatV2([x, other], axis), (count, side, 2 * deep)))
        elif kind == "sum":
            self.pool.append((ops.Relu(ops.AddV2(x, self._draw(st.sampled_from(fellows)))), self._form(x)))
        elif kind == "gate":
            self.pool.append((ops.ReluGrad(x, self._draw(st.sampled_from(fellows))), self._form(x)))
        elif kind == "gradients":
            w, size, outward = self._filters(deep)
            y = ops.Relu(ops.Conv2D(x, w, **how))
            above = ops.ReluGrad(ops.Mul(y, y), y)
            back = ops.Conv2DBackpropInput(self._sizes(*self._shape(count, side, deep)), w, above, **how)
            of_filters = ops.Conv2DBackpropFilter(x, self._sizes(size, size, deep, outward), above, **how)
            self.pool.append((back, (count, side, deep)))
            self.pool.append((ops.AddV2(back, ops.Sum(of_filters, self._sizes(0, 1, 2, 3))), self._form(x)))
        else:
            whole = self._sizes(*self._shape(count, side, deep))
            window: dict[str, Any] = {"ksize": windows(self._layout, 2), **how}
            if self._draw(st.booleans()):
                y = ops.MaxPool(x, **window)
                self.pool.append((ops.MaxPoolGrad(x, y, ops.Neg(y), **window), self._form(x)))
            else:
                self.pool.append((ops.AvgPoolGrad(whole, ops.AvgPool(x, **window), **window), self._form(x)))

    def _form(self, tensor: Any) -> tuple[int, int, int]:
        return next(form for other, form in self.pool if other is tensor)

    def _followed(self, y: Any, deep: int, form: tuple[int, int, int]) -> Any:
        """With up to three of what a convolution may compute along."""
        ops = self.graph.ops
        laid: dict[str, Any] = {"data_format": self._layout}
        for _ in range(self._draw(st.integers(0, 3))):
            kind = self._draw(st.sampled_from(["bias", "Relu", "Relu6", "norm", "residual", "number"]))
            fellows = [tensor for tensor, other in self.pool if other == form]
            if kind == "bias":
                y = ops.BiasAdd(y, self._placeholder("b", (deep,)), **laid)
            elif kind == "norm":
                vectors = [self._placeholder("v", (deep,)) for _ in range(4)]
                y = ops.FusedBatchNorm(y, *vectors, is_training=False, **laid)[0]
            elif kind == "number":
                y = ops.Mul(y, self._placeholder("n", ()))
            elif kind == "residual" and fellows:
                y = ops.AddV2(y, self._draw(st.sampled_from(fellows)))
            elif kind != "residual":
                y = getattr(ops, kind)(y)
        return y


# (2) What is not as it was.


def test_another_shape_goes_through_the_layers_and_is_joined_in_time() -> None:
    rig = chain()
    rig.join(**inputs_of_chain())
    assert rig.ran_joined(**inputs_of_chain(7))
    for count, side in ((1, 9), (2, 12)):
        values = inputs_of_chain(1, count, side)
        misses = 0
        while not rig.ran_joined(**values):
            misses += 1
            assert misses < 40
        assert misses > 1


def test_shapes_that_take_turns_are_right() -> None:
    rig = chain()
    for run in range(60):
        rig.check(**inputs_of_chain(run, 1 + run % 3 // 2, 9 + run % 2))


def test_what_a_joint_was_not_made_for_runs_by_itself() -> None:
    fixed = inputs_of_chain()
    fixed["w1"], fixed["b1"] = constant(fixed["w1"]), constant(fixed["b1"])
    rig = chain()
    rig.join(**fixed)
    x, w1 = fixed["x"], fixed["w1"]
    apart = np.zeros((*x.shape[:3], 32), np.float32)
    apart[..., ::2] = x
    others = {
        "gaps": {"x": apart[..., ::2]},
        "order": {"x": np.asfortranarray(x)},
        "a kind of array": {"x": x.view(np.memmap)},
        "an equal constant": {"w1": constant(w1)},
        "another constant": {"w1": constant(w1 * 2)},
        "no constant": {"w1": w1 * 3},
        "one that does not stay": {"b1": numbers(8, 24)},
        "more": {"x": numbers(4, 3, 9, 9, 16)},
    }
    for other in others.values():
        assert not rig.ran_joined(**{**fixed, **other})
        assert rig.ran_joined(**fixed)
        if rig.sequence._misses == 3:
            rig = chain()
            rig.join(**fixed)


def test_values_of_another_type_are_as_wrong_as_they_are_by_themselves() -> None:
    """Nothing reads float64 as if it were float32."""
    rig = chain()
    values = inputs_of_chain()
    rig.join(**values)
    for name in ("x", "w1", "b1", "w2"):
        wrong = {**values, name: values[name].astype(np.float64)}
        with mock.patch.object(PrimitiveProgram, "__call__", side_effect=AssertionError("computed")):
            listed = rig.listed(wrong)
            units = [unit.joint for unit in rig.sequence._units if unit.joint is not None]
            assert [joint.run([*listed, *[None] * 8]) for joint in units] == [False]


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
    sliding = Sliding(tuple(how["strides"]), (1, 1, 1, 1), b"SAME", (), False)
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
    y = _batch_normalized(graph, graph.ops.AvgPool(x, ksize=[1, 3, 3, 1], **ONE), "NHWC")
    made = graph.ops.AvgPool(graph.ops.Relu(y) if rectified else y, ksize=[1, 3, 3, 1], **ONE)
    rig = Rig(graph, [made, *(y.op.outputs[n] for n in given)])
    for run in range(6):
        values = drawn(rig, run, (2, 9, 9, 16))
        assert rig.ran_joined(**values) == (run > 1)
    assert rig.joined == 3


@pytest.mark.parametrize("odd", ["x", "v/0/16", "v/1/16"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 3e38])
def test_what_a_library_finds_of_odd_numbers_is_not_believed(odd: str, number: float) -> None:
    rig = _between(fe.Graph(), "NHWC", "rectified")
    values = drawn(rig, 0, (2, 9, 9, 16))
    rig.join(**values)
    assert rig.ran_joined(**values)
    strange = values[odd].copy()
    strange[..., 3] = number
    assert not rig.ran_joined(**{**values, odd: strange})
    assert rig.ran_joined(**values)


def test_means_far_from_zero_are_found_by_the_kernel_from_then_on() -> None:
    rig = _between(fe.Graph(), "NHWC", "FusedBatchNormV3")
    values = drawn(rig, 0, (2, 9, 9, 16))
    rig.join(**values)
    assert rig.joined == 3
    far = {**values, "x": values["x"] + np.float32(1e4)}
    assert not rig.ran_joined(**far)
    rig.join(**far)
    assert rig.joined == 0


def test_memory_is_given_again_when_nobody_refers_to_it() -> None:
    graph = fe.Graph()
    x, y = (graph.placeholder("float32", None, name=name) for name in "xy")
    two: dict[str, Any] = {"ksize": [1, 3, 3, 1], **ONE}
    rig = Rig(graph, [graph.ops.AvgPool(x, **two), graph.ops.MaxPool(y, **two)])
    values = {"x": numbers(0, 2, 9, 9, 16), "y": numbers(1, 2, 9, 9, 16)}
    rig.join(**values)
    assert rig.joined == 2
    listed = rig.listed(values)
    first = rig.sequence.run(listed)
    copies = [array.copy() for array in first]
    held = first[1][:1]
    places = [address(array) for array in first]
    del first
    other = rig.sequence.run([-array for array in listed])
    assert address(other[0]) == places[0]
    assert address(other[1]) != places[1]
    np.testing.assert_array_equal(held, copies[1][:1])
    del held
    third = rig.sequence.run(listed)
    assert all(address(array) not in map(address, other) for array in third)
    same(third, copies)


def test_small_results_are_kept_and_large_ones_are_not() -> None:
    graph = fe.Graph()
    two: dict[str, Any] = {"ksize": [1, 3, 3, 1], **ONE}
    sizes = {"small": 8, "large": 64}
    rig = Rig(
        graph,
        [graph.ops.AvgPool(graph.placeholder("float32", None, name=name), **two) for name in sizes],
    )
    values = {name: numbers(0, 1, side, side, 16) for name, side in sizes.items()}
    rig.join(**values)
    assert rig.joined == 2
    seen = [weakref.ref(array) for array in rig.sequence.run(rig.listed(values))]
    assert [each() is not None for each in seen] == [True, False]


def test_what_a_program_is_called_with_lives_as_long_as_it() -> None:
    """Memory of its own: factors of a normalisation, filters in order."""
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    rig = Rig(graph, [graph.ops.AvgPool(_normalized(graph, x, "NHWC"), ksize=[1, 3, 3, 1], **ONE)])
    values = drawn(rig, 0, (2, 9, 9, 16), constants=True)
    owners: list[weakref.ref[Any]] = []
    make = JointProgram.__init__

    def told(self: JointProgram, pieces: Sequence[Placed], wanted: Any) -> None:
        for piece, _, _ in pieces:
            for _, sources in piece.calls:
                for source in sources:
                    if isinstance(source, Fixed):
                        owner = source.owner
                        each = owner if isinstance(owner, tuple) else (owner,)
                        owners.extend(map(weakref.ref, each))
        make(self, pieces, wanted)

    with mock.patch.object(JointProgram, "__init__", told):
        rig.join(**values)
    assert len(owners) >= 4
    gc.collect()
    assert rig.ran_joined(**values)
    assert all(owner() is not None for owner in owners)


def test_operands_that_are_one_object_at_first() -> None:
    """Two of what a convolution computes along may be one array in one run and two in the next."""
    graph = fe.Graph()
    x, w, b, c = (graph.placeholder("float32", None, name=name) for name in "xwbc")
    y = graph.ops.Add(graph.ops.BiasAdd(graph.ops.Conv2D(x, w, **ONE), b), c)
    rig = Rig(graph, [graph.ops.MaxPool(y, ksize=[1, 2, 2, 1], **ONE)])
    values = {
        "x": numbers(0, 1, 9, 9, 16),
        "w": numbers(1, 3, 3, 16, 24),
        "b": numbers(2, 24),
    }
    rig.join(**values, c=values["b"])
    rig.check(**values, c=numbers(3, 24))
    rig.check(**values, c=values["b"])


def test_a_constant_and_then_none() -> None:
    """Few rows by filters that may change are a product, by constants a convolution."""
    for inward, outward, side in [(64, 64, 7), (8, 256, 8), (16, 24, 4), (7, 90, 5)]:
        graph = fe.Graph()
        x, w = (graph.placeholder("float32", None, name=name) for name in "xw")
        rig = Rig(graph, [graph.ops.MaxPool(graph.ops.Conv2D(x, w, **ONE), ksize=[1, 2, 2, 1], **ONE)])
        filters = numbers(1, 1, 1, inward, outward)
        staying = constant(filters)
        for run in range(30):
            rig.check(x=numbers(run, 1, side, side, inward), w=filters if run % 7 > 4 else staying)


#: {kind of a view of (2, N, N, 64): the view, (2, N, N, 24)}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "first": lambda whole: whole[..., :24],
    "last": lambda whole: whole[..., 40:],
    "a copy": lambda whole: whole[..., :24].copy(),
    "every second": lambda whole: whole[..., 1:49:2],
    "turned": lambda whole: whole.transpose(0, 2, 1, 3)[..., :24],
    "backwards": lambda whole: whole[..., 23::-1],
    "upside down": lambda whole: whole[:, ::-1, :, :24],
    "repeated": lambda whole: np.broadcast_to(whole[0, 0, 0, :24], (*whole.shape[:3], 24)),
}


def _gated() -> Rig:
    graph = fe.Graph()
    g, features = (graph.placeholder("float32", None, name=name) for name in ("g", "features"))
    made = graph.ops.ReluGrad(g, features, name="node")
    return Rig(graph, [graph.ops.MaxPool(made, ksize=[1, 2, 2, 1], **ONE), made])


@pytest.mark.parametrize("side", [5, 40])
def test_gradients_with_gaps_between_are_gathered(side: int) -> None:
    """Parts of the gradient of a concatenation, as they lie; and all kinds of views after another."""
    changing = _gated()
    for kind, view in VIEWS.items():
        rig = _gated()
        for run in range(12):
            whole = numbers(run, 2, side, side, 64)
            whole[0, run % 2, 1] = [np.nan, np.inf, -np.inf, -0.0] * 16
            features = numbers(run + 7, 2, side, side, 24)
            rig.check(g=view(whole), features=features)
            changing.check(g=view(whole), features=features)
        assert rig.joined == (0 if kind in ("backwards", "upside down", "repeated") else 2), kind


# (3) Filters of variables.


class Held:
    """A chain whose first filters a variable holds."""

    SHAPE = (3, 3, 16, 24)

    def __init__(self) -> None:
        self.graph = graph = fe.Graph()
        ops = graph.ops
        x, b = (graph.placeholder("float32", None, name=name) for name in "xb")
        v = ops.VariableV2(shape=self.SHAPE, dtype="float32", name="v")
        y = ops.Relu(ops.BiasAdd(ops.Conv2D(x, v, **ONE), b))
        self.rig = Rig(graph, [ops.MaxPool(y, ksize=[1, 2, 2, 1], **ONE)])
        self.variable = Variable("v", dtypes.float32, TensorShape(self.SHAPE))
        self.variable.assign(numbers(0, *self.SHAPE))
        self.x, self.b = numbers(1, 2, 9, 9, 16), numbers(2, 24)

    def check(self, times: int = 1) -> bool:
        """Whether the last of so many runs, which are checked, used what is joined."""
        joined = False
        for _ in range(times):
            joined = self.rig.ran_joined(x=self.x, b=self.b, v=self.variable.read())
        return joined

    def add(self, place: Any, number: float) -> None:
        array = self.variable.mutable()
        array[place] += np.float32(number)


def test_filters_that_stay_are_packed_and_joined() -> None:
    held = Held()
    assert held.check(ENOUGH)
    assert held.variable.is_lent()
    # No element that is looked at: it is the write that tells.
    held.add((0, 0, 0, 1), 1.0)
    assert held.variable.copies == 1
    assert not held.check()
    assert held.check(20 * ENOUGH)


def test_filters_that_are_trained_are_joined_and_never_copied() -> None:
    held = Held()
    for _ in range(5 * ENOUGH):
        held.check()
        held.add(..., 0.125)
    assert held.check()
    assert held.variable.copies == 0


def test_filters_that_are_replaced_are_joined() -> None:
    held = Held()
    for seed in range(5 * ENOUGH):
        held.check()
        held.variable.assign(numbers(seed, *Held.SHAPE))
    assert held.check()


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["check", "some", "all", "one", "assign", "another", "image"]), max_size=12))
def test_filters_are_those_of_the_moment(actions: list[str]) -> None:
    held = Held()
    for number, action in enumerate(actions):
        if action == "some":
            held.add((slice(None), 0), number)
        elif action == "all":
            held.add(..., number)
        elif action == "one":
            held.add((0, 0, 0, 1), number)
        elif action == "assign":
            held.variable.assign(numbers(number, *Held.SHAPE))
        elif action == "another":
            held.x = numbers(number, 1 + number % 3, 9, 9, 16)
        elif action == "image":
            held.x += 1
        held.check(1 if action == "check" else ENOUGH)


# (4) What is no number.


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_number_passes_as_it_does_alone(kind: str, layout: str) -> None:
    shape = (2, 9, 9, 16) if layout == "NHWC" else (2, 16, 9, 9)
    rig = _between(fe.Graph(), layout, kind)
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


# (5) Threads.


def test_many_threads_run_one_sequence() -> None:
    """Each with inputs of its own, from the first run on; some have other shapes for a while."""
    rig = chain()
    fixed = {name: constant(v) if name == "w2" else v for name, v in inputs_of_chain().items()}
    images = [inputs_of_chain(seed, 1 + seed % 4, 9 + seed % 3)["x"] for seed in range(6)]
    images += [inputs_of_chain(seed)["x"] for seed in range(6)]
    listed = [rig.listed({**fixed, "x": x}) for x in images]
    expected = [rig.alone(values) for values in listed]
    failures: list[BaseException] = []
    start = threading.Barrier(4)

    def runs(first: int) -> None:
        try:
            start.wait()
            for run in range(120):
                which = (first + run) % 6 + (0 if run % 30 > 22 else 6)
                same(rig.sequence.run(listed[which]), expected[which])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=runs, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    runs(3)
    for thread in threads:
        thread.join()
    assert not failures
    # The last ones had other shapes: what is joined may have been given up a moment ago.
    for _ in range(ENOUGH):
        same(rig.sequence.run(listed[6]), expected[6])
    assert rig.joined


async def test_the_loop_and_its_workers_run_one_sequence() -> None:
    rig = chain()
    values = [rig.listed(inputs_of_chain(seed)) for seed in range(4)]
    expected = [rig.alone(each) for each in values]

    async def runs(first: int) -> None:
        for run in range(first, first + 20):
            which = run % 4
            if run % 2:
                same(rig.sequence.run(values[which]), expected[which])
            else:
                same(await trio.to_thread.run_sync(rig.sequence.run, values[which]), expected[which])

    async with trio.open_nursery() as nursery:
        for first in range(4):
            nursery.start_soon(runs, first)
    assert rig.joined == 3


# (6) Errors.


@pytest.mark.parametrize("runs", [0, 1, 5])
@pytest.mark.parametrize(
    ("name", "shape", "node"),
    [("x", (2, 9, 9, 7), "first"), ("w2", (3, 3, 5, 8), "second"), ("b1", (7,), "bias")],
)
def test_an_error_is_of_the_node_that_raised_it(
    name: str, shape: tuple[int, ...], node: str, runs: int
) -> None:
    rig = chain()
    values = inputs_of_chain()
    for _ in range(runs):
        rig.check(**values)
    with pytest.raises(OpError) as caught:
        rig.sequence.run(rig.listed({**values, name: numbers(0, *shape)}))
    assert caught.value.node_name == node
    rig.join(**values)
    assert rig.joined == 3


def test_a_library_that_fails_leaves_it_to_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The joint has changed nothing by then, and kernels that fail as well say so."""
    rig = chain()
    values = inputs_of_chain()
    rig.join(**values)
    listed = rig.listed(values)
    expected = rig.alone(listed)
    proceed = PrimitiveProgram._proceed

    def fail(self: PrimitiveProgram, *how: Any) -> int:
        if len(self._steps) > 2:
            raise InternalError("oneDNN could not compute: status 1")
        return proceed(self, *how)

    monkeypatch.setattr(PrimitiveProgram, "_proceed", fail)
    same(rig.sequence.run(listed), expected)
    monkeypatch.setattr(PrimitiveProgram, "_proceed", mock.Mock(side_effect=InternalError("status 1")))
    with pytest.raises(InternalError) as caught:
        rig.sequence.run(listed)
    assert caught.value.node_name == "first"


# (7) What others take; order is tested in test_sequences.


def test_results_that_others_take_are_arrays_of_their_own() -> None:
    """And stay as they are when the next run reuses the memory of the others."""
    graph = fe.Graph()
    ops = graph.ops
    x, w = (graph.placeholder("float32", None, name=name) for name in "xw")
    one = ops.Conv2D(x, w, **ONE)
    two = ops.MaxPool(one, ksize=[1, 3, 3, 1], **ONE)
    three = ops.Conv2D(two, w, **ONE)
    four = ops.Sub(three, one)  # tells nothing
    rig = Rig(graph, [two, four, three])
    w_value = numbers(1, 3, 3, 16, 16)
    kept = []
    for seed in range(6):
        got = rig.check(x=numbers(seed, 1, 8, 8, 16), w=w_value)
        kept.append((got, [array.copy() for array in got]))
    for got, copies in kept:
        same(got, copies)
    (unit,) = [unit for unit in rig.sequence._units if unit.joint is not None]
    assert isinstance(unit.joint, JointProgram)
    assert len(unit.joint._outs) == 3
    assert rig.joined == 3


# (8) A fork.

FORK = """
import os, signal
import numpy as np
import flowengine as fe
from tests.kernels.onednn.test_onednn_joint import chain, inputs_of_chain
rig = chain()
# Large enough for every core: the library has threads of its own, which a child has not.
values = inputs_of_chain(0, 8, 40)
for _ in range(5):
    (before,) = rig.sequence.run(rig.listed(values))
assert rig.joined == 3
child = os.fork()
if child == 0:
    signal.alarm(60)  # what hangs ends
    for _ in range(30):
        (after,) = rig.sequence.run(rig.listed(values))
    assert not rig.joined
    os._exit(0 if np.allclose(after, before, atol=1e-3) else 1)
status = os.waitpid(child, 0)[1]
(after,) = rig.sequence.run(rig.listed(values))
print(status, rig.joined, np.array_equal(after, before))
"""


def test_a_fork_goes_on_with_numpy(root: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("this system does not fork")
    done = subprocess.run(
        [sys.executable, "-c", FORK], cwd=root, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "3", "True"]
