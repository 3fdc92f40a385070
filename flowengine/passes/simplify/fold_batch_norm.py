"""Fold batch normalisation into the constant filters before it, in frozen graphs.

    FusedBatchNorm(Conv2D(x, F), scale, offset, mean, variance)  ->  BiasAdd(Conv2D(x, F k), offset - mean k)

with k = scale / sqrt(variance + epsilon), one number an output channel, worked out in double precision. A
product of a convolution with a constant vector along the channels is folded in the same way. All that is
folded must be constant, and the convolution's result taken by nothing else. What is computed is the same, but
not in the same order: values differ by some units in the last place of the largest number that is summed, a
millionth of it or less. What would not be finite is left as it is. Linear time; filters are copied once, for
all plans of a graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, to_array, unchangeable
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Graph, Node, OutputPort
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext

_NORMS: Final = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
_CONVOLUTIONS: Final = frozenset({"Conv2D", "DepthwiseConv2dNative"})


def fold_batch_norms(graph: Graph, context: PassContext) -> Graph:
    """The graph with normalisations of convolutions folded into filters; the same graph if there are none."""
    return _Folding(graph, context).run()


class _Folding:
    def __init__(self, graph: Graph, context: PassContext) -> None:
        self._graph = graph
        self._kept = {port.node for port in (*context.fetches, *context.feeds)} | set(context.targets)
        self._fed = frozenset(context.feeds)
        self._asked = (*context.feeds, *context.fetches)
        self._takers: dict[str, list[Node]] = {}
        for node in graph:
            for source in {*(port.node for port in node.inputs), *node.control_inputs}:
                self._takers.setdefault(source, []).append(node)
        #: {name: what stands in its place}.
        self._made: dict[str, list[Node]] = {}
        self._names = set(graph.nodes)

    def run(self) -> Graph:
        for node in self._graph:
            if node.op in _NORMS:
                self._fold_norm(node)
            elif node.op == "BatchNormWithGlobalNormalization":
                self._fold_global_norm(node)
            elif node.op == "Mul":
                self._fold_product(node)
        if not self._made:
            return self._graph
        return self._graph.rewritten(
            new for node in self._graph for new in self._made.get(node.name, (node,))
        )

    def _fold_norm(self, node: Node) -> None:
        if node.attrs["is_training"] or self._takes_statistics(node):
            return
        vectors = self._vectors(node.inputs[1:5])
        if vectors is None:
            return
        scale, offset, mean, variance = vectors
        with np.errstate(all="ignore"):
            factor = scale / np.sqrt(variance + node.attrs["epsilon"])
            bias = offset - mean * factor
        self._fold(node, node.inputs[0], node.inputs[1:5], factor, bias)

    def _takes_statistics(self, node: Node) -> bool:
        """Whether anything but the normalised features is used."""
        if any(port.node == node.name and port.slot for port in self._asked):
            return True
        return any(
            port.node == node.name and port.slot
            for taker in self._takers.get(node.name, ())
            for port in taker.inputs
        )

    def _fold_global_norm(self, node: Node) -> None:
        vectors = self._vectors(node.inputs[1:5])
        if vectors is None:
            return
        mean, variance, beta, gamma = vectors
        with np.errstate(all="ignore"):
            factor = 1 / np.sqrt(variance + node.attrs["variance_epsilon"])
            if node.attrs["scale_after_normalization"]:
                factor = factor * gamma
            bias = beta - mean * factor
        self._fold(node, node.inputs[0], node.inputs[1:5], factor, bias)

    def _fold_product(self, node: Node) -> None:
        for features, vector in (node.inputs, node.inputs[::-1]):
            found = self._constant(vector)
            convolution = self._graph.nodes.get(features.node)
            if found is not None and convolution is not None and convolution.op in _CONVOLUTIONS:
                if found.ndim <= 4 and (found.size == 1 or found.shape[-1] == found.size):
                    self._fold(node, features, (vector,), found.reshape(-1), None)
                return

    def _vectors(self, ports: Sequence[OutputPort]) -> list[Array] | None:
        values = []
        for port in ports:
            value = self._constant(port)
            if value is None or value.ndim != 1:
                return None
            values.append(value)
        return values if len({value.size for value in values}) == 1 else None

    def _constant(self, port: OutputPort) -> Array | None:
        """The float32 constant of a port, in double precision."""
        attr = self._constant_attr(port)
        return None if attr is None else to_array(attr.value()).astype(np.float64)

    def _constant_attr(self, port: OutputPort) -> TensorAttr | None:
        node = self._graph.nodes.get(port.node)
        if node is None or node.op != "Const" or port in self._fed:
            return None
        attr: Any = node.attrs["value"]
        return attr if isinstance(attr, TensorAttr) and attr.dtype is dtypes.float32 else None

    def _fold(
        self,
        node: Node,
        features: OutputPort,
        constants: Sequence[OutputPort],
        factor: Array,
        bias: Array | None,
    ) -> None:
        """Put a factor for each channel into the filters that made `features`, and a bias behind them."""
        convolution = self._graph.nodes.get(features.node)
        if (
            convolution is None
            or convolution.op not in _CONVOLUTIONS
            or convolution.name in self._kept
            or convolution.name in self._made
            or len(self._takers[convolution.name]) != 1
            or convolution.device != node.device
            or OutputPort(node.name, 0) in self._fed
        ):
            return
        plain = self._constant_attr(convolution.inputs[1])
        filters = None if plain is None else to_array(plain.value())
        if plain is None or filters is None or filters.ndim != 4:
            return
        width = filters.shape[3] if convolution.op == "Conv2D" else filters.shape[2] * filters.shape[3]
        layout = convolution.attrs.get("data_format", b"NHWC")
        if factor.size not in (1, width) or (bias is not None and bias.size != width):
            return
        if node.op in _NORMS and node.attrs.get("data_format", b"NHWC") != layout:
            return
        if node.op not in _NORMS and layout != b"NHWC":
            return
        scaled = _scaled(plain, filters, width, factor)
        offset = None if bias is None else _single(bias)
        if scaled is None or (bias is not None and offset is None):
            return
        kernel = self._made_const(f"{convolution.name}/folded_filters", scaled, convolution)
        behind = (convolution.inputs[0], OutputPort(kernel.name, 0))
        # What the constants waited for, the result waits for.
        controls = dict.fromkeys((*convolution.control_inputs, *node.control_inputs))
        for port in (*constants, convolution.inputs[1]):
            controls.update(dict.fromkeys(self._graph[port.node].control_inputs))
        if offset is None:
            product = replace(convolution, name=node.name, inputs=behind, control_inputs=tuple(controls))
            self._made[convolution.name] = [kernel]
            self._made[node.name] = [product]
            return
        offsets = self._made_const(f"{node.name}/folded_bias", offset, convolution)
        self._made[convolution.name] = [kernel, replace(convolution, inputs=behind)]
        self._made[node.name] = [
            offsets,
            Node(
                name=node.name,
                op="BiasAdd",
                inputs=(features, OutputPort(offsets.name, 0)),
                control_inputs=tuple(controls),
                attrs={"T": dtypes.float32, "data_format": layout},
                device=node.device,
                op_def=op_registry()["BiasAdd"],
                output_types=(dtypes.float32,),
                creation_site=node.creation_site,
            ),
        ]

    def _made_const(self, name: str, value: TensorAttr, like: Node) -> Node:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return Node(
            name=name,
            op="Const",
            attrs={"dtype": dtypes.float32, "value": value},
            device=like.device,
            op_def=op_registry()["Const"],
            output_types=(dtypes.float32,),
        )


#: {filters: {factors as bytes: the filters multiplied}}: every plan of a graph makes the same ones.
_made_before: Final[weakref.WeakKeyDictionary[TensorAttr, dict[bytes, TensorAttr]]] = (
    weakref.WeakKeyDictionary()
)


def _scaled(plain: TensorAttr, filters: Array, width: int, factor: Array) -> TensorAttr | None:
    """The filters times the factors of their channels; None where that is too large for a number.

    plain     the filters as they are
    filters   their values
    """
    known = _made_before.setdefault(plain, {})
    key = factor.tobytes()
    made = known.get(key)
    if made is None:
        with np.errstate(over="ignore", invalid="ignore"):
            products = filters.reshape(-1, width).astype(np.float64) * factor
        made = _single(products.reshape(filters.shape))
        if made is not None:
            known[key] = made
    return made


def _single(values: Array) -> TensorAttr | None:
    """Values in double precision as a float32 constant; None where one of them is not finite then."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = values.astype(np.float32)
    return TensorAttr.of(unchangeable(rounded), dtypes.float32) if np.isfinite(rounded).all() else None
