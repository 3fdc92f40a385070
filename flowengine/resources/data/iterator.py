"""Iterators as resources: what an input pipeline gives, element by element, to whoever asks next.

An iterator is made with the types of its elements, and goes through a dataset once it is given one; another
dataset takes the place of the first. Elements are made in a task of its own, one for each that was asked for:
where whoever asked is cancelled, the element stays at the front for the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowengine.core.arrays import WOULD_WAIT
from flowengine.core.dtypes import DType
from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from flowengine.core.shapes import TensorShape
from flowengine.resources.container import DEFAULT_CONTAINER
from flowengine.resources.data.dataset import (
    DataIterator,
    DatasetValue,
    Iteration,
    State,
    check_types,
    shape_of,
)
from flowengine.resources.data.working_ahead import AheadIterator, AwaitedElement, outcome_of
from flowengine.resources.elements import Element
from flowengine.resources.services import Services, ServiceTasks


class _DemandIterator(AheadIterator):
    """Makes an element for each who waits; nothing ahead of that."""

    __slots__ = ("waiting",)

    def __init__(self, iteration: Iteration, source: DataIterator) -> None:
        super().__init__(iteration, source)
        self.waiting = 0

    def limit(self) -> int:
        return self.waiting

    def size_of(self, outcome: AwaitedElement) -> int:
        return 0  # somebody waits for each: nothing is held

    async def begin(self, outcome: AwaitedElement) -> None:
        await outcome_of(self.input.next, outcome)
        self.finished(outcome)

    def next_nowait(self) -> Any:
        if self.line or self.under_way or self.waiting:
            return super().next_nowait()
        return self.input.next_nowait()

    async def next(self) -> Element | None:
        self.waiting += 1
        self.changed.fire()
        try:
            return await super().next()
        finally:
            self.waiting -= 1


#: Nodes whose types an iterator remembers to have compared.
_ASKED_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class _AskedElement:
    """The types and shapes that a node asks for, kept so that their identities stay unique.

    looks   whether the shapes of each element must be looked at
    """

    types: Sequence[DType]
    shapes: Sequence[TensorShape]
    looks: bool


def _check_shapes(element: Element, shapes: Sequence[TensorShape]) -> None:
    if len(element) != len(shapes):
        raise InvalidArgumentError(
            f"Number of components does not match: expected {len(shapes)} types but got {len(element)}."
        )
    for index, (value, wanted) in enumerate(zip(element, shapes, strict=True)):
        found = TensorShape(shape_of(value))
        if not wanted.is_compatible_with(found):
            raise InvalidArgumentError(
                f"Incompatible shapes at component {index}: expected {wanted} but got {found}."
            )


def missing_iterator(container: str, name: str) -> NotFoundError:
    """Return the error for an iterator that was destroyed."""
    return NotFoundError(
        f"Iterator {container or DEFAULT_CONTAINER}/{name} does not exist: it was destroyed, and its "
        "node creates it only once in a session. To start again with a dataset, run its initializer without "
        "destroying the iterator first"
    )


class IteratorResource:
    """See the module.

    types, shapes   of the components of its elements; none where it takes any
    device          where it was made, as handles say it
    is_removed      whether it was removed by itself: it takes no dataset and gives no element any more
    """

    __slots__ = (
        "__weakref__",
        "_asked",
        "_ending",
        "_front",
        "_services",
        "container",
        "dataset",
        "device",
        "is_removed",
        "name",
        "shapes",
        "types",
    )

    def __init__(
        self,
        services: Services,
        types: Sequence[DType],
        shapes: Sequence[TensorShape],
        *,
        name: str = "",
        container: str = "",
        device: str = "",
    ) -> None:
        self._services = services
        self.types = tuple(types)
        self.shapes = tuple(shapes)
        self.name = name
        self.container = container
        self.device = device
        self.is_removed = False
        #: What it goes through; None before it is given anything.
        self.dataset: DatasetValue | None = None
        self._front: _DemandIterator | None = None
        #: The tasks of the run before, which may not have ended yet.
        self._ending: ServiceTasks | None = None
        #: {identities of the types and shapes that a node asks for: they, and how they were compared with the
        #: present dataset}
        self._asked: dict[tuple[int, int], _AskedElement] = {}

    def get_nowait(self) -> Any:
        """The next element if it is there, else WOULD_WAIT with nothing changed. For errors see `get`."""
        element = self._begun().next_nowait()
        if element is None:
            raise OutOfRangeError("End of sequence")
        return element

    async def get(self) -> Element:
        """The next element.

        Raises FailedPreconditionError before there is a dataset, NotFoundError once it is removed,
        OutOfRangeError after the last element, CancelledError where the iterator is ended meanwhile, and what
        is wrong with this element: the next call goes on behind it. Cancelled, it leaves the
        element to the next who asks.
        """
        element = await self._begun().next()
        if element is None:
            raise OutOfRangeError("End of sequence")
        return element

    def checked(self, element: Element, types: Sequence[DType], shapes: Sequence[TensorShape]) -> Element:
        """An element of it, which is what a node says that it asks for: InvalidArgumentError where not.

        The node's types and shapes are compared with the dataset's once; an element's shapes are looked at
        where the dataset's own do not tell.
        """
        key = id(types), id(shapes)
        asked = self._asked.get(key)
        if asked is None:
            asked = self._compared(types, shapes)
            if len(self._asked) >= _ASKED_MAX:
                self._asked.clear()
            self._asked[key] = asked
        if asked.looks:
            _check_shapes(element, shapes)
        return element

    def _compared(self, types: Sequence[DType], shapes: Sequence[TensorShape]) -> _AskedElement:
        made = self.dataset
        if made is None or not made.types:
            return _AskedElement(types, shapes, looks=True)
        check_types(made.types, types, shapes, made.shapes)
        are_known = len(made.shapes) == len(shapes) and all(
            own.merge_with(wanted) == own for own, wanted in zip(made.shapes, shapes, strict=True)
        )
        return _AskedElement(types, shapes, looks=not are_known)

    def _begun(self) -> _DemandIterator:
        if self._front is None:
            self._check_exists()
            raise FailedPreconditionError(
                "GetNext() failed because the iterator has not been initialized. Ensure that you have run "
                "the initializer operation for this iterator before getting the next element."
            )
        return self._front

    async def make(self, dataset: DatasetValue) -> None:
        """Begin with a dataset; the tasks of the one before have ended when this returns.

        Raises InvalidArgumentError where its elements are not what this iterator gives, NotFoundError once it
        is removed.
        """
        self._check_exists()
        if self.types:
            check_types(dataset.types, self.types, self.shapes, dataset.shapes)
        await self.end()
        self._check_exists()
        self._begin(dataset)

    def make_nowait(self, dataset: DatasetValue) -> Any:
        """`make` where no task has to end first, else WOULD_WAIT with nothing changed."""
        ending = self._ending if self._front is None else self._front.iteration.tasks
        if ending is not None and ending.count:
            return WOULD_WAIT
        self._check_exists()
        if self.types:
            check_types(dataset.types, self.types, self.shapes, dataset.shapes)
        self._begin(dataset)
        return None

    def _begin(self, dataset: DatasetValue) -> None:
        self._close()
        iteration = Iteration(self._services)
        self.dataset = dataset
        self._asked.clear()
        self._front = _DemandIterator(iteration, dataset.iterator(iteration))

    def _close(self) -> None:
        """Cancel the tasks of the present dataset, and tell those who wait."""
        front, self._front = self._front, None
        if front is None:
            return
        self._ending = front.iteration.tasks
        front.close()
        self._ending.cancel()
        front.changed.fire()

    async def end(self) -> None:
        """Let go of the dataset: its tasks have ended when this returns. Cancelled, they end all the same.

        After `destroy` it waits for the tasks that were left.
        """
        self._close()
        if self._ending is not None:
            await self._ending.ended()

    def destroy(self) -> None:
        """As `end`, without waiting."""
        self.dataset = None
        self._close()

    def missing(self) -> NotFoundError:
        """Return the error for uses of the iterator after its removal."""
        return missing_iterator(self.container, self.name)

    def _check_exists(self) -> None:
        if self.is_removed:
            raise self.missing()

    async def state(self) -> State:
        """Return the iterator's state; no element is being made meanwhile.

        FailedPreconditionError before it has a dataset.
        """
        return await self._begun().state()

    async def restore(self, dataset: DatasetValue, state: State) -> None:
        """Begin with a dataset, at a place in it."""
        await self.make(dataset)
        await self._begun().restore(state)

    def __repr__(self) -> str:
        return f"<iterator '{self.name}'>"
