"""Checks and conversions of the arguments of `client` functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.public_names.suggest import close_matches
from flowengine.graphs.conversion import TensorLike, convert, stands_for_tensor
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError
from flowengine.graphs.functions.math import cast
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


def computing_type(tensor: Tensor) -> DType:
    """The type in which sums of a tensor's elements are kept: float64 of float64, else float32."""
    return dtypes.float64 if tensor.dtype.base is dtypes.float64 else dtypes.float32


def of_type(graph: Graph, value: TensorLike, dtype: DType) -> Tensor:
    """A value as a tensor of a type: a tensor of another type is cast, a Python value made one."""
    return cast(convert(graph, value, None if stands_for_tensor(value) else dtype), dtype)


def training_flag(graph: Graph, what: str, training: Any) -> bool | Tensor:
    """Return whether a layer trains, as a bool or a bool Tensor of rank 0.

    If the rank of a Tensor is unknown, such as that of a placeholder without a shape, each step checks it, so
    results that it selects keep their shapes. Raises ConstructionTypeError for another type,
    ConstructionValueError for a Tensor that is known to have axes.
    """
    if not stands_for_tensor(training):
        return bool(training)
    flag = convert(graph, training)
    if flag.dtype.base is not dtypes.bool_:
        raise ConstructionTypeError(f"{what}: training is '{flag.name}' of {flag.dtype}; it must be bool")
    rank = flag.shape.rank
    if rank:
        raise ConstructionValueError(
            f"{what}: training is '{flag.name}' of shape {flag.shape}; it must be a scalar, of shape []"
        )
    if rank is None:
        scalar: Tensor = graph.ops.Reshape(flag, np.zeros(0, np.int32), name="training")
        return scalar
    return flag


def check_options(what: str, options: Mapping[str, Any], known: type[Any]) -> None:
    """ConstructionTypeError for an option that is none of the TypedDict's that a function takes."""
    for name in options.keys() - known.__optional_keys__:
        near = close_matches(name, known.__optional_keys__)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConstructionTypeError(f"{what} has no option {name!r}{hint}")


__all__ = ["check_options", "computing_type", "of_type", "training_flag"]
