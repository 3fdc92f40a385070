"""Sums of products along named axes.

The gradient of an operand is again such a sum: of the output's gradient and the other operand, with the
operand's labels as the output's. Two things need more: a label that no one else has was summed away, and is
repeated; a label that stands twice picked a diagonal, and makes one.
"""

from __future__ import annotations

import numpy as np

from flowengine.core.shapes import TensorShape
from flowengine.gradients.registry import gradient
from flowengine.gradients.shapes import repeated_axes
from flowengine.gradients.values import Backward, Results
from flowengine.graphs.tensor import Operation, Tensor

_DOTS = "..."


@gradient("Einsum")
def einsum(b: Backward, op: Operation, grad: Tensor) -> Results:
    left, _, right = op.get_attr("equation").decode("latin-1").partition("->")
    terms = left.split(",")
    if len(terms) == 1:
        return [_of_operand(b, grad, right, op.inputs[0], terms[0], None, "")]
    x, y = op.inputs
    return [
        _of_operand(b, grad, right, x, terms[0], y, terms[1]),
        _of_operand(b, grad, right, y, terms[1], x, terms[0]),
    ]


def _of_operand(
    b: Backward, grad: Tensor, right: str, x: Tensor, term: str, other: Tensor | None, other_term: str
) -> Tensor:
    """The gradient of the operand `x` with the labels `term`."""
    right = _only(right, term + other_term)
    sources, labels = [grad], [right]
    if other is not None:
        sources.append(b.real_or_conj(other))
        labels.append(other_term)
    found = set("".join(labels).replace(_DOTS, ""))
    distinct = _distinct(term)
    has_dots = any(_DOTS in each for each in labels)
    kept = "".join(each for each in _pieces(distinct) if each in found or (each == _DOTS and has_dots))
    if has_dots and _DOTS not in kept:
        # The operand was repeated along axes that dots stand for: they are summed below.
        kept = _DOTS + kept
    result: Tensor = _sum_of_products(b, sources, labels, kept)
    if has_dots and other is not None:
        result, kept = _dots_summed(b, result, kept, x, term, other, other_term)
    if kept != distinct:
        # A product with ones has the sizes of the labels that were summed away.
        result = _sum_of_products(b, [result, b.ops.OnesLike(x)], [kept, term], distinct)
    if distinct != term:
        result = _sum_of_products(b, [result], [distinct], term)
    return result


def _only(right: str, known: str) -> str:
    """The output's labels without those that no operand has: these have no axis."""
    return "".join(each for each in _pieces(right) if each == _DOTS or each in known)


def _pieces(term: str) -> list[str]:
    """The labels of a term, the dots among them as one."""
    before, dots, after = term.partition(_DOTS)
    return [*before, *([dots] if dots else []), *after]


def _distinct(term: str) -> str:
    """Each label once, where it stands first."""
    return "".join(dict.fromkeys(_pieces(term)))


def _sum_of_products(b: Backward, operands: list[Tensor], labels: list[str], output: str) -> Tensor:
    equation = ",".join(labels) + "->" + output
    if len(operands) == 1 and labels[0] == output:
        return operands[0]
    result: Tensor = b.ops.Einsum(operands, equation=equation)
    return result


def _dots_summed(
    b: Backward, result: Tensor, kept: str, x: Tensor, term: str, other: Tensor, other_term: str
) -> tuple[Tensor, str]:
    """The sum along those axes of the dots along which `x` was repeated, and the labels that are left."""
    mine, others = _dotted(x, term), _dotted(other, other_term)
    axes = repeated_axes(mine, others)
    if axes is not None and not axes:
        return result, kept
    before, _, after = kept.partition(_DOTS)
    if axes is not None and all(axis < max(len(others) - len(mine), 0) for axis in axes):
        summed = b.ops.Sum(result, np.array(axes, np.int32) + np.int32(len(before)))
        return summed, kept if _DOTS in term else before + after
    here, there = _dotted_sizes(b, x, term), _dotted_sizes(b, other, other_term)
    repeated, _ = b.ops.BroadcastGradientArgs(here, there)
    summed = b.ops.Sum(result, b.ops.AddV2(repeated, np.int32(len(before))))
    # The sizes that `x` has along its dots stand between those of the labels, which are as they were.
    sizes = b.ops.Shape(result)
    shape = b.ops.ConcatV2(
        [
            b.ops.StridedSlice(sizes, [0], [len(before)], [1], begin_mask=1),
            here,
            b.ops.StridedSlice(sizes, [-len(after)], [0], [1], begin_mask=0, end_mask=1)
            if after
            else np.zeros(0, np.int32),
        ],
        0,
    )
    return b.ops.Reshape(summed, shape), kept if _DOTS in term else before + after


def _dotted(x: Tensor, term: str) -> TensorShape:
    """The shape of the axes that the dots of a term stand for."""
    if _DOTS not in term:
        return TensorShape(())
    if x.shape.dims is None:
        return TensorShape(None)
    before, _, after = term.partition(_DOTS)
    return TensorShape(x.shape.dims[len(before) : len(x.shape.dims) - len(after)])


def _dotted_sizes(b: Backward, x: Tensor, term: str) -> Tensor:
    """The same as a vector."""
    if _DOTS not in term:
        return b.constant(np.zeros(0, np.int32))
    before, _, after = term.partition(_DOTS)
    result: Tensor = b.ops.StridedSlice(
        b.shape(x), [len(before)], [-len(after)], [1], end_mask=0 if after else 1
    )
    return result
