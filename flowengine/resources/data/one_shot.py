"""One-shot iterators: a function makes their dataset once, for whoever asks first."""

from __future__ import annotations

import trio

from flowengine.core.errors import InvalidArgumentError
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.dataset import checked_dataset
from flowengine.resources.data.iterator import IteratorResource
from flowengine.resources.function_calls import NamedFunction


class OneShot:
    """An iterator, and the function that makes its dataset.

    resource   the iterator, which has a dataset once `iterator` has returned
    """

    __slots__ = ("_factory", "_is_made", "_lock", "resource")

    def __init__(self, resource: IteratorResource, factory: NamedFunction) -> None:
        self.resource = resource
        self._factory = factory
        self._lock = trio.Lock()
        self._is_made = False

    async def iterator(self) -> IteratorResource:
        """The iterator with its dataset.

        Raises what the function does, and InvalidArgumentError where that gives no dataset. Failed or
        cancelled, it leaves the dataset to be made by the next who asks. In TensorFlow all are told what the
        first was told; but that may be its own deadline, of which the others know nothing.
        """
        if not self._is_made:
            async with self._lock:
                if not self._is_made:
                    await self._make()
        return self.resource

    async def _make(self) -> None:
        results = await self._factory((), ResourceManager())
        if len(results) != 1:
            raise InvalidArgumentError(
                f"The `dataset_factory` function must return a single dataset, not {len(results)} values."
            )
        await self.resource.make(checked_dataset(results[0], "what `dataset_factory` returns"))
        self._is_made = True

    @property
    def is_removed(self) -> bool:
        """Whether it was removed by itself."""
        return self.resource.is_removed

    @is_removed.setter
    def is_removed(self, is_removed: bool) -> None:
        self.resource.is_removed = is_removed

    def destroy(self) -> None:
        """It was removed, or the session has ended."""
        self.resource.destroy()
