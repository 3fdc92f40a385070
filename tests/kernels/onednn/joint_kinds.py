"""Each kind of layer between two convolutions, and values for what it asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import flowengine as fe
from tests.kernels.onednn.rig import ONE, Rig, constant, numbers


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


def locally_normalized(graph: fe.Graph, x: Any, layout: str) -> Any:
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


def batch_normalized(graph: fe.Graph, x: Any, layout: str) -> Any:
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
    "normalized": locally_normalized,
    "Conv2DBackpropInput": _input_gradient,
    "Conv2DBackpropFilter": _filter_gradient,
    "DepthwiseConv2dNative": _depthwise(""),
    "DepthwiseConv2dNativeBackpropInput": _depthwise("BackpropInput"),
    "DepthwiseConv2dNativeBackpropFilter": _depthwise("BackpropFilter"),
    "MaxPoolGrad": _max_gradient,
    "ReluGrad": _gate,
    "FusedBatchNormV3": batch_normalized,
    "rectified": lambda graph, x, layout: graph.ops.Relu(batch_normalized(graph, x, layout)),
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


def joined_between(graph: fe.Graph, layout: str, kind: str) -> Rig:
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
