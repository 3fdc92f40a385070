"""Branches and loops as the messages of a MetaGraphDef, and back: what TensorFlow differentiates by.

The collections `cond_context` and `while_context` list those that stand in no other; each message holds those
within it. TensorFlow takes the context of a node from there when it reads a MetaGraphDef, and without it
cannot extend a loop or differentiate it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from flowengine.core.errors import NotFoundError
from flowengine.core.names import parse_tensor_name
from flowengine.graphs.control.contexts import BranchContext, ControlContext
from flowengine.graphs.control.loops import LoopContext
from flowengine.graphs.tensor import Tensor
from flowengine.ir.graph import OutputPort

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph

#: {collection: the field of a ControlFlowContextDef that holds one of those that it lists}
FIELDS: Final = {"cond_context": "cond_ctxt", "while_context": "while_ctxt"}


def context_to_proto(context: ControlContext) -> Any:
    """The CondContextDef or WhileContextDef of a branch or loop, with those within it."""
    from flowengine.ir.proto import CondContextDef, WhileContextDef

    if isinstance(context, BranchContext):
        message: Any = CondContextDef(
            context_name=context.name,
            pred_name=context.pred.name,
            pivot_name=f"{context.pivot}:0",
            branch=context.branch,
        )
    else:
        assert isinstance(context, LoopContext)
        message = _loop_to_proto(context, WhileContextDef())
    outside = {tensor.name: inside.name for tensor, inside in context.captured.items()}
    if isinstance(context, BranchContext):
        outside[context.pred.name] = context.pred.name
    message.values_def.values.extend(sorted({*outside, *outside.values(), *_values(context)}))
    for name, inside in outside.items():
        message.values_def.external_values[name] = inside
    for nested in context.nested:
        held = message.nested_contexts.add()
        getattr(held, FIELDS[nested.collection]).CopyFrom(context_to_proto(nested))
    return message


def _loop_to_proto(loop: LoopContext, message: Any) -> Any:
    assert loop.goes_on is not None, "a loop is listed once it is closed"
    message.context_name = loop.name
    message.parallel_iterations = loop.attrs["parallel_iterations"]
    message.back_prop = True
    message.swap_memory = loop.swap_memory
    message.pivot_name = loop.goes_on.name
    message.pivot_for_pred_name = loop.merges[0].name
    message.pivot_for_body_name = loop.variables[0].name
    message.loop_exit_names.extend(each.name for each in loop.exits)
    message.loop_enter_names.extend(each.name for each in loop.enters)
    if loop.maximum_iterations is not None:
        message.maximum_iterations_name = loop.maximum_iterations.name
    return message


def _values(context: ControlContext) -> Iterator[str]:
    """The names of what is made in a context or within it: tensors, and operations without one."""
    graph = context.graph
    members = context.members if context.is_loop else [context.pivot, *context.members]
    for name in members:
        node = graph.nodes.get(name)
        if node is not None:
            yield from [f"{name}:{slot}" for slot in range(len(node.output_types))] or [name]
    if isinstance(context, LoopContext):
        # They hand values out and stand outside, and yet are the loop's.
        yield from [each.name for each in context.exits]
    for nested in context.nested:
        yield from _values(nested)


def context_from_proto(graph: Graph, key: str, data: bytes, *, import_scope: str = "") -> ControlContext:
    """The branch or loop of a message that a collection lists, whose nodes the graph has.

    import_scope   is put before the names. Raises NotFoundError for nodes that are not there, and
                   InvalidArgumentError for names that are none.
    """
    from flowengine.ir.proto import CondContextDef, WhileContextDef

    kind = CondContextDef if key == "cond_context" else WhileContextDef
    scope = f"{import_scope}/" if import_scope else ""
    return _ContextReader(graph, scope).context(kind.FromString(data), key, None)


def carry_contexts(
    source: Graph, graph: Graph, scope: str, names: Mapping[str, str], ports: Mapping[OutputPort, OutputPort]
) -> None:
    """List in a graph the branches and loops of another whose nodes were copied there.

    scope   is put before the names of contexts
    names   {a node of the source: its name in the graph}
    ports   {an output of the source: the output that replaces it in the graph}

    Leaves out contexts whose predicate or pivot was not copied.
    """
    for key in FIELDS:
        for context in source.collection(key):
            if isinstance(context, ControlContext):
                reading = _MappedContextReader(graph, scope, names, ports)
                with contextlib.suppress(NotFoundError):
                    graph.note_context(reading.context(context.to_proto(), key, graph.scopes.context))


class _ContextReader:
    """A reader of one message, which names nodes of a graph under a scope."""

    def __init__(self, graph: Graph, scope: str) -> None:
        self._graph = graph
        self._scope = scope

    def context(self, message: Any, key: str, outer: ControlContext | None) -> ControlContext:
        name = self._scope + message.context_name
        made: ControlContext
        if key == "cond_context":
            pivot = self._tensor(message.pivot_name).node_name
            pred = self._tensor(message.pred_name)
            made = BranchContext(self._graph, name, pred, message.branch, pivot)
        else:
            made = self._loop(message, name)
        made.outer = outer
        values, outside = message.values_def.values, message.values_def.external_values
        made.captured = {
            self._tensor(each): self._tensor(outside[each])
            for each in outside
            if self._has(each) and self._has(outside[each])
        }
        handed_out = set(message.loop_exit_names) if made.is_loop else set()
        # Nested contexts come later, so a node of both is at last in the inner one.
        self._graph.place_in(made, self._nodes(set(values) - set(outside) - handed_out))
        for each in message.nested_contexts:
            field = each.WhichOneof("ctxt")
            inner = "cond_context" if field == FIELDS["cond_context"] else "while_context"
            made.nested.append(self.context(getattr(each, field), inner, made))
        made.members = [each for each in made.members if self._graph.context_of(each) is made]
        return made

    def _loop(self, message: Any, name: str) -> LoopContext:
        loop = LoopContext(self._graph, name, max(message.parallel_iterations, 1), message.swap_memory)
        loop.enters = [self._tensor(each) for each in message.loop_enter_names if self._has(each)]
        loop.exits = [self._tensor(each) for each in message.loop_exit_names if self._has(each)]
        loop.merges = [self._tensor(message.pivot_for_pred_name)]
        loop.variables = [self._tensor(message.pivot_for_body_name)]
        loop.goes_on = self._tensor(message.pivot_name)
        loop.pivot = loop.variables[0].node_name
        if message.maximum_iterations_name:
            loop.maximum_iterations = self._tensor(message.maximum_iterations_name)
        for each in loop.enters:
            loop.attrs["frame_name"] = each.op.get_attr("frame_name")
        return loop

    def _has(self, name: str) -> bool:
        """Whether what is named has to be there: of a message that was read, all of it."""
        return True

    def _tensor(self, name: str) -> Tensor:
        return self._graph.tensor(self._scope + name)

    def _nodes(self, names: Iterable[str]) -> list[str]:
        nodes = {each.partition(":")[0] for each in names}
        return [self._graph[self._scope + each].name for each in sorted(nodes)]


class _MappedContextReader(_ContextReader):
    """A reader of a message of another graph, of which a part was copied under other names."""

    def __init__(
        self, graph: Graph, scope: str, names: Mapping[str, str], ports: Mapping[OutputPort, OutputPort]
    ) -> None:
        super().__init__(graph, scope)
        self._names = names
        self._ports = ports

    def _has(self, name: str) -> bool:
        port = OutputPort(*parse_tensor_name(name))
        return port in self._ports or port.node in self._names

    def _tensor(self, name: str) -> Tensor:
        port = OutputPort(*parse_tensor_name(name))
        instead = self._ports.get(port)
        if instead is not None:
            return Tensor(self._graph, *instead)
        if port.node not in self._names:
            raise NotFoundError(f"'{name}' was not copied")
        return Tensor(self._graph, self._names[port.node], port.slot)

    def _nodes(self, names: Iterable[str]) -> list[str]:
        nodes = {each.partition(":")[0] for each in names}
        return [self._names[each] for each in sorted(nodes) if each in self._names]
