"""Datasets of what files hold: records, lines, pieces of one size.

Files are opened, read, decompressed and checked on threads, some blocks at a time, the next while one is
given out. What is wrong with a file is raised where its records end; the next call goes on with the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any, BinaryIO, Final, TypeAlias

from flowengine.core import dtypes
from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.resources.data.dataset import (
    DataIterator,
    DatasetValue,
    Iteration,
    Origin,
    scalar,
    text,
    texts,
)
from flowengine.resources.elements import Element, ElementRun
from flowengine.resources.lmdb import lmdb_records
from flowengine.resources.reader import FileReading
from flowengine.resources.records import (
    RecordSource,
    checked_compression,
    fixed_length,
    shown,
    source_of,
)
from flowengine.resources.tf_records import tf_records_alone

_PIECE: Final = 256 * 1024

#: From an open file and its name to blocks of the dataset's elements.
Reads: TypeAlias = Callable[[BinaryIO, bytes], Iterator[ElementRun]]


class FileDataset(DatasetValue):
    """The records of files, one file after the other.

    has_keys   whether an element is the key of a record and the record, rather than the record alone
    """

    __slots__ = ("filenames", "reads")

    def __init__(self, origin: Origin, filenames: Value, reads: Reads, *, has_keys: bool = False) -> None:
        super().__init__(origin)
        self.filenames = texts(filenames, "filenames")
        self.reads = reads
        if not self.types:
            self.types = (dtypes.string,) * (1 + has_keys)
            self.shapes = (TensorShape([]),) * (1 + has_keys)

    def opened(self, name: bytes) -> Generator[ElementRun, None, None]:
        """The blocks of a file, which is opened with the first."""
        opener = self.origin.opener
        if opener is None:
            raise FailedPreconditionError(
                f"{self.origin.op} reads files, but was made without access to files"
            )
        with closing(opener(name)) as file:
            yield from self.reads(file, name)

    def iterator(self, iteration: Iteration) -> DataIterator:
        return FileIterator(iteration, self)


class FileIterator(DataIterator):
    """One run through the records of files."""

    __slots__ = ("_blocks", "_dataset", "_ended", "_error", "_given", "_reading", "_ready", "file", "place")

    FIELDS = ("file", "place")

    def __init__(self, iteration: Iteration, files: FileDataset) -> None:
        super().__init__(iteration)
        self._dataset = files
        #: The number of the file, and of its next record.
        self.file = self.place = 0
        self._blocks: Generator[ElementRun, None, None] | None = None
        self._reading: FileReading | None = None
        self._forget()

    def _forget(self) -> None:
        """Let go of the file that is being read."""
        if self._reading is not None:
            self._reading.drop()
        self._ready = ElementRun()
        self._given = 0
        self._ended = False
        self._error: Exception | None = None
        self._reading = None
        self._blocks = None

    def close(self) -> None:
        self._forget()

    async def _more(self) -> bool:
        """Have records ready; False after the last file. Raises what a file ends with."""
        while self._given >= len(self._ready):
            if self._error is not None:
                error = self._error
                self._next_file()
                raise error
            if self._ended:
                self._next_file()
            if self.file >= len(self._dataset.filenames):
                return False
            await self._read()
        return True

    def _next_file(self) -> None:
        self._forget()
        self.file += 1
        self.place = 0

    async def _read(self) -> None:
        if self._blocks is None:
            self._blocks = self._dataset.opened(self._dataset.filenames[self.file])
        if self._reading is None:
            self._reading = FileReading(self._blocks)
        reading = self._reading
        await reading.wait()
        self._reading = None
        self._ready, self._given = reading.records, 0
        if reading.error is not None:
            self._error = reading.error
        elif reading.ended:
            self._ended = True
        else:
            self._reading = FileReading(self._blocks)

    async def next(self) -> Element | None:
        if self._given >= len(self._ready) and not await self._more():
            return None
        if not self._given & 31:
            await self.iteration.breathe()
        record = self._ready[self._given]
        self._given += 1
        self.place += 1
        return record

    async def take(self, count: int, into: ElementRun | None = None) -> ElementRun:
        taken = ElementRun() if into is None else into
        while len(taken) < count:
            if not await self._more():
                break
            end = min(self._given + count - len(taken), len(self._ready))
            taken += self._ready.part(self._given, end)
            self.place += end - self._given
            self._given = end
            await self.iteration.breathe()
        return taken

    async def restore(self, state: dict[str, Any]) -> None:
        self.file = state["file"]
        for _ in range(state["place"]):
            await self.next()


def tf_record_dataset(
    origin: Origin, filenames: Value, compression_type: Value, buffer_size: Value, *offsets: Value
) -> FileDataset:
    """The records of TFRecord files, from a place in each on if offsets are given."""
    compression = checked_compression(text(compression_type, "compression_type"), b"SNAPPY")
    names = texts(filenames, "filenames")
    starts = dict(zip(names, to_array(offsets[0]).reshape(-1).tolist(), strict=False)) if offsets else {}

    def reads(file: BinaryIO, name: bytes) -> Iterator[ElementRun]:
        if starts.get(name):
            file.seek(starts[name])
        for records in tf_records_alone(source_of(file, compression, name), name):
            yield ElementRun([records])

    return FileDataset(origin, filenames, reads)


def text_line_dataset(
    origin: Origin, filenames: Value, compression_type: Value, buffer_size: Value
) -> FileDataset:
    """The lines of text files, without their ends."""
    compression = checked_compression(text(compression_type, "compression_type"))

    def reads(file: BinaryIO, name: bytes) -> Iterator[ElementRun]:
        return text_lines(source_of(file, compression, name))

    return FileDataset(origin, filenames, reads)


def text_lines(source: RecordSource) -> Iterator[ElementRun]:
    """Lines without their ends, a block at a time; carriage returns are left out wherever they are."""
    held = b""
    while piece := source.read(_PIECE):
        held += piece
        end = held.rfind(b"\n")
        if end >= 0:
            yield ElementRun([held[:end].replace(b"\r", b"").split(b"\n")])
            held = held[end + 1 :]
    if held:
        yield ElementRun([[held.replace(b"\r", b"")]])


def fixed_length_record_dataset(
    origin: Origin,
    filenames: Value,
    header_bytes: Value,
    record_bytes: Value,
    footer_bytes: Value,
    buffer_size: Value,
    compression_type: Value = b"",
) -> FileDataset:
    """Pieces of one size of what is between a file's header and its footer."""
    header, record = scalar(header_bytes, "header_bytes"), scalar(record_bytes, "record_bytes")
    footer = scalar(footer_bytes, "footer_bytes")
    for what, size, least in (
        ("header_bytes", header, 0),
        ("record_bytes", record, 1),
        ("footer_bytes", footer, 0),
        ("buffer_size", scalar(buffer_size, "buffer_size"), 0),
    ):
        if size < least:
            raise InvalidArgumentError(f"{what} must be at least {least}, not {size}")
    compression = checked_compression(text(compression_type, "compression_type"))

    def reads(file: BinaryIO, name: bytes) -> Iterator[ElementRun]:
        if not compression:
            body = os.fstat(file.fileno()).st_size - header - footer
            if body % record:
                raise InvalidArgumentError(
                    f"{shown(name)}: excess bytes of {body % record}: {body} bytes between a header of "
                    f"{header} and a footer of {footer} are no whole records of {record} bytes"
                )
        source = source_of(file, compression, name)
        for block in fixed_length(source, name, header=header, record=record, footer=footer, hop=0):
            yield ElementRun([[record for _, record in block]])

    return FileDataset(origin, filenames, reads)


def lmdb_dataset(origin: Origin, filenames: Value) -> FileDataset:
    """The keys and values of LMDB environments."""

    def reads(file: BinaryIO, name: bytes) -> Iterator[ElementRun]:
        return map(ElementRun.of, lmdb_records(file, name))

    return FileDataset(origin, filenames, reads, has_keys=True)
