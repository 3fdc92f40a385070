"""A comparison as lines for a screen, and as one JSON document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowengine.cli.failure import printable

if TYPE_CHECKING:
    from flowengine.tools.compare import StepComparison, TensorDifference

#: Entries of a list that a screen has room for.
_SHOWN: Final = 5


def comparison_lines(comparison: StepComparison, sides: Sequence[str], dropped: int) -> Iterator[str]:
    """Yield the lines of a comparison: the first difference, how it grows, and what else there is."""
    first = comparison.first
    if first is not None:
        node = comparison.nodes.get(first.one.name.rpartition(":")[0])
        op = f" ({node.op})" if node is not None and node.op else ""
        yield f"first difference: {first.one}{op}  {first.one.dtype} {list(first.one.shape)}"
        yield f"  {first.reason}"
        for each in comparison.built:
            if each.name == first.one.name.rpartition(":")[0]:
                yield f"  the node is built differently: {each.reason}"
        growth = comparison.growth()
        if len(growth) > 1:
            yield "the error behind it"
            yield from (f"  {_size(each)}  {each.one}" for each in growth)
        others = [each for each in comparison.origins if each is not first]
        if others:
            yield f"{_count(len(others), 'more difference')} that none of these explain"
            yield from _capped([f"  {each}" for each in others])
    elsewhere = [each for each in comparison.built if first is None or each.name != first.one.name[:-2]]
    if elsewhere:
        yield f"{_count(len(elsewhere), 'node')} built differently"
        yield from _capped([f"  {each.name}: {each.reason}" for each in elsewhere])
    if comparison.chance:
        left_out = _count(len(comparison.by_chance), "tensor")
        yield f"{left_out} left out, behind ops of chance without a seed: set seeds, or --freeze outputs"
        yield from _capped([f"  {name}" for name in comparison.chance])
    for side, names in zip(sides, (comparison.only_in_one, comparison.only_in_other), strict=True):
        if names:
            yield f"{_count(len(names), 'tensor')} only in {side}: {', '.join(names[:3])}" + (
                ", ..." if len(names) > 3 else ""
            )
    if dropped:
        yield f"{_count(dropped, 'more tensor')} found no room in the record"
    differ = len(comparison.differences)
    verdict = f"{_count(comparison.equal, 'tensor')} equal within the tolerance"
    if comparison.largest:
        verdict += f" (largest error {comparison.largest:.2g})"
    yield f"{verdict}, {differ} different"


def comparison_document(comparison: StepComparison) -> dict[str, Any]:
    """Return the comparison for JSON; an infinite error is null."""
    return {
        "first": None if comparison.first is None else _document(comparison.first),
        "growth": [_document(each) for each in comparison.growth()],
        "origins": [_document(each) for each in comparison.origins],
        "differences": [_document(each) for each in comparison.differences],
        "by_chance": [_document(each) for each in comparison.by_chance],
        "chance": comparison.chance,
        "built": {each.name: each.reason for each in comparison.built},
        "only_in_one": comparison.only_in_one,
        "only_in_other": comparison.only_in_other,
        "equal": comparison.equal,
        "largest": comparison.largest,
    }


def _document(difference: TensorDifference) -> dict[str, Any]:
    return {
        "tensor": difference.one.name,
        "iteration": difference.one.iteration,
        "dtype": difference.one.dtype,
        "shape": list(difference.one.shape),
        "reason": difference.reason,
        "error": difference.error if math.isfinite(difference.error) else None,
    }


def _size(difference: TensorDifference) -> str:
    return f"{difference.error:<8.2g}" if math.isfinite(difference.error) else "-       "


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _capped(lines: Sequence[str]) -> Iterator[str]:
    yield from map(printable_line, lines[:_SHOWN])
    if len(lines) > _SHOWN:
        yield f"  and {len(lines) - _SHOWN} more (--json lists all)"


def printable_line(line: str) -> str:
    """Return a line of which a terminal obeys nothing, with its indent."""
    return line[: len(line) - len(line.lstrip())] + printable(line)


__all__ = ["comparison_document", "comparison_lines", "printable_line"]
