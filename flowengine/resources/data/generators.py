"""Datasets of what Python itself makes: iterables, asked on a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import trio

from flowengine.core import dtypes
from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, UnknownError
from flowengine.core.shapes import TensorShape
from flowengine.resources.data.dataset import DataIterator, DatasetValue, Iteration, Origin
from flowengine.resources.elements import Element

_ENDED = object()


class YieldedDataset(DatasetValue):
    """A dataset of an iterable's elements; each run makes the iterable anew. See `Dataset.from_generator`."""

    __slots__ = ("make",)

    def __init__(self, origin: Origin, make: Callable[[], Iterable[Any]]) -> None:
        super().__init__(origin)
        self.make = make

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _YieldedIterator(iteration, self)

    def element(self, made: Any) -> Element:
        """An element of what was given; InvalidArgumentError where it is not what was announced."""
        values = made if isinstance(made, tuple) else (made,)
        if len(values) != len(self.types):
            raise InvalidArgumentError(
                f"a generator of elements of {len(self.types)} component(s) gave {len(values)}: {made!r:.80}"
            )
        return tuple(map(_checked, values, self.types, self.shapes))


def _checked(value: Any, dtype: DType, shape: TensorShape) -> Value:
    try:
        found = _strings(value) if dtype is dtypes.string else np.array(value, dtype.as_numpy_dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"a generator yielded {value!r:.80}, which is not of type {dtype.name}"
        ) from error
    if not shape.is_compatible_with(TensorShape(found.shape)):
        raise InvalidArgumentError(f"a generator yielded the shape {list(found.shape)}, not {shape}")
    # An element's scalar is NumPy's, or bytes.
    return found if found.ndim else found[()]


def _strings(value: Any) -> Any:
    array = np.array(value, object)
    texts = [each.encode() if isinstance(each, str) else each for each in array.ravel().tolist()]
    if not all(isinstance(each, bytes) for each in texts):
        raise TypeError("texts and bytes are strings")
    made = np.empty(len(texts), object)
    made[:] = texts
    return made.reshape(array.shape)


class _YieldedIterator(DataIterator):
    __slots__ = ("_dataset", "_is_asked", "_is_closed", "_values")

    def __init__(self, iteration: Iteration, made: YieldedDataset) -> None:
        super().__init__(iteration)
        self._dataset = made
        self._values: Iterator[Any] | None = None
        self._is_asked = self._is_closed = False

    def _following(self) -> Any:
        if self._values is None:
            self._values = iter(self._dataset.make())
        return next(self._values, _ENDED)

    async def next(self) -> Element | None:
        """Cancelled, it waits for the thread: two threads never ask one generator."""
        self._is_asked = True
        try:
            made = await trio.to_thread.run_sync(self._following)
        except Exception as error:
            raise UnknownError(f"a generator raised {type(error).__name__}: {error}") from error
        finally:
            self._is_asked = False
            if self._is_closed:
                self._end()
        return None if made is _ENDED else self._dataset.element(made)

    def close(self) -> None:
        """End the generator: what it holds is let go of. One that is asked ends when it has answered."""
        self._is_closed = True
        if not self._is_asked:
            self._end()

    def _end(self) -> None:
        end = getattr(self._values, "close", None)
        self._values = iter(())
        if end is not None:
            end()

    async def state(self) -> dict[str, Any]:
        raise FailedPreconditionError("the position of a Python generator cannot be saved")


__all__ = ["YieldedDataset"]
