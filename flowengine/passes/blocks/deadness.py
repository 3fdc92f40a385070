"""Checks that a while loop is live or dead as a whole, as a loop that becomes Python's `while` must be.

The state machine can run a loop of which only some Enters are live: nodes that depend on the dead ones are
dead inside, the others are not. A lowered loop runs or does not. Both are the same if the loop can only
continue when all its Enters are live, that is, if every token that may kill one of them kills an input of its
condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from flowengine.ir.frames import FramePath
from flowengine.ir.graph import OutputPort
from flowengine.ir.names import CONTROL_TRIGGER, MERGE_OPS, SWITCH_OPS
from flowengine.passes.blocks.region_units import Aliases, Unit

#: The conditions for a value to be live: (predicate, side) of Switches, and names of other possible dead
#: tokens.
Tokens: TypeAlias = frozenset[object]
LIVE: Tokens = frozenset()
#: The token of a value that comes through an Enter.
ENTERED: Final = "entered"


class UnwrittenLoop(Exception):
    """A loop that was lowered but must be left to the state machine. Never leaves the passes."""

    def __init__(self, frame: FramePath) -> None:
        super().__init__(frame)
        self.frame = frame


def check_loops(units: Iterable[Unit], aliases: Aliases, given: Callable[[OutputPort], Tokens]) -> None:
    """Raise UnwrittenLoop for a loop among the units that may be dead in part.

    units   in topological order
    given   the tokens of a port from outside the units
    """
    of_port: dict[OutputPort, Tokens] = {}
    of_name: dict[str, Tokens] = {}

    def look(port: OutputPort) -> Tokens:
        found = of_port.get(port)
        return given(port) if found is None else found

    for unit in units:
        node = unit.node
        tokens: Tokens
        if node is not None and node.op in MERGE_OPS and len(unit.inputs) < len(node.inputs):
            tokens = frozenset({ENTERED})  # the token of a loop of the state machine
        elif node is not None and node.op in MERGE_OPS:
            tokens = _merged([look(port) for port in unit.inputs], unit.name)
        elif node is not None and node.op == CONTROL_TRIGGER:
            tokens = LIVE
        else:
            tokens = LIVE.union(*(look(port) for port in unit.inputs))
            tokens = tokens.union(*(of_name.get(name, LIVE) for name in unit.controls))
        if unit.loop is not None:
            _check(unit, look, of_name)
        for name in unit.names:
            of_name[name] = tokens
        if node is not None and node.op in SWITCH_OPS:
            predicate = aliases.origin(node.inputs[1])
            for port in unit.outputs:
                of_port[port] = tokens | {(predicate, port.slot)}
        else:
            for port in unit.outputs:
                of_port[port] = tokens


def _check(unit: Unit, look: Callable[[OutputPort], Tokens], of_name: Mapping[str, Tokens]) -> None:
    loop = unit.loop
    assert loop is not None
    each: dict[str, Tokens] = {}
    for node in (*(variable.enter for variable in loop.variables), *loop.constants):
        awaited = (of_name.get(name, LIVE) for name in node.control_inputs)
        each[node.name] = look(node.inputs[0]).union(*awaited)
    needed = LIVE.union(*(tokens for name, tokens in each.items() if name in loop.deciding))
    if any(tokens - needed for tokens in each.values()):
        raise UnwrittenLoop(loop.path)
    if loop.has_effects_on_top and len(set(each.values())) > 1:
        raise UnwrittenLoop(loop.path)


def _merged(sides: list[Tokens], name: str) -> Tokens:
    """Return the tokens that the sides of a conditional's Merge share; nothing is known of another Merge."""
    if len(sides) == 2:
        left, right = sides[0] - sides[1], sides[1] - sides[0]
        if len(left) == len(right) == 1:
            (one,), (other,) = left, right
            if (
                isinstance(one, tuple)
                and isinstance(other, tuple)
                and one[0] == other[0]
                and one[1] != other[1]
            ):
                return sides[0] & sides[1]
    return frozenset({name})
