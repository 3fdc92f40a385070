"""The bytes that a value holds: numbers, and texts with what they say.

    assert bytes_of(np.zeros(3, np.float32)) == 12

An array of strings refers to `bytes` objects; one that stands there several times is held once.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np

from flowengine.core.arrays import Array, Value

#: What Python adds to the contents of a `bytes`.
_TEXT_BYTES: Final = sys.getsizeof(b"")
#: A reference in an array.
REFERENCE_BYTES: Final = np.dtype(object).itemsize


def text_bytes(text: bytes) -> int:
    """What one string takes."""
    return _TEXT_BYTES + len(text)


def contents_of(array: Array) -> int:
    """What the strings of an array take, beside the references to them; 0 for an array of numbers."""
    if not array.dtype.hasobject:
        return 0
    texts = {id(each): each for each in array.ravel().tolist() if isinstance(each, bytes)}
    return sum(map(text_bytes, texts.values()))


def bytes_of(value: Value) -> int:
    """What a tensor takes; 0 for what is none, such as a handle."""
    if isinstance(value, bytes):
        return text_bytes(value)
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + contents_of(value)
    return int(value.nbytes) if isinstance(value, np.generic) else 0


__all__ = ["REFERENCE_BYTES", "bytes_of", "contents_of", "text_bytes"]
