"""The iterator over the elements of a dataset, with the tasks that compute elements ahead."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from flowengine.core.errors import CancelledError, FailedPreconditionError, OutOfRangeError
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.dataset import DatasetValue
from flowengine.resources.data.iterator import IteratorResource


class Elements:
    """One iteration over a dataset.

    An element is a value, or a tuple of its components if there are several. If an element cannot be
    computed, the iteration raises its error, and continues with the next one. Several tasks may take
    elements; each gets the next one, and all of them reach the end. Tasks that work ahead end with the block;
    without one, at the last element, or with `close`. After `close` it raises FailedPreconditionError.

    dataset   the description to iterate over; `Dataset.elements` passes it

    >>> async def main():
    ...     async with fe.data.Dataset.range(4).batch(2).elements() as elements:
    ...         async for batch in elements:
    ...             print(batch)
    >>> trio.run(main)
    [0 1]
    [2 3]
    """

    __slots__ = ("_is_closed", "_is_over", "_iterator", "_resources")

    def __init__(self, dataset: DatasetValue) -> None:
        self._resources = ResourceManager()
        self._iterator = IteratorResource(self._resources.services, dataset.types, dataset.shapes)
        self._iterator.make_nowait(dataset)
        #: Whether a task has reached the end, and whether `close` was called.
        self._is_over = False
        self._is_closed = False

    def __aiter__(self) -> Elements:
        return self

    async def __anext__(self) -> Any:
        if self._is_over:
            raise StopAsyncIteration
        if self._is_closed:
            raise FailedPreconditionError("these elements are closed: ask the dataset for others")
        self._resources.bind_to_current_run()
        try:
            element = await self._iterator.get()
        except OutOfRangeError:
            self._is_over = True
            await self._iterator.end()
            raise StopAsyncIteration from None
        except (CancelledError, FailedPreconditionError):
            # Another task has come to the end meanwhile.
            if self._is_over:
                raise StopAsyncIteration from None
            raise
        return element[0] if len(element) == 1 else element

    async def __aenter__(self) -> Elements:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the tasks that work ahead, and wait until they have ended.

        >>> async def main():
        ...     elements = fe.data.Dataset.range(5).prefetch(2).elements()
        ...     found = [await anext(elements), await anext(elements)]
        ...     await elements.close()
        ...     return [each.tolist() for each in found]
        >>> trio.run(main)
        [0, 1]
        """
        self._is_closed = True
        self._iterator.destroy()
        self._resources.close()
        await self._resources.ended()

    def __del__(self) -> None:
        # A program that breaks out of a loop does not call `close`.
        iterator = getattr(self, "_iterator", None)
        if iterator is not None and self._resources.services.count:
            iterator.destroy()


__all__ = ["Elements"]
