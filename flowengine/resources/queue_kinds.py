"""The queues: first in first out, padded, shuffled, by priority. They differ in their store."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType, int64
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import SCALAR, TensorShape
from flowengine.resources.element_pool import ElementList, ElementPool
from flowengine.resources.elements import Element, own, stack
from flowengine.resources.queue import Queue


class FIFOQueue(Queue):
    """First in, first out. A fixed shape must be complete."""

    kind = "FIFOQueue"
    __slots__ = ("_store",)

    def __init__(
        self,
        name: str,
        component_types: Sequence[DType],
        shapes: Sequence[TensorShape] | None,
        *,
        capacity: int = -1,
        container: str = "",
    ) -> None:
        super().__init__(name, component_types, shapes, capacity=capacity, container=container)
        self._store: deque[Element] = deque()

    def enqueue_nowait(self, element: Element) -> Any:
        """See `Queue.enqueue_nowait`; here is the way of an element for which there is room."""
        if self._closed or self._is_awaited() or len(self._store) >= self.capacity:
            return super().enqueue_nowait(element)
        if self._exact is not None:
            self._check(element)
        self._store.append(own(element))
        return None

    def dequeue_nowait(self) -> Any:
        """See `Queue.dequeue_nowait`; here is the way of an element that is there."""
        if self._store and not self._is_awaited():
            return self._store.popleft()
        return super().dequeue_nowait()

    def __len__(self) -> int:
        return len(self._store)

    def _put(self, element: Element) -> None:
        self._store.append(element)

    def _take(self) -> Element:
        return self._store.popleft()

    def _give_back(self, elements: Sequence[Element]) -> None:
        self._store.extendleft(reversed(elements))

    def _clear(self) -> None:
        self._store.clear()


class PaddingFIFOQueue(FIFOQueue):
    """First in, first out; shapes of known rank whose unknown dimensions are padded in a batch."""

    kind = "PaddingFIFOQueue"
    __slots__ = ()

    def _check_shapes(self) -> None:
        if self.shapes is None:
            raise InvalidArgumentError(f"PaddingFIFOQueue '{self.name}' needs the shapes of its components")
        for shape in self.shapes:
            if shape.rank is None:
                raise InvalidArgumentError(
                    f"PaddingFIFOQueue '{self.name}' needs shapes of known rank, not {shape}"
                )

    def batch(self, elements: list[Element]) -> Element:
        """Elements stacked; a dimension that is not fixed becomes the largest among them."""
        assert self.shapes is not None
        if not elements or all(shape.is_fully_defined for shape in self.shapes):
            return super().batch(elements)
        return tuple(
            _stack_padded(list(column), dtype, shape)
            for column, dtype, shape in zip(
                zip(*elements, strict=True), self.component_types, self.shapes, strict=True
            )
        )


def _stack_padded(values: list[Value], dtype: DType, shape: TensorShape) -> Value:
    """Values of one rank along a new first axis, padded at the end with zeros or empty strings."""
    shapes = [np.shape(value) if not isinstance(value, bytes) else () for value in values]
    largest = tuple(
        max(each[axis] for each in shapes) if fixed is None else fixed
        for axis, fixed in enumerate(shape.as_list())
    )
    if all(each == largest for each in shapes):
        return stack(values, dtype, largest)
    if dtype.as_numpy_dtype.hasobject:
        result = np.full((len(values), *largest), b"", dtype=object)
    else:
        result = np.zeros((len(values), *largest), dtype=dtype.as_numpy_dtype)
    for index, value in enumerate(values):
        result[index][tuple(slice(size) for size in shapes[index])] = to_array(value)
    return result


class RandomShuffleQueue(Queue):
    """Elements come out in random order, `min_after_dequeue` staying behind until the queue is closed.

    The order is that of a generator seeded with both seeds; it is not TensorFlow's order.
    """

    kind = "RandomShuffleQueue"
    __slots__ = ("_generator", "_promised", "_random", "_store", "min_after_dequeue", "seeds")

    def __init__(
        self,
        name: str,
        component_types: Sequence[DType],
        shapes: Sequence[TensorShape] | None,
        *,
        capacity: int = -1,
        container: str = "",
        min_after_dequeue: int = 0,
        seeds: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(name, component_types, shapes, capacity=capacity, container=container)
        if min_after_dequeue < 0:
            raise InvalidArgumentError(f"min_after_dequeue {min_after_dequeue} must be >= 0")
        if min_after_dequeue >= self.capacity:
            raise InvalidArgumentError(
                f"min_after_dequeue {min_after_dequeue} must be < capacity {self.capacity}"
            )
        self.min_after_dequeue = min_after_dequeue
        self.seeds = seeds
        self._random = random.Random(repr(seeds)) if any(seeds) else random.Random()
        #: For many choices at once; made when first wanted.
        self._generator: np.random.Generator | None = None
        #: Elements of the store that belong to the batch at the front of the line; which, is chosen when
        #: it has all. Nobody else takes anything before that.
        self._promised = 0
        self._store: ElementPool | ElementList = ElementList()
        if self.shapes is not None:
            dims = [tuple(size or 0 for size in shape.as_list()) for shape in self.shapes]
            self._store = ElementPool(self.component_types, dims)

    def __len__(self) -> int:
        return len(self._store) - self._promised

    def _available(self) -> int:
        return len(self) - (0 if self._closed else self.min_after_dequeue)

    def _put(self, element: Element) -> None:
        self._store.add(element)

    def _put_rows(self, batch: Element, start: int, stop: int) -> None:
        if isinstance(self._store, ElementPool):
            self._store.add_rows(batch, start, stop)
        else:
            super()._put_rows(batch, start, stop)

    def _take(self) -> Element:
        return self._store.take(int(self._random.random() * len(self._store)))

    def _take_batch(self, count: int) -> Element:
        if not isinstance(self._store, ElementPool):
            return super()._take_batch(count)
        if self._generator is None:
            self._generator = np.random.Generator(np.random.PCG64(self._random.getrandbits(128)))
        return self._store.take_many(self._generator.choice(len(self._store), count, replace=False))

    def _take_some(self, count: int) -> list[Element]:
        self._promised += count
        return []

    def _joined(self, taken: list[Element]) -> Element:
        count, self._promised = self._promised, 0
        return self._take_batch(count)

    def _give_back_some(self, taken: list[Element]) -> None:
        self._promised = 0

    def _clear(self) -> None:
        self._store.clear()
        self._promised = 0


class PriorityQueue(Queue):
    """The element with the smallest priority first, equal ones in order of arrival.

    An element's first component is its priority (int64, rank 0); types and shapes are given without it.
    A dequeue of many takes all at once, so that they are in order; more than the capacity never come.
    """

    kind = "PriorityQueue"
    takes_as_they_come = False
    __slots__ = ("_first", "_heap", "_last")

    def __init__(
        self,
        name: str,
        component_types: Sequence[DType],
        shapes: Sequence[TensorShape] | None,
        *,
        capacity: int = -1,
        container: str = "",
    ) -> None:
        super().__init__(
            name,
            (int64, *component_types),
            (SCALAR, *shapes) if shapes is not None else None,
            capacity=capacity,
            container=container,
        )
        #: (priority, place among equals, element)
        self._heap: list[tuple[int, int, Element]] = []
        self._last = 0
        self._first = 0

    def __len__(self) -> int:
        return len(self._heap)

    def _put(self, element: Element) -> None:
        self._last += 1
        heapq.heappush(self._heap, (int(element[0]), self._last, element))

    def _take(self) -> Element:
        return heapq.heappop(self._heap)[2]

    def _give_back(self, elements: Sequence[Element]) -> None:
        # They were the oldest of their priority, so their places are ahead of all that are there.
        for element in reversed(elements):
            self._first -= 1
            heapq.heappush(self._heap, (int(element[0]), self._first, element))

    def _clear(self) -> None:
        self._heap.clear()
