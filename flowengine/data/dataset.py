"""`Dataset`: input pipelines in Python, over the datasets that graphs are made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.data.dataset_origins import array_of, origin_of, paths_of, state_of, type_of, zero_of
from flowengine.data.elements import Elements
from flowengine.data.functions import GraphFunction
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.batches import BatchDataset, PaddedBatchDataset, UnbatchDataset
from flowengine.resources.data.caching import CacheDataset
from flowengine.resources.data.choosing import (
    AssertCardinalityDataset,
    DirectedInterleaveDataset,
    IgnoreErrorsDataset,
    UniqueDataset,
)
from flowengine.resources.data.dataset import DatasetValue, Origin
from flowengine.resources.data.files import fixed_length_record_dataset, text_line_dataset, tf_record_dataset
from flowengine.resources.data.functional import FilterDataset, MapDataset, ScanDataset, TakeWhileDataset
from flowengine.resources.data.generators import YieldedDataset
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
from flowengine.resources.data.saved.loading import LoadedDataset
from flowengine.resources.data.saved.saving import SavedDataset
from flowengine.resources.data.selecting import ShardDataset
from flowengine.resources.data.shuffling import ShuffleDataset
from flowengine.resources.data.sources import RandomDataset, RangeDataset, TensorDataset, TensorSliceDataset
from flowengine.resources.data.windows import SlidingWindowDataset
from flowengine.resources.function_calls import StepCalls

#: One value, or a tuple of them.
Values: TypeAlias = Any


class DatasetFunction(StepCalls):
    """A function that returns a dataset for each element. See `Dataset.flat_map`.

    types, shapes   of the elements of these datasets
    """

    def __init__(
        self, function: Callable[..., Dataset], types: Sequence[DType], shapes: Sequence[TensorShape]
    ) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self._function = function
        sizes = [[size or 0 for size in shape.as_list()] if shape.rank else [] for shape in shapes]
        example = [
            zero_of(dtype) if not size else np.zeros(size, dtype.as_numpy_dtype)
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
        """Return the dataset of these values."""
        made: Any = self._made(arguments)
        return (made,)

    def of_rows(self, count: int) -> None:
        """Do nothing: it is called with one element at a time."""
        return


class Dataset:
    """A description of a sequence of elements; nothing is read or computed before one is requested.

    An element is a value, or a tuple of its components if there are several. Each method returns a new
    dataset. `types` and `shapes` are those of the components. Methods raise InvalidArgumentError at once for
    arguments that do not fit. If an element cannot be computed, the iteration raises its error instead of the
    element. A cancelled iteration ends the tasks that work ahead.

    >>> from flowengine.data import Dataset
    >>> async def listed(dataset):
    ...     return [element.tolist() async for element in dataset]
    >>> trio.run(listed, Dataset.range(5).map(lambda x: x * x).batch(2))
    [[0, 1], [4, 9], [16]]
    """

    __slots__ = ("_source",)

    def __init__(self, source: DatasetValue) -> None:
        """Wrap `source`, the dataset that a graph's node would make; programs use the class methods."""
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
        """Return the number of elements; TypeError if it is unknown or infinite."""
        count = self._source.cardinality()
        if count < 0:
            raise TypeError("the dataset is infinite, or its length is not known before its end")
        return count

    def elements(self) -> Elements:
        """Return an iterator, to be used with `async with` and `async for`."""
        return Elements(self._source)

    def __aiter__(self) -> Elements:
        return self.elements()

    @classmethod
    def range(cls, *bounds: int) -> Dataset:
        """Count int64 numbers as Python's `range` does: `bounds` are (stop), (start, stop) or with a step."""
        numbers = range(*bounds)
        made = RangeDataset(
            origin_of([dtypes.int64], [TensorShape([])]), numbers.start, numbers.stop, numbers.step
        )
        return cls(made)

    @classmethod
    def from_slices(cls, *columns: Any) -> Dataset:
        """Take the rows of arrays of equal length; InvalidArgumentError for `columns` of other lengths."""
        arrays = [array_of(column) for column in columns]
        types = list(map(type_of, arrays))
        return cls(
            TensorSliceDataset(
                origin_of(types, [TensorShape(each.shape[1:]) for each in arrays]), tuple(arrays)
            )
        )

    @classmethod
    def from_tensors(cls, *components: Any) -> Dataset:
        """Make one element, of the arrays `components`."""
        arrays = [array_of(component) for component in components]
        origin = origin_of(list(map(type_of, arrays)), [TensorShape(each.shape) for each in arrays])
        return cls(TensorDataset(origin, tuple(arrays)))

    @classmethod
    def from_generator(
        cls, make: Callable[[], Iterable[Any]], types: Sequence[Any], shapes: Sequence[Any] = ()
    ) -> Dataset:
        """Make a dataset of the elements of a Python iterable: values, or tuples of several components.

        make     returns the iterable, once for each iteration
        types    of the components
        shapes   of the components; unknown if none are given
        A thread iterates, one element at a time; its position cannot be saved. Raises InvalidArgumentError
        instead of an element of other types or shapes, UnknownError for an error of the iterable.
        """
        known = [TensorShape(each) for each in shapes] or [UNKNOWN_SHAPE] * len(types)
        if len(known) != len(types):
            raise InvalidArgumentError(f"give a shape for each of the {len(types)} types, not {len(known)}")
        return cls(YieldedDataset(origin_of([dtypes.as_dtype(each) for each in types], known), make))

    @classmethod
    def random(cls, seed: int = 0) -> Dataset:
        """Draw random numbers of 32 bits (int64, rank 0) without end, as TensorFlow; seed 0 draws a seed."""
        first = 87654321 if seed else 0  # as for `shuffle`
        origin = origin_of([dtypes.int64], [TensorShape([])])
        return cls(RandomDataset(origin, np.int64(first), np.int64(seed)))

    @classmethod
    def fixed_length_records(
        cls, paths: str | bytes | Iterable[str], record_bytes: int, *, header: int = 0, footer: int = 0
    ) -> Dataset:
        """Read pieces of `record_bytes` (string, rank 0) of `paths`, without header and footer bytes."""
        sizes = (np.int64(header), np.int64(record_bytes), np.int64(footer), np.int64(0))
        origin = origin_of([dtypes.string], [TensorShape([])])
        return cls(fixed_length_record_dataset(origin, paths_of(paths), *sizes))

    @classmethod
    def choose_from(cls, datasets: Sequence[Dataset], choice: Dataset) -> Dataset:
        """Take each element from the dataset whose number (int64) `choice` gives; skip those at their end.

        All have elements of the same types.
        """
        if not datasets:
            raise InvalidArgumentError("choose_from: datasets is empty: give at least one")
        for each in datasets:
            if each.types != datasets[0].types:
                raise InvalidArgumentError(f"choose_from: types differ: {datasets[0].types} and {each.types}")
        shapes = [UNKNOWN_SHAPE] * len(datasets[0].types)
        origin = origin_of(datasets[0].types, shapes)
        sources = tuple(each._source for each in datasets)
        return cls(DirectedInterleaveDataset(origin, choice._source, sources))

    @classmethod
    def tf_records(cls, paths: str | bytes | Iterable[str], *, compression: str = "") -> Dataset:
        """Read TFRecord files at `paths` (string, rank 0); compression "", "ZLIB", "GZIP" or "SNAPPY"."""
        names = paths_of(paths)
        origin = origin_of([dtypes.string], [TensorShape([])])
        return cls(tf_record_dataset(origin, names, compression.encode(), np.int64(0)))

    @classmethod
    def load(
        cls, path: str, types: Sequence[Any], shapes: Sequence[Any] = (), *, compression: str = ""
    ) -> Dataset:
        """Read the elements that `save`, here or in TensorFlow, wrote into the folder `path`, shard by shard.

        types, shapes   of the components; shapes are unknown if none are given
        compression     as for `save`: "", "ZLIB", "GZIP" or "SNAPPY"
        Raises NotFoundError if there is none, InvalidArgumentError for other types, at the first element.
        """
        known = [TensorShape(each) for each in shapes] or [UNKNOWN_SHAPE] * len(types)
        origin = origin_of([dtypes.as_dtype(each) for each in types], known, compression=compression.encode())
        return cls(LoadedDataset(origin, os.fsencode(path)))

    @classmethod
    def text_lines(cls, paths: str | bytes | Iterable[str], *, compression: str = "") -> Dataset:
        """Read lines (string, rank 0) of files at `paths`, without ends; compression "", "ZLIB", "GZIP"."""
        names = paths_of(paths)
        origin = origin_of([dtypes.string], [TensorShape([])])
        return cls(text_line_dataset(origin, names, compression.encode(), np.int64(0)))

    @classmethod
    def zip(cls, *datasets: Dataset) -> Dataset:
        """Join the elements of several datasets into tuples, until one of the datasets ends."""
        types = [dtype for each in datasets for dtype in each.types]
        shapes = [shape for each in datasets for shape in each.shapes]
        return cls(ZipDataset(origin_of(types, shapes), tuple(each._source for each in datasets)))

    def _same(self) -> Origin:
        return origin_of(self.types, self.shapes)

    def take(self, count: int) -> Dataset:
        """Take the first `count` elements; all for -1."""
        return Dataset(TakeDataset(self._same(), self._source, count))

    def skip(self, count: int) -> Dataset:
        """Leave out the first `count` elements."""
        return Dataset(SkipDataset(self._same(), self._source, count))

    def repeat(self, count: int = -1) -> Dataset:
        """Give the elements `count` times; for ever for -1."""
        return Dataset(RepeatDataset(self._same(), self._source, count))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every `num_shards`-th element, from that at `index` on."""
        return Dataset(ShardDataset(self._same(), self._source, num_shards, index))

    def concatenate(self, following: Dataset) -> Dataset:
        """Give the elements of this dataset, then those of `following`, which has the same types."""
        return Dataset(ConcatenateDataset(self._same(), self._source, following._source))

    def enumerate(self, start: int = 0) -> Dataset:
        """Put a number (int64) before the components of each element, from `start` on."""
        return Dataset.zip(Dataset.range(start, np.iinfo(np.int64).max), self)

    def unique(self) -> Dataset:
        """Return the elements, each of one component, that have not come before; those are kept in memory."""
        return Dataset(UniqueDataset(self._same(), self._source))

    def assert_cardinality(self, count: int) -> Dataset:
        """Fail with FailedPreconditionError unless there are `count` elements, which `len` then gives."""
        return Dataset(AssertCardinalityDataset(self._same(), self._source, np.int64(count)))

    def shuffle(self, buffer_size: int, seed: int = 0, *, reshuffles: bool = True) -> Dataset:
        """Draw elements from a buffer of `buffer_size`, in TensorFlow's order for the seed.

        seed         0 for a random seed
        reshuffles   whether each repetition has another order
        """
        origin = origin_of(self.types, self.shapes, reshuffle_each_iteration=reshuffles)
        first = 87654321 if seed else 0  # the seed of the graph that TensorFlow takes for an op with a seed
        return Dataset(ShuffleDataset(origin, self._source, buffer_size, first, seed))

    def cache(self, path: str = "") -> Dataset:
        """Keep the elements, in memory or in files at the prefix `path`, once one iteration was complete."""
        return Dataset(CacheDataset(self._same(), self._source, path.encode()))

    def prefetch(self, buffer_size: int = -1) -> Dataset:
        """Make up to `buffer_size` elements ahead; -1 leaves the number to the engine."""
        return Dataset(PrefetchDataset(self._same(), self._source, buffer_size))

    def ignore_errors(self) -> Dataset:
        """Return the elements that can be made; those of which something is wrong are left out."""
        return Dataset(IgnoreErrorsDataset(self._same(), self._source))

    def map(self, function: Callable[..., Any], *, parallel: int = 1) -> Dataset:
        """Apply a function of tensors to each element; it returns one tensor or a tuple of them.

        The function is called once, with tensors of a graph, and its graph runs for each element; `parallel`
        of them may run at a time (-1 leaves that to the engine). The order stays.
        """
        called = GraphFunction(function, self.types, self.shapes)
        origin = origin_of(called.types, called.shapes, called, preserve_cardinality=True)
        if parallel == 1:
            return Dataset(MapDataset(origin, self._source, ()))
        return Dataset(ParallelMapDataset(origin, self._source, (), parallel))

    def flat_map(self, function: Callable[..., Dataset]) -> Dataset:
        """Return the elements of the datasets that a function makes of elements, one dataset after the other.

        The function is called with values, for each element, and once before with zeros and empty strings, to
        learn the types of its dataset.
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
        """Return the elements of the datasets that a function makes, several of them in turns.

        function       called as that of `flat_map`
        cycle_length   the number of datasets that take turns; each yields `block_length` elements at a time
        parallel       1: a dataset computes an element when its turn comes; others: all of these datasets
                       compute ahead, in tasks
        The order of elements does not depend on `parallel`.
        """
        called = DatasetFunction(function, self.types, self.shapes)
        origin = origin_of(called.types, called.shapes, called)
        if parallel == 1:
            made: DatasetValue = InterleaveDataset(origin, self._source, (), cycle_length, block_length)
        else:
            calls = min(parallel, cycle_length)
            made = ParallelInterleaveDatasetV2(origin, self._source, (), cycle_length, block_length, calls)
        return Dataset(made)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """Keep the elements for which `predicate`, a function of tensors, returns true (bool, rank 0)."""
        called = GraphFunction(predicate, self.types, self.shapes)
        return Dataset(FilterDataset(origin_of(self.types, self.shapes, called), self._source, ()))

    def take_while(self, predicate: Callable[..., Any]) -> Dataset:
        """End before the first element for which `predicate`, a function of tensors, returns false."""
        called = GraphFunction(predicate, self.types, self.shapes)
        return Dataset(TakeWhileDataset(origin_of(self.types, self.shapes, called), self._source, ()))

    def scan(self, initial: Values, function: Callable[..., Any]) -> Dataset:
        """Apply a function to a state and each element; it returns the next state and a new element.

        initial    the first state: a value, or a tuple of values
        function   given the state's tensors, then the element's; gives the next state's, then the results
        """
        state = state_of(initial)
        called = self._with_state(state, function)
        if len(called.types) <= len(state) or called.types[: len(state)] != tuple(map(type_of, state)):
            raise InvalidArgumentError(f"'{called.name}' must return the next state, and results")
        origin = origin_of(
            called.types[len(state) :], called.shapes[len(state) :], called, preserve_cardinality=True
        )
        return Dataset(ScanDataset(origin, self._source, state, ()))

    async def reduce(self, initial: Values, function: Callable[..., Any]) -> Any:
        """Return the state after `function` was applied to all elements, one after the other.

        It takes the state's tensors, `initial` first, then the element's, and returns the next state's.
        If it is cancelled, the tasks that work ahead have ended.
        """
        state: tuple[Any, ...] = state_of(initial)
        called = self._with_state(state, function)
        if called.types != tuple(map(type_of, state)):
            raise InvalidArgumentError(f"'{called.name}' must return a state of the first one's types")
        sequences = ResourceManager()
        async with self.elements() as elements:
            async for element in elements:
                values = element if len(self.types) > 1 else (element,)
                state = await called((*state, *values), sequences)
        return state[0] if len(state) == 1 else state

    async def save(self, path: str, *, compression: str = "") -> None:
        """Save the elements in the folder `path`, which `load` and TensorFlow's `tf.data.Dataset.load` read.

        compression   "", "ZLIB", "GZIP" or "SNAPPY"

        TensorFlow needs the elements' types (`element_spec`). An earlier save in the folder stays valid until
        this one is complete. If it is cancelled or fails, it removes what it has written.
        """
        origin = origin_of(self.types, self.shapes, compression=compression.encode(), use_shard_func=False)
        saved = Dataset(SavedDataset(origin, self._source, os.fsencode(path)))
        async with saved.elements() as elements:
            async for _ in elements:
                pass

    def _with_state(self, state: Sequence[Any], function: Callable[..., Any]) -> GraphFunction:
        types = (*map(type_of, state), *self.types)
        return GraphFunction(function, types, (*(TensorShape(each.shape) for each in state), *self.shapes))

    def apply(self, function: Callable[[Dataset], Dataset]) -> Dataset:
        """Apply a function to this dataset and return its result: for steps that are used often."""
        return function(self)

    def sliding_window(self, size: int, *, shift: int = 1, stride: int = 1) -> Dataset:
        """Stacked windows of `size` elements, `stride` apart; each begins `shift` further. All are full."""
        shapes = [TensorShape([size]).concatenate(shape) for shape in self.shapes]
        sizes = (np.int64(size), np.int64(shift), np.int64(stride))
        return Dataset(SlidingWindowDataset(origin_of(self.types, shapes), self._source, *sizes))

    def batch(self, batch_size: int, *, drop_remainder: bool = False) -> Dataset:
        """Stack `batch_size` elements along a new axis; `drop_remainder` leaves out a smaller last batch."""
        rows = batch_size if drop_remainder else None
        shapes = [TensorShape([rows]).concatenate(shape) for shape in self.shapes]
        made = BatchDataset(origin_of(self.types, shapes), self._source, batch_size, drop_remainder)
        return Dataset(made)

    def padded_batch(
        self, batch_size: int, padded_shapes: Sequence[Sequence[int]], *, padding_values: Sequence[Any] = ()
    ) -> Dataset:
        """Stack `batch_size` elements at a time, padded to one shape.

        padded_shapes    one for each component; -1 is the size of the largest
        padding_values   one for each component; zeros and empty strings if none are given
        """
        values = tuple(padding_values) or tuple(zero_of(dtype) for dtype in self.types)
        shapes = [
            TensorShape([None, *(None if size < 0 else size for size in sizes)]) for sizes in padded_shapes
        ]
        sizes = tuple(np.array(each, np.int64) for each in padded_shapes)
        return Dataset(
            PaddedBatchDataset(origin_of(self.types, shapes), self._source, batch_size, sizes, values)
        )

    def unbatch(self) -> Dataset:
        """Return the rows of each element."""
        shapes = [
            UNKNOWN_SHAPE if shape.rank is None else TensorShape(shape.as_list()[1:]) for shape in self.shapes
        ]
        return Dataset(UnbatchDataset(origin_of(self.types, shapes), self._source))


__all__ = ["Dataset"]
