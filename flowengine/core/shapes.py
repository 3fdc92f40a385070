"""Partial shapes: a rank that may be unknown, dimensions that may be unknown.

>>> TensorShape([2, None]).merge_with(TensorShape([None, 3]))
TensorShape([2, 3])
>>> broadcast_shapes(TensorShape([None, 1]), TensorShape([5]))
TensorShape([None, 5])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from flowengine.core.errors import InvalidArgumentError

Dimension = int | None


class TensorShape:
    """A tensor's shape as far as it is known. Immutable; `dims` is None where even the rank is unknown.

    >>> shape = fe.TensorShape([None, 3])
    >>> shape.is_compatible_with(fe.TensorShape([2, 3])), shape.num_elements()
    (True, None)
    >>> shape.as_list(), shape.as_tuple()
    ([None, 3], None)
    >>> shape.merge_with(fe.TensorShape([2, None])), shape.relax_with(fe.TensorShape([2, 4]))
    (TensorShape([2, 3]), TensorShape([None, None]))
    >>> shape.concatenate(fe.TensorShape([5])), shape.with_rank(2)
    (TensorShape([None, 3, 5]), TensorShape([None, 3]))
    >>> shape.with_rank(3)
    Traceback (most recent call last):
    flowengine.core.errors.InvalidArgumentError: shape must be rank 3 but is rank 2: [?,3]
    """

    __slots__ = ("dims",)

    dims: tuple[Dimension, ...] | None

    def __init__(self, dims: Iterable[Dimension] | TensorShape | None) -> None:
        if dims is None or isinstance(dims, TensorShape):
            self.dims = None if dims is None else dims.dims
            return
        try:
            cleaned = tuple([None if d is None or d == -1 else int(d) for d in dims])
        except (TypeError, ValueError):
            advice = f"write [{dims}]" if isinstance(dims, int) else "a list of sizes is one, None unknown"
            raise InvalidArgumentError(f"{dims!r} is not a shape: {advice}") from None
        if any(d is not None and d < 0 for d in cleaned):
            raise InvalidArgumentError(f"a dimension is negative in shape {list(cleaned)}")
        self.dims = cleaned

    @property
    def rank(self) -> int | None:
        return None if self.dims is None else len(self.dims)

    @property
    def is_fully_defined(self) -> bool:
        return self.dims is not None and None not in self.dims

    def num_elements(self) -> int | None:
        """Return the product of the dimensions; None while one is unknown."""
        if self.dims is None:
            return None
        product = 1
        for d in self.dims:
            if d is None:
                return None
            product *= d
        return product

    def as_list(self) -> list[Dimension]:
        """Return the dimensions as a list; InvalidArgumentError where the rank is unknown."""
        if self.dims is None:
            raise InvalidArgumentError("the rank of this shape is unknown")
        return list(self.dims)

    def as_tuple(self) -> tuple[int, ...] | None:
        """Return the dimensions where all of them are known, else None."""
        if self.dims is None:
            return None
        known = tuple(d for d in self.dims if d is not None)
        return known if len(known) == len(self.dims) else None

    def is_compatible_with(self, other: TensorShape) -> bool:
        """Whether one tensor could have this shape and the `other` one."""
        if self.dims is None or other.dims is None:
            return True
        return len(self.dims) == len(other.dims) and all(
            a is None or b is None or a == b for a, b in zip(self.dims, other.dims, strict=True)
        )

    def merge_with(self, other: TensorShape) -> TensorShape:
        """Return the shape with the knowledge of both; InvalidArgumentError if `other` contradicts."""
        if self.dims is None:
            return other
        if other.dims is None:
            return self
        if not self.is_compatible_with(other):
            raise InvalidArgumentError(f"shapes {self} and {other} are not compatible")
        return TensorShape(a if a is not None else b for a, b in zip(self.dims, other.dims, strict=True))

    def relax_with(self, other: TensorShape) -> TensorShape:
        """Return the most precise shape that this one and `other` are instances of."""
        if self.dims is None or other.dims is None or len(self.dims) != len(other.dims):
            return UNKNOWN_SHAPE
        return TensorShape(a if a == b else None for a, b in zip(self.dims, other.dims, strict=True))

    def with_rank(self, rank: int) -> TensorShape:
        """This shape, known to have this rank; InvalidArgumentError if it cannot."""
        if self.dims is None:
            return TensorShape([None] * rank)
        if len(self.dims) != rank:
            raise InvalidArgumentError(f"shape must be rank {rank} but is rank {len(self.dims)}: {self}")
        return self

    def concatenate(self, other: TensorShape) -> TensorShape:
        if self.dims is None or other.dims is None:
            return UNKNOWN_SHAPE
        return TensorShape(self.dims + other.dims)

    def __len__(self) -> int:
        return len(self.as_list())

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.as_list())

    def __getitem__(self, index: int) -> Dimension:
        """One dimension; unknown where the rank is."""
        return None if self.dims is None else self.dims[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorShape) and self.dims == other.dims

    def __hash__(self) -> int:
        return hash(self.dims)

    def __repr__(self) -> str:
        return f"TensorShape({None if self.dims is None else list(self.dims)})"

    def __str__(self) -> str:
        if self.dims is None:
            return "<unknown>"
        return "[" + ",".join("?" if d is None else str(d) for d in self.dims) + "]"


#: As in TensorFlow; it also keeps a length that a graph claims from being taken for a rank.
RANK_MAX: Final = 254

UNKNOWN_SHAPE: Final = TensorShape(None)
SCALAR: Final = TensorShape(())


def unknown_of_rank(rank: int) -> TensorShape:
    """A shape of known rank with no dimension known; InvalidArgumentError above 254, the most there are."""
    if rank > RANK_MAX:
        raise InvalidArgumentError(f"a tensor has at most {RANK_MAX} dimensions, not {rank}")
    return TensorShape([None] * rank)


def broadcast_shapes(a: TensorShape, b: TensorShape) -> TensorShape:
    """NumPy's broadcasting on partial shapes; InvalidArgumentError where it cannot work."""
    if a.dims is None or b.dims is None:
        return UNKNOWN_SHAPE
    longer, shorter = (a.dims, b.dims) if len(a.dims) >= len(b.dims) else (b.dims, a.dims)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    result: list[Dimension] = []
    for x, y in zip(longer, padded, strict=True):
        if x == 1:
            result.append(y)
        elif y == 1 or x == y:
            result.append(x)
        elif x is None or y is None:
            # A known dimension other than 1 wins over an unknown one: that one is it or 1.
            result.append(x if y is None else y)
        else:
            raise InvalidArgumentError(f"Incompatible shapes: {a} vs. {b}")
    return TensorShape(result)
