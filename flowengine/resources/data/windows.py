"""Windows over a dataset, and groups of its elements by keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.shapes import TensorShape
from flowengine.resources.data.batches import batch_of
from flowengine.resources.data.dataset import (
    DataIterator,
    DatasetValue,
    Iteration,
    Origin,
    checked_dataset,
    scalar,
)
from flowengine.resources.data.functional import BoundFunction
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.data.sources import ListDataset, variant_of
from flowengine.resources.elements import Element, ElementRun


def dataset_of(
    elements: Sequence[Element], types: Sequence[DType], shapes: Sequence[TensorShape]
) -> DatasetValue:
    """A dataset that gives these elements."""
    flat = tuple([value for element in elements for value in element])
    attrs = {
        "output_types": tuple(types),
        "output_shapes": tuple(shapes),
        "Tinput_types": tuple(types) * len(elements),
    }
    return ListDataset(Origin("", attrs, (flat,)), flat)


class WindowDataset(DerivedDataset):
    """Datasets of `size` elements, one for each component; `stride` apart, each begins `shift` further."""

    __slots__ = ("drop_remainder", "shift", "size", "stride")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        size: Value,
        shift: Value,
        stride: Value,
        drop_remainder: Value,
    ) -> None:
        super().__init__(origin, input_dataset)
        self.size, self.shift = scalar(size, "size"), scalar(shift, "shift")
        self.stride, self.drop_remainder = scalar(stride, "stride"), bool(drop_remainder)
        for what, value in (("size", self.size), ("shift", self.shift), ("stride", self.stride)):
            if value <= 0:
                raise InvalidArgumentError(f"Window {what} must be greater than zero.")

    @property
    def span(self) -> int:
        """How many elements of the input a window spans."""
        return 1 + (self.size - 1) * self.stride

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _WindowIterator(iteration, self)

    def joined(self, elements: ElementRun) -> Element:
        """One window of these elements."""
        source = self.source
        columns = zip(*elements, strict=True)
        return tuple(
            [
                variant_of(dataset_of([(value,) for value in column], [dtype], [shape]))
                for column, dtype, shape in zip(columns, source.types, source.shapes, strict=True)
            ]
        )


class _WindowIterator(DataIterator):
    __slots__ = ("_dataset", "buffer", "input")

    FIELDS = ("buffer",)
    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, windowed: WindowDataset | SlidingWindowDataset) -> None:
        super().__init__(iteration)
        self._dataset = windowed
        self.input: DataIterator | None = windowed.source.iterator(iteration)
        #: Elements, and errors in their places.
        self.buffer: list[Element | OpError] = []

    async def next(self) -> Element | None:
        made = self._dataset
        while self.input is not None and len(self.buffer) < made.span:
            await self._read()
        if not self.buffer or (made.drop_remainder and len(self.buffer) < made.span):
            self.buffer = []
            return None
        window = self.buffer[: made.span : made.stride]
        missing = made.shift - len(self.buffer)
        del self.buffer[: made.shift]
        while self.input is not None and missing > 0:
            await self._read()
            self.buffer.clear()
            missing -= 1
        for each in window:
            if isinstance(each, OpError):
                raise each
        return made.joined(ElementRun.of(each for each in window if not isinstance(each, OpError)))

    async def _read(self) -> None:
        assert self.input is not None
        try:
            element = await self.input.next()
        except OpError as error:
            self.buffer.append(error)
            return
        if element is None:
            self.input = None
        else:
            self.buffer.append(element)


class SlidingWindowDataset(DerivedDataset):
    """Batches of `window_size` elements, `window_stride` apart, each begins `window_shift` further."""

    __slots__ = ("drop_remainder", "shift", "size", "stride")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        window_size: Value,
        window_shift: Value,
        window_stride: Value,
    ) -> None:
        super().__init__(origin, input_dataset)
        self.size, self.shift = scalar(window_size, "window_size"), scalar(window_shift, "window_shift")
        self.stride = scalar(window_stride, "window_stride")
        self.drop_remainder = bool(origin.attrs.get("drop_remainder", True))
        for what, value in (("size", self.size), ("shift", self.shift), ("stride", self.stride)):
            if value <= 0:
                raise InvalidArgumentError(f"Window {what} must be greater than zero.")

    @property
    def span(self) -> int:
        """How many elements of the input a window spans."""
        return 1 + (self.size - 1) * self.stride

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _WindowIterator(iteration, self)

    def joined(self, elements: ElementRun) -> Element:
        """One window of these elements."""
        return batch_of(elements, self.types)


async def key_of(call: BoundFunction, iteration: Iteration, element: Element, what: str) -> int:
    """An int64 of rank 0 that a function makes of an element; InvalidArgumentError for anything else."""
    results = await call(iteration, element)
    if len(results) != 1 or getattr(results[0], "shape", None) != () or results[0].dtype != "int64":
        raise InvalidArgumentError(f"`{what}` must return a scalar int64.")
    return int(results[0])


class GroupByWindowDataset(DerivedDataset):
    """Elements collected by keys; of a full window of one key a function makes a dataset."""

    __slots__ = ("key", "reduce", "size")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        key: Sequence[Value],
        reduce: Sequence[Value],
        size: Sequence[Value],
    ) -> None:
        super().__init__(origin, input_dataset)
        self.key = BoundFunction(origin.function("key_func"), key)
        self.reduce = BoundFunction(origin.function("reduce_func"), reduce)
        self.size = BoundFunction(origin.function("window_size_func"), size)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _GroupIterator(iteration, self)


class _GroupIterator(DataIterator):
    __slots__ = ("_dataset", "current", "current_key", "groups", "input", "sizes", "window")

    def __init__(self, iteration: Iteration, grouped: GroupByWindowDataset) -> None:
        super().__init__(iteration)
        self._dataset = grouped
        self.input: DataIterator | None = grouped.source.iterator(iteration)
        self.groups: dict[int, list[Element]] = {}
        self.sizes: dict[int, int] = {}
        #: What is being given out: the iterator of what was made of a window, its key, the window.
        self.current: DataIterator | None = None
        self.current_key = 0
        self.window: list[Element] = []

    async def next(self) -> Element | None:
        while True:
            if self.current is not None:
                element = await self.current.next()
                if element is not None:
                    return element
                self.current.close()
                self.current, self.window = None, []
            if self.input is not None:
                await self._collect()
            elif self.groups:
                # What is left, by rising keys.
                key = min(self.groups)
                await self._open(key, self.groups.pop(key))
            else:
                return None

    async def _collect(self) -> None:
        """Take elements until a window is full, or there are none."""
        made = self._dataset
        assert self.input is not None
        while True:
            element = await self.input.next()
            if element is None:
                self.input = None
                return
            key = await key_of(made.key, self.iteration, element, "key_func")
            if key not in self.sizes:
                size = await key_of(made.size, self.iteration, (_number(key),), "window_size_func")
                if size <= 0:
                    raise InvalidArgumentError(f"Window size must be greater than zero, but got {size}.")
                self.sizes[key] = size
            group = self.groups.setdefault(key, [])
            group.append(element)
            if len(group) >= self.sizes[key]:
                del self.sizes[key]
                await self._open(key, self.groups.pop(key))
                return

    async def _open(self, key: int, window: list[Element]) -> None:
        source = self._dataset.source
        group = variant_of(dataset_of(window, source.types, source.shapes))
        results = await self._dataset.reduce(self.iteration, (_number(key), group))
        if len(results) != 1:
            raise InvalidArgumentError("`reduce_func` must return a single scalar dataset variant.")
        self.current_key, self.window = key, window
        made = checked_dataset(results[0], "what `reduce_func` returns")
        self.current = made.iterator(self.iteration)

    def close(self) -> None:
        for source in (self.current, self.input):
            if source is not None:
                source.close()

    async def state(self) -> dict[str, Any]:
        return {
            "groups": [[key, list(group)] for key, group in self.groups.items()],
            "sizes": [[key, size] for key, size in self.sizes.items()],
            "key": self.current_key,
            "window": list(self.window),
            "current": None if self.current is None else await self.current.state(),
            "input": None if self.input is None else await self.input.state(),
        }

    async def restore(self, state: dict[str, Any]) -> None:
        self.groups = {key: list(group) for key, group in state["groups"]}
        self.sizes = {key: size for key, size in state["sizes"]}  # noqa: C416 (pairs are lists)
        if state["current"] is not None:
            await self._open(state["key"], list(state["window"]))
            assert self.current is not None
            await self.current.restore(state["current"])
        if state["input"] is None:
            self.input = None
        elif self.input is not None:
            await self.input.restore(state["input"])


def _number(value: int) -> Value:
    import numpy as np

    return np.int64(value)


class GroupByReducerDataset(DerivedDataset):
    """One element for each key, in rising order: what functions make of all elements that have it."""

    __slots__ = ("finalize", "init", "key", "reduce")

    def __init__(
        self,
        origin: Origin,
        input_dataset: Any,
        key: Sequence[Value],
        init: Sequence[Value],
        reduce: Sequence[Value],
        finalize: Sequence[Value],
    ) -> None:
        super().__init__(origin, input_dataset)
        self.key = BoundFunction(origin.function("key_func"), key)
        self.init = BoundFunction(origin.function("init_func"), init)
        self.reduce = BoundFunction(origin.function("reduce_func"), reduce)
        self.finalize = BoundFunction(origin.function("finalize_func"), finalize)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _ReducerIterator(iteration, self)


class _ReducerIterator(DataIterator):
    __slots__ = ("_dataset", "_keys", "input", "place", "states")

    def __init__(self, iteration: Iteration, grouped: GroupByReducerDataset) -> None:
        super().__init__(iteration)
        self._dataset = grouped
        self.input: DataIterator | None = grouped.source.iterator(iteration)
        self.states: dict[int, Element] = {}
        self._keys: list[int] = []
        self.place = 0

    async def next(self) -> Element | None:
        made, iteration = self._dataset, self.iteration
        while self.input is not None:
            element = await self.input.next()
            if element is None:
                self.input = None
                self._keys = sorted(self.states)
                break
            key = await key_of(made.key, iteration, element, "key_func")
            state = self.states.get(key)
            if state is None:
                state = await made.init(iteration, (_number(key),))
            self.states[key] = await made.reduce(iteration, (*state, *element))
        if self.place >= len(self._keys):
            return None
        self.place += 1
        return await made.finalize(iteration, self.states[self._keys[self.place - 1]])

    def close(self) -> None:
        if self.input is not None:
            self.input.close()

    async def state(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "states": [[key, state] for key, state in self.states.items()],
            "input": None if self.input is None else await self.input.state(),
        }

    async def restore(self, state: dict[str, Any]) -> None:
        self.place = state["place"]
        self.states = {key: tuple(each) for key, each in state["states"]}
        if state["input"] is None:
            self.input = None
            self._keys = sorted(self.states)
        elif self.input is not None:
            await self.input.restore(state["input"])
