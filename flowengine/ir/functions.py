"""Functions of a graph's library: from a FunctionDef and attributes to a graph of its own.

In a FunctionDef an input is written `argument`, `node:output_arg:index`, or, for a whole list, without
the index, and attributes may be placeholders for those of the caller. `instantiate` resolves both: the
body it returns is an ordinary graph whose arguments are `_Arg` nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.ir.argdef import ArgDef
from flowengine.ir.attrs import AttrValue
from flowengine.ir.attrvalue import decode_attr, encode_attr
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.graphdef import graph_from_def
from flowengine.ir.names import ARGUMENT
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ir.opdefproto import op_def_from_proto
from flowengine.ir.proto import AttrValue as AttrValueProto
from flowengine.ir.proto import FunctionDef, FunctionDefLibrary, GraphDef, NodeDef

#: How many ops an error names beside the first.
_NAMED_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class UnknownOp:
    """A node whose op has no definition; `function` is "" for a node of the graph itself."""

    op: str
    node: str
    function: str = ""

    @property
    def place(self) -> str:
        """The node, and the function that it belongs to."""
        return f"node '{self.node}'" + (f" of function '{self.function}'" if self.function else "")


def unknown_nodes(nodes: Iterable[Node], function: str = "") -> list[UnknownOp]:
    """List the nodes of a graph, or of a function's body, whose op has no definition."""
    return [UnknownOp(node.op, node.name, function) for node in nodes if node.op_def is None]


def unregistered(found: Iterable[UnknownOp]) -> NotFoundError:
    """Return the error for these nodes, of which there is at least one: it names each op once, at a node.

    The error is located at the first node, and its `missing_op` is that node's op.
    """
    by_op: dict[str, UnknownOp] = {}
    for each in found:
        by_op.setdefault(each.op, each)
    first, *others = by_op.values()
    text = f"Op type not registered '{first.op}'"
    if first.function:
        text += f" (in function '{first.function}')"
    if others:
        named = [f"'{each.op}' at {each.place}" for each in others[:_NAMED_MAX]]
        more = len(others) - len(named)
        text += f"; nor {'is' if len(others) == 1 else 'are'} {', '.join(named)}" + (
            f" and {more} more ops" if more else ""
        )
    error = NotFoundError(text)
    error.missing_op = first.op
    error.locate(node_name=first.node, op_type=first.op)
    return error


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """An instantiated function.

    arguments   one port an argument, lists flattened: what a caller supplies
    results     one port a result, lists flattened
    targets     nodes that run for their effect: stateful ones and the control results
    """

    name: str
    graph: NodeGraph
    arguments: tuple[OutputPort, ...]
    results: tuple[OutputPort, ...]
    targets: tuple[str, ...]


class FunctionLibrary:
    """The functions that a graph brings with it, by name."""

    def __init__(self, library: object, registry: OpRegistry, producer: int = 0) -> None:
        functions = library.function if isinstance(library, FunctionDefLibrary) else ()
        self._functions: dict[str, FunctionDef] = {f.signature.name: f for f in functions}
        self._library = library if isinstance(library, FunctionDefLibrary) else FunctionDefLibrary()
        #: The ops that bodies are made of.
        self.registry = registry
        self._producer = producer

    @property
    def definitions(self) -> FunctionDefLibrary:
        """All of them, as a graph holds them."""
        return self._library

    def gradient_of(self, name: str) -> str | None:
        """The function that the library says is the gradient of one; None if it says nothing."""
        for each in self._library.gradient:
            if each.function_name == name:
                return each.gradient_func
        return None

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def signature(self, name: str) -> OpDef:
        """The signature of a function; NotFoundError naming those that there are."""
        return op_def_from_proto(self._function(name).signature)

    def _function(self, name: str) -> FunctionDef:
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(sorted(self._functions)[:10]) or "none"
            raise NotFoundError(f"the graph's library has no function '{name}' (it has: {known})")
        return function

    def instantiate(self, name: str, attrs: Mapping[str, AttrValue]) -> FunctionBody:
        """The body for these attributes.

        Raises NotFoundError for an unknown function, and with `missing_op` where the body needs outputs of an
        op that has no definition; InvalidArgumentError for a body that is not legal or an attribute that is
        missing.
        """
        function = self._function(name)
        return _Instantiation(function, attrs, self, self._producer).make()

    def unknown_ops(self, names: Iterable[str]) -> list[UnknownOp]:
        """List the nodes whose op has no definition, in these functions and in all that they lead to."""
        found: list[UnknownOp] = []
        waiting, seen = list(dict.fromkeys(names)), set(names)
        while waiting:
            function = self._functions.get(waiting.pop(0))
            for node in () if function is None else function.node_def:
                if self.op_def(node.op) is None:
                    assert function is not None
                    found.append(UnknownOp(node.op, node.name, function.signature.name))
                for name in _named_functions(node):
                    if name not in seen:
                        seen.add(name)
                        waiting.append(name)
        return found

    def op_def(self, op: str) -> OpDef | None:
        """The definition of an op of the registry, or of a function used as one."""
        if op in self._functions and op not in self.registry:
            return self.signature(op)
        return self.registry.find(op)


def _named_functions(node: NodeDef) -> Iterator[str]:
    """The functions that a node may call: those that its attributes name, and its op, if that is one."""
    yield node.op
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            yield value.func.name
        elif kind == "list":
            for each in value.list.func:
                yield each.name


