"""`--feed NAME=zeros`, `ones` or `random`: values to try a model without data."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.shapes import TensorShape

#: The words for synthetic values.
SYNTHETIC: Final = ("zeros", "ones", "random")
#: The seed of the random values, which are the same in each run.
_SEED: Final = 0


def synthetic_value(word: str, dtype: DType | None, shape: TensorShape) -> Any:
    """Return an array of a tensor's dtype and shape, with 1 for each size that is unknown.

    Random floats are from 0 to 1, random integers and truth values 0 or 1. Raises ValueError for a shape of
    unknown rank.

    >>> synthetic_value("ones", dtypes.int32, TensorShape([None, 2])).tolist()
    [[1, 1]]
    """
    if shape.dims is None:
        raise ValueError(f"the shape is unknown, so that there are no {word}: write a literal, such as [[1]]")
    sizes = [1 if size is None else size for size in shape.dims]
    kind: Any = (dtype or dtypes.float32).as_numpy_dtype
    if word != "random":
        return np.full(sizes, int(word == "ones")).astype(kind)
    generator = np.random.default_rng(_SEED)
    whole = dtype is not None and not (dtype.is_floating or dtype.is_complex)
    return (generator.integers(0, 2, sizes) if whole else generator.random(sizes)).astype(kind)


__all__ = ["SYNTHETIC", "synthetic_value"]
