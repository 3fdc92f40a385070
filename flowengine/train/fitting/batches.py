"""The batches of an epoch: rows of arrays in an order of their own, or the elements of a dataset."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowengine.core.errors import InvalidArgumentError
from flowengine.data import Dataset
from flowengine.data.elements import Elements


@dataclass(frozen=True, slots=True)
class Batch:
    """The feeds of a step, {placeholder or its name: value}, and their number of rows."""

    feed: dict[Any, Any]
    rows: int


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How arrays are cut into batches.

    size        the number of rows of a batch
    drop_last   whether a last batch with fewer rows is left out
    seed        the seed of the order of rows in each epoch; None to keep the order of the arrays
    """

    size: int = 32
    drop_last: bool = False
    seed: int | None = None


class BatchSource(ABC):
    """A source of the batches of each epoch.

    keys   the placeholders that the batches feed, as the caller names them
    what   the name of the source in messages, such as "data"
    """

    def __init__(self, keys: Sequence[Any], what: str) -> None:
        self.keys = list(keys)
        self.what = what

    @property
    @abstractmethod
    def count(self) -> int | None:
        """How many batches an epoch has; None if only its end will show that."""

    @abstractmethod
    async def begin(self, epoch: int) -> None:
        """Begin an epoch, whatever is left of the one before."""

    @abstractmethod
    async def following(self) -> Batch | None:
        """Return the next batch of the epoch; None at its end."""

    @abstractmethod
    async def close(self) -> None:
        """End the tasks of an epoch that was left in the middle."""


class ArrayBatches(BatchSource):
    """Batches of the rows of arrays that have as many."""

    def __init__(self, arrays: Mapping[Any, Any], options: BatchOptions, what: str) -> None:
        """Raise InvalidArgumentError for arrays of different lengths, and if there would be no batch."""
        super().__init__(list(arrays), what)
        self._arrays = [_rows(array, key, what) for key, array in arrays.items()]
        self._options = options
        lengths = {_shown(key): len(array) for key, array in zip(arrays, self._arrays, strict=True)}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise InvalidArgumentError(f"the arrays of {what} have different numbers of rows: {shown}")
        self._length = next(iter(lengths.values()))
        self._order: np.ndarray[Any, Any] | None = None
        #: Of the batch that follows.
        self._number = 0
        if not self.count:
            why = "" if not self._length else f", fewer than batch_size={options.size}, and drop_last=True"
            raise InvalidArgumentError(
                f"{what} gives no batch: its arrays have {self._length or 'no'} rows{why}"
            )

    @property
    def count(self) -> int:
        whole, rest = divmod(self._length, self._options.size)
        return whole + (rest > 0 and not self._options.drop_last)

    async def begin(self, epoch: int) -> None:
        seed = self._options.seed
        # The order depends on the epoch alone, so a restarted run takes the rows in the same order.
        self._order = None if seed is None else np.random.default_rng([seed, epoch]).permutation(self._length)
        self._number = 0

    async def following(self) -> Batch | None:
        size = self._options.size
        place = slice(self._number * size, min((self._number + 1) * size, self._length))
        if place.stop - place.start < (size if self._options.drop_last else 1):
            return None
        rows = place if self._order is None else self._order[place]
        self._number += 1
        feed = {key: array[rows] for key, array in zip(self.keys, self._arrays, strict=True)}
        return Batch(feed, place.stop - place.start)

    async def close(self) -> None:
        return


class DatasetBatches(BatchSource):
    """The elements of a dataset, each a batch; each epoch goes through it anew."""

    def __init__(self, dataset: Dataset, keys: Sequence[Any], what: str) -> None:
        """Raise InvalidArgumentError for a dataset without end, and one that does not fit the keys."""
        super().__init__(keys, what)
        self._dataset = dataset
        self._elements: Elements | None = None
        if len(dataset.types) != len(keys):
            raise InvalidArgumentError(
                f"an element of {what} has {len(dataset.types)} components, and inputs= names {len(keys)}: "
                "name the placeholder of each component"
            )
        self._count = _length_of(dataset)
        if self._count == 0:
            raise InvalidArgumentError(f"{what} gives no batch: the dataset has no element")
        if self._count is math.inf:
            raise InvalidArgumentError(
                f"{what} never ends, and so would its first epoch: leave out repeat(), or take(n) "
                "so many batches"
            )

    @property
    def count(self) -> int | None:
        return None if self._count is None else int(self._count)

    async def begin(self, epoch: int) -> None:
        await self.close()
        self._elements = self._dataset.elements()

    async def following(self) -> Batch | None:
        if self._elements is None:
            return None
        try:
            element = await anext(self._elements)
        except StopAsyncIteration:
            self._elements = None
            return None
        parts = (element,) if len(self.keys) == 1 else element
        shape = np.shape(parts[0])
        return Batch(dict(zip(self.keys, parts, strict=True)), shape[0] if shape else 1)

    async def close(self) -> None:
        elements, self._elements = self._elements, None
        if elements is not None:
            await elements.close()


def source_of(data: Any, inputs: Any, options: BatchOptions, what: str) -> BatchSource:
    """Return the source of the batches.

    data     {placeholder or name: array}; or a dataset whose elements are batches, an array, or a tuple or
             list of arrays, whose placeholders `inputs` names in this order
    what     the name of the source in messages

    Raises InvalidArgumentError for anything else.
    """
    names = None if inputs is None else list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if isinstance(data, Mapping):
        if not data:
            raise InvalidArgumentError(f"{what} is empty: give {{placeholder: array}}")
        return ArrayBatches(data, options, what)
    is_dataset = isinstance(data, Dataset)
    if not is_dataset and not isinstance(data, list | tuple | np.ndarray):
        raise InvalidArgumentError(
            f"{what} is a {type(data).__name__}: give {{placeholder: array}}, a tuple of arrays, or a "
            "fe.data.Dataset, which Dataset.from_generator makes of what Python yields"
        )
    if names is None:
        raise InvalidArgumentError(
            f"{what} does not say which placeholders it is for: give inputs=[x, y, ...], or "
            "{placeholder: array} as data"
        )
    if is_dataset:
        return DatasetBatches(data, names, what)
    arrays = [data] if isinstance(data, np.ndarray) else list(data)
    if len(arrays) != len(names):
        raise InvalidArgumentError(
            f"{what} has {len(arrays)} arrays, and inputs= names {len(names)} placeholders"
        )
    return ArrayBatches(dict(zip(names, arrays, strict=True)), options, what)


def _rows(array: Any, key: Any, what: str) -> np.ndarray[Any, Any]:
    try:
        found = np.asarray(array)
    except ValueError:
        raise InvalidArgumentError(
            f"'{_shown(key)}' of {what} has rows of different lengths: pad them, or give a fe.data.Dataset"
        ) from None
    if not found.ndim:
        raise InvalidArgumentError(
            f"'{_shown(key)}' of {what} is {found}, which has no rows: what is the same in each step goes "
            "into feeds=, and for validation into validation_feeds="
        )
    return found


def _shown(key: Any) -> str:
    return str(getattr(key, "name", key))


def _length_of(dataset: Dataset) -> float | None:
    """How many elements there are: a number, infinity, or None where nobody knows."""
    try:
        return len(dataset)
    except TypeError:
        pass
    try:
        # As long as the shorter one: known only where the other has no end.
        len(Dataset.zip(Dataset.range(1), dataset))
    except TypeError:
        return None
    return math.inf


__all__ = ["Batch", "BatchOptions", "BatchSource", "source_of"]
