"""How near two arrays are, in units in the last place; and arrays that are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from flowengine.core.dtypes import as_dtype

Floats = np.ndarray[Any, Any]
NARROW = ("float16", "bfloat16")
FLOATS = (*NARROW, "float32", "float64")


def agrees(found: Floats, wanted: Floats, ulps: int) -> bool:
    """Equal but for the sign of 0 and the bits of NaN, or that near."""
    if found.dtype.kind == "c":
        return agrees(found.real, wanted.real, ulps) and agrees(found.imag, wanted.imag, ulps)
    if found.dtype.kind in "biu":
        return bool((found == wanted).all())
    same = (found == wanted) | ((found != found) & (wanted != wanted))
    if ulps:
        # Where a narrow type's kernel rounds a float32, that may lie on the edge of two.
        signed = [ordered(value) for value in (found, wanted)]
        same |= (np.abs(signed[0] - signed[1]) <= ulps) & (found == found) & (wanted == wanted)
    return bool(same.all())


def ordered(value: Floats) -> Floats:
    """Numbers that count the floats from 0 up and down."""
    bits = np.ascontiguousarray(value).view(f"i{value.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.iinfo(f"i{value.dtype.itemsize}").min - bits, bits)


def numpy_type(name: str) -> Any:
    return np.dtype(as_dtype(name).as_numpy_dtype)


def widened(value: Floats) -> Floats:
    """Return an array of a narrow type as float32, in which the CPU's kernels compute; others as they are."""
    return value.astype(np.float32) if value.dtype.name in NARROW else value


seeds = st.integers(0, 2**32 - 1)


def floats(seed: int, name: str, *shape: int, specials: bool = False) -> Floats:
    """Numbers around 0 of a type; with `specials` some are 0, some equal, some infinite or NaN."""
    source = np.random.default_rng(seed)
    made = source.normal(0, 2, shape)
    if specials:
        chosen = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan])
        made = np.where(source.random(shape) < 0.4, source.choice(chosen, shape), made)
    return np.ascontiguousarray(made.astype(numpy_type(name)))
