"""A graph whose inputs are arguments as a FunctionDef: what a library holds, and TensorFlow reads.

In a FunctionDef an input is written `argument`, or `node:output_arg:index`; `FunctionLibrary.instantiate` is
the way back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.graphdef import write_node
from flowengine.ir.names import ARGUMENT
from flowengine.ir.proto import FunctionDef, NodeDef
from flowengine.ir.tensorproto import set_type


def function_def(
    name: str,
    graph: NodeGraph,
    arguments: Mapping[str, OutputPort],
    results: Mapping[str, OutputPort],
    is_stateful: bool,
) -> FunctionDef:
    """The definition of a function.

    graph       its body, in which the nodes of the arguments are of the op `_Arg`
    arguments   {name: where the body has it}, in order
    results     {name: where the body has it}, in order; a name must be none of the arguments'

    Nodes that have an effect become control results, so that they run whoever reads the definition. Raises
    InvalidArgumentError for a result that is a reference, or a node of an op whose outputs are not known.
    """
    definition = FunctionDef()
    signature = definition.signature
    signature.name = name
    signature.is_stateful = is_stateful
    for argument, port in arguments.items():
        set_type(signature.input_arg.add(name=argument), _type_of(graph, port), "type")
    for result, port in results.items():
        set_type(signature.output_arg.add(name=result), _type_of(graph, port), "type")
    names = {port: argument for argument, port in arguments.items()}
    for node in graph:
        if node.op == ARGUMENT:
            continue
        _write(definition.node_def.add(), graph, node, names)
        if node.is_stateful:
            definition.control_ret[node.name] = node.name
            signature.control_output.append(node.name)
    for result, port in results.items():
        definition.ret[result] = _spelled(graph, port, names)
    return definition


def _type_of(graph: NodeGraph, port: OutputPort) -> DType:
    dtype = graph.nodes[port.node].output_types[port.slot]
    if dtype.is_ref:
        raise InvalidArgumentError(
            f"'{port}' is a reference to a variable, which a function cannot take or give: give its value"
        )
    return dtype


def _write(target: NodeDef, graph: NodeGraph, node: Node, names: Mapping[OutputPort, str]) -> None:
    write_node(target, node)
    target.ClearField("input")
    target.input.extend(_spelled(graph, port, names) for port in node.inputs)
    taken = {port.node for port in names}
    target.input.extend(f"^{name}" for name in node.control_inputs if name not in taken)


def _spelled(graph: NodeGraph, port: OutputPort, names: Mapping[OutputPort, str]) -> str:
    """A port as FunctionDefs name it."""
    if port in names:
        return names[port]
    node = graph.nodes[port.node]
    if node.op_def is None:
        raise InvalidArgumentError(
            f"{node.op} '{node.name}' is of an op that is not known here: a function names outputs by the "
            "op's definition"
        )
    first = 0
    for output in node.op_def.outputs:
        count = len(output.types(node.attrs))
        if port.slot < first + count:
            return f"{port.node}:{output.name}:{port.slot - first}"
        first += count
    raise AssertionError(f"'{port}' is no output of its node")


def fitting_names(wanted: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Names for arguments: small letters, digits and `_`, none twice and none of those that are taken."""
    found: list[str] = []
    for index, name in enumerate(wanted):
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name.lower())
        if not base[:1].isalpha():
            base = f"arg_{index}"
        candidate, number = base, 0
        while candidate in found or candidate in taken:
            number += 1
            candidate = f"{base}_{number}"
        found.append(candidate)
    return found


__all__ = ["fitting_names", "function_def"]