class _Instantiation:
    """The tables that exist only while one body is made."""

    def __init__(
        self,
        function: FunctionDef,
        attrs: Mapping[str, AttrValue],
        library: FunctionLibrary,
        producer: int,
    ) -> None:
        self.function = function
        self.signature = op_def_from_proto(function.signature)
        self.attrs = self.signature.with_defaults(attrs)
        self.library = library
        self.graph_def = GraphDef()
        self.graph_def.versions.producer = producer
        #: {argument: the names of its _Arg nodes}
        self.arguments: dict[str, list[str]] = {}
        #: {node: {output argument: (first slot, number of slots)}}
        self.outputs: dict[str, dict[str, tuple[int, int]]] = {}
        #: Nodes whose op has no definition, so that nobody knows their outputs.
        self.opaque: set[str] = set()

    def make(self) -> FunctionBody:
        self._add_arguments()
        nodes = [self._add_node(proto) for proto in self.function.node_def]
        for proto, original in zip(nodes, self.function.node_def, strict=True):
            proto.input.extend(self._inputs(original))
        graph = graph_from_def(self.graph_def, self.library.registry, library=self.library.definitions)
        results = [
            OutputPort(node, slot)
            for arg in self.signature.outputs
            for node, slot in self._places(self._returned(arg))
        ]
        if any(graph[port.node].op_def is None for port in results if port.node in graph):
            raise self._lacking_ops()
        targets = [node for node in self.function.control_ret.values() if node in graph]
        targets += [
            node.name
            for node in graph
            if node.op_def is not None and node.op_def.is_stateful and node.op != ARGUMENT
        ]
        arguments = tuple(OutputPort(name, 0) for names in self.arguments.values() for name in names)
        return FunctionBody(
            self.signature.name, graph, arguments, tuple(results), tuple(dict.fromkeys(targets))
        )

    def _add_arguments(self) -> None:
        taken = {node.name for node in self.function.node_def}
        prefix = "arg"
        while any(name.startswith(prefix + "/") for name in taken):
            prefix += "_"
        index = 0
        for arg in self.signature.inputs:
            names = self.arguments[arg.name] = []
            for dtype in self._types(arg):
                proto = self.graph_def.node.add(name=f"{prefix}/{index}", op=ARGUMENT)
                proto.attr["T"].CopyFrom(encode_attr(dtype))
                proto.attr["index"].i = index
                names.append(proto.name)
                index += 1

    def _types(self, arg: ArgDef) -> tuple[AttrValue, ...]:
        try:
            return tuple(arg.types(self.attrs))
        except KeyError as error:
            raise InvalidArgumentError(
                f"function '{self.signature.name}' is called without its attribute {error}"
            ) from None

    def _add_node(self, original: NodeDef) -> NodeDef:
        proto = self.graph_def.node.add(name=original.name, op=original.op, device=original.device)
        for key, value in original.attr.items():
            proto.attr[key].CopyFrom(self._substitute(value))
        op_def = self.library.op_def(original.op)
        slots: dict[str, tuple[int, int]] = {}
        if op_def is None:
            self.opaque.add(original.name)
        else:
            attrs = op_def.with_defaults({k: decode_attr(v) for k, v in proto.attr.items()})
            first = 0
            for arg in op_def.outputs:
                try:
                    count = len(arg.types(attrs))
                except (KeyError, TypeError):
                    break  # the attribute is missing: reading the graph says so
                slots[arg.name] = (first, count)
                first += count
        self.outputs[original.name] = slots
        return proto

    def _substitute(self, value: AttrValueProto) -> AttrValueProto:
        """An attribute with the caller's in place of placeholders."""
        kind = value.WhichOneof("value")
        if kind == "placeholder":
            if value.placeholder not in self.attrs:
                raise InvalidArgumentError(
                    f"function '{self.signature.name}' is called without its attribute '{value.placeholder}'"
                )
            return encode_attr(self.attrs[value.placeholder])
        if kind == "func" and value.func.attr:
            result = AttrValueProto()
            result.func.name = value.func.name
            for key, inner in value.func.attr.items():
                result.func.attr[key].CopyFrom(self._substitute(inner))
            return result
        return value

    def _inputs(self, original: NodeDef) -> Iterator[str]:
        for text in original.input:
            if text.startswith("^"):
                if text[1:] not in self.arguments:  # an argument is there before anything runs
                    yield text
                continue
            for node, slot in self._places(text):
                yield f"{node}:{slot}" if slot else node

    def _returned(self, arg: ArgDef) -> str:
        source = self.function.ret.get(arg.name)
        if source is None:
            raise InvalidArgumentError(
                f"function '{self.signature.name}' does not say what its result '{arg.name}' is"
            )
        return source

    def _places(self, text: str) -> list[tuple[str, int]]:
        """The (node, slot) pairs that an input stands for: several for a list."""
        name, _, rest = text.partition(":")
        names = self.arguments.get(name)
        if names is not None:
            if rest.isdigit():
                return [(names[int(rest)], 0)] if int(rest) < len(names) else self._unknown(text)
            return [(argument, 0) for argument in names]
        slots = self.outputs.get(name)
        if slots is None:
            return self._unknown(text)
        output, _, index = rest.partition(":")
        if not output or output.isdigit():
            return [(name, int(output or 0))]
        if output not in slots:
            if name in self.opaque:
                raise self._lacking_ops()
            return self._unknown(text)
        first, count = slots[output]
        if index:
            return [(name, first + int(index))] if int(index) < count else self._unknown(text)
        return [(name, first + offset) for offset in range(count)]

    def _lacking_ops(self) -> NotFoundError:
        return unregistered(self.library.unknown_ops([self.signature.name]))

    def _unknown(self, text: str) -> list[tuple[str, int]]:
        raise InvalidArgumentError(f"function '{self.signature.name}' uses '{text}', which it does not have")
