"""Lower a while loop whose body is all synchronous: from frames and tags to Python's `while`.

    Enter_i -> Merge_i -> Switch_i(LoopCond) -> body -> NextIteration_i -> Merge_i,  Switch_i:0 -> Exit_i
        ->  one unit: v_i = enter_i; while cond(v): v = body(v);  exit_i = v_i

A loop of another form, or with a node that may wait, is left to the state machine, which can run any loop.
Iterations then run one after another: one of the orders that the graph allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from flowengine.ir.frames import FramePath
from flowengine.ir.graph import Node, OutputPort
from flowengine.ir.names import (
    CONTROL_TRIGGER,
    ENTER_OPS,
    EXIT_OPS,
    LOOP_COND,
    MERGE_OPS,
    NEXT_ITERATION_OPS,
    REFERENCE_CARRIERS,
    SWITCH_OPS,
)
from flowengine.ir.traits import HandsOn, Orders
from flowengine.passes.blocks.deadness import LIVE, check_loops
from flowengine.passes.blocks.region_units import (
    ALWAYS,
    Aliases,
    Loop,
    LoopVariable,
    Unit,
    UnreadableBranch,
    arranged,
    assign_conditions,
    topological,
    unit_of_node,
)


def lower_loop(
    frame: FramePath,
    enters: list[Node],
    nodes: list[Node],
    inner: list[Unit],
    order: Mapping[str, int],
    aliases: Aliases,
    is_member: Callable[[Node], bool],
    used: Callable[[OutputPort], bool],
) -> Unit:
    """Return the loop of one frame as a unit. Raises UnreadableBranch if it is not of the form above.

    enters   the Enters into the frame
    nodes    the nodes that run in it, except lowered inner loops
    inner    those loops, as units
    used     whether a node takes a port
    """
    return _LoopBuilder(frame, enters, nodes, inner, order, aliases, is_member, used).run()


class _LoopBuilder:
    def __init__(
        self,
        frame: FramePath,
        enters: list[Node],
        nodes: list[Node],
        inner: list[Unit],
        order: Mapping[str, int],
        aliases: Aliases,
        is_member: Callable[[Node], bool],
        used: Callable[[OutputPort], bool],
    ) -> None:
        self.frame = frame
        self.enters = {node.name: node for node in enters}
        self.nodes = nodes
        self.inner = inner
        self.order = order
        self.aliases = aliases
        self.is_member = is_member
        self.used = used
        self.by_name = {node.name: node for node in nodes}
        #: Identities between a Switch and an Exit.
        self.leaving: dict[str, Node] = {}
        #: The nodes that NextIterations wait for.
        self.awaited: set[str] = set()

    def run(self) -> Unit:
        variables = self._variables()
        self._check_every_round(variables)
        conds = [node for node in self.nodes if node.op == LOOP_COND]
        if len(conds) != 1 or not variables:
            raise UnreadableBranch
        cond = conds[0]
        merges = {variable.merge: index for index, variable in enumerate(variables)}
        switches = self._switches(cond, merges)
        exits = self._exits(switches)
        units = self._body_units(switches)
        top, body = self._split(units, switches)
        loop = Loop(
            path=self.frame,
            variables=variables,
            constants=[node for node in self.enters.values() if node.attrs["is_constant"]],
            cond=self.aliases.origin(OutputPort(cond.name, 0)),
            cond_switch=next(iter(switches.values()))[0],
            top=top,
            body=body,
            exits=exits,
            deciding=self._deciding(top, variables, self.aliases.origin(OutputPort(cond.name, 0))),
            has_effects_on_top=any(_has_effects(unit) for unit in top),
        )
        self._check_conditions(loop, top, body, switches)
        self._alias(loop, switches)
        names = {node.name for node in self.nodes} | set(self.enters)
        for unit in self.inner:
            names |= unit.names
        entering = list(self.enters.values())
        return Unit(
            name=f"loop {'/'.join(self.frame)}",
            order=min(self.order[node.name] for node in entering),
            loop=loop,
            names=frozenset(names),
            inputs=tuple(port for node in entering for port in node.inputs),
            controls=tuple(name for node in entering for name in node.control_inputs),
            outputs=tuple(exits),
        )

    def _variables(self) -> list[LoopVariable]:
        variables: list[LoopVariable] = []
        returning: set[str] = set()
        for merge in self.nodes:
            if merge.op not in MERGE_OPS or not any(p.node in self.enters for p in merge.inputs):
                continue
            if merge.op in REFERENCE_CARRIERS or len(merge.inputs) != 2 or merge.control_inputs:
                raise UnreadableBranch
            enter = self.enters.get(merge.inputs[0].node)
            back = self.by_name.get(merge.inputs[1].node)
            if enter is None or back is None or back.op not in NEXT_ITERATION_OPS:
                raise UnreadableBranch
            if enter.attrs["is_constant"] or not REFERENCE_CARRIERS.isdisjoint((enter.op, back.op)):
                raise UnreadableBranch
            if self.used(OutputPort(merge.name, 1)):
                raise UnreadableBranch
            self.awaited.update(back.control_inputs)
            if self.aliases.is_reference(back.inputs[0]):
                raise UnreadableBranch
            returning.add(back.name)
            variables.append(LoopVariable(OutputPort(merge.name, 0), enter, back.inputs[0]))
        entered = {variable.enter.name for variable in variables}
        for enter in self.enters.values():
            if not enter.attrs["is_constant"] and enter.name not in entered:
                raise UnreadableBranch
        if any(n.op in NEXT_ITERATION_OPS and n.name not in returning for n in self.nodes):
            raise UnreadableBranch
        return variables

    def _check_every_round(self, variables: Iterable[LoopVariable]) -> None:
        """Raise UnreadableBranch if an Enter or a NextIteration feeds other nodes than a variable's Merge.

        Such a node would run in the first iteration only, or in all but the first. Constant Enters are
        exempt.
        """
        merges = {variable.merge.node for variable in variables}
        for node in self.nodes:
            before = [] if node.name in merges else [port.node for port in node.inputs]
            for name in (*before, *node.control_inputs):
                enter = self.enters.get(name)
                back = self.by_name.get(name)
                if enter is not None and not enter.attrs["is_constant"]:
                    raise UnreadableBranch
                if back is not None and back.op in NEXT_ITERATION_OPS:
                    raise UnreadableBranch

    def _switches(self, cond: Node, merges: Mapping[OutputPort, int]) -> dict[str, tuple[Node, int]]:
        """Return {Switch: (node, index of its variable)} of the Switches that end the loop."""
        found: dict[str, tuple[Node, int]] = {}
        verdict = self.aliases.origin(OutputPort(cond.name, 0))
        for node in self.nodes:
            if node.op not in SWITCH_OPS or self.aliases.origin(node.inputs[1]) != verdict:
                continue
            index = merges.get(node.inputs[0])
            if node.op in REFERENCE_CARRIERS or index is None or node.control_inputs:
                raise UnreadableBranch
            found[node.name] = (node, index)
        if not found:
            raise UnreadableBranch
        return found

    def _exits(self, switches: Mapping[str, tuple[Node, int]]) -> dict[OutputPort, int]:
        """Return {port of an Exit: index of its variable}; record the Identities on the way out."""
        leaving = {OutputPort(name, 0): index for name, (_, index) in switches.items()}
        exits: dict[OutputPort, int] = {}
        for node in self.nodes:
            index = leaving.get(node.inputs[0]) if len(node.inputs) == 1 else None
            if index is not None and node.has(HandsOn) and node.op != LOOP_COND:
                leaving[OutputPort(node.name, 0)] = index
                self.leaving[node.name] = node
            elif node.op in EXIT_OPS:
                if node.op in REFERENCE_CARRIERS or node.control_inputs or index is None:
                    raise UnreadableBranch
                exits[OutputPort(node.name, 0)] = index
            elif any(port in leaving for port in node.inputs):
                raise UnreadableBranch
        for node in self.nodes:
            # Constructed in another order, or awaited: it would be live in the last iteration only.
            missed = node.name not in self.leaving and node.op not in EXIT_OPS
            if missed and any(port in leaving for port in node.inputs):
                raise UnreadableBranch
            if any(name in self.leaving for name in node.control_inputs):
                raise UnreadableBranch
        return exits

    def _body_units(self, switches: Mapping[str, tuple[Node, int]]) -> list[Unit]:
        """Return the units of the frame except the loop's own control flow."""
        structural = ENTER_OPS | EXIT_OPS | NEXT_ITERATION_OPS
        result = list(self.inner)
        loop_merges = {node.name for node in self.nodes if node.op in MERGE_OPS and self._is_loop_merge(node)}
        inner_enters = {name for unit in self.inner for name in unit.names}
        for node in self.nodes:
            if node.name in inner_enters or node.name in self.leaving:
                continue
            if node.op in structural or node.name in switches or node.name in loop_merges:
                if node.op in ENTER_OPS:
                    raise UnreadableBranch  # into a loop that was not lowered
                continue
            if not self.is_member(node) and node.op != CONTROL_TRIGGER:
                raise UnreadableBranch
            result.append(unit_of_node(node, self.order[node.name]))
        return topological(result)

    def _is_loop_merge(self, node: Node) -> bool:
        return any(port.node in self.enters for port in node.inputs)

    def _split(
        self, units: Iterable[Unit], switches: Mapping[str, tuple[Node, int]]
    ) -> tuple[list[Unit], list[Unit]]:
        """Return the units that run in every iteration, and those that run only while the loop goes on."""
        going_on: set[str] = set()
        late = set(switches)
        top: list[Unit] = []
        body: list[Unit] = []
        for unit in units:
            inside = any(
                (port.node in switches and port.slot == 1) or port.node in going_on for port in unit.inputs
            ) or any(name in going_on for name in unit.controls)
            if inside and unit.node is not None and unit.node.op == LOOP_COND:
                raise UnreadableBranch
            if unit.node is not None and unit.node.op == CONTROL_TRIGGER:
                late.add(unit.name)
            elif inside:
                going_on |= unit.names
            elif not late.isdisjoint(unit.controls):
                # It also runs in the last iteration, after the condition is known: only an Exit may take its
                # value.
                if unit.node is None or not unit.node.has(Orders):
                    raise UnreadableBranch
                late |= unit.names
            (body if inside else top).append(unit)
        return top, body

    def _check_conditions(
        self, loop: Loop, top: list[Unit], body: list[Unit], switches: Mapping[str, tuple[Node, int]]
    ) -> None:
        """Check that no conditional leaves an iteration, and that carried values are always computed."""
        of_port = assign_conditions([*top, *body], self.aliases, lambda port: ALWAYS)
        cond_port = OutputPort(next(n.name for n in self.nodes if n.op == LOOP_COND), 0)
        for port in [cond_port, *(variable.following for variable in loop.variables)]:
            if of_port.get(port, ALWAYS):
                raise UnreadableBranch
        awaited_last = {name for node in self.leaving.values() for name in node.control_inputs}
        always = {name for unit in top if not unit.conditions for name in unit.names}
        if not awaited_last <= always | set(switches):
            raise UnreadableBranch  # an Exit would be dead
        for unit in (*top, *body):
            if unit.conditions and not self.awaited.isdisjoint(unit.names):
                raise UnreadableBranch  # an iteration in which it is dead would be the last for its consumers
        check_loops(
            [*top, *body],
            self.aliases,
            lambda port: frozenset({"goes on"}) if port.node in switches and port.slot == 1 else LIVE,
        )
        body_names = {name for unit in body for name in unit.names}
        for variable in loop.variables:
            port = variable.following
            if port.node not in body_names and not (port.node in switches and port.slot == 1):
                raise UnreadableBranch  # the last iteration would carry it, too
        loop.top = arranged(top)
        loop.body = arranged(body)

    def _deciding(
        self, top: Iterable[Unit], variables: Iterable[LoopVariable], cond: OutputPort
    ) -> frozenset[str]:
        """Return the Enters that the condition of the first iteration depends on."""
        unit_of = {name: unit for unit in top for name in unit.names}
        enter_of = {variable.merge.node: variable.enter.name for variable in variables}
        found: set[str] = set()
        seen: set[str] = set()
        waiting = [cond.node]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self.enters or name in enter_of:
                found.add(enter_of.get(name, name))
            elif name in unit_of:
                unit = unit_of[name]
                waiting += [*(port.node for port in unit.inputs), *unit.controls]
        return frozenset(found)

    def _alias(self, loop: Loop, switches: Mapping[str, tuple[Node, int]]) -> None:
        """Only now that it is certain: Switches forward the variables, constant Enters their input."""
        for name, (node, _) in switches.items():
            self.aliases.add(OutputPort(name, 1), node.inputs[0])
        for node in loop.constants:
            if node.op in REFERENCE_CARRIERS or not self.aliases.is_reference(node.inputs[0]):
                self.aliases.add(OutputPort(node.name, 0), node.inputs[0])


def _has_effects(unit: Unit) -> bool:
    if unit.loop is not None:
        return any(map(_has_effects, (*unit.loop.top, *unit.loop.body)))
    assert unit.node is not None
    return unit.node.op_def is not None and unit.node.op_def.is_stateful
