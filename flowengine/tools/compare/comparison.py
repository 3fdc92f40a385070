"""The comparison of two steps: the first tensor that differs, and how the error grows behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.tools.compare.differences import TensorDifference, difference
from flowengine.tools.compare.names import NameMap
from flowengine.tools.compare.records import (
    CONSTANT,
    FEED,
    RANDOM,
    VARIABLE,
    NodeRecord,
    StepRecord,
    behind,
    node_of,
)
from flowengine.tools.compare.tensors import TensorRecord

#: Rows of the growth of an error that fit a screen.
GROWTH_ROWS: Final = 12
#: Names that an error about unlike sides shows of each.
_SHOWN_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """A node that the two graphs build in different ways: its name, and the difference in words."""

    name: str
    reason: str


@dataclass(slots=True)
class StepComparison:
    """The result of `compare_records`.

    differences   of the tensors that differ, in the order of their dependences
    origins       those of them whose inputs do not differ: each is the cause of others
    by_chance     the tensors that differ and depend on ops of chance without a seed, which no other run
                  repeats
    chance        the names of these ops
    built         nodes whose op or attributes differ
    equal         the number of tensors that do not differ
    largest       the largest error of these
    only_in_one, only_in_other   names of tensors that the other side lacks
    """

    differences: list[TensorDifference] = field(default_factory=list)
    origins: list[TensorDifference] = field(default_factory=list)
    by_chance: list[TensorDifference] = field(default_factory=list)
    chance: list[str] = field(default_factory=list)
    built: list[NodeDifference] = field(default_factory=list)
    equal: int = 0
    largest: float = 0.0
    only_in_one: list[str] = field(default_factory=list)
    only_in_other: list[str] = field(default_factory=list)
    #: {name: facts} of the side that knows more of its graph.
    nodes: dict[str, NodeRecord] = field(default_factory=dict)

    @property
    def first(self) -> TensorDifference | None:
        """Return the first difference; None if there is none."""
        return self.differences[0] if self.differences else None

    def growth(self, rows: int = GROWTH_ROWS) -> list[TensorDifference]:
        """Return differences behind the first one: those with a new largest error, and the last one.

        rows   the most that are returned
        """
        if self.first is None:
            return []
        reached = behind([node_of(self.first.one.name)], self.nodes)
        chain = [each for each in self.differences if node_of(each.one.name) in reached]
        grown, largest = [], -1.0
        for each in chain:
            if each.error > largest:
                grown.append(each)
                largest = each.error
        if chain[-1] is not grown[-1]:
            grown.append(chain[-1])
        if len(grown) > rows:
            steps = [round(place * (len(grown) - 1) / (rows - 1)) for place in range(rows)]
            grown = [grown[step] for step in steps]
        return grown


def compare_records(
    one: StepRecord, other: StepRecord, *, tolerance: float | None = None, names: NameMap | None = None
) -> StepComparison:
    """Compare two recorded steps.

    tolerance   the relative error that passes as rounding; None for 1e-3, and 3e-2 for types with 11 bits of
                precision and fewer. Constants, variables and feeds must agree a thousand times closer, unless
                several steps have run; whole numbers, truth values and strings must be equal
    names       the names of `one` on the other side

    Raises InvalidArgumentError if the sides have no tensor in common.

    >>> from flowengine.tools.compare import compare_records, plain_config, record_step
    >>> async def recorded(rate):
    ...     graph = fe.Graph()
    ...     graph.ops.Exp(graph.ops.Mul(graph.placeholder("float32", [], name="x"), rate, name="m"), name="y")
    ...     async with fe.Session(graph, config=plain_config()) as session:
    ...         return (await record_step(session, ["y:0"], {"x:0": 1.0}))[1]
    >>> async def main():
    ...     comparison = compare_records(await recorded(1.0), await recorded(1.5))
    ...     print([str(difference.one) for difference in comparison.growth()])
    >>> trio.run(main)
    ['m/y:0', 'y:0']
    """
    names = names or NameMap()
    lines = _aligned(one, other, names)
    by_one = bool(one.nodes) or not other.nodes
    made = StepComparison(nodes=one.nodes if by_one else {})
    if not by_one:
        lines.sort(key=_order_in(other))
        back = {node_of(names(left.name)): node_of(left.name) for left, _ in lines}
        made.nodes = {back.get(name, name): _renamed(node, back) for name, node in other.nodes.items()}
    made.only_in_one = _missing(one, {left.key for left, _ in lines})
    made.only_in_other = _missing(other, {right.key for _, right in lines})
    made.built = [*_built(one, other, names)]
    made.chance = _chance(one, other, names)
    hidden = behind(made.chance, made.nodes)
    is_first_step = one.steps == other.steps == 1
    norms = {left.key: left.figures[3] for left, _ in lines}
    parted: set[str] = set()
    for left, right in lines:
        node = made.nodes.get(node_of(left.name), NodeRecord())
        error, found = difference(
            left,
            right,
            tolerance=tolerance,
            is_source=node.origin in (CONSTANT, FEED) or (is_first_step and node.origin == VARIABLE),
            input_norm=_input_norm(node, left, norms),
        )
        if found is None:
            made.equal += 1
            made.largest = max(made.largest, error)
        elif node_of(left.name) in hidden:
            made.by_chance.append(found)
        else:
            made.differences.append(found)
            if parted.isdisjoint(node.inputs):
                made.origins.append(found)
            parted.add(left.name)
    return made


def _aligned(one: StepRecord, other: StepRecord, names: NameMap) -> list[tuple[TensorRecord, TensorRecord]]:
    """Return the tensors that both have, in the order of one."""
    there = other.by_key()
    found = []
    for tensor in one.tensors:
        match = there.get((names(tensor.name), names.iteration(tensor.iteration)))
        if match is not None:
            found.append((tensor, match))
    if not found:
        raise InvalidArgumentError(
            f"the two sides have no tensor in common: one has {_some(one)}, the other {_some(other)}; give "
            "names that differ by a scope as OLD=NEW"
        )
    return found


def _some(record: StepRecord) -> str:
    shown = list(dict.fromkeys(tensor.name for tensor in record.tensors))
    more = f" and {len(shown) - _SHOWN_NAMES} more" if len(shown) > _SHOWN_NAMES else ""
    return ", ".join(shown[:_SHOWN_NAMES]) + more if shown else "none"


def _order_in(record: StepRecord) -> _Order:
    return _Order({tensor.key: number for number, tensor in enumerate(record.tensors)})


@dataclass(frozen=True, slots=True)
class _Order:
    """The place of a pair of tensors in the record of the other side."""

    numbers: dict[tuple[str, str], int]

    def __call__(self, pair: tuple[TensorRecord, TensorRecord]) -> int:
        return self.numbers[pair[1].key]


def _renamed(node: NodeRecord, back: dict[str, str]) -> NodeRecord:
    """Return the facts of a node with its inputs under the names of one."""
    parts = (name.rpartition(":") for name in node.inputs)
    inputs = tuple(f"{back.get(name, name)}:{slot}" for name, _, slot in parts)
    return NodeRecord(node.op, inputs, node.origin, node.attrs)


def _missing(record: StepRecord, found: set[tuple[str, str]]) -> list[str]:
    return [str(tensor) for tensor in record.tensors if tensor.key not in found]


def _built(one: StepRecord, other: StepRecord, names: NameMap) -> Iterator[NodeDifference]:
    for name, node in one.nodes.items():
        there = other.nodes.get(names(name))
        if there is None or not node.op or not there.op or FEED in (node.origin, there.origin):
            continue
        if node.op != there.op:
            yield NodeDifference(name, f"{node.op} against {there.op}")
        elif node.attrs != there.attrs:
            yield NodeDifference(name, _of_attributes(node.attrs, there.attrs))


def _of_attributes(one: str, other: str) -> str:
    sides = [dict(part.partition("=")[::2] for part in text.split("; ")) for text in (one, other)]
    keys = [key for key in dict.fromkeys([*sides[0], *sides[1]]) if sides[0].get(key) != sides[1].get(key)]
    return ", ".join(f"{key} {sides[0].get(key, 'none')} against {sides[1].get(key, 'none')}" for key in keys)


def _chance(one: StepRecord, other: StepRecord, names: NameMap) -> list[str]:
    """Return the ops of chance without a seed that neither side is fed, by the names of one."""
    back = {names(name): name for name in one.nodes}
    found = [name for name, node in one.nodes.items() if node.origin == RANDOM]
    found += [back.get(name, name) for name, node in other.nodes.items() if node.origin == RANDOM]
    fed = {name for name, node in one.nodes.items() if node.origin == FEED}
    fed |= {back.get(name, name) for name, node in other.nodes.items() if node.origin == FEED}
    return [name for name in dict.fromkeys(found) if name not in fed]


def _input_norm(node: NodeRecord, tensor: TensorRecord, norms: dict[tuple[str, str], float]) -> float:
    """Return the largest norm among the inputs of a node, in its iteration or outside of loops."""
    found = 0.0
    for name in node.inputs:
        norm = norms.get((name, tensor.iteration), norms.get((name, ""), 0.0))
        if norm > found:  # never for NaN
            found = norm
    return found


__all__ = ["GROWTH_ROWS", "NodeDifference", "StepComparison", "compare_records"]
