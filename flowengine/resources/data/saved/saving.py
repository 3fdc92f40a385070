"""Saves the elements of datasets on disk, so that TensorFlow loads them. See `loading` for the form."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
import zlib
from collections.abc import Callable
from functools import partial
from io import BufferedWriter
from typing import Any, BinaryIO, Final

import trio

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.files.access import Files
from flowengine.ir.tensorproto import encode_tensor
from flowengine.ir.wire import bytes_field, field, varint
from flowengine.resources.data.dataset import DataIterator, Iteration, Origin, text
from flowengine.resources.data.functional import BoundFunction
from flowengine.resources.data.ordering import DerivedDataset
from flowengine.resources.data.saved import loading
from flowengine.resources.data.saved.snappy import SnappyBlocks
from flowengine.resources.data.windows import key_of
from flowengine.resources.data.writing import WINDOWS
from flowengine.resources.elements import Element
from flowengine.resources.event_files import framed
from flowengine.resources.records import checked_compression

#: Bytes of a shard's elements that wait until a thread writes them.
_PIECE: Final = 256 * 1024


class _Shard:
    """One file, and what waits to be written into it."""

    def __init__(self, file: BinaryIO, compression: str) -> None:
        self.file = file
        self.waiting: list[Element] = []
        self.size = 0
        self._machine: Any = None
        if compression:
            is_snappy = compression == "SNAPPY"
            self._machine = SnappyBlocks() if is_snappy else zlib.compressobj(wbits=WINDOWS[compression])

    def write(self, types: tuple[DType, ...], *, is_last: bool) -> None:
        """Write what waits. May block."""
        records = [
            framed(encode_tensor(value, dtype).SerializeToString(deterministic=True))
            for element in self.waiting
            for value, dtype in zip(element, types, strict=True)
        ]
        data = b"".join(records)
        if self._machine is not None:
            data = self._machine.compress(data) + (self._machine.flush() if is_last else b"")
        self.file.write(data)
        self.waiting, self.size = [], 0


class SavedWriter:
    """Writes one run of a dataset, which counts once `finish` has returned; until then the one before does.

    path          the folder; it and those above it are made
    types         of the components of an element
    compression   "", "ZLIB", "GZIP" or "SNAPPY"
    origin        the number of what the elements are of, where the folder is named by it
    """

    def __init__(
        self, files: Files, path: str, types: tuple[DType, ...], compression: str, origin: str = ""
    ) -> None:
        self._files = files
        self._path = path
        self._types = types
        self._compression = compression
        self._origin = origin
        self._run = str(secrets.randbits(63))
        self._shards: dict[int, _Shard] = {}
        self._count = 0

    def _opened(self, shard: int) -> _Shard:
        folder = os.path.join(self._path, self._run, f"{shard:08d}.shard")
        self._files.make_folders(folder)
        file = BufferedWriter(self._files.create(os.path.join(folder, "00000000.snapshot")))
        return _Shard(file, self._compression)

    async def add(self, element: Element, shard: int = 0) -> None:
        """Save one element more. InvalidArgumentError for a shard below 0; OSError as it comes."""
        if shard < 0:
            raise InvalidArgumentError(f"the shard of an element must be at least 0, not {shard}")
        found = self._shards.get(shard)
        if found is None:
            found = self._shards[shard] = await trio.to_thread.run_sync(self._opened, shard)
        found.waiting.append(element)
        found.size += sum(getattr(value, "nbytes", 64) for value in element)
        self._count += 1
        if found.size >= _PIECE:
            await trio.to_thread.run_sync(partial(found.write, self._types, is_last=False))

    async def finish(self) -> None:
        """Write the rest, and then that this run is the one."""
        await trio.to_thread.run_sync(self._finish)

    def _finish(self) -> None:
        for shard in self._shards.values():
            shard.write(self._types, is_last=True)
            shard.file.close()
        self._files.make_folders(os.path.join(self._path, self._run))
        data = (
            (bytes_field(loading.ORIGIN_FIELD, self._origin.encode()) if self._origin else b"")
            + bytes_field(loading.RUN_FIELD, self._run.encode())
            + field(loading.TIME_FIELD, time.time_ns() // 1000)
            + field(loading.VERSION_FIELD, loading.VERSION)
            + bytes_field(loading.TYPES_FIELD, b"".join(varint(dtype.base.number) for dtype in self._types))
            + field(loading.COUNT_FIELD, self._count)
            + field(loading.FINAL_FIELD, 1)
        )
        self._files.write_whole(os.path.join(self._path, loading.METADATA), data)
        self._shards = {}

    def abort(self) -> None:
        """Remove what was written of this run."""
        run = os.path.join(self._path, self._run)
        for number, shard in self._shards.items():
            folder = os.path.join(run, f"{number:08d}.shard")
            with contextlib.suppress(OSError, ValueError):
                shard.file.close()
            with contextlib.suppress(OSError):
                self._files.remove(os.path.join(folder, "00000000.snapshot"))
                self._files.remove_folder(folder)
        if self._shards:
            with contextlib.suppress(OSError):
                self._files.remove_folder(run)
        self._shards = {}


class SavedDataset(DerivedDataset):
    """The elements of another, each saved before it is given; the run counts once the last was given."""

    __slots__ = ("call", "compression", "path")

    def __init__(
        self, origin: Origin, input_dataset: Any, path: Value, shard_func_other_args: tuple[Value, ...] = ()
    ) -> None:
        super().__init__(origin, input_dataset)
        self.types, self.shapes = self.source.types, self.source.shapes
        self.path = os.fsdecode(text(path, "path"))
        self.compression = checked_compression(origin.attrs.get("compression") or b"", b"SNAPPY")
        self.call: BoundFunction | None = None
        if origin.attrs.get("use_shard_func", True):
            self.call = BoundFunction(origin.function("shard_func"), shard_func_other_args)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return _SavedIterator(iteration, self)

    def writer(self) -> SavedWriter:
        """Return the writer of a run."""
        return SavedWriter(self.origin.files, self.path, self.types, self.compression)

    def cardinality(self) -> int:
        return self.source.cardinality()


class _SavedIterator(DataIterator):
    __slots__ = ("_dataset", "_writer", "input")

    CHILDREN = ("input",)

    def __init__(self, iteration: Iteration, made: SavedDataset) -> None:
        super().__init__(iteration)
        self._dataset = made
        self.input: DataIterator | None = made.source.iterator(iteration)
        self._writer: SavedWriter | None = None

    async def next(self) -> Element | None:
        made = self._dataset
        if self.input is None:
            return None
        if self._writer is None:
            may_write: Callable[[str], None] | None = made.origin.may_write
            if may_write is not None:
                may_write(made.path)
            self._writer = made.writer()
        element = await self.input.next()
        if element is None:
            await self._writer.finish()
            self.input = None
            return None
        shard = 0
        if made.call is not None:
            shard = await key_of(made.call, self.iteration, element, "shard_func")
        await self._writer.add(element, shard)
        return element

    def close(self) -> None:
        super().close()
        if self._writer is not None:
            self._writer.abort()

    async def state(self) -> dict[str, Any]:
        raise FailedPreconditionError("the position of a dataset that is being saved cannot be saved")


async def save_all(made: SavedDataset, iteration: Iteration) -> None:
    """Save every element. Where it fails or is cancelled, nothing of the run is left."""
    iterator = made.iterator(iteration)
    try:
        while await iterator.next() is not None:
            pass
    finally:
        iterator.close()
