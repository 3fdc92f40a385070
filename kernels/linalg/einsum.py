"""Sums of products along named axes, as transposed matrices that are multiplied.

Of two inputs, an axis is of the batch where both inputs and the output have it, summed where both inputs have
it and the output has not, free where one input has it and the output too. What one input alone has is summed
before. The product of (batch, free, summed) and (batch, summed, free) is BLAS's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.common.matrices import product
from flowengine.kernels.common.ufuncs import NARROW
from flowengine.kernels.registry import kernel

#: The name of an axis: its letter, or the place, from the last one backwards, of one that dots stand for.
Label: TypeAlias = str | int

_DOTS: Final = "..."
_NARROW: Final = frozenset(d.as_numpy_dtype for d in NARROW)
#: Multiplications and additions a microsecond of one core, roughly.
_PRODUCTS_A_MICROSECOND: Final = 25_000.0


def _cost(inputs: Sequence[Array]) -> float:
    if len(inputs) < 2:
        return inputs[0].size / 1000
    # Where half of the axes of each are summed, and an upper bound for most others.
    return float(math.prod(x.size for x in inputs) ** 0.75 / _PRODUCTS_A_MICROSECOND)


@functools.lru_cache(maxsize=256)
def parsed(equation: bytes) -> tuple[list[str], str]:
    """The inputs' labels and the output's; InvalidArgumentError for anything but one arrow."""
    text = equation.decode("latin-1")
    left, *others = text.split("->")
    if len(others) != 1:
        raise InvalidArgumentError(f"Expecting exactly one '->' in einsum equation: {text}")
    terms = left.split(",")
    if len(terms) > 2:
        raise InvalidArgumentError(
            f"Expecting 1 or 2 input subscripts in equation '{text}' but got: {len(terms)}"
        )
    return terms, others[0]


@kernel(
    "Einsum",
    types={"T": (*NARROW, "float32", "float64", "int32", "int64", "complex64", "complex128")},
    fresh=True,
    heavy=_cost,
)
def einsum(xp: Any, inputs: Sequence[Array], *, equation: bytes) -> Any:
    """The sum of products that the equation tells, such as `ij,jk->ik`, of one input or two.

    A label may stand twice: in an input it picks the diagonal, in the output it makes one. Dots stand for
    any axes, which broadcast. InvalidArgumentError for what does not fit the inputs.
    """
    terms, right = parsed(equation)
    if len(terms) != len(inputs):
        raise InvalidArgumentError(
            f"Expecting {len(inputs)} input subscripts in equation '{equation.decode('latin-1')}' but got: "
            f"{len(terms)}"
        )
    labels = [_labels(term, x, index) for index, (term, x) in enumerate(zip(terms, inputs, strict=True))]
    output = _output_labels(right, labels)
    _check_sizes(inputs, labels)
    dtype = inputs[0].dtype
    wide = [x.astype(np.float32) for x in inputs] if dtype in _NARROW else inputs
    wanted = frozenset(output)
    others = [frozenset(each) for each in reversed(labels)] if len(labels) == 2 else [frozenset()]
    parts = [
        _reduced(xp, x, each, wanted | other) for x, each, other in zip(wide, labels, others, strict=True)
    ]
    result, found = parts[0] if len(parts) == 1 else _product(xp, parts[0], parts[1], wanted)
    distinct = list(dict.fromkeys(output))
    result = result.transpose([found.index(label) for label in distinct])
    if len(distinct) < len(output):
        result = _spread(xp, result, distinct, output)
    elif len(parts) == 1:
        result = result.copy()
    return result.astype(dtype, copy=False)


def _labels(term: str, x: Array, index: int) -> list[Label]:
    """A label for each axis of an input."""
    before, dots, after = term.partition(_DOTS)
    named = len(before) + len(after)
    if x.ndim < named or (not dots and x.ndim > named):
        least = "at least rank" if dots else "rank"
        raise InvalidArgumentError(f"Expected input {index} to have {least} {named} but got: {x.ndim}")
    return [*before, *range(named - x.ndim, 0), *after]


def _output_labels(right: str, inputs: Sequence[Sequence[Label]]) -> list[Label]:
    dotted = sorted({label for labels in inputs for label in labels if isinstance(label, int)})
    before, dots, after = right.partition(_DOTS)
    if dotted and not dots:
        raise InvalidArgumentError(
            f"Output contains {len(dotted)} broadcasting dimension(s) but no ellipsis (...) was found in the "
            "output subscripts."
        )
    known = {label for labels in inputs for label in labels}
    # A label of no input has no size.
    return [label for label in (*before, *dotted, *after) if label in known]


def _check_sizes(inputs: Sequence[Array], labels: Sequence[Sequence[Label]]) -> None:
    """Each label has one size; those of dots may be 1 beside another."""
    sizes: dict[Label, int] = {}
    for x, each in zip(inputs, labels, strict=True):
        for axis, (label, size) in enumerate(zip(each, x.shape, strict=True)):
            known = sizes.setdefault(label, size)
            if known == size:
                continue
            if isinstance(label, int) and 1 in (known, size):
                sizes[label] = max(known, size) if 0 not in (known, size) else 0
                continue
            raise InvalidArgumentError(
                f"Expected dimension {known} at axis {axis} of the input shaped {brackets(x.shape)} but got "
                f"dimension {size}"
            )


def _reduced(xp: Any, x: Array, labels: list[Label], kept: frozenset[Label]) -> tuple[Any, list[Label]]:
    """The input with each label once, and those alone that are kept."""
    labels = list(labels)
    value: Any = x
    for label in [each for each in dict.fromkeys(labels) if labels.count(each) > 1]:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            value = value.diagonal(axis1=first, axis2=second)
            labels = [each for i, each in enumerate(labels) if i not in (first, second)] + [label]
    gone = tuple(i for i, label in enumerate(labels) if label not in kept)
    if gone:
        value = value.sum(axis=gone, dtype=value.dtype)
    return value, [label for label in labels if label in kept]


def _product(
    xp: Any, left: tuple[Any, list[Label]], right: tuple[Any, list[Label]], wanted: frozenset[Label]
) -> tuple[Any, list[Label]]:
    """The product of two inputs, and the labels of its axes."""
    (x, x_labels), (y, y_labels) = left, right
    both = [label for label in x_labels if label in y_labels]
    batch = [label for label in both if label in wanted]
    summed = [label for label in both if label not in wanted]
    x_free = [label for label in x_labels if label not in both]
    y_free = [label for label in y_labels if label not in both]
    x = x.transpose([x_labels.index(label) for label in (*batch, *x_free, *summed)])
    y = y.transpose([y_labels.index(label) for label in (*batch, *summed, *y_free)])
    count, inside = len(batch), len(summed)
    x_sizes, y_sizes = x.shape[count : x.ndim - inside], y.shape[count + inside :]
    inner = math.prod(y.shape[count : count + inside])
    result = product(
        xp,
        x.reshape((*x.shape[:count], math.prod(x_sizes), inner)),
        y.reshape((*y.shape[:count], inner, math.prod(y_sizes))),
    )
    return result.reshape((*result.shape[:count], *x_sizes, *y_sizes)), [*batch, *x_free, *y_free]


def _spread(xp: Any, x: Any, labels: Sequence[Label], output: Sequence[Label]) -> Any:
    """Zeros but for the diagonals of labels that the output has several times."""
    sizes = dict(zip(labels, x.shape, strict=True))
    letters = {label: chr(ord("a") + i) for i, label in enumerate(labels)}
    result = xp.zeros([sizes[label] for label in output], x.dtype)
    repeated = "".join(letters[label] for label in output)
    xp.einsum(f"{repeated}->{''.join(letters[label] for label in labels)}", result)[...] = x
    return result
