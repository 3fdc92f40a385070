"""All elements of a dataset in random order, asked for by number.

    element i  =  input.element_at(place of i in a random order of all numbers)

Nothing is kept in memory: the order is a cipher, see `order.py`.
"""

from __future__ import annotations

from typing import Any, Final

from flowengine.core.arrays import Value
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from flowengine.resources.data.by_number.order import shuffled_index
from flowengine.resources.data.dataset import DataIterator, Iteration, LastingIterator, Origin, checked_number
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.data.shuffling import SeedGenerator, given_seeds
from flowengine.resources.data.sources import seeds_of
from flowengine.resources.elements import Element

#: Rounds of the cipher, and how many of the seeds that a run draws it takes: as TensorFlow has them.
_ROUNDS: Final = 8
_SEEDS: Final = 3
#: Elements between two looks at the clock.
_LOOK_EVERY: Final = 16


class _ShuffleState:
    """The state that the runs of one iteration through a shuffled dataset share.

    seeds   of the order in which elements are asked for by number; None before the first
    """

    __slots__ = ("_generator", "seeds")

    def __init__(self, generator: SeedGenerator) -> None:
        self._generator = generator
        self.seeds: tuple[int, ...] | None = None

    def drawn(self) -> tuple[int, ...]:
        """The seeds of another order."""
        return (*self._generator.draw(), *self._generator.draw())[:_SEEDS]

    def state(self) -> list[Any]:
        return [self._generator.state(), self.seeds]

    def restore(self, state: list[Any]) -> None:
        generator, self.seeds = state
        self._generator.restore(generator)


class GlobalShuffleDataset(DerivedDataset):
    """All elements of another in random order, in another order in each run unless the node says otherwise.

    Raises FailedPreconditionError where elements of the input cannot be asked for by number, and
    InvalidArgumentError where it has none, no end, or nobody knows how many it has.
    """

    __slots__ = ("count", "seeds")

    NUMBERED = True

    def __init__(
        self, origin: Origin, input_dataset: Any, seed: Value, seed2: Value, seed_generator: Any
    ) -> None:
        super().__init__(origin, input_dataset)
        hindrance = self.source.unnumbered()
        if hindrance is not None:
            raise FailedPreconditionError(
                "`global_shuffle` requires random access to the elements of its input, which "
                f"{hindrance.origin.op or type(hindrance).__name__} does not have. Shuffle before it"
            )
        self.count = self.source.cardinality()
        if self.count <= 0:
            raise InvalidArgumentError(
                "`global_shuffle` requires the input dataset to have a non-empty finite cardinality. "
                f"Got cardinality {self.count}"
            )
        reshuffles = bool(origin.attrs.get("reshuffle_each_iteration", True))
        self.seeds = given_seeds(seed_generator) or SeedGenerator(
            *seeds_of(seed, seed2), reshuffles=reshuffles
        )

    def lasting(self, iteration: Iteration) -> _ShuffleState:
        found = iteration.memory.get(self)
        if found is None:
            found = iteration.memory[self] = _ShuffleState(self.seeds)
        order: _ShuffleState = found
        return order

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _GlobalShuffleIterator(iteration, self)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        """In one order for all who ask in an iteration, drawn for the first of them."""
        order = self.lasting(iteration)
        if order.seeds is None:
            order.seeds = order.drawn()
        return await self.at(iteration, order.seeds, number)

    async def at(self, iteration: Iteration, seeds: tuple[int, ...], number: int) -> Element:
        """The element at a place in the order of some seeds."""
        place = shuffled_index(checked_number(number, self.count), seeds, self.count - 1, _ROUNDS)
        return await self.source.element_at(iteration, place)

    def cardinality(self) -> int:
        return self.count


class _GlobalShuffleIterator(LastingIterator[GlobalShuffleDataset]):
    __slots__ = ("place", "seeds")

    FIELDS = ("place", "seeds")

    def __init__(self, iteration: Iteration, shuffled: GlobalShuffleDataset) -> None:
        super().__init__(iteration, shuffled)
        self.place = 0
        #: Drawn as the first element is asked for.
        self.seeds: tuple[int, ...] | None = None

    async def next(self) -> Element | None:
        made, place = self._dataset, self.place
        if place >= made.count:
            return None
        if self.seeds is None:
            self.seeds = made.lasting(self.iteration).drawn()
        if not place % _LOOK_EVERY:
            await self.iteration.breathe()
        self.place = place + 1
        try:
            return await made.at(self.iteration, self.seeds, place)
        except OutOfRangeError:
            return None
