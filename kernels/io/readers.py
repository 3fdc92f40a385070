"""Records read from files by readers and batches."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import trio

from flowengine.core.arrays import WOULD_WAIT, Value, to_array
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.files.access import Files
from flowengine.ir.graph import Node
from flowengine.kernels.common.file_access import path_of, require_reading, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io.files import matching
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.text import strings_like
from flowengine.resources.lmdb import lmdb_records
from flowengine.resources.names import resource_name
from flowengine.resources.queue import Queue
from flowengine.resources.reader import Opener, Reader
from flowengine.resources.record_input import RecordInput
from flowengine.resources.records import (
    Block,
    Format,
    Record,
    checked_compression,
    fixed_length,
    lines,
    source_of,
    whole,
)
from flowengine.resources.tf_records import tf_records

# Readers as nodes. The ops of both generations share these kernels: the handle is the reader itself.


def _shared(
    ctx: KernelContext,
    node: Node,
    container: bytes,
    shared_name: bytes,
    form: Format | None,
    has_state: bool = False,
) -> Reader:
    """The reader of this container and name; InvalidArgumentError where it is one of another kind."""
    where, name = resource_name(container, shared_name, node.name)
    kind = node.op.removesuffix("V2")
    reader = ctx.resources.lookup_or_create(
        where, name, Reader, lambda: Reader(kind, name, where, form, has_state)
    )
    if reader.kind != kind:
        raise InvalidArgumentError(f"Shared reader '{name}' is a {reader.kind} but a {kind} was requested")
    return reader


@kernel("IdentityReader", "IdentityReaderV2", heavy=False)
def identity_reader(*, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes) -> Reader:
    """A reader that gives each name of the queue as key and as record."""
    return _shared(ctx, node, container, shared_name, None, has_state=True)


@kernel("WholeFileReader", "WholeFileReaderV2", heavy=False)
def whole_file_reader(*, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes) -> Reader:
    """A reader whose records are whole files."""
    return _shared(ctx, node, container, shared_name, whole, has_state=True)


@kernel("TextLineReader", "TextLineReaderV2", heavy=False)
def text_line_reader(
    *, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes, skip_header_lines: int
) -> Reader:
    """A reader of lines, without the first `skip_header_lines` of each file."""
    if skip_header_lines < 0:
        raise InvalidArgumentError(f"skip_header_lines must be >= 0 not {skip_header_lines}")
    return _shared(ctx, node, container, shared_name, functools.partial(lines, skip=skip_header_lines))


@kernel("TFRecordReader", "TFRecordReaderV2", heavy=False)
def tf_record_reader(
    *, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes, compression_type: bytes
) -> Reader:
    """A reader of TFRecord files, plain or compressed ("ZLIB", "GZIP")."""
    compression = checked_compression(compression_type)

    def form(file: BinaryIO, name: bytes) -> Iterator[Block]:
        return tf_records(source_of(file, compression, name), name)

    return _shared(ctx, node, container, shared_name, form)


@kernel("LMDBReader", heavy=False)
def lmdb_reader(*, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes) -> Reader:
    """A reader of the keys and values of LMDB environments, each a folder or a file."""
    return _shared(ctx, node, container, shared_name, lmdb_records)


def _fixed(
    ctx: KernelContext,
    node: Node,
    names: tuple[bytes, bytes],
    sizes: tuple[int, int, int, int],
    encoding: bytes,
) -> Reader:
    header, record, footer, hop = sizes
    for what, size, least in (
        ("header_bytes", header, 0),
        ("record_bytes", record, 1),
        ("footer_bytes", footer, 0),
        ("hop_bytes", hop, 0),
    ):
        if size < least:
            raise InvalidArgumentError(f"{what} must be >= {least} not {size}")
    compression = checked_compression(encoding)

    def form(file: BinaryIO, name: bytes) -> Iterator[Block]:
        source = source_of(file, compression, name)
        return fixed_length(source, name, header=header, record=record, footer=footer, hop=hop)

    return _shared(ctx, node, *names, form)


@kernel("FixedLengthRecordReader", heavy=False)
def fixed_length_record_reader(
    *,
    ctx: KernelContext,
    node: Node,
    container: bytes,
    shared_name: bytes,
    header_bytes: int,
    record_bytes: int,
    footer_bytes: int,
    hop_bytes: int,
) -> Reader:
    """A reader of records of one size."""
    sizes = (header_bytes, record_bytes, footer_bytes, hop_bytes)
    return _fixed(ctx, node, (container, shared_name), sizes, b"")


@kernel("FixedLengthRecordReaderV2", heavy=False)
def fixed_length_record_reader_v2(
    *,
    ctx: KernelContext,
    node: Node,
    container: bytes,
    shared_name: bytes,
    header_bytes: int,
    record_bytes: int,
    footer_bytes: int,
    hop_bytes: int,
    encoding: bytes,
) -> Reader:
    """A reader of records of one size, in files that may be compressed ("ZLIB", "GZIP")."""
    sizes = (header_bytes, record_bytes, footer_bytes, hop_bytes)
    return _fixed(ctx, node, (container, shared_name), sizes, encoding)


def _reader(handle: Any) -> Reader:
    if isinstance(handle, Reader):
        return handle
    raise InvalidArgumentError(f"the handle of a reader is wanted, not a {type(handle).__name__}")


def _queue(handle: Any) -> Queue:
    if isinstance(handle, Queue):
        return handle
    raise InvalidArgumentError(f"the handle of a queue is wanted, not a {type(handle).__name__}")


def _opener(ctx: KernelContext, reader: Reader) -> Opener:
    def opened(name: bytes) -> BinaryIO:
        path = path_of(name)
        require_reading(ctx, path)
        try:
            if reader.kind == "LMDBReader" and ctx.files.is_folder(path):
                path = os.path.join(path, "data.mdb")
            return ctx.files.open(path)
        except OSError as error:
            raise translated(error, path) from error

    return opened


def _read_nowait(reader: Any, queue: Any, *, ctx: KernelContext) -> Any:
    return _reader(reader).read_nowait()


@kernel("ReaderRead", "ReaderReadV2", heavy=False, nowait=_read_nowait)
async def reader_read(reader: Any, queue: Any, *, ctx: KernelContext) -> Record:
    """Key and record (both string, rank 0), waiting for the queue and the file.

    Raises OutOfRangeError where the queue is closed and empty, NotFoundError for a file that is not
    there, PermissionDeniedError where reading is forbidden, and DataLossError for a damaged file.
    """
    taker = _reader(reader)
    record: Record = await taker.read(_queue(queue), _opener(ctx, taker))
    return record


def _limit(num_records: Any) -> int:
    count = int(num_records)
    if count <= 0:
        raise InvalidArgumentError(f"num_records must be positive, not {count}")
    return count


def _columns(records: Any) -> tuple[Value, Value]:
    keys, values = zip(*records, strict=True)
    return strings_like(keys, (len(keys),)), strings_like(values, (len(values),))


def _read_up_to_nowait(reader: Any, queue: Any, num_records: Any, *, ctx: KernelContext) -> Any:
    records = _reader(reader).read_nowait(_limit(num_records))
    return records if records is WOULD_WAIT else _columns(records)


@kernel("ReaderReadUpTo", "ReaderReadUpToV2", heavy=False, nowait=_read_up_to_nowait)
async def reader_read_up_to(
    reader: Any, queue: Any, num_records: Any, *, ctx: KernelContext
) -> tuple[Value, Value]:
    """Keys and records (both string [n]), from 1 to `num_records` of one file. Raises as ReaderRead."""
    taker = _reader(reader)
    return _columns(await taker.read(_queue(queue), _opener(ctx, taker), _limit(num_records)))


@kernel("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2", heavy=False)
def reader_num_records_produced(reader: Any) -> Any:
    """Records given so far (int64, rank 0)."""
    return np.int64(_reader(reader).produced)


@kernel("ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2", heavy=False)
def reader_num_work_units_completed(reader: Any) -> Any:
    """Files finished so far (int64, rank 0)."""
    return np.int64(_reader(reader).finished)


@kernel("ReaderReset", "ReaderResetV2", heavy=False)
def reader_reset(reader: Any) -> None:
    """Begin anew: counts at zero, the current file forgotten."""
    _reader(reader).reset()


@kernel("ReaderSerializeState", "ReaderSerializeStateV2", heavy=False)
def reader_serialize_state(reader: Any) -> bytes:
    """The reader's state; UnimplementedError for kinds that have none that can be saved."""
    return _reader(reader).serialize()


