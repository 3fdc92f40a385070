"""A dataset of the names of files that match patterns."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

import trio

from flowengine.core import dtypes
from flowengine.core.arrays import Value
from flowengine.core.errors import NotFoundError
from flowengine.core.shapes import TensorShape
from flowengine.resources.data.dataset import DataIterator, DatasetValue, Iteration, Origin, texts
from flowengine.resources.elements import Element

#: From a pattern to the files that match it, sorted, without folders. Called on a thread.
Matches: TypeAlias = Callable[[bytes], list[bytes]]


class MatchingFilesDataset(DatasetValue):
    """The files that match each pattern in turn, those of one pattern sorted; folders are left out.

    An element is the name of a file (string, rank 0). A file is given for each pattern that it matches.
    NotFoundError in place of the first element where no pattern has a file.
    """

    __slots__ = ("matches", "patterns")

    def __init__(self, origin: Origin, patterns: Value, matches: Matches) -> None:
        super().__init__(origin)
        self.patterns = texts(patterns, "patterns")
        self.matches = matches
        self.types = (dtypes.string,)
        self.shapes = (TensorShape([]),)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _MatchingIterator(iteration, self)

    def files(self, pattern: bytes) -> list[bytes]:
        """The files that match a pattern, none for one that ends in a slash. May block."""
        if pattern.endswith(b"/"):
            return []
        return self.matches(pattern)


class _MatchingIterator(DataIterator):
    """An iterator whose state holds the rest of a pattern's files, because they may differ later."""

    __slots__ = ("_dataset", "has_any", "pattern", "waiting")

    FIELDS = ("pattern", "waiting", "has_any")

    def __init__(self, iteration: Iteration, names: MatchingFilesDataset) -> None:
        super().__init__(iteration)
        self._dataset = names
        #: The number of the next pattern.
        self.pattern = 0
        #: Files of the pattern before it, the next one last.
        self.waiting: list[bytes] = []
        self.has_any = False

    async def next(self) -> Element | None:
        names = self._dataset
        while not self.waiting:
            if self.pattern >= len(names.patterns):
                if not self.has_any:
                    shown = ", ".join(repr(os.fsdecode(each)) for each in names.patterns)
                    raise NotFoundError(f"no file matches {shown or 'an empty list of patterns'}")
                return None
            pattern = names.patterns[self.pattern]
            found: list[Any] = await trio.to_thread.run_sync(names.files, pattern, abandon_on_cancel=True)
            self.pattern += 1
            self.waiting = found[::-1]
            self.has_any = self.has_any or bool(found)
        await self.iteration.breathe()
        return (self.waiting.pop(),)
