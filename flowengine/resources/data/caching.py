"""Datasets that are computed once: kept in memory, or in files as a checkpoint keeps tensors.

What is in memory is kept for one iterator and all that its dataset is repeated in it, or as long as the
resource that the node was given. A file is written as the first run goes on, and whole at its end.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import trio

from flowengine.checkpoint import BundleReader, BundleWriter, FileLayer
from flowengine.core.arrays import Value, scalar_element
from flowengine.core.dtypes import DType
from flowengine.core.errors import AlreadyExistsError
from flowengine.core.files.access import Files
from flowengine.resources.data.dataset import DataIterator, Iteration, Origin, text
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.elements import Element


class MemoryCache:
    """The elements of a dataset, once one run through it was whole."""

    __slots__ = ("elements", "name")

    def __init__(self) -> None:
        self.elements: list[Element] | None = None
        self.name = ""

    def state(self) -> list[Element] | None:
        """The elements; None where there are none yet."""
        return self.elements

    def restore(self, state: list[Element] | None) -> None:
        """Have these elements from now on."""
        self.elements = None if state is None else list(state)


class CacheDataset(DerivedDataset):
    """The elements of another, kept: in memory where `filename` is empty."""

    __slots__ = ("cache", "filename")

    NUMBERED = True

    def __init__(self, origin: Origin, input_dataset: Any, filename: Value, cache: Any = None) -> None:
        super().__init__(origin, input_dataset)
        self.filename = os.fsdecode(text(filename, "filename")).removeprefix("file://")
        self.cache = cache if isinstance(cache, MemoryCache) else None

    def iterator(self, iteration: Iteration) -> DataIterator:
        cache = self.lasting(iteration)
        if cache is None:
            return _FileCacheIterator(iteration, self)
        return _MemoryCacheIterator(iteration, self, cache)

    async def element_at(self, iteration: Iteration, number: int) -> Element:
        """The element that is kept, where a run through the dataset was whole; else the source's own."""
        cache = self.lasting(iteration)
        if cache is not None and cache.elements is not None:
            return cache.elements[number]
        return await self.source.element_at(iteration, number)

    def lasting(self, iteration: Iteration) -> MemoryCache | None:
        if self.filename:
            return None
        found: MemoryCache = self.cache or iteration.memory.setdefault(self, MemoryCache())
        return found

    def cardinality(self) -> int:
        return self.source.cardinality()


class _MemoryCacheIterator(DataIterator):
    __slots__ = ("_cache", "_dataset", "input", "place", "written")

    def __init__(self, iteration: Iteration, cached: CacheDataset, cache: MemoryCache) -> None:
        super().__init__(iteration)
        self._dataset = cached
        self._cache = cache
        self.place = 0
        #: Of the run that fills the cache.
        self.written: list[Element] = []
        self.input: DataIterator | None = None
        if cache.elements is None:
            self.input = cached.source.iterator(iteration)

    async def next(self) -> Element | None:
        if self.input is not None:
            element = await self.input.next()
            if element is not None:
                self.written.append(element)
                return element
            self.input = None
            self._cache.elements, self.place = self.written, len(self.written)
        elements = self._cache.elements or []
        if self.place >= len(elements):
            return None
        await self.iteration.breathe()
        self.place += 1
        return elements[self.place - 1]

    def close(self) -> None:
        if self.input is not None:
            self.input.close()

    async def state(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "written": list(self.written) if self.input is not None else [],
            "elements": self._cache.elements,
            "input": None if self.input is None else await self.input.state(),
        }

    async def restore(self, state: dict[str, Any]) -> None:
        self.place, self.written = state["place"], list(state["written"])
        if state["elements"] is not None:
            self._cache.elements = list(state["elements"])
        if state["input"] is None:
            self.input = None
        else:
            if self.input is None:
                self.input = self._dataset.source.iterator(self.iteration)
            await self.input.restore(state["input"])


def _key(place: int, component: int, width: int) -> bytes:
    """Return TensorFlow's key of an element's component in its cache file."""
    return b"%8d_%*d" % (place, len(str(width)), component)


class _FileCacheIterator(DataIterator):
    """Writes the file where there is none, else reads it."""

    __slots__ = ("_dataset", "_reader", "_writer", "input", "place")

    def __init__(self, iteration: Iteration, cached: CacheDataset) -> None:
        super().__init__(iteration)
        self._dataset = cached
        self.place = 0
        self.input: DataIterator | None = None
        self._reader: BundleReader | None = None
        self._writer: BundleWriter | None = None

    @property
    def _files(self) -> Files:
        return self._dataset.origin.files

    @property
    def _lock(self) -> str:
        return f"{self._dataset.filename}.lockfile"

    def _begin(self) -> None:
        path, origin, files = self._dataset.filename, self._dataset.origin, self._files
        if files.exists(f"{path}.index"):
            self._reader = BundleReader(path, files=files)
            return
        if origin.may_write is not None:
            origin.may_write(path)
        if files.exists(self._lock):
            raise AlreadyExistsError(
                f"There appears to be a concurrent caching iterator running - cache lockfile already exists "
                f"('{self._lock}'). If you are sure no other iterator is writing it, delete the lockfile"
            )
        files.make_folders(os.path.dirname(path))
        with files.create(self._lock):
            self._writer = BundleWriter(path, files=FileLayer(files))
        self._writer.__enter__()

    async def next(self) -> Element | None:
        if self._reader is None and self._writer is None:
            await trio.to_thread.run_sync(self._begin)
            if self._writer is not None:
                self.input = self._dataset.source.iterator(self.iteration)
        types = self._dataset.types
        if self._reader is not None:
            return await trio.to_thread.run_sync(self._read, self._reader, types)
        if self.input is None or self._writer is None:
            return None
        element = await self.input.next()
        if element is None:
            await trio.to_thread.run_sync(self._finish)
            return None
        for component, (value, dtype) in enumerate(zip(element, types, strict=True)):
            key = _key(self.place, component, len(types))
            await trio.to_thread.run_sync(partial(self._writer.add, key, value, dtype))
        self.place += 1
        return element

    def _read(self, reader: BundleReader, types: tuple[DType, ...]) -> Element | None:
        keys = [_key(self.place, component, len(types)) for component in range(len(types))]
        if keys[0] not in reader:
            return None
        self.place += 1
        return tuple([scalar_element(reader.read(key)) for key in keys])

    def _finish(self) -> None:
        assert self._writer is not None
        self._writer.finish()
        self._release()
        self.input = None
        self._reader = BundleReader(self._dataset.filename, files=self._files)
        self._writer = None

    def _release(self) -> None:
        if self._files.exists(self._lock):
            self._files.remove(self._lock)

    def close(self) -> None:
        if self._writer is not None:
            # The run was not whole: what it has written is of no use.
            self._writer.abandon()
            self._writer = None
            self._release()
        if self._reader is not None:
            self._reader.close()
        if self.input is not None:
            self.input.close()

    async def state(self) -> dict[str, Any]:
        return {"place": self.place, "input": None if self.input is None else await self.input.state()}

    async def restore(self, state: dict[str, Any]) -> None:
        for _ in range(state["place"]):
            await self.next()