@kernel("ReaderRestoreState", "ReaderRestoreStateV2", heavy=False)
def reader_restore_state(reader: Any, state: Value) -> None:
    """Put a state back; InvalidArgumentError for bytes that are none."""
    array = to_array(state)
    if array.ndim:
        raise InvalidArgumentError(f"Reader state must be scalar, but had shape: {list(array.shape)}")
    _reader(reader).restore(array.item())


# Random records of many files as one node, without a queue.


def _opened(files: Files, name: bytes) -> BinaryIO:
    path = os.fsdecode(name)
    try:
        return files.open(path)
    except OSError as error:
        raise translated(error, path) from error


@kernel("RecordInput", heavy=False)
async def record_input(
    *,
    ctx: KernelContext,
    node: Node,
    file_pattern: bytes,
    file_random_seed: int,
    file_shuffle_shift_ratio: float,
    file_buffer_size: int,
    batch_size: int,
    compression_type: bytes,
) -> Value:
    """Records in random order (string [batch_size]), each once an epoch, for ever.

    Raises NotFoundError where no file matches, DataLossError for a damaged one, PermissionDeniedError
    where reading is forbidden. `file_parallelism` is of no consequence here.
    """
    pattern = os.fsdecode(file_pattern).removeprefix("file://")
    require_reading(ctx, pattern)
    if batch_size < 1:
        raise InvalidArgumentError(f"batch_size must be positive, not {batch_size}")
    where, name = resource_name(b"", b"", node.name)
    source: Any = ctx.resources.find(where, name, RecordInput)
    if source is None:
        names = await trio.to_thread.run_sync(matching, [pattern], ctx.files)
        if not names:
            raise NotFoundError(f"Found no files at {pattern}")
        compression = checked_compression(compression_type)
        source = ctx.resources.lookup_or_create(
            where,
            name,
            RecordInput,
            lambda: RecordInput(
                names,
                partial(_opened, ctx.files),
                compression=compression,
                seed=file_random_seed,
                shift=min(max(file_shuffle_shift_ratio, 0.0), 1.0),
                buffer_size=file_buffer_size,
            ),
        )
    return strings_like(await source.draw(batch_size), (batch_size,))
