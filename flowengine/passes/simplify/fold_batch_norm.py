"""Fold batch normalisation into the constant filters before it, in frozen graphs.

    FusedBatchNorm(Conv2D(x, F), scale, offset, mean, variance)  ->  BiasAdd(Conv2D(x, F k), offset - mean k)

with k = scale / sqrt(variance + epsilon), one number for each output channel, computed in double precision. A
product of a convolution with a constant vector along the channels is folded in the same way. All folded
operands must be constant, and the convolution's result must have no other consumer. The result is the same,
but computed in another order: values differ by some units in the last place of the largest number that is
summed, a millionth of it or less. A fold whose result would not be finite is left out. Linear time; filters
are copied once, for all plans of a graph.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, to_array, unchangeable
from flowengine.ir import make
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.traits import Constant, Convolves, Multiplies, Normalises
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext

#: The layout of features in memory if no attribute names it.
_CHANNELS_LAST: Final = b"NHWC"


def fold_batch_norms(graph: NodeGraph, context: PassContext) -> NodeGraph:
    """Return the graph with normalisations folded into filters; the same graph if there are none."""
    return _NormFolder(graph, context).run() if any(node.has(Convolves) for node in graph) else graph


class _NormFolder:
    def __init__(self, graph: NodeGraph, context: PassContext) -> None:
        self._graph = graph
        self._kept = {port.node for port in (*context.fetches, *context.feeds)} | set(context.targets)
        self._fed = frozenset(context.feeds)
        self._asked = (*context.feeds, *context.fetches)
        self._takers: dict[str, list[Node]] = {}
        for node in graph:
            for source in {*(port.node for port in node.inputs), *node.control_inputs}:
                self._takers.setdefault(source, []).append(node)
        #: {name: the node that replaces it}.
        self._made: dict[str, list[Node]] = {}
        self._names = set(graph.nodes)

    def run(self) -> NodeGraph:
        for node in self._graph:
            norm = node.trait(Normalises)
            if norm is not None:
                self._fold_norm(node, norm)
            elif node.has(Multiplies):
                self._fold_product(node)
        if not self._made:
            return self._graph
        return self._graph.rewritten(
            new for node in self._graph for new in self._made.get(node.name, (node,))
        )

    def _fold_norm(self, node: Node, norm: Normalises) -> None:
        features = node.inputs[norm.places[0]]
        parameters = [port for place, port in enumerate(node.inputs) if place != norm.places[0]]
        vectors = self._vectors(parameters)
        if vectors is None or self._takes_statistics(node):
            return
        values = dict(zip(parameters, vectors, strict=True))
        mean, variance, offset, *scales = (values[node.inputs[place]] for place in norm.places[1:])
        with np.errstate(all="ignore"):
            root = np.sqrt(variance + node.attrs[norm.epsilon])
            factor = scales[0] / root if scales else 1 / root
            bias = offset - mean * factor
        self._fold(node, features, parameters, factor, bias)

    def _takes_statistics(self, node: Node) -> bool:
        """Return whether any output but the normalised features is used."""
        if any(port.node == node.name and port.slot for port in self._asked):
            return True
        return any(
            port.node == node.name and port.slot
            for taker in self._takers.get(node.name, ())
            for port in taker.inputs
        )

    def _fold_product(self, node: Node) -> None:
        for features, vector in (node.inputs, node.inputs[::-1]):
            found = self._constant(vector)
            convolution = self._graph.nodes.get(features.node)
            if found is not None and convolution is not None and convolution.has(Convolves):
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
        """Return the float32 constant of a port, in double precision."""
        attr = self._constant_attr(port)
        return None if attr is None else to_array(attr.value()).astype(np.float64)

    def _constant_attr(self, port: OutputPort) -> TensorAttr | None:
        node = self._graph.nodes.get(port.node)
        constant = None if node is None else node.trait(Constant)
        if node is None or constant is None or port in self._fed:
            return None
        attr = node.attrs[constant.value]
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
        convolves = None if convolution is None else convolution.trait(Convolves)
        if (
            convolution is None
            or convolves is None
            or convolution.name in self._kept
            or convolution.name in self._made
            or len(self._takers[convolution.name]) != 1
            or convolution.device != node.device
            or OutputPort(node.name, 0) in self._fed
        ):
            return
        source = convolution.inputs[convolves.places[1]]
        plain = self._constant_attr(source)
        filters = None if plain is None else to_array(plain.value())
        if plain is None or filters is None or filters.ndim != 4:
            return
        width = math.prod(filters.shape[-convolves.channel_axes :])
        layout = convolution.attrs.get("data_format", _CHANNELS_LAST)
        if factor.size not in (1, width) or (bias is not None and bias.size != width):
            return
        if node.attrs.get("data_format", _CHANNELS_LAST) != layout:
            return
        scaled = _scaled(plain, filters, width, factor)
        offset = None if bias is None else _single(bias)
        if scaled is None or (bias is not None and offset is None):
            return
        kernel = self._made_const(f"{convolution.name}/folded_filters", scaled, convolution)
        changed = list(convolution.inputs)
        changed[convolves.places[1]] = OutputPort(kernel.name, 0)
        behind = tuple(changed)
        # The result waits for the nodes that the constants waited for.
        controls = dict.fromkeys((*convolution.control_inputs, *node.control_inputs))
        for port in (*constants, source):
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
            make.node(
                op_registry(),
                "BiasAdd",
                node.name,
                inputs=(features, OutputPort(offsets.name, 0)),
                controls=tuple(controls),
                device=node.device,
                creation_site=node.creation_site,
                T=dtypes.float32,
                data_format=layout,
            ),
        ]

    def _made_const(self, name: str, value: TensorAttr, like: Node) -> Node:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return make.const(op_registry(), name, value, device=like.device)


#: {filters: {factors as bytes: the filters multiplied}}: every plan of a graph makes the same ones.
_made_before: Final[weakref.WeakKeyDictionary[TensorAttr, dict[bytes, TensorAttr]]] = (
    weakref.WeakKeyDictionary()
)


def _scaled(plain: TensorAttr, filters: Array, width: int, factor: Array) -> TensorAttr | None:
    """Return the filters times the factors of their channels; None if that overflows.

    plain     the filters
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
    """Return values in double precision as a float32 constant; None if one of them is not finite then."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = values.astype(np.float32)
    return TensorAttr.of(unchangeable(rounded), dtypes.float32) if np.isfinite(rounded).all() else None
