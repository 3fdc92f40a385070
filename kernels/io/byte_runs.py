"""Runs of bytes within one text as an array of strings, made by few operations instead of Python for each."""

from __future__ import annotations

from typing import Final

import numpy as np

from flowengine.core.arrays import Array

#: Runs shorter than this are grouped by length where a length has so many of them: a third of the time.
_SHORT: Final = 256
_ALIKE: Final = 32


def runs_of(data: bytes, length: int) -> Array:
    """The so many bytes from any place on, as one item: void[length] (places,), a view.

    length   1 or more, and no more than there are bytes
    """
    return np.ndarray((len(data) - length + 1,), np.dtype((np.void, length)), data, strides=(1,))


def common_lengths(lengths: Array) -> list[int]:
    """Which lengths there are (int64 [n]), if each has enough runs to be made by itself; else none."""
    if not len(lengths):
        return []
    longest = int(lengths.max())
    if longest == int(lengths.min()):
        return [longest] if longest < _SHORT else []
    if longest >= _SHORT:
        return []
    found: list[int] = np.flatnonzero(np.bincount(lengths)).tolist()
    return found if len(found) * _ALIKE <= len(lengths) else []


def alike(data: bytes, begins: Array, lengths: Array, common: list[int]) -> Array:
    """The runs that begin at these places, as strings: object [n].

    common   all lengths that there are, none of them rare
    """
    if len(common) == 1:
        return _of_length(data, begins, common[0])
    values = np.empty(len(begins), object)
    for length in common:
        same = np.flatnonzero(lengths == length)
        values[same] = _of_length(data, begins[same], length)
    return values


def _of_length(data: bytes, begins: Array, length: int) -> Array:
    if not length:
        return np.full(len(begins), b"", object)
    return runs_of(data, length)[begins].astype(object)


def strings_between(data: bytes, begins: Array, ends: Array) -> Array:
    """The bytes between each begin and its end: object [n] of strings."""
    lengths = ends - begins
    common = common_lengths(lengths)
    if common:
        return alike(data, begins, lengths, common)
    values = np.empty(len(begins), object)
    values[:] = [data[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]
    return values


def columns_between(data: bytes, begins: Array, lengths: Array) -> list[Array]:
    """Apply `strings_between` to each row of begins and lengths (rows, n)."""
    length = int(lengths.max())
    if 0 < length < _SHORT and length == int(lengths.min()):
        runs = runs_of(data, length)
        return [runs[each].astype(object) for each in begins]
    return [strings_between(data, at, at + size) for at, size in zip(begins, lengths, strict=True)]


__all__ = ["alike", "columns_between", "common_lengths", "runs_of", "strings_between"]
