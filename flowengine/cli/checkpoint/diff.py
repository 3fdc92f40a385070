"""How two checkpoints differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flowengine.cli.checkpoint.reading import chosen, text_of
from flowengine.cli.failure import CommandError

if TYPE_CHECKING:
    from flowengine.checkpoint import BundleReader, V1Reader


@dataclass(frozen=True, slots=True)
class TensorChange:
    """A tensor that both have. `elements` that differ of `total`; `largest`: absolute, None if no number."""

    name: str
    elements: int
    total: int
    largest: float | None


@dataclass(frozen=True, slots=True)
class CheckpointDifference:
    """The differences of two checkpoints; `kinds`: name -> how type and shape are written in each."""

    only_in_one: list[str] = field(default_factory=list)
    only_in_other: list[str] = field(default_factory=list)
    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)
    changed: list[TensorChange] = field(default_factory=list)
    equal: int = 0

    @property
    def found(self) -> bool:
        return bool(self.only_in_one or self.only_in_other or self.kinds or self.changed)


def compare(
    one: BundleReader | V1Reader, other: BundleReader | V1Reader, patterns: Sequence[str], tolerance: float
) -> CheckpointDifference:
    """The difference, tensor by tensor: no more than one of each is held. Bits count: NaN equals itself."""
    left, right = _named(one, other, patterns)
    difference = CheckpointDifference(
        [text_of(name) for name in left if name not in right],
        [text_of(name) for name in right if name not in left],
    )
    equal = 0
    for name in left:
        if name not in right:
            continue
        kinds = tuple(f"{reader.dtype(name)} {list(reader.shape(name))}" for reader in (one, other))
        if kinds[0] != kinds[1]:
            difference.kinds[text_of(name)] = kinds[0], kinds[1]
            continue
        changed = _changed(text_of(name), one.read(name), other.read(name), tolerance)
        if changed is None:
            equal += 1
        else:
            difference.changed.append(changed)
    return CheckpointDifference(
        difference.only_in_one, difference.only_in_other, difference.kinds, difference.changed, equal
    )


def _named(
    one: BundleReader | V1Reader, other: BundleReader | V1Reader, patterns: Sequence[str]
) -> tuple[list[bytes], list[bytes]]:
    """Return the names to compare in each checkpoint; a pattern need match in one of them only."""
    left: set[bytes] = set()
    right: set[bytes] = set()
    for pattern in patterns:
        missing: list[CommandError] = []
        for reader, names in ((one, left), (other, right)):
            try:
                names.update(chosen(reader, [pattern]))
            except CommandError as error:
                missing.append(error)
        if len(missing) == 2:
            raise missing[0]
    if not patterns:
        return one.names(), other.names()
    return sorted(left), sorted(right)


def _changed(name: str, one: Any, other: Any, tolerance: float) -> TensorChange | None:
    if one.dtype.hasobject:
        count = int(np.count_nonzero(one != other))
        return TensorChange(name, count, one.size, None) if count else None
    if one.tobytes() == other.tobytes():
        return None
    numbers = one.dtype.kind in "iufcb"
    wide = [each if numbers else each.astype(np.float32) for each in (one, other)]
    bits = [each.reshape(-1).view(np.uint8).reshape(each.size, -1) for each in (one, other)]
    differs = (bits[0] != bits[1]).any(axis=1)
    if wide[0].dtype.kind == "c":
        distance = np.abs(wide[0] - wide[1])
    else:
        with np.errstate(all="ignore"):
            distance = np.abs(wide[0].astype(np.float64) - wide[1].astype(np.float64))
    distance = distance.reshape(-1)[differs]
    if tolerance and not (distance > tolerance).any() and not np.isnan(distance).any():
        return None
    finite = distance[np.isfinite(distance)]
    return TensorChange(name, int(differs.sum()), one.size, float(finite.max()) if finite.size else None)


def readable_difference(difference: CheckpointDifference, one: str, other: str) -> list[str]:
    """The difference as lines; the last one counts."""
    lines = [f"only in {one}: {name}" for name in difference.only_in_one]
    lines += [f"only in {other}: {name}" for name in difference.only_in_other]
    lines += [f"{name}: {left} -> {right}" for name, (left, right) in difference.kinds.items()]
    for each in difference.changed:
        by = "" if each.largest is None else f", by {each.largest:.4g} at most"
        lines.append(f"{each.name}: {each.elements} of {each.total} elements differ{by}")
    differing = len(lines)
    lines.append(f"{difference.equal} tensors are equal, {differing} differ")
    return lines
