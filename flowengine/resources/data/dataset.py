"""Datasets, what makes their elements, and what one run through a dataset has in common.

A `DatasetValue` is what a node gives: never changed, shared by all who hold it. Its `iterator` is one run
through it. An iterator gives an element at a time, `None` after the last; an error of one element is raised
in its place, and the next call goes on behind it. An iterator is asked by one task at a time.

    dataset ──iterator(iteration)──► DataIterator ──next()──► (component, ...) or None
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, BinaryIO, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import trio

from flowengine.core.accounting import bytes_at_most
from flowengine.core.arrays import Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from flowengine.core.files.access import SYSTEM, Files
from flowengine.core.shapes import TensorShape
from flowengine.ir.attrs import AttrValue
from flowengine.resources.container import ResourceManager
from flowengine.resources.elements import Element, ElementRun
from flowengine.resources.function_calls import FunctionCaller, NamedFunction
from flowengine.resources.services import Services, ServiceTasks

#: What an iterator says of where it stands: numbers, texts, arrays, and lists and dictionaries of them.
State: TypeAlias = dict[str, Any]

#: A dataset without end, and one of which nobody knows how long it is.
INFINITE: Final = -1
UNKNOWN: Final = -2

#: How long an iterator runs before it lets others have the event loop.
_SLICE_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The node that makes a dataset, and what it may use.

    op, attrs   of the node
    inputs      the values of its inputs, those of a list as one tuple
    name        of the node
    caller      calls the functions of the node's graph; None in a graph that has none
    resources   of the node's device
    opener      opens a file for reading, or raises one of our errors; called on a thread
    may_write   raises PermissionDeniedError where the configuration forbids to write to a path
    files       the files that the configuration allows
    """

    op: str
    attrs: Mapping[str, AttrValue]
    inputs: tuple[Any, ...]
    name: str = ""
    caller: FunctionCaller | None = None
    resources: ResourceManager = field(default_factory=ResourceManager)
    opener: Callable[[bytes], BinaryIO] | None = None
    may_write: Callable[[str], None] | None = None
    files: Files = SYSTEM

    def function(self, attr: str) -> NamedFunction:
        """The function that an attribute names; FailedPreconditionError where nobody can call it."""
        if self.caller is None:
            raise FailedPreconditionError(
                f"{self.op} calls a function, but its graph has no function library"
            )
        return self.caller.function(self.attrs[attr])


class Iteration:
    """The state that the iterators of one run through a dataset share.

    tasks              of those that work ahead
    shuffles_through   whether a shuffled dataset that is repeated is shuffled by one sequence of numbers, as
                       TensorFlow's fusion of the two does it
    """

    __slots__ = ("_ends", "_sequences", "memory", "shuffles_through", "tasks")

    def __init__(self, services: Services) -> None:
        self.tasks: ServiceTasks = services.new_tasks()
        #: {dataset: what it keeps in memory for all its iterators}
        self.memory: dict[Any, Any] = {}
        self.shuffles_through = False
        self._sequences: dict[str, ResourceManager] = {}
        self._ends = 0.0

    async def breathe(self) -> None:
        """Let others have the event loop, where this has run for a slice. Sources call it."""
        if perf_counter() >= self._ends:
            await trio.lowlevel.checkpoint()
            self._ends = perf_counter() + _SLICE_SECONDS

    def sequences_of(self, function: str) -> ResourceManager:
        """Return the resources where a function's random nodes keep their positions, new for each run."""
        found = self._sequences.get(function)
        if found is None:
            found = self._sequences[function] = ResourceManager()
        return found


class LastingState(Protocol):
    """State that lasts from one run through a dataset to the next: random numbers, kept elements."""

    def state(self) -> Any:
        """Return the current state."""

    def restore(self, state: Any) -> None:
        """Go on there."""


