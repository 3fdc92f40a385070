"""Outputs that an op's definition leaves open in part, with the open part taken away.

A singular or an eigenvector may be multiplied by any number of absolute value 1, and those of a null space
replaced by others that span it; the eigenvalues of a matrix that is not symmetric come in any order. What
is left after `settled` is the same for every right answer, single values given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

Settle = Callable[[Sequence[Any]], Sequence[Any]]
#: Elements whose absolute values differ by less are taken for equals when the largest is chosen.
_DIGITS: Final = 3


def _phases(vectors: Any) -> Any:
    """(..., M, N) -> (..., 1, N): what to multiply columns by, so that the largest element is positive."""
    sizes = np.abs(vectors).round(_DIGITS)
    largest = np.take_along_axis(vectors, sizes.argmax(-2, keepdims=True), -2)
    return np.where(largest == 0, 1, np.conj(largest) / np.maximum(np.abs(largest), 1e-30))


def _span(vectors: Any) -> Any:
    """The projection onto the space of some columns, whichever of its bases they are."""
    return vectors @ np.conj(np.swapaxes(vectors, -1, -2))


def _symmetric(values: Sequence[Any]) -> Sequence[Any]:
    """Eigenvalues, eigenvectors where they were asked for."""
    e, v = values
    return [e, v * _phases(v)] if v.ndim > 1 and v.size else [e, v]


def _one_matrix(values: Sequence[Any]) -> Sequence[Any]:
    """(..., M + 1, M): a row of eigenvalues above the eigenvectors."""
    (both,) = values
    v = both[..., 1:, :]
    return [np.concatenate([both[..., :1, :], v * _phases(v)], -2)] if v.size else values


def _singular(values: Sequence[Any]) -> Sequence[Any]:
    """Singular values, left and right vectors, which go together, and the spaces of those without a value."""
    s, u, v = values
    if u.ndim < 2 or not u.size or not v.size:
        return values
    count = s.shape[-1]
    left, right = u[..., :count], v[..., :count]
    phases = _phases(left)
    return [s, left * phases, right * phases, _span(u[..., count:]), _span(v[..., count:])]


def _general(values: Sequence[Any]) -> Sequence[Any]:
    """Eigenvalues in order of their parts, eigenvectors with them."""
    e, v = values
    if not e.size:
        return values
    order = np.lexsort((e.imag.round(_DIGITS), e.real.round(_DIGITS)), -1)
    sorted_e = np.take_along_axis(e, order, -1)
    if v.ndim < 2 or not v.size:
        return [sorted_e, v]
    columns = np.take_along_axis(v, order[..., None, :], -1)
    return [sorted_e, columns * _phases(columns)]


_SETTLES: Final[Mapping[str, Settle]] = {
    "SelfAdjointEigV2": _symmetric,
    "BatchSelfAdjointEigV2": _symmetric,
    "SelfAdjointEig": _one_matrix,
    "BatchSelfAdjointEig": _one_matrix,
    "Svd": _singular,
    "BatchSvd": _singular,
    "Eig": _general,
}


def settled(op: str, values: Sequence[Any]) -> Sequence[Any]:
    """The outputs of an op without what its definition leaves open; those of most ops as they are."""
    settle = _SETTLES.get(op)
    return values if settle is None else settle(values)


__all__ = ["settled"]
