"""Inputs of datasets that Python code makes: origins without a node, values as arrays, paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import FuncAttr
from flowengine.kernels.common.file_access import translated
from flowengine.resources.data.dataset import Origin
from flowengine.resources.function_calls import FunctionCaller, NamedFunction


def _opened(name: bytes) -> BinaryIO:
    path = os.fsdecode(name)
    try:
        return open(path, "rb")
    except OSError as error:
        raise translated(error, path) from error


class _FunctionOrigin:
    """Gives a dataset the one function that it calls."""

    def __init__(self, function: NamedFunction) -> None:
        self.owner = ""
        self.library: object = None
        self._function = function

    def function(self, function: FuncAttr) -> NamedFunction:
        """The function, whatever it is called."""
        return self._function

    def of_library(self, library: object) -> FunctionCaller:
        """The same: there is no library."""
        return self


def origin_of(
    types: Sequence[DType], shapes: Sequence[TensorShape], function: NamedFunction | None = None, **attrs: Any
) -> Origin:
    attrs.update(output_types=tuple(types), output_shapes=tuple(shapes), f=None, predicate=None)
    caller = None if function is None else _FunctionOrigin(function)
    return Origin("", attrs, (), caller=caller, opener=_opened)


def array_of(column: Any) -> Any:
    """An array of a column: texts become bytes."""
    array = np.asarray(column)
    if array.dtype.kind not in "OSU":
        return array
    texts = [each.encode() if isinstance(each, str) else each for each in np.array(column, object).ravel()]
    made = np.empty(len(texts), dtype=object)
    made[:] = texts
    return made.reshape(np.shape(np.array(column, object)))


def type_of(array: Any) -> DType:
    return dtypes.string if array.dtype.hasobject else dtypes.as_dtype(array.dtype)


def state_of(initial: Any) -> tuple[Any, ...]:
    return tuple(map(array_of, initial if isinstance(initial, tuple) else (initial,)))


def paths_of(paths: str | bytes | Iterable[str]) -> Any:
    names = [paths] if isinstance(paths, str | bytes | os.PathLike) else list(paths)
    if not names:
        raise InvalidArgumentError("paths is empty: give at least one file")
    return array_of([os.fspath(name) for name in names])


def zero_of(dtype: DType) -> Any:
    return b"" if dtype is dtypes.string else to_array(dtype.as_numpy_dtype.type(0))[()]


__all__ = ["array_of", "origin_of", "paths_of", "state_of", "type_of", "zero_of"]