class DatasetValue:
    """See the module. Subclasses take the origin, then the inputs of their op.

    types, shapes   of the components of an element
    """

    __slots__ = ("origin", "shapes", "types")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        attrs = origin.attrs
        self.types: tuple[DType, ...] = tuple(attrs.get("output_types") or attrs.get("Toutput_types") or ())
        self.shapes: tuple[TensorShape, ...] = tuple(attrs.get("output_shapes") or ())

    def iterator(self, iteration: Iteration) -> DataIterator:
        """A new run through the dataset; nothing is read or called before its first element is wanted."""
        raise AssertionError(f"{type(self).__name__} has no iterator")

    def repeated(self, iteration: Iteration, count: int) -> DataIterator | None:
        """A run through so many epochs of it, for ever for -1; None where that is one run after the other."""
        return None

    def batches(self, iteration: Iteration, batched: Any) -> DataIterator | None:
        """A run through its batches, where they are made in another way than of elements one by one.

        batched   the dataset of them: `batch_size`, `drop_remainder`, `types`
        """
        return None

    def cardinality(self) -> int:
        """How many elements it has, `INFINITE` or `UNKNOWN`."""
        return UNKNOWN

    #: Whether its elements can be asked for by number where those of its sources can.
    NUMBERED: ClassVar[bool] = False

    def unnumbered(self) -> DatasetValue | None:
        """Of this dataset and those that it is made of, one without `element_at`; None where all have it."""
        if not self.NUMBERED:
            return self
        found = (source.unnumbered() for source in self.sources())
        return next((each for each in found if each is not None), None)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        """The element with a number, from 0 to before `cardinality`, without those before it.

        For a dataset that `unnumbered` finds nothing in. Raises what is wrong with the element, and
        OutOfRangeError where there is none.
        """
        raise AssertionError(f"{type(self).__name__} cannot be asked for elements by number")

    def lasting(self, iteration: Iteration) -> LastingState | None:
        """Return the state that one run leaves to the next; None if each run is like the first."""
        return None

    def all_lasting(self, iteration: Iteration) -> list[LastingState]:
        """Return the lasting states of this dataset and of its sources, always in the same order."""
        own = self.lasting(iteration)
        found = [] if own is None else [own]
        for source in self.sources():
            found += source.all_lasting(iteration)
        return found

    def sources(self) -> tuple[DatasetValue, ...]:
        """The datasets that it is made of."""
        found: list[DatasetValue] = []
        for value in self.origin.inputs:
            found.extend(each for each in (value if isinstance(value, tuple) else (value,)) if _is_one(each))
        return tuple(found)


def _is_one(value: object) -> bool:
    return isinstance(value, DatasetValue)


class DataIterator:
    """One run through a dataset. See the module.

    `FIELDS` are the attributes that say where it stands, `CHILDREN` those that hold the iterators it asks.
    """

    __slots__ = ("iteration",)

    FIELDS: ClassVar[tuple[str, ...]] = ()
    CHILDREN: ClassVar[tuple[str, ...]] = ()

    def __init__(self, iteration: Iteration) -> None:
        self.iteration = iteration

    async def next(self) -> Element | None:
        """The next element, None after the last. Raises what is wrong with this one."""
        raise AssertionError(f"{type(self).__name__} gives no elements")

    async def take(self, count: int, into: ElementRun | None = None) -> ElementRun:
        """The next `count` elements, fewer only at the end. Sources that have many at once give them so.

        into   an empty run to put them in: whoever counts them sees those before an error, which are gone
        """
        taken = ElementRun() if into is None else into
        while len(taken) < count:
            element = await self.next()
            if element is None:
                break
            taken.append(element)
        return taken

    def next_nowait(self) -> Any:
        """The next element if it is there, None at the end, WOULD_WAIT with nothing changed else."""
        from flowengine.core.arrays import WOULD_WAIT

        return WOULD_WAIT

    def size_of_last(self, element: Element) -> int:
        """The bytes of the element that it gave last; those that measured it before remember."""
        return sum(map(bytes_at_most, element))

    def close(self) -> None:
        """Nobody asks any more: end the tasks that work ahead, close files."""
        for name in self.CHILDREN:
            child = getattr(self, name)
            if child is not None:
                child.close()

    async def state(self) -> State:
        """Return the iterator's state. No element is being made meanwhile."""
        state: State = {name: _kept(getattr(self, name)) for name in self.FIELDS}
        for name in self.CHILDREN:
            child = getattr(self, name)
            state[name] = None if child is None else await child.state()
        return state

    async def restore(self, state: State) -> None:
        """Go on from there. It has given no element yet."""
        for name in self.FIELDS:
            value = state[name]
            setattr(self, name, deque(value) if isinstance(getattr(self, name), deque) else _kept(value))
        for name in self.CHILDREN:
            kept = state[name]
            child = getattr(self, name)
            if kept is None:
                if child is not None:
                    child.close()
                setattr(self, name, None)
                continue
            if child is None:
                child = self.child(name)
                setattr(self, name, child)
            await child.restore(kept)

    def child(self, name: str) -> DataIterator:
        """The iterator to be restored under this name, where there is none yet."""
        raise AssertionError(f"{type(self).__name__} has no child {name}")


