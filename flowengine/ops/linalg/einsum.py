"""Sums of products along named axes."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, UNKNOWN_SHAPE, Dimension, TensorShape, broadcast_shapes
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define


@define("Einsum(inputs: N * T) -> output: T", "equation: string; N: int >= 1; T: type")
def einsum(c: ShapeContext) -> Shapes:
    """The output's letters, each with the size that it has in the inputs."""
    equation = c.attrs["equation"].decode("latin-1")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != c.num_inputs:
        raise InvalidArgumentError(f"equation {equation!r} does not fit {c.num_inputs} inputs")
    sizes: dict[str, list[Dimension]] = {}
    ellipsis = SCALAR
    for index, term in enumerate(terms):
        shape = c.input(index)
        letters = term.replace("...", "")
        if shape.dims is None:
            ellipsis = UNKNOWN_SHAPE if "..." in term else ellipsis
            for letter in letters:
                sizes.setdefault(letter, []).append(None)
            continue
        extra = len(shape.dims) - len(letters)
        if extra < 0 or (extra and "..." not in term):
            raise InvalidArgumentError(f"input {index} of shape {shape} does not fit {term!r}")
        start = term.find("...")
        named = shape.dims
        if start >= 0:
            named = shape.dims[:start] + shape.dims[start + extra :]
            ellipsis = broadcast_shapes(ellipsis, TensorShape(shape.dims[start : start + extra]))
        for letter, size in zip(letters, named, strict=True):
            sizes.setdefault(letter, []).append(size)
    known = {letter: _one_size(several) for letter, several in sizes.items()}
    before, dots, after = right.partition("...")
    if dots and ellipsis.dims is None:
        return [UNKNOWN_SHAPE]
    middle = ellipsis.dims if dots and ellipsis.dims is not None else ()
    # A letter of no input has no size: the kernel leaves it out, too.
    return [
        TensorShape(
            [*(known[x] for x in before if x in known), *middle, *(known[x] for x in after if x in known)]
        )
    ]


def _one_size(sizes: Sequence[Dimension]) -> Dimension:
    """The one size of a letter."""
    known = {size for size in sizes if size is not None}
    if len(known) > 1:
        raise InvalidArgumentError(f"one letter of the equation has several sizes: {sorted(known)}")
    return known.pop() if known else None
