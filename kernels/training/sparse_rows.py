"""Updates of the rows that a sparse gradient names: a row as often as it is named, one time after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import shape_text
from flowengine.kernels.training.optimizers import Rule, apply_rule

#: Indices are in host memory wherever the rows are: how often a row is named has to be seen.
HOST_INPUTS: Final = frozenset({"indices"})

#: A set of Python integers finds duplicates among so many indices in less time than sorting.
_FEW: Final = 256


def _rounds(indices: Array) -> list[Array]:
    """Positions in `indices`, split so that no row is named twice in one part, in order for each row."""
    order = np.argsort(indices, kind="stable")
    ranked = indices[order]
    fresh = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    if fresh.size == ranked.size:
        return [np.arange(indices.size)]
    lengths = np.diff(np.append(fresh, ranked.size))
    occurrence = np.arange(ranked.size) - np.repeat(fresh, lengths)
    return [order[occurrence == n] for n in range(int(lengths.max()))]


def apply_sparse(
    xp: Any,
    rule: Rule,
    names: Sequence[str],
    variables: Sequence[Any],
    grad: Any,
    indices: Any,
    keywords: dict[str, Any],
) -> None:
    """Change rows of variable and slots: row `indices[i]` by `grad[i]`, one after another.

    InvalidArgumentError where shapes do not fit or an index is no row; nothing is changed then.
    """
    grad, indices = to_array(grad), to_array(indices)
    arrays = [v.mutable() for v in variables]
    var = arrays[0]
    if var.ndim < 1:
        raise InvalidArgumentError("var must be at least 1 dimensional")
    for name, array in zip(names[1:], arrays[1:], strict=True):
        if array.shape != var.shape:
            raise InvalidArgumentError(
                f"var and {name} do not have the same shape{shape_text(var)} {shape_text(array)}"
            )
    if indices.ndim != 1:
        raise InvalidArgumentError(f"indices must be one-dimensional, not {shape_text(indices)}")
    if grad.ndim != var.ndim or grad.shape[1:] != var.shape[1:]:
        raise InvalidArgumentError(
            f"var and grad must match in every dimension but the first: {shape_text(var)} vs. "
            f"{shape_text(grad)}"
        )
    if grad.shape[0] != indices.shape[0]:
        raise InvalidArgumentError(
            "grad must be the same size as indices in the first dimension: "
            f"{grad.shape[0]} vs. {indices.shape[0]}"
        )
    if indices.size == 0:
        return
    few = indices.tolist() if indices.size <= _FEW else None
    low, high = (min(few), max(few)) if few is not None else (indices.min(), indices.max())
    if low < 0 or high >= var.shape[0]:
        offset = int(((indices < 0) | (indices >= var.shape[0])).argmax())
        raise InvalidArgumentError(
            f"Index {indices[offset]} at offset {offset} in indices is out of range [0, {var.shape[0]})"
        )
    if few is not None and len(set(few)) == len(few):
        _change_rows(xp, rule, arrays, xp.asarray(indices), grad, keywords)
        return
    parts = _rounds(indices)
    for part in parts:
        rows = grad if len(parts) == 1 else grad.take(xp.asarray(part), 0)
        _change_rows(xp, rule, arrays, xp.asarray(indices[part]), rows, keywords)


def _change_rows(
    xp: Any, rule: Rule, arrays: list[Array], rows: Array, grad: Array, keywords: dict[str, Any]
) -> None:
    """Change rows that are all different."""
    taken = [a.take(rows, 0) for a in arrays]
    apply_rule(xp, rule, taken, grad, keywords)
    for array, changed in zip(arrays, taken, strict=True):
        array[rows] = changed


__all__ = ["HOST_INPUTS", "apply_sparse"]
