"""Faults of a graph: all of them, found in linear time.

`graph_faults` is what importing a graph checks and what tests run after every pass. A graph is legal if

* names are well formed, ops are known (an unknown op is a fault only if `strict`);
* each attribute that the op asks for is there, has its type, and a value that the op allows; no node has an
  attribute that its op lacks, unless it may be ignored (`ir.stripping`);
* each data input exists and has the type that the op wants, and there are as many as it wants; control
  inputs exist;
* every cycle goes through the back edge of a loop, from a NextIteration to a Merge;
* all inputs of a node, control inputs too, come from one frame (Enter and Exit alone cross frames).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from flowengine.core import names
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir import traverse
from flowengine.ir.argdef import AttrDef
from flowengine.ir.attrs import AttrValue, FuncAttr, PlaceholderAttr, TensorAttr
from flowengine.ir.attrvalue import UnreadableAttr
from flowengine.ir.frames import FramePath, describe_frame
from flowengine.ir.graph import Node, NodeGraph, OutputPort, is_entry
from flowengine.ir.names import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_ITERATION_OPS
from flowengine.ir.opdef import OpDef
from flowengine.ir.signature import PORTS_MAX, SignatureCache, Types
from flowengine.ir.stripping import unknown_attr_fault, unknown_attrs
from flowengine.ir.traits import Constant

#: Loops within loops. A path of frames is kept for every node, so the depth must have a bound.
FRAME_DEPTH_MAX: Final = 100

#: A message names so many faults; `InvalidArgumentError.faults` has all.
FAULTS_SHOWN: Final = 10

_PYTHON_TYPES: Final[dict[str, type]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "string": bytes,
    "type": DType,
    "shape": TensorShape,
    "tensor": TensorAttr,
    "func": FuncAttr,
}


def check_graph(graph: NodeGraph, *, strict: bool = False, supplied: Collection[OutputPort] = ()) -> None:
    """Raise one InvalidArgumentError with every fault of the graph; nothing if it is legal.

    strict     an op without a definition is a fault
    supplied   tensors that come from outside (feeds): they need not exist in the graph
    """
    faults = graph_faults(graph.nodes, strict=strict, supplied=supplied)
    if faults:
        raise fault_error(faults)


def fault_error(faults: list[str]) -> InvalidArgumentError:
    """One error for all faults."""
    if len(faults) == 1:
        return InvalidArgumentError(f"the graph is not legal: {faults[0]}", faults=faults)
    shown = "\n".join(f"  {fault}" for fault in faults[:FAULTS_SHOWN])
    more = len(faults) - FAULTS_SHOWN
    rest = f"\n  and {more} more (see the error's `faults`)" if more > 0 else ""
    return InvalidArgumentError(f"the graph has {len(faults)} faults:\n{shown}{rest}", faults=faults)


def graph_faults(
    nodes: Mapping[str, Node],
    *,
    strict: bool = False,
    supplied: Collection[OutputPort] = (),
    frames: bool = True,
) -> list[str]:
    """Every fault, in the order of the nodes, structural ones of the whole graph last.

    frames   whether inputs from two frames are one. Importing a graph leaves them to the step that reaches
             them, as TensorFlow does: the rest of the graph runs.
    """
    faults: list[str] = []
    signatures = SignatureCache()
    #: What the inputs must be, for nodes whose op is known and whose attributes are right; the outputs
    #: of the others have no type.
    wanted: dict[str, Types] = {}
    for node in nodes.values():
        if not names.is_valid_node_name(node.name, internal=True):
            faults.append(f"{_label(node)} has a name that no node may have")
        if node.op_def is None:
            if strict:
                faults.append(f"{_label(node)}: Op type not registered '{node.op}'")
            continue
        wrong = attr_faults(node.op_def, node.attrs)
        if wrong:
            faults.extend(f"{_label(node)}: {fault}" for fault in wrong)
            continue
        types = signatures.types(node.op_def, node.attrs)
        if types is None:
            faults.append(f"{_label(node)}: its attributes ask for more than {PORTS_MAX} inputs or outputs")
        else:
            wanted[node.name] = types[0]
    for node in nodes.values():
        wrong = _input_faults(node, nodes, wanted, supplied)
        if wrong:
            faults.extend(f"{_label(node)}: {fault}" for fault in wrong)
    order = traverse.topological_order(nodes)
    if len(order) != len(nodes):
        faults.extend(_cycle_faults(nodes))
    faults.extend(_frame_faults(nodes, order, supplied, frames))
    faults.extend(_entry_faults(nodes))
    return faults


def _label(node: Node) -> str:
    return f"{node.op or 'a node without op,'} '{node.name}'"


# Attributes


def attr_faults(op_def: OpDef, attrs: Mapping[str, AttrValue]) -> list[str]:
    """List the faults in the attributes of a node of this op."""
    faults: list[str] = []
    for definition in op_def.attrs:
        name = definition.name
        if name not in attrs:
            faults.append(f"attribute '{name}' ({definition.type}) is missing")
            continue
        value = attrs[name]
        # The commonest attribute by far.
        if definition.type == "type" and type(value) is DType and not value.is_ref:
            if definition.allowed is not None and value not in definition.allowed:
                faults.append(_not_allowed(definition, value))
            continue
        fault = _attr_fault(definition, value)
        if fault is not None:
            faults.append(fault)
    if faults or len(attrs) != len(op_def.attrs):
        faults += [unknown_attr_fault(op_def, name, attrs[name]) for name in unknown_attrs(op_def, attrs)]
    constant = op_def.traits.get(Constant)
    if isinstance(constant, Constant) and not faults:
        value, dtype = attrs.get(constant.value), op_def.output_types(attrs)[0]
        if isinstance(value, TensorAttr) and value.dtype is not dtype:
            told = op_def.outputs[0].type_attr or "type of the output"
            faults.append(f"attribute '{constant.value}' is {value.dtype}, attribute '{told}' {dtype}")
    return faults


def _attr_fault(definition: AttrDef, value: AttrValue) -> str | None:
    kind = definition.type
    if not kind.startswith("list("):
        return _value_fault(definition, kind, value)
    if not isinstance(value, tuple):
        return f"attribute '{definition.name}' should be a {kind}, it is {_describe(value)}"
    for item in value:
        fault = _value_fault(definition, kind[5:-1], item)
        if fault is not None:
            return fault
    if definition.minimum is not None and len(value) < definition.minimum:
        return (
            f"attribute '{definition.name}' has {len(value)} elements, "
            f"the op wants at least {definition.minimum}"
        )
    return None


def _value_fault(definition: AttrDef, kind: str, value: AttrValue) -> str | None:
    if type(value) is not _PYTHON_TYPES[kind]:
        if isinstance(value, UnreadableAttr):
            return f"attribute '{definition.name}': {value.reason}"
        return f"attribute '{definition.name}' should be a {definition.type}, it is {_describe(value)}"
    if isinstance(value, DType) and value.is_ref:
        return f"attribute '{definition.name}' must not be the reference type {value}"
    if definition.allowed is not None and value not in definition.allowed:
        return _not_allowed(definition, value)
    minimum = definition.minimum if definition.type == "int" else None
    if isinstance(value, int) and minimum is not None and value < minimum:
        return f"attribute '{definition.name}' is {value}, the op wants at least {minimum}"
    return None


def _not_allowed(definition: AttrDef, value: AttrValue) -> str:
    allowed = ", ".join(_spell(item) for item in definition.allowed or ())
    return f"attribute '{definition.name}' is {_spell(value)}, the op allows {allowed}"


def _spell(value: AttrValue) -> str:
    if isinstance(value, bytes):
        return repr(value[:60].decode("utf-8", "backslashreplace"))
    return str(value)


def _describe(value: AttrValue) -> str:
    if value is None:
        return "not set"
    if isinstance(value, tuple):
        return "a list"
    if isinstance(value, PlaceholderAttr):
        return f"a placeholder for '{value.name}', which stands only in a function"
    kind = next((k for k, t in _PYTHON_TYPES.items() if type(value) is t), type(value).__name__)
    return f"a {kind}"


# Inputs


def _input_faults(
    node: Node, nodes: Mapping[str, Node], wanted: Mapping[str, Types], supplied: Collection[OutputPort]
) -> list[str]:
    faults: list[str] = []
    types = wanted.get(node.name)
    if types is not None and len(types) != len(node.inputs):
        faults.append(f"has {len(node.inputs)} inputs, the op wants {len(types)}")
        types = None
    for index, port in enumerate(node.inputs):
        source = nodes.get(port.node)
        if source is None:
            if port not in supplied:
                faults.append(f"input {index} is '{port}', but no node has that name")
            continue
        if port.node not in wanted:
            continue
        offered = source.output_types
        if port.slot >= len(offered):
            faults.append(f"input {index} is '{port}', but {_label(source)} has {len(offered)} outputs")
        elif types is not None:
            given, want = offered[port.slot], types[index]
            if given is not want and (want.is_ref or given.base is not want):
                faults.append(f"input {index} ('{port}') is {given}, the op wants {want}")
    faults.extend(
        f"control input '^{name}', but no node has that name"
        for name in node.control_inputs
        if name not in nodes
    )
    return faults


# Cycles and frames


def _cycle_faults(nodes: Mapping[str, Node]) -> Iterable[str]:
    for cycle in traverse.cycles(nodes):
        path = " -> ".join(f"'{name}'" for name in (*cycle[:6], *(("...",) if len(cycle) > 6 else ())))
        yield f"a cycle that is not a loop (no NextIteration leads back to a Merge): {path}"


def _frame_faults(
    nodes: Mapping[str, Node], order: Iterable[str], supplied: Collection[OutputPort], crossings: bool
) -> Iterable[str]:
    """As `frames.assign_frames`, but goes on after a fault, and forgives what is dangling.

    crossings   whether inputs from two frames are a fault
    """
    delivered: dict[str, FramePath] = {}
    for name in order:
        node = nodes[name]
        frame: FramePath | None = None
        first = ""
        sources = (
            [port.node for port in node.inputs if port not in supplied]
            if supplied
            else [port.node for port in node.inputs]
        )
        for source in (*sources, *node.control_inputs):
            arriving = delivered.get(source)
            if arriving is None:
                # A back edge, a dangling input, or the victim of an earlier fault.
                continue
            if frame is None:
                frame, first = arriving, source
            elif crossings and arriving is not frame and arriving != frame:
                yield (
                    f"{_label(node)} has inputs from two frames: '{first}' delivers into "
                    f"{describe_frame(frame)}, '{source}' into {describe_frame(arriving)}; pass the value "
                    "through Enter or Exit"
                )
                break
        delivered[name] = frame or ()
        if node.op in ENTER_OPS:
            name_of_frame: Any = node.attrs.get("frame_name")
            if len(delivered[name]) == FRAME_DEPTH_MAX:
                yield f"{_label(node)} is inside more than {FRAME_DEPTH_MAX} nested loops"
            elif isinstance(name_of_frame, bytes):
                delivered[name] += (name_of_frame.decode("utf-8", "surrogateescape"),)
        elif node.op in EXIT_OPS:
            if not frame and crossings:
                yield f"{_label(node)} is not inside a loop: no Enter leads to it"
            delivered[name] = delivered[name][:-1]
    yield from _back_edge_faults(nodes, delivered, crossings)


def _back_edge_faults(
    nodes: Mapping[str, Node], delivered: Mapping[str, FramePath], crossings: bool
) -> Iterable[str]:
    for node in nodes.values():
        if node.op not in MERGE_OPS or node.name not in delivered:
            continue
        frame = delivered[node.name]
        for port in node.inputs:
            source = nodes.get(port.node)
            if source is None or source.op not in NEXT_ITERATION_OPS or source.name not in delivered:
                continue
            if crossings and not delivered[source.name]:
                yield f"{_label(source)} leads back to '{node.name}' in the root frame: no Enter leads to it"
            elif crossings and delivered[source.name] != frame:
                yield (
                    f"{_label(node)} is in {describe_frame(frame)}, its back edge comes from "
                    f"'{source.name}' in {describe_frame(delivered[source.name])}"
                )


def _entry_faults(nodes: Mapping[str, Node]) -> Iterable[str]:
    """Of Merges at the head of loops that nothing enters, or that several inputs enter.

    TensorFlow does not import them. Which of several inputs begins the loop would be a matter of time.
    """
    for node in nodes.values():
        if node.op not in MERGE_OPS:
            continue
        entries = [port for port in node.inputs if is_entry(port, nodes)]
        if not entries and node.inputs:
            yield (
                f"{_label(node)} is the head of a loop that nothing enters: all its {len(node.inputs)} "
                "inputs are back edges, from a NextIteration; one has to come from an Enter"
            )
        elif 1 < len(entries) < len(node.inputs):
            given = ", ".join(f"'{port}'" for port in entries)
            yield (
                f"{_label(node)} is the head of a loop that {len(entries)} inputs enter ({given}), beside "
                "the back edge from a NextIteration: a loop has one; merge them before its Enter"
            )
