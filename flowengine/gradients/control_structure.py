"""Conditionals and loops as the graph shows them: frames, loops, guards, and what belongs to which stack.

Nothing is remembered from when the graph was built, so one that was read from bytes has the same structure as
one that was built here. It is read once for each version of a graph.

The *guard* of a value is what must have been decided for it to be live, within its frame: a set of literals,
each a predicate and the side of its Switches. Behind a Merge that closes a conditional the literal is gone.
A predicate that enters a loop as a constant is named by the port outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary, proxy

from flowengine.graphs.graph import Graph
from flowengine.ir.frames import FramePath, assign_frames, output_frame
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.marks import SEGMENT
from flowengine.ir.names import (
    CONTROL_FLOW_OPS,
    ENTER_OPS,
    EXIT_OPS,
    LOOP_COND,
    MERGE_OPS,
    NEXT_ITERATION_OPS,
    SWITCH_OPS,
)

#: A predicate, and which output of its Switches is live.
Literal: TypeAlias = tuple[OutputPort, int]
Guard: TypeAlias = frozenset[Literal]
ALWAYS: Final[Guard] = frozenset()

#: What hands a handle or a predicate on, by its first input.
_HANDING_ON: Final = (
    ENTER_OPS | EXIT_OPS | SWITCH_OPS | {"Identity", "IdentityN", "RefIdentity", "StopGradient"}
)
_PUSHES: Final = frozenset({"StackPush", "StackPushV2"})
_POPS: Final = frozenset({"StackPop", "StackPopV2"})
_STACKS: Final = frozenset({"Stack", "StackV2"})


@dataclass(slots=True)
class CarriedVariable:
    """A variable that a loop carries from one iteration to the next.

    switches   the Switches that end the loop; its value in an iteration is their output 1
    exits      the Exits that give its last value
    """

    enter: str
    merge: str
    following: str | None = None
    switches: list[str] = field(default_factory=list)
    exits: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FoundLoop:
    """A loop of the graph: one frame.

    path        its frame
    cond        the port that says whether it goes on, or None while the loop is being built
    variables   what it carries
    constants   the names of the Enters of what is the same in every iteration
    other_exits the names of the Exits of what is no variable: what the condition computes, or a constant
    """

    path: FramePath
    cond: OutputPort | None = None
    variables: list[CarriedVariable] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    enters: list[str] = field(default_factory=list)
    other_exits: list[str] = field(default_factory=list)

    def machinery(self) -> set[str]:
        """The nodes that make the loop what it is: no code of an iteration."""
        found = set(self.enters)
        for variable in self.variables:
            found.update((variable.merge, *variable.switches, *variable.exits))
            if variable.following is not None:
                found.add(variable.following)
        return found


class Structure:
    """The control flow of one graph at one version."""

    def __init__(self, graph: Graph) -> None:
        self._graph: Graph = proxy(graph)
        self.version = graph.version
        self.is_straight = not any(node.op in CONTROL_FLOW_OPS for node in graph)
        self.frames: Mapping[str, FramePath] = {} if self.is_straight else assign_frames(graph)
        self.loops: dict[FramePath, FoundLoop] = {}
        #: {pop: what was pushed on the stack that it pops from}
        self.stack_edges: dict[str, tuple[OutputPort, ...]] = {}
        #: {push or pop: the node that made its stack}
        self.stacks: dict[str, str] = {}
        #: {node: the segment, to be computed again for its gradient, of which it is}
        self.segments: dict[str, bytes] = {
            node.name: node.attrs[SEGMENT] for node in graph if SEGMENT in node.attrs
        }
        self._taken_outside: set[OutputPort] | None = None
        self._guards: dict[str, Guard] = {}
        self._loop_guards: dict[FramePath, Guard] = {}
        if not self.is_straight:
            self._find_loops()
            self._find_stacks()

    def frame(self, name: str) -> FramePath:
        """The frame that a node runs in; the root for one that nothing reaches."""
        return self.frames.get(name, ())

    def home(self, name: str) -> FramePath:
        """The frame that a node is counted to: an Enter to the loop that it enters."""
        node = self._graph.nodes[name]
        return output_frame(node, self.frame(name)) if node.op in ENTER_OPS else self.frame(name)

    def value_frame(self, name: str) -> FramePath:
        """The frame in which the outputs of a node are."""
        return output_frame(self._graph.nodes[name], self.frame(name))

    @property
    def taken_outside(self) -> set[OutputPort]:
        """The outputs of a segment's nodes that nodes of another segment, or of none, take."""
        if self._taken_outside is None:
            segments = self.segments
            self._taken_outside = {
                port
                for node in self._graph
                for port in node.inputs
                if port.node in segments and segments[port.node] != segments.get(node.name)
            }
        return self._taken_outside

    # ------------------------------------------------------------------ guards

    def guard(self, port: OutputPort) -> Guard:
        """Return the decisions that must have been made for a value to be live, within its frame."""
        node = self._graph.nodes[port.node]
        guard = self.node_guard(port.node)
        if node.op in SWITCH_OPS:
            predicate = self.outside(node.inputs[1])
            if self._graph.nodes[predicate.node].op != LOOP_COND:
                guard |= {(predicate, port.slot)}
        return guard

    def node_guard(self, name: str) -> Guard:
        """Return the decisions that make a node live, in the frame of its outputs."""
        if self.is_straight:
            return ALWAYS
        waiting = [name]
        while waiting:
            current = waiting[-1]
            if current in self._guards:
                waiting.pop()
                continue
            node = self._graph.nodes.get(current)
            if node is None:
                self._guards[current] = ALWAYS
                continue
            missing = [each for each in self._before(node) if each not in self._guards]
            if missing:
                waiting.extend(missing)
            else:
                self._guards[current] = self._guard_of(node)
                waiting.pop()
        return self._guards[name]

    def _before(self, node: Node) -> Iterable[str]:
        """The nodes on whose guards that of a node depends; never around a loop."""
        if self._is_loop_merge(node):
            return [port.node for port in node.inputs if self._graph.nodes[port.node].op in ENTER_OPS]
        if node.op in EXIT_OPS or node.op in ENTER_OPS:
            loop = self.loops.get(self.home(node.name))
            enters = () if loop is None else loop.enters
            return [self._graph.nodes[enter].inputs[0].node for enter in enters]
        return [port.node for port in node.inputs] + list(node.control_inputs)

    def _guard_of(self, node: Node) -> Guard:
        if self._is_loop_merge(node):
            return ALWAYS.union(*(self._guards[each] for each in self._before(node)))
        loop = self.loops.get(self.home(node.name))
        if node.op in ENTER_OPS:
            return ALWAYS if loop is None else self.guard(node.inputs[0]) - self.loop_guard(loop)
        if node.op in EXIT_OPS:
            if loop is None:
                return ALWAYS
            entered = [each.enter for each in loop.variables if node.name in each.exits]
            return self.loop_guard(loop).union(*map(self._entering, entered))
        own = ALWAYS.union(*(self._guards.get(each, ALWAYS) for each in node.control_inputs))
        guards = [self.guard(port) for port in node.inputs if port.node in self._graph.nodes]
        if node.op in MERGE_OPS:
            return own.union(guards[0].intersection(*guards[1:])) if guards else own
        return own.union(*guards)

    def _is_loop_merge(self, node: Node) -> bool:
        if node.op not in MERGE_OPS:
            return False
        nodes = self._graph.nodes
        return any(
            port.node in nodes and nodes[port.node].op in ENTER_OPS | NEXT_ITERATION_OPS
            for port in node.inputs
        )

    def is_loop_switch(self, node: Node) -> bool:
        """Whether a Switch ends a loop rather than opening a conditional."""
        return self._graph.nodes[self.origin(node.inputs[1]).node].op == LOOP_COND

    def constant_of(self, port: OutputPort) -> str | None:
        """The Enter of a constant of a loop that a port of its body is, in every iteration."""
        nodes = self._graph.nodes
        while True:
            port = self.origin(port)
            node = nodes[port.node]
            if node.op not in SWITCH_OPS or port.slot != 1 or not self.is_loop_switch(node):
                break
            port = node.inputs[0]
        loop = self.loops.get(self.home(port.node)) if node.op in ENTER_OPS else None
        return node.name if loop is not None and node.name in loop.constants else None

    def is_loop_merge(self, name: str) -> bool:
        return self._is_loop_merge(self._graph.nodes[name])

    def loop_guard(self, loop: FoundLoop) -> Guard:
        """Return the decisions that must have been made outside of a loop for it to run.

        That is what its LoopCond needs in the first iteration, and what all that enters has in common: a
        loop runs although some of what enters is dead, if that is used in one branch only.
        """
        found = self._loop_guards.get(loop.path)
        if found is None:
            guards = [self._entering(each) for each in loop.enters]
            shared = guards[0].intersection(*guards[1:])
            needed = loop.enters if loop.cond is None else self._entering_into(loop, loop.cond.node)
            found = self._loop_guards[loop.path] = shared.union(*map(self._entering, needed))
        return found

    def _entering(self, enter: str) -> Guard:
        """The guard of what an Enter takes."""
        return self.guard(self._graph.nodes[enter].inputs[0])

    def _entering_into(self, loop: FoundLoop, name: str) -> list[str]:
        """The Enters of a loop on which one of its nodes depends in the first iteration."""
        nodes = self._graph.nodes
        seen, waiting = {name}, [name]
        for current in waiting:
            node = nodes[current]
            if node.op in ENTER_OPS and self.home(current) == loop.path:
                continue
            before = [port.node for port in node.inputs if nodes[port.node].op not in NEXT_ITERATION_OPS]
            fresh = dict.fromkeys(each for each in (*before, *node.control_inputs) if each not in seen)
            seen.update(fresh)
            waiting.extend(fresh)
        entered = set(loop.enters)
        return [each for each in waiting if each in entered]

    def nested_first(self, guard: Guard) -> list[Literal]:
        """The literals of a guard, each before those that it lies under."""
        return sorted(guard, key=lambda each: (-len(self.guard(each[0])), each))

    def origin(self, port: OutputPort) -> OutputPort:
        """The port behind Identities."""
        node = self._graph.nodes.get(port.node)
        while node is not None and node.op == "Identity":
            port = node.inputs[0]
            node = self._graph.nodes.get(port.node)
        return port

    def outside(self, port: OutputPort) -> OutputPort:
        """The port behind Identities, outside of the loops in which it is a constant."""
        while True:
            port = self.origin(port)
            entered = self.constant_of(port)
            if entered is None:
                return port
            port = self._graph.nodes[entered].inputs[0]

    # ------------------------------------------------------------------ loops

    def _find_loops(self) -> None:
        nodes = self._graph.nodes
        variables: dict[str, CarriedVariable] = {}
        switched: dict[str, CarriedVariable] = {}
        for node in self._graph:
            if node.op in ENTER_OPS:
                self._loop(self.home(node.name)).enters.append(node.name)
            elif node.op == LOOP_COND:
                self._loop(self.frame(node.name)).cond = OutputPort(node.name, 0)
        for node in self._graph:
            if node.op in MERGE_OPS and self._is_loop_merge(node):
                enters = [p.node for p in node.inputs if nodes[p.node].op in ENTER_OPS]
                backs = [p.node for p in node.inputs if nodes[p.node].op in NEXT_ITERATION_OPS]
                if enters:
                    variable = CarriedVariable(enters[0], node.name, backs[0] if backs else None)
                    variables[node.name] = variable
                    self._loop(self.frame(node.name)).variables.append(variable)
        for node in self._graph:
            if node.op in SWITCH_OPS:
                variable_of = variables.get(self.origin(node.inputs[0]).node)
                if variable_of is not None and self.is_loop_switch(node):
                    variable_of.switches.append(node.name)
                    switched[node.name] = variable_of
        for node in self._graph:
            if node.op in EXIT_OPS:
                source = self.origin(node.inputs[0])
                if source.node in switched and source.slot == 0:
                    switched[source.node].exits.append(node.name)
                else:
                    self._loop(self.frame(node.name)).other_exits.append(node.name)
        entered = {variable.enter for variable in variables.values()}
        for loop in self.loops.values():
            loop.constants = [name for name in loop.enters if name not in entered]

    def _loop(self, path: FramePath) -> FoundLoop:
        found = self.loops.get(path)
        if found is None:
            found = self.loops[path] = FoundLoop(path)
        return found

    # ------------------------------------------------------------------ stacks

    def _find_stacks(self) -> None:
        pushes: dict[str, list[str]] = {}
        pops: list[Node] = []
        handles: dict[str, OutputPort] = {}
        for node in self._graph:
            if node.op in _PUSHES:
                handles[node.name] = node.inputs[0]
            elif node.op in _POPS:
                handles[node.name] = node.inputs[0]
                pops.append(node)
        if not pops:
            return
        waiting = dict(handles)
        while waiting:
            # A handle that was popped is known once the stack of handles is.
            settled = 0
            for name, port in list(waiting.items()):
                maker = self._stack_behind(port, pushes)
                if maker is not None:
                    del waiting[name]
                    settled += 1
                    self.stacks[name] = maker
                    if self._graph.nodes[name].op in _PUSHES:
                        pushes.setdefault(maker, []).append(name)
            if not settled:
                break
        for node in pops:
            pushed = pushes.get(self.stacks.get(node.name, ""), [])
            if pushed:
                self.stack_edges[node.name] = tuple(OutputPort(name, 0) for name in pushed)

    def _stack_behind(self, port: OutputPort, pushes: Mapping[str, list[str]]) -> str | None:
        """The node that made the stack of a handle, as far as it is known."""
        nodes = self._graph.nodes
        while True:
            node = nodes[port.node]
            if node.op in _STACKS:
                return node.name
            if node.op in _POPS:
                pushed = pushes.get(self.stacks.get(node.name, ""))
                if not pushed:
                    return None
                port = nodes[pushed[0]].inputs[1]
            elif node.op in _HANDING_ON:
                port = node.inputs[port.slot if node.op == "IdentityN" else 0]
            else:
                return None


_known: Final[WeakKeyDictionary[Graph, Structure]] = WeakKeyDictionary()


def structure_of(graph: Graph) -> Structure:
    """The structure of a graph as it is now."""
    found = _known.get(graph)
    if found is None or found.version != graph.version:
        found = _known[graph] = Structure(graph)
    return found
