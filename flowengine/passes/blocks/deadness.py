"""Whether a while loop is live or dead as a whole, which a loop that becomes Python's `while` must be.

The state machine lets a loop run of which only some Enters are live: what depends on the dead ones is dead
inside, the rest is not. A lowered loop runs or does not. Both are the same if the loop cannot go on unless
all its Enters are live, that is if every token that may kill one of them kills what its condition needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from flowengine.ir.frames import FramePath
from flowengine.ir.graph import OutputPort
from flowengine.ir.names import CONTROL_TRIGGER, MERGE_OPS, SWITCH_OPS
from flowengine.passes.blocks.region_units import Aliases, Unit

#: What must be taken for a value to be live: (predicate, side) of Switches, names of what else may be dead.
Tokens: TypeAlias = frozenset[object]
LIVE: Tokens = frozenset()
#: The token of whatever comes through an Enter.
ENTERED: Final = "entered"


class UnwrittenLoop(Exception):
    """A loop that was lowered but must be left to the state machine. Never leaves the passes."""

    def __init__(self, frame: FramePath) -> None:
        super().__init__(frame)
        self.frame = frame


def check_loops(units: Iterable[Unit], aliases: Aliases, given: Callable[[OutputPort], Tokens]) -> None:
    """Raise UnwrittenLoop for a loop among the units that may be dead in part.

    units   in topological order
    given   the tokens of a port that none of them makes
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
            tokens = frozenset({ENTERED})  # what a loop of the state machine carries
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
    """A Merge that closes a conditional is as live as what its sides share; of another nothing is known."""
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
