"""A function of one row as a function of many: what parses each record parses a whole batch at once.

    [f(row) for row in rows], stacked  ->  g(rows)

Only functions are rewritten whose every node says the same of a row whatever stands in the others: the
parsers of CSV and of examples, conversions of numbers, and what hands its input on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from flowengine.core import dtypes
from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir import make
from flowengine.ir.attrs import AttrValue, TensorAttr
from flowengine.ir.functions import FunctionBody
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.opdef import OpRegistry
from flowengine.ir.traits import Constant

#: The nodes that take a node's place, the last of them under its name; none where it cannot be said of rows.
_Rule: TypeAlias = Callable[[Node, NodeGraph, OpRegistry], list[Node]]


def rows_of(body: FunctionBody, count: int, ops: OpRegistry) -> FunctionBody | None:
    """The function of many rows: its first `count` arguments and all its results have a new first axis.

    The other arguments are as they were. None for a function that is not known to be of this kind, and for
    one with effects.
    """
    if body.targets:
        return None
    rows = set(body.arguments[:count])
    nodes = {port.node: _of_any_shape(body.graph[port.node]) for port in body.arguments}
    for node in _in_order(body.graph, body.results):
        if node.name in nodes:
            continue
        of_rows = [port in rows for port in node.inputs]
        if node.control_inputs or node.op_def is None:
            return None
        if not any(of_rows):
            made = [] if node.is_stateful else [node]
        elif any(of_rows[1:]):
            made = []
        else:
            made = _RULES.get(node.op, _refuse)(node, body.graph, ops)
            rows |= {OutputPort(node.name, slot) for slot in range(len(node.output_types))}
        if not made or any(each.name in body.graph for each in made[:-1]):
            return None
        nodes.update({each.name: each for each in made})
    if not rows.issuperset(body.results):
        return None
    return replace(body, graph=body.graph.rewritten(nodes.values()))


def _in_order(graph: NodeGraph, results: Sequence[OutputPort]) -> Iterator[Node]:
    """The nodes that the results need, each behind its inputs."""
    known: set[str] = set()
    stack = [(port.node, False) for port in results]
    while stack:
        name, is_ready = stack.pop()
        if is_ready:
            yield graph[name]
        elif name not in known:
            known.add(name)
            stack.append((name, True))
            stack += [(port.node, False) for port in graph[name].inputs]


def _of_any_shape(argument: Node) -> Node:
    attrs = _without_shapes(argument)
    return replace(argument, attrs={**attrs, "shape": UNKNOWN_SHAPE} if "shape" in attrs else attrs)


def _without_shapes(node: Node) -> dict[str, AttrValue]:
    """The attributes less what was told of the shapes of one row."""
    return {name: value for name, value in node.attrs.items() if name != "_output_shapes"}


def _refuse(node: Node, graph: NodeGraph, ops: OpRegistry) -> list[Node]:
    return []


def _keep(node: Node, graph: NodeGraph, ops: OpRegistry) -> list[Node]:
    """It says the same of one row and of many."""
    return [replace(node, attrs=_without_shapes(node))]


def _value_of(port: OutputPort, graph: NodeGraph) -> np.ndarray | None:
    """The value of a constant, None of anything else."""
    node = graph[port.node]
    constant = node.trait(Constant)
    attr = None if constant is None else node.attrs[constant.value]
    return np.asarray(attr.value()) if isinstance(attr, TensorAttr) else None


def _parse_examples(node: Node, graph: NodeGraph, ops: OpRegistry) -> list[Node]:
    """Examples with dense features of known shapes alone: the others have as many values as each has."""
    attrs = node.attrs
    names = _value_of(node.inputs[1], graph)
    if attrs["num_sparse"] or attrs["ragged_value_types"] or names is None or names.size:
        return []
    return _keep(node, graph, ops) if all(each.is_fully_defined for each in attrs["dense_shapes"]) else []


def _parse_single_example(node: Node, graph: NodeGraph, ops: OpRegistry) -> list[Node]:
    """ParseSingleExample(example)  ->  ParseExampleV2(examples), whose keys are inputs."""
    attrs = node.attrs
    if attrs["num_sparse"] or not all(each.is_fully_defined for each in attrs["dense_shapes"]):
        return []
    keys = np.empty(len(attrs["dense_keys"]), object)
    keys[:] = attrs["dense_keys"]
    none = np.empty(0, object)
    texts = [
        make.const(ops, f"{node.name}/{called}", TensorAttr.of(value, dtypes.string))
        for called, value in (("names", none), ("dense_keys", keys))
    ]
    nothing, of_keys = (OutputPort(each.name, 0) for each in texts)
    parser = make.node(
        ops,
        "ParseExampleV2",
        node.name,
        inputs=(node.inputs[0], nothing, nothing, of_keys, nothing, *node.inputs[1:]),
        device=node.device,
        creation_site=node.creation_site,
        num_sparse=0,
        sparse_types=(),
        ragged_value_types=(),
        ragged_split_types=(),
        Tdense=attrs["Tdense"],
        dense_shapes=attrs["dense_shapes"],
    )
    return [*texts, parser]


_RULES: Final[dict[str, _Rule]] = {
    "Cast": _keep,
    "DecodeCSV": _keep,
    "DecodeCompressed": _keep,
    "Identity": _keep,
    "ParseExampleV2": _parse_examples,
    "ParseSingleExample": _parse_single_example,
    "StringToNumber": _keep,
}


__all__ = ["rows_of"]
