"""A small interpreter of graphs: the definition that the engine is tested against.

It asks instead of being told: the value of an output in an iteration is computed from the values of the
inputs there, each asked for in turn, and remembered. There is no counting, no queue and no schedule, so
what it says follows from a node's definition alone:

* a *tag* says where in the loops a value belongs: ((frame name, iteration), ...) from the root in;
* an Enter's value is there in iteration 0 of its frame, a constant Enter's in every iteration;
* a NextIteration's value is there in the iteration after its own, if it is live;
* an Exit's value is that of the iteration in which it is live; if there is none, it is dead;
* a frame ends with the first iteration in which no NextIteration is live.

A value may be DEAD, where a branch was not taken, or NEVER: an edge on which nothing arrives in this
iteration (the back edge in iteration 0, for one). A node with a NEVER input does not run there.

    >>> evaluate(graph, ["y:0"], {"x:0": np.float32(2)})          # doctest: +SKIP
    [array(4., dtype=float32)]

Kernels are those of this package, or of a registry of one's own. A step that would have to wait (a queue
without elements) is an error.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeAlias, final

import numpy as np

from flowengine.core.arrays import DEAD, WOULD_WAIT, Array, Value, describe, to_array
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, OpError
from flowengine.core.names import parse_tensor_name
from flowengine.ir.frames import FramePath, assign_frames, describe_frame, output_frame
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import ENTER_OPS, EXIT_OPS, MERGE_OPS, NEXT_ITERATION_OPS, SWITCH_OPS
from flowengine.kernels.context import KernelContext
from flowengine.kernels.load import load_all
from flowengine.kernels.registry import KernelRegistry
from flowengine.resources.container import ResourceManager, StepContainer

Tag: TypeAlias = tuple[tuple[str, int], ...]
#: A node in an iteration.
Execution: TypeAlias = tuple[str, Tag]


@final
class _Never:
    def __repr__(self) -> str:
        return "NEVER"


#: Nothing arrives here.
NEVER: Final = _Never()

#: What an execution yields: one value an output, or DEAD or NEVER for all of them.
Outcome: TypeAlias = Any
#: A computation that asks for executions and is sent their outcomes: recursion without Python's stack.
Asking: TypeAlias = Generator[Execution, Outcome, Any]


def evaluate(
    graph: NodeGraph,
    fetches: Sequence[str],
    feeds: Mapping[str, Any] | None = None,
    targets: Iterable[str] = (),
    *,
    resources: ResourceManager | None = None,
    kernels: KernelRegistry | None = None,
) -> list[Array]:
    """Run one step and return an array for each tensor named in `fetches`.

    feeds       {tensor name: value}; overrides that output
    targets     names of nodes to run as well
    resources   holds variables and queues between steps; new ones by default
    kernels     what computes, instead of this package's kernels

    Every node that a fetch or target depends on runs in every iteration that there is. Raises what the
    kernels raise; InvalidArgumentError for a fetch that is dead or lies inside a loop.
    """
    ports = {OutputPort(*parse_tensor_name(name)): value for name, value in (feeds or {}).items()}
    container = StepContainer()
    context = KernelContext(resources=resources or ResourceManager(), step_container=container)
    step = _ReferenceStep(graph, ports, context, kernels or load_all())
    try:
        with np.errstate(all="ignore"):
            return step.run([OutputPort(*parse_tensor_name(name)) for name in fetches], list(targets))
    finally:
        container.clear()


class _ReferenceStep:
    """One evaluation: the graph, what is fed, and everything that has been computed so far."""

    def __init__(
        self,
        graph: NodeGraph,
        feeds: Mapping[OutputPort, Value],
        context: KernelContext,
        kernels: KernelRegistry,
    ) -> None:
        self.graph = graph
        self.context = context
        self.kernels = kernels
        self.outcomes: dict[Execution, Outcome] = {}
        self.frames = assign_frames(graph)
        self.feeds = {port: self._fed(port, value) for port, value in feeds.items()}
        #: The nodes that run, in construction order, by the frame they run in.
        self.members: dict[FramePath, list[Node]] = {}

    def run(self, fetches: Sequence[OutputPort], targets: Sequence[str]) -> list[Array]:
        for port in fetches:
            self._outside_loops(port, "fetched")
        needed = self._needed([*fetches, *(OutputPort(name, -1) for name in targets)])
        for node in self.graph:
            if node.name in needed:
                self.members.setdefault(self.frames[node.name], []).append(node)
        results = [self._result(port, self._answer(self._arriving(port, ()))) for port in fetches]
        self._answer(self._run_frame((), ()))
        return results

    def _fed(self, port: OutputPort, value: Any) -> Value:
        self._outside_loops(port, "fed")
        dtype = self.graph[port.node].output_types[port.slot].base.as_numpy_dtype
        return to_array(value).astype(dtype)

    def _outside_loops(self, port: OutputPort, what: str) -> None:
        frame = output_frame(self.graph[port.node], self.frames[port.node])
        if frame:
            raise InvalidArgumentError(f"{port} lies inside {describe_frame(frame)}: it cannot be {what}")

    def _result(self, port: OutputPort, value: Outcome) -> Array:
        if value is DEAD or value is NEVER:
            raise InvalidArgumentError(f"Retval does not have value: {port} is {value!r}")
        if port not in self.feeds and self.graph[port.node].output_types[port.slot].is_ref:
            value = value.read()
        return to_array(value).copy()

    def _needed(self, wanted: Iterable[OutputPort]) -> set[str]:
        """The nodes that the wanted outputs depend on; what is fed depends on nothing."""
        needed: set[str] = set()
        todo = [port.node for port in wanted if port not in self.feeds]
        while todo:
            name = todo.pop()
            if name in needed:
                continue
            node = self.graph[name]
            needed.add(name)
            todo += [port.node for port in node.inputs if port not in self.feeds]
            todo += [other for other in node.control_inputs if not self._is_fed_placeholder(other)]
        return needed

    def _is_fed_placeholder(self, name: str) -> bool:
        return self.graph[name].op.startswith("Placeholder") and (
            OutputPort(name, 0) in self.feeds and self.graph[name].op != "PlaceholderWithDefault"
        )

    def _answer(self, asking: Asking) -> Any:
        """Run a computation to its end; each execution that it asks for is computed once."""
        stack: list[tuple[Execution | None, Asking]] = [(None, asking)]
        answer: Any = None
        while True:
            try:
                wanted = stack[-1][1].send(answer)
            except StopIteration as stop:
                execution, _ = stack.pop()
                answer = stop.value
                if execution is None:
                    return answer
                self.outcomes[execution] = answer
                continue
            answer = self.outcomes.get(wanted)
            if answer is None:
                stack.append((wanted, self._execute(self.graph[wanted[0]], wanted[1])))

    # -- frames -------------------------------------------------------------------------------------

    def _run_frame(self, path: FramePath, outer: Tag) -> Asking:
        """Everything in a frame and in the frames inside it, for what is not computed for its value."""
        for number in count():
            tag = (*outer, (path[-1], number)) if path else ()
            for node in self.members.get(path, ()):
                yield node.name, tag
            for inner in [p for p in self.members if p[:-1] == path and p]:
                yield from self._run_frame(inner, tag)
            if not path or not (yield from self._goes_on(path, tag)):
                return

    def _goes_on(self, path: FramePath, tag: Tag) -> Asking:
        """Whether there is an iteration after this one."""
        goes_on = False
        for node in self.members[path]:
            if node.op in NEXT_ITERATION_OPS:
                outcome = yield node.name, tag
                goes_on |= outcome is not DEAD and outcome is not NEVER
        return goes_on

    def _delivered(self, node: Node, tag: Tag) -> Asking:
        """The outcome of `node` that its consumers see in the iteration `tag`."""
        if node.op in ENTER_OPS:
            outcome = yield node.name, tag[:-1]
            return outcome if tag[-1][1] == 0 or node.attrs["is_constant"] else NEVER
        if node.op in NEXT_ITERATION_OPS:
            *outer, (frame, number) = tag
            if number == 0:
                return NEVER
            outcome = yield node.name, (*outer, (frame, number - 1))
            return NEVER if outcome is DEAD else outcome
        if node.op in EXIT_OPS:
            path = self.frames[node.name]
            for number in count():
                inner = (*tag, (path[-1], number))
                outcome = yield node.name, inner
                if (outcome is not DEAD and outcome is not NEVER) or not (
                    yield from self._goes_on(path, inner)
                ):
                    return outcome
        return (yield node.name, tag)

    def _arriving(self, port: OutputPort, tag: Tag) -> Asking:
        """Return the value that an output delivers in the iteration `tag`: a value, DEAD or NEVER."""
        if port in self.feeds:
            return self.feeds[port]
        outcome = yield from self._delivered(self.graph[port.node], tag)
        return outcome if outcome is DEAD or outcome is NEVER else outcome[port.slot]

    # -- nodes --------------------------------------------------------------------------------------

    def _execute(self, node: Node, tag: Tag) -> Asking:
        """The outcome of a node in an iteration."""
        values: list[Outcome] = []
        for port in node.inputs:
            value = yield from self._arriving(port, tag)
            values.append(value)
        signals: list[Outcome] = []
        for name in node.control_inputs:
            if not self._is_fed_placeholder(name):
                signal = yield from self._delivered(self.graph[name], tag)
                signals.append(signal)
        if any(signal is NEVER for signal in signals):
            return NEVER
        if node.op in MERGE_OPS:
            return self._merge(node, values)
        if any(value is NEVER for value in values):
            return NEVER
        if any(value is DEAD for value in [*values, *signals]) and node.op != "ControlTrigger":
            return DEAD
        if node.op in SWITCH_OPS:
            data, taken = self._argument(node, 0, values[0]), self._argument(node, 1, values[1])
            return (DEAD, data) if taken else (data, DEAD)
        if node.op in ENTER_OPS | EXIT_OPS | NEXT_ITERATION_OPS:
            return (self._argument(node, 0, values[0]),)
        return self._call(node, values)

    def _merge(self, node: Node, values: Sequence[Outcome]) -> Outcome:
        for index, value in enumerate(values):
            if value is not DEAD and value is not NEVER:
                return self._argument(node, index, value), np.int32(index)
        entered = [
            value
            for port, value in zip(node.inputs, values, strict=True)
            if self.graph[port.node].op in ENTER_OPS
        ]
        if any(value is DEAD for value in entered) or all(value is DEAD for value in values):
            return DEAD
        return NEVER

    def _argument(self, node: Node, index: int, value: Value) -> Value:
        """An input as the node wants it: a reference is read where a value is asked for."""
        port = node.inputs[index]
        gives_ref = port not in self.feeds and self.graph[port.node].output_types[port.slot].is_ref
        takes_ref = node.input_types()[index].is_ref
        return value.read() if gives_ref and not takes_ref else value

    def _call(self, node: Node, values: Sequence[Value]) -> tuple[Value, ...]:
        if node.op_def is None:
            raise NotFoundError(f"Op type not registered '{node.op}'")
        kernel = self.kernels.find(node)
        function = kernel.bind_nowait(node) if kernel.is_async else kernel.bind(node)
        if function is None:
            raise FailedPreconditionError(f"'{node.name}' ({node.op}) may have to wait: not here")
        flat = [self._argument(node, index, value) for index, value in enumerate(values)]
        arguments: list[Value] = []
        for arg in node.op_def.inputs:
            if arg.is_list:
                taken = len(arg.types(node.attrs))
                arguments.append(tuple(flat[:taken]))
            else:
                taken = 1
                arguments.append(flat[0])
            flat = flat[taken:]
        keywords = {"ctx": self.context} if kernel.takes_context else {}
        try:
            result = function(*arguments, **keywords)
        except OpError as error:
            shapes = [describe(value) for value in values]
            raise error.locate(node_name=node.name, op_type=node.op, input_shapes=shapes) from None
        if result is WOULD_WAIT:
            raise FailedPreconditionError(f"'{node.name}' ({node.op}) would have to wait")
        if len(node.output_types) == 1:
            return (result,)
        return () if result is None else tuple(result)


__all__ = ["NEVER", "evaluate"]
