"""One iterator for several devices: the elements of a dataset go to their shards in turns.

A task fills the buffer of each shard, in the order of the dataset, and stands still where one is full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from flowengine.core.shapes import TensorShape
from flowengine.resources.data.dataset import DataIterator, DatasetValue, Iteration, check_types
from flowengine.resources.data.iterator import missing_iterator
from flowengine.resources.data.working_ahead import AwaitedElement, Signal, outcome_of
from flowengine.resources.elements import Element
from flowengine.resources.services import Services, ServiceTasks


class _Shards:
    """One run through a dataset."""

    __slots__ = ("_is_started", "buffers", "changed", "is_over", "iteration", "size", "source", "turn")

    def __init__(self, iteration: Iteration, dataset: DatasetValue, count: int, size: int) -> None:
        self.iteration = iteration
        self.source: DataIterator = dataset.iterator(iteration)
        self.buffers: list[deque[AwaitedElement]] = [deque() for _ in range(count)]
        self.size = size
        self.changed = Signal()
        self.turn = 0
        self.is_over = False
        self._is_started = False

    def start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self.iteration.tasks.start(self._fill, "shards")

    async def _fill(self) -> None:
        while not self.is_over:
            buffer = self.buffers[self.turn % len(self.buffers)]
            if len(buffer) >= self.size:
                await self.changed.wait()
                continue
            made = AwaitedElement()
            await outcome_of(self.source.next, made)
            if made.error is None and made.element is None:
                self.is_over = True
            else:
                buffer.append(made)
                self.turn += 1
            self.changed.fire()

    def end(self) -> None:
        self.source.close()
        self.iteration.tasks.cancel()
        self.changed.fire()


class MultiDeviceIterator:
    """See the module.

    devices         one for each shard
    types, shapes   of the components of an element
    incarnation     grows with each dataset: who asks for elements of an earlier one is told so
    is_removed      whether it was removed by itself: it takes no dataset and gives no element any more
    """

    __slots__ = (
        "_ending",
        "_services",
        "_shards",
        "container",
        "device",
        "devices",
        "incarnation",
        "is_removed",
        "name",
        "shapes",
        "types",
    )

    def __init__(
        self,
        services: Services,
        devices: Sequence[bytes],
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
        *,
        name: str = "",
        container: str = "",
        device: str = "",
    ) -> None:
        self._services = services
        self.devices = tuple(devices)
        self.types, self.shapes = tuple(types), tuple(shapes)
        self.name = name
        self.container = container
        self.device = device
        self.incarnation = 0
        self.is_removed = False
        self._shards: _Shards | None = None
        #: The tasks of the run before, which may not have ended yet.
        self._ending: ServiceTasks | None = None

    async def begin(self, dataset: DatasetValue, max_buffer_size: int) -> int:
        """Begin with a dataset, once the tasks of the one before have ended; the number of this incarnation.

        InvalidArgumentError where its elements are not what this iterator gives, NotFoundError once it is
        removed.
        """
        self._check_exists()
        check_types(dataset.types, self.types, self.shapes, dataset.shapes)
        await self.end()
        self._check_exists()
        self.incarnation += 1
        size = max(max_buffer_size, 1)
        self._shards = _Shards(Iteration(self._services), dataset, len(self.devices), size)
        return self.incarnation

    async def get(self, shard: int, incarnation: int) -> Element:
        """The next element of a shard; OutOfRangeError after the last. Cancelled, it has taken nothing."""
        shards = self._shards
        if shards is None:
            self._check_exists()
            raise FailedPreconditionError(
                "The multi-device iterator has no dataset: run its initializer first."
            )
        if incarnation != self.incarnation:
            raise InvalidArgumentError(
                f"Invalid incarnation id. Provided: {incarnation}; Expected: {self.incarnation}"
            )
        if not 0 <= shard < len(shards.buffers):
            raise InvalidArgumentError(f"there is no shard {shard} of {len(shards.buffers)}")
        shards.start()
        buffer = shards.buffers[shard]
        while not buffer:
            if shards.is_over:
                raise OutOfRangeError("End of sequence")
            if shards.iteration.tasks.is_cancelled:
                raise CancelledError("the iterator was ended while an element was made")
            await shards.changed.wait()
        made = buffer.popleft()
        shards.changed.fire()
        element = made.value()
        assert element is not None
        return element

    async def end(self) -> None:
        """Let go of the dataset: its tasks have ended when this returns, those left by `destroy` too."""
        self.destroy()
        if self._ending is not None:
            await self._ending.ended()

    def destroy(self) -> None:
        """As `end`, without waiting."""
        if self._shards is not None:
            self._ending = self._shards.iteration.tasks
            self._shards.end()
            self._shards = None

    def missing(self) -> NotFoundError:
        """Return the error for uses of the iterator after its removal."""
        return missing_iterator(self.container, self.name)

    def _check_exists(self) -> None:
        if self.is_removed:
            raise self.missing()