D = TypeVar("D", bound=DatasetValue)


class LastingIterator(DataIterator, Generic[D]):
    """One that goes through its dataset more than once, or in an order that is drawn.

    Its state holds what lasts, too: of a run that is over nobody else knows what it has left to the next one.
    """

    __slots__ = ("_dataset",)

    def __init__(self, iteration: Iteration, dataset: D) -> None:
        super().__init__(iteration)
        self._dataset = dataset

    async def state(self) -> State:
        lasting = [each.state() for each in self._dataset.all_lasting(self.iteration)]
        return {**await super().state(), "lasting": lasting}

    async def restore(self, state: State) -> None:
        for lasting, kept in zip(self._dataset.all_lasting(self.iteration), state["lasting"], strict=True):
            lasting.restore(kept)
        await super().restore(state)


def _kept(value: Any) -> Any:
    """Copy a list or deque, so that later steps of an iterator do not change a saved or restored state."""
    return list(value) if isinstance(value, list | deque) else value


def checked_dataset(value: Any, what: str = "input_dataset") -> DatasetValue:
    """The dataset in a variant; InvalidArgumentError for anything else."""
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.hasobject:
        value = value.item()
    if isinstance(value, DatasetValue):
        return value
    raise InvalidArgumentError(f"{what} must be a scalar variant that holds a dataset, not {value!r:.80}")


def checked_number(number: int, count: int) -> int:
    """The number of an element; OutOfRangeError unless it is from 0 to before `count`."""
    if 0 <= number < count:
        return number
    raise OutOfRangeError(f"Index out of range [0, {count}): {number}")


def scalar(value: Any, what: str) -> int:
    """An integer tensor of rank 0; InvalidArgumentError for others."""
    if getattr(value, "ndim", 0):
        raise InvalidArgumentError(f"{what} must be a scalar, not of shape {list(value.shape)}")
    return int(value)


def text(value: Any, what: str) -> bytes:
    """A string tensor of rank 0; InvalidArgumentError for others."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if not isinstance(value, bytes):
        raise InvalidArgumentError(f"{what} must be a scalar string, not {value!r:.80}")
    return value


def texts(value: Any, what: str) -> list[bytes]:
    """A string tensor of rank 0 or 1 as a list; InvalidArgumentError for others."""
    array = to_array(value)
    if array.ndim > 1:
        raise InvalidArgumentError(f"{what} must be a scalar or a vector, not of shape {list(array.shape)}")
    found: list[bytes] = array.reshape(-1).tolist()
    return found


def shape_of(value: Value) -> tuple[int, ...]:
    """Of a component; that of what is no array is of rank 0."""
    return tuple(getattr(value, "shape", ()))


def check_types(
    found: Sequence[DType],
    wanted: Sequence[DType],
    shapes: Sequence[TensorShape],
    given: Sequence[TensorShape],
) -> None:
    """InvalidArgumentError where elements are not what somebody declares them to be."""
    if len(found) != len(wanted):
        raise InvalidArgumentError(
            f"Number of components does not match: expected {len(wanted)} types but got {len(found)}."
        )
    for index, (has, want) in enumerate(zip(found, wanted, strict=True)):
        if has is not want:
            raise InvalidArgumentError(
                f"Data type mismatch at component {index}: expected {want.name} but got {has.name}."
            )
    for index, (shape, declared) in enumerate(zip(given, shapes, strict=False)):
        if not shape.is_compatible_with(declared):
            raise InvalidArgumentError(
                f"Incompatible shapes at component {index}: expected {declared} but got {shape}."
            )
