"""Raw binary requests: a body that is nothing but the data of a model's only input."""

from __future__ import annotations

import math

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.saved_model.signatures import SignatureFacts
from flowengine.serving.v2.binary import read_binary
from flowengine.serving.v2.signatures import check_dense


def read_raw(signature: SignatureFacts, data: memoryview) -> Pieces[tuple[str, Array]]:
    """Read the only input of a signature, whose shape follows from the size of the data.

    Raises InvalidArgumentError if the shape does not follow from it: for several inputs, for more than one
    free dimension, and for strings unless the input has one element, which all of the data is.
    """
    if len(signature.inputs) != 1:
        raise _not_deduced(signature)
    ((name, tensor),) = signature.inputs.items()
    check_dense(f"input '{name}'", tensor)
    if tensor.shape.dims is None:
        raise _not_deduced(signature)
    dims = list(tensor.shape.dims)
    if tensor.dtype is dtypes.string:
        if len(dims) != 1 or dims[0] not in (None, 1):
            raise _not_deduced(signature)
        array = np.empty(1, object)
        array[0] = bytes(data)
        return name, array
    size = tensor.dtype.as_numpy_dtype.itemsize
    if dims.count(None) > 1:
        raise _not_deduced(signature)
    if None in dims:
        known = math.prod(each for each in dims if each is not None) * size
        dims[dims.index(None)] = len(data) // known if known else 0
    shape = tuple(each or 0 for each in dims)
    array = yield from read_binary(name, tensor.dtype, shape, math.prod(shape), data)
    return name, array


def _not_deduced(signature: SignatureFacts) -> InvalidArgumentError:
    return InvalidArgumentError(
        "a raw binary request needs a model with one input and at most one free dimension, or one string: "
        f"this one has {signature.described()}"
    )


__all__ = ["read_raw"]
