"""All the places where a room can be broken, and which of them a seed draws."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import Visitor
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.operators.provider import OperatorProvider

from tests.mutants.operators import OURS


@dataclass(frozen=True)
class Mutant:
    """The `occurrence`-th place of a file where an operator fits; lines from 1."""

    file: str
    operator: str
    occurrence: int
    line: int
    is_ours: bool

    @property
    def key(self) -> str:
        return f"{self.file}:{self.operator}:{self.occurrence}"

    def as_row(self) -> dict[str, Any]:
        return asdict(self)


def _operators() -> dict[str, tuple[Any, bool]]:
    """{name: (operator, whether it is ours)}; cosmic-ray's that need no argument."""
    provider = OperatorProvider()
    theirs = {name: provider[name] for name in provider if not provider[name].arguments()}
    return {name: (kind(), False) for name, kind in theirs.items()} | {
        kind.__name__: (kind(), True) for kind in OURS
    }


OPERATORS = _operators()


def _passed_over(source: str) -> set[int]:
    """Lines on which nothing runs: annotations of their own, docstrings, imports for type checkers.

    Annotations on the line of a default or a body are told by their columns, see `_annotations`.
    """
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        names_types = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        is_silent = is_text or names_types or isinstance(node, ast.Import | ast.ImportFrom)
        if is_silent and isinstance(node, ast.stmt):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(start, end) of every annotation; nothing of it is evaluated."""
    found = []
    for node in ast.walk(ast.parse(source)):
        kinds = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        for kind in kinds:
            if isinstance(kind, ast.expr):
                end = kind.end_lineno or kind.lineno, kind.end_col_offset or kind.col_offset
                found.append(((kind.lineno, kind.col_offset), end))
    return found


def _is_wording(node: Any) -> bool:
    """Whether this is within the text of an error or of a line of a log: what is said, not what is done."""
    is_text = False
    while node is not None:
        is_text = is_text or node.type == "fstring"
        if is_text and node.type == "raise_stmt":
            return True
        if is_text and node.type in ("atom_expr", "power"):
            called = node.children[0].get_code().strip()
            if called.endswith("Error") or called in ("logger", "_log", "log"):
                return True
        node = node.parent
    return False


class _Places(Visitor):
    """Notes the places of all operators, each in the order in which cosmic-ray counts them."""

    def __init__(self) -> None:
        #: {operator: (line and column, whether it is a place to change)}
        self.found: dict[str, list[tuple[tuple[int, int], bool]]] = {name: [] for name in OPERATORS}

    def visit(self, node: Any) -> Any:
        is_wording: bool | None = None
        for name, (operator, _) in OPERATORS.items():
            for start, _ in operator.mutation_positions(node):
                if is_wording is None:
                    is_wording = _is_wording(node)
                self.found[name].append((start, not is_wording))
        return node


def places(root: Path, file: str) -> Iterator[Mutant]:
    """Every mutant of a file."""
    source = (root / file).read_text()
    silent, annotations = _passed_over(source), _annotations(source)
    visitor = _Places()
    visitor.walk(parso.parse(source))
    for name, (_, is_ours) in OPERATORS.items():
        for occurrence, (start, counts) in enumerate(visitor.found[name]):
            inside = any(first <= start < last for first, last in annotations)
            if counts and not inside and start[0] not in silent:
                yield Mutant(file, name, occurrence, start[0], is_ours)


def changed_source(root: Path, mutant: Mutant) -> str | None:
    """The file with the mutant in it; None where it would be the same program."""
    source = (root / mutant.file).read_text()
    operator, _ = OPERATORS[mutant.operator]
    try:
        changed = MutationVisitor.mutate_code(source, operator, mutant.occurrence)
        if changed is None or ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source)):
            return None
    except (SyntaxError, AttributeError):
        # cosmic-ray's own operators count places that they cannot change, such as `except a.b`.
        return None
    return str(changed)


def draw(mutants: list[Mutant], seed: int, count: int | None) -> list[Mutant]:
    """`count` of them, half by our own operators as far as these reach; all for None.

    Families of operators have equal chances, however often each fits. They come in any order: what has been
    judged when time is up is a fair part of all.
    """
    if count is None:
        return mutants
    chance = random.Random(seed)
    ours = _in_turn([each for each in mutants if each.is_ours], chance)[: count // 2]
    theirs = _in_turn([each for each in mutants if not each.is_ours], chance)[: count - len(ours)]
    drawn = ours + theirs
    chance.shuffle(drawn)
    return drawn


def _in_turn(mutants: list[Mutant], chance: random.Random) -> list[Mutant]:
    """All of them: each comes from a family that is chosen first."""
    families: dict[str, list[Mutant]] = {}
    for each in mutants:
        families.setdefault(_family(each), []).append(each)
    for members in families.values():
        chance.shuffle(members)
    order = []
    while families:
        family = chance.choice(sorted(families))
        order.append(families[family].pop())
        if not families[family]:
            del families[family]
    return order


def _family(mutant: Mutant) -> str:
    """Our operator, or the module of cosmic-ray's: it has one operator for each pair of signs."""
    return mutant.operator if mutant.is_ours else type(OPERATORS[mutant.operator][0]).__module__
