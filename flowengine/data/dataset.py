"""`Dataset`: input pipelines in Python, over the datasets that graphs are made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.data.elements import Elements
from flowengine.data.functions import GraphFunction
from flowengine.ir.attrs import FuncAttr
from flowengine.kernels.common.file_access import translated
from flowengine.resources.calling import FunctionCaller, NamedFunction
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.batches import BatchDataset, PaddedBatchDataset, UnbatchDataset
from flowengine.resources.data.caching import CacheDataset
from flowengine.resources.data.choosing import IgnoreErrorsDataset
from flowengine.resources.data.dataset import DatasetValue, Origin
from flowengine.resources.data.files import text_line_dataset, tf_record_dataset
from flowengine.resources.data.functional import FilterDataset, MapDataset
from flowengine.resources.data.interleaving import InterleaveDataset
from flowengine.resources.data.ordering import (
    ConcatenateDataset,
    RepeatDataset,
    SkipDataset,
    TakeDataset,
    ZipDataset,
)
from flowengine.resources.data.parallel import ParallelMapDataset, PrefetchDataset
from flowengine.resources.data.parallel_interleaving import ParallelInterleaveDatasetV2
from flowengine.resources.data.selecting import ShardDataset
from flowengine.resources.data.shuffling import ShuffleDataset
from flowengine.resources.data.sources import RangeDataset, TensorSliceDataset

#: One value, or a tuple of them.
Values: TypeAlias = Any


def _opener(name: bytes) -> BinaryIO:
    path = os.fsdecode(name)
    try:
        return open(path, "rb")
    except OSError as error:
        raise translated(error, path) from error


class DatasetFunction:
    """A function of values that makes a dataset of each element. See `Dataset.flat_map`.

    types, shapes   of the elements of what it makes
    """

    def __init__(
        self, function: Callable[..., Dataset], types: Sequence[DType], shapes: Sequence[TensorShape]
    ) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function = function
        sizes = [[size or 0 for size in shape.as_list()] if shape.rank else [] for shape in shapes]
        example = [
            _zero(dtype) if not size else np.zeros(size, dtype.as_numpy_dtype)
            for dtype, size in zip(types, sizes, strict=True)
        ]
        made = self._made(example)
        self.types, self.shapes = made.types, made.shapes

    def _made(self, values: Sequence[Value]) -> DatasetValue:
        made = self._function(*values)
        if not isinstance(made, Dataset):
            raise InvalidArgumentError(f"'{self.name}' must return a dataset, not a {type(made).__name__}")
        return made._source

    async def __call__(self, arguments: Sequence[Value], sequences: ResourceManager) -> tuple[Value, ...]:
        """The dataset, of these values."""
        made: Any = self._made(arguments)
        return (made,)

    def of_rows(self, count: int) -> None:
        """A dataset is made of one element."""
        return


class _Caller:
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


def _origin(
    types: Sequence[DType], shapes: Sequence[TensorShape], function: NamedFunction | None = None, **attrs: Any
) -> Origin:
    attrs.update(output_types=tuple(types), output_shapes=tuple(shapes), f=None, predicate=None)
    caller = None if function is None else _Caller(function)
    return Origin("", attrs, (), caller=caller, opener=_opener)


class Dataset:
    """Says how elements are made; nothing is read or computed before one is asked for.

        squares = fe.data.Dataset.range(5).map(lambda x: x * x).batch(2)
        async for batch in squares:
            print(batch)

    An element is a value, or a tuple where it has several components. Each method gives a new dataset.
    `types` and `shapes` tell the components.
    """

    __slots__ = ("_source",)

    def __init__(self, source: DatasetValue) -> None:
        """`source` is the dataset that a graph's node would make; use the class methods."""
        self._source = source

    @property
    def types(self) -> tuple[DType, ...]:
        """The types of the components of an element."""
        return self._source.types

    @property
    def shapes(self) -> tuple[TensorShape, ...]:
        """Their shapes, as far as they are known."""
        return self._source.shapes

    def __len__(self) -> int:
        """How many elements there are; TypeError where nobody knows, or there is no end."""
        count = self._source.cardinality()
        if count < 0:
            raise TypeError("the dataset has no end, or none that is known before it is reached")
        return count

    def elements(self) -> Elements:
        """A run through the dataset, to be used with `async with` and `async for`."""
        return Elements(self._source)

    def __aiter__(self) -> Elements:
        return self.elements()

    # -- where elements come from -------------------------------------------------------------------

    @classmethod
    def range(cls, *bounds: int) -> Dataset:
        """int64 numbers, as Python's `range` counts."""
        numbers = range(*bounds)
        made = RangeDataset(
            _origin([dtypes.int64], [TensorShape([])]), numbers.start, numbers.stop, numbers.step
        )
        return cls(made)

    @classmethod
    def from_slices(cls, *columns: Any) -> Dataset:
        """The rows of arrays that have as many; InvalidArgumentError where they have not."""
        arrays = [_array(column) for column in columns]
        types = [dtypes.string if each.dtype.hasobject else dtypes.as_dtype(each.dtype) for each in arrays]
        return cls(
            TensorSliceDataset(
                _origin(types, [TensorShape(each.shape[1:]) for each in arrays]), tuple(arrays)
            )
        )

    @classmethod
    def tf_records(cls, paths: str | bytes | Iterable[str], *, compression: str = "") -> Dataset:
        """The records (string, rank 0) of TFRecord files; compression "", "ZLIB" or "GZIP"."""
        names = _paths(paths)
        origin = _origin([dtypes.string], [TensorShape([])])
        return cls(tf_record_dataset(origin, names, compression.encode(), np.int64(0)))

    @classmethod
    def text_lines(cls, paths: str | bytes | Iterable[str], *, compression: str = "") -> Dataset:
        """The lines (string, rank 0) of text files, without their ends."""
        names = _paths(paths)
        origin = _origin([dtypes.string], [TensorShape([])])
        return cls(text_line_dataset(origin, names, compression.encode(), np.int64(0)))

    @classmethod
    def zip(cls, *datasets: Dataset) -> Dataset:
        """Elements of several datasets, their components one after the other, until one of them ends."""
        types = [dtype for each in datasets for dtype in each.types]
        shapes = [shape for each in datasets for shape in each.shapes]
        return cls(ZipDataset(_origin(types, shapes), tuple(each._source for each in datasets)))

    # -- which elements, in which order -------------------------------------------------------------

    def _same(self) -> Origin:
        return _origin(self.types, self.shapes)

    def take(self, count: int) -> Dataset:
        """The first elements; all for -1."""
        return Dataset(TakeDataset(self._same(), self._source, count))

    def skip(self, count: int) -> Dataset:
        """All but the first elements."""
        return Dataset(SkipDataset(self._same(), self._source, count))

    def repeat(self, count: int = -1) -> Dataset:
        """The elements so many times; for ever for -1."""
        return Dataset(RepeatDataset(self._same(), self._source, count))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every `num_shards`-th element, from that at `index` on."""
        return Dataset(ShardDataset(self._same(), self._source, num_shards, index))

    def concatenate(self, following: Dataset) -> Dataset:
        """The elements of this dataset, then those of another of the same types."""
        return Dataset(ConcatenateDataset(self._same(), self._source, following._source))

    def shuffle(self, buffer_size: int, seed: int = 0, *, reshuffles: bool = True) -> Dataset:
        """Elements drawn from a buffer of so many, in TensorFlow's order for the seed.

        seed        0 draws one from the system
        reshuffles  whether each repetition has an order of its own
        """
        origin = _origin(self.types, self.shapes, reshuffle_each_iteration=reshuffles)
        first = 87654321 if seed else 0  # what TensorFlow's client gives beside the seed of an op
        return Dataset(ShuffleDataset(origin, self._source, buffer_size, first, seed))

    def cache(self, path: str = "") -> Dataset:
        """The elements, kept in memory, or in files, once one run through them was whole."""
        return Dataset(CacheDataset(self._same(), self._source, path.encode()))

    def prefetch(self, buffer_size: int = -1) -> Dataset:
        """The elements, so many made before they are asked for; -1 leaves the number to the engine."""
        return Dataset(PrefetchDataset(self._same(), self._source, buffer_size))

    def ignore_errors(self) -> Dataset:
        """The elements that can be made; those of which something is wrong are left out."""
        return Dataset(IgnoreErrorsDataset(self._same(), self._source))

    # -- what is made of elements -------------------------------------------------------------------

    def map(self, function: Callable[..., Any], *, parallel: int = 1) -> Dataset:
        """What a function of tensors makes of each element, one tensor or a tuple of them.

        The function is called once, with tensors of a graph, and its graph runs for each element; `parallel`
        of them may run at a time (-1 leaves that to the engine). The order stays.
        """
        called = GraphFunction(function, self.types, self.shapes)
        origin = _origin(called.types, called.shapes, called, preserve_cardinality=True)
        if parallel == 1:
            return Dataset(MapDataset(origin, self._source, ()))
        return Dataset(ParallelMapDataset(origin, self._source, (), parallel))

    def flat_map(self, function: Callable[..., Dataset]) -> Dataset:
        """The elements of the datasets that a function makes of elements, one dataset after the other.

        The function is called with values, for each element, and once before with zeros and empty strings,
        for the types of what it makes: a dataset that does nothing yet.
        """
        return self.interleave(function, cycle_length=1)

    def interleave(
        self,
        function: Callable[..., Dataset],
        *,
        cycle_length: int = 4,
        block_length: int = 1,
        parallel: int = 1,
    ) -> Dataset:
        """The elements of the datasets that a function makes, several of them in turns.

        function       called as that of `flat_map`
        cycle_length   how many take turns; each gives `block_length` elements in its turn
        parallel       1: each works when it is its turn; others: all of the cycle work ahead, in tasks
        The order is the same for all of them.
        """
        called = DatasetFunction(function, self.types, self.shapes)
        origin = _origin(called.types, called.shapes, called)
        if parallel == 1:
            made: DatasetValue = InterleaveDataset(origin, self._source, (), cycle_length, block_length)
        else:
            calls = min(parallel, cycle_length)
            made = ParallelInterleaveDatasetV2(origin, self._source, (), cycle_length, block_length, calls)
        return Dataset(made)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements of which a function of tensors says true (bool, rank 0)."""
        called = GraphFunction(predicate, self.types, self.shapes)
        return Dataset(FilterDataset(_origin(self.types, self.shapes, called), self._source, ()))

    def batch(self, batch_size: int, *, drop_remainder: bool = False) -> Dataset:
        """`batch_size` elements at a time, stacked along a new first axis; the last may have fewer."""
        rows = batch_size if drop_remainder else None
        shapes = [TensorShape([rows]).concatenate(shape) for shape in self.shapes]
        made = BatchDataset(_origin(self.types, shapes), self._source, batch_size, drop_remainder)
        return Dataset(made)

    def padded_batch(
        self, batch_size: int, padded_shapes: Sequence[Sequence[int]], *, padding_values: Sequence[Any] = ()
    ) -> Dataset:
        """Batches of elements that are padded to one shape; -1 is the size of the largest.

        padding_values   one for each component; zeros and empty strings where none are given
        """
        values = tuple(padding_values) or tuple(_zero(dtype) for dtype in self.types)
        shapes = [
            TensorShape([None, *(None if size < 0 else size for size in sizes)]) for sizes in padded_shapes
        ]
        sizes = tuple(np.array(each, np.int64) for each in padded_shapes)
        return Dataset(
            PaddedBatchDataset(_origin(self.types, shapes), self._source, batch_size, sizes, values)
        )

    def unbatch(self) -> Dataset:
        """The rows of each element."""
        shapes = [
            UNKNOWN_SHAPE if shape.rank is None else TensorShape(shape.as_list()[1:]) for shape in self.shapes
        ]
        return Dataset(UnbatchDataset(_origin(self.types, shapes), self._source))


def _array(column: Any) -> Any:
    """An array of a column: texts become bytes."""
    array = np.asarray(column)
    if array.dtype.kind not in "OSU":
        return array
    texts = [each.encode() if isinstance(each, str) else each for each in np.array(column, object).ravel()]
    made = np.empty(len(texts), dtype=object)
    made[:] = texts
    return made.reshape(np.shape(np.array(column, object)))


def _paths(paths: str | bytes | Iterable[str]) -> Any:
    names = [paths] if isinstance(paths, str | bytes | os.PathLike) else list(paths)
    if not names:
        raise InvalidArgumentError("there is no file to read")
    return _array([os.fspath(name) for name in names])


def _zero(dtype: DType) -> Any:
    return b"" if dtype is dtypes.string else to_array(dtype.as_numpy_dtype.type(0))[()]


__all__ = ["Dataset"]
