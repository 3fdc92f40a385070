"""Readers as nodes: of whole files, lines, blocks of one length, TFRecords, and of names themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.context import KernelContext
from flowengine.kernels.file_access import require_reading, translated
from flowengine.kernels.registry import kernel
from flowengine.resources.names import resource_name
from flowengine.resources.queue import Queue
from flowengine.resources.reader import Reader
from flowengine.resources.records import Record, fixed_length, text_lines, tf_records, whole_file


def _shared(
    ctx: KernelContext,
    node: Node,
    records: Callable[[bytes], Iterator[Record]],
    *,
    at_once: bool = False,
    inline: bool = False,
) -> Reader:
    """The reader of the node's container and name."""
    where, name = resource_name(node.attrs["container"], node.attrs["shared_name"], node.name)
    kind = node.op.removesuffix("V2")
    found = ctx.resources.lookup_or_create(
        where,
        name,
        Reader,
        lambda: Reader(kind, name, records, at_once=at_once, inline=inline, container=where),
    )
    if found.kind != kind:
        raise InvalidArgumentError(f"reader '{name}' is a {found.kind}, but a {kind} was requested")
    return found


def _identity(work: bytes) -> Iterator[Record]:
    yield work, work


@kernel("IdentityReader", "IdentityReaderV2", heavy=False)
def identity_reader(*, ctx: KernelContext, node: Node) -> Reader:
    """A reader whose records are the names of work themselves, as key and value."""
    return _shared(ctx, node, _identity, at_once=True, inline=True)


@kernel("WholeFileReader", "WholeFileReaderV2", heavy=False)
def whole_file_reader(*, ctx: KernelContext, node: Node) -> Reader:
    """A reader of files as one record each."""
    return _shared(ctx, node, whole_file, at_once=True)


@kernel("TextLineReader", "TextLineReaderV2", heavy=False)
def text_line_reader(*, ctx: KernelContext, node: Node, skip_header_lines: int) -> Reader:
    """A reader of lines, after the first `skip_header_lines` of each file."""
    return _shared(ctx, node, partial(text_lines, skip_header_lines=skip_header_lines))


@kernel("FixedLengthRecordReader", "FixedLengthRecordReaderV2", heavy=False)
def fixed_length_record_reader(*, ctx: KernelContext, node: Node) -> Reader:
    """A reader of blocks of `record_bytes`, between a header and a footer."""
    attrs = node.attrs
    for name in ("header_bytes", "record_bytes", "footer_bytes", "hop_bytes"):
        if attrs[name] < (1 if name == "record_bytes" else 0):
            raise InvalidArgumentError(f"{name} is {attrs[name]}, which is too small")
    records = partial(
        fixed_length,
        header=attrs["header_bytes"],
        record=attrs["record_bytes"],
        footer=attrs["footer_bytes"],
        hop=attrs["hop_bytes"],
        compression=_compression(attrs.get("encoding", b"")),
    )
    return _shared(ctx, node, records)


@kernel("TFRecordReader", "TFRecordReaderV2", heavy=False)
def tf_record_reader(*, ctx: KernelContext, node: Node, compression_type: bytes) -> Reader:
    """A reader of TFRecord files: plain, or compressed with ZLIB or GZIP."""
    return _shared(ctx, node, partial(tf_records, compression=_compression(compression_type)))


def _compression(value: bytes) -> str:
    if value not in (b"", b"ZLIB", b"GZIP"):
        raise InvalidArgumentError(f"unknown compression {value!r}: it must be empty, 'ZLIB' or 'GZIP'")
    return value.decode()


def _reader(handle: Any) -> Reader:
    if isinstance(handle, Reader):
        return handle
    raise InvalidArgumentError(f"the handle of a reader is wanted, not a {type(handle).__name__}")


def _queue(handle: Any) -> Queue:
    if isinstance(handle, Queue):
        return handle
    raise InvalidArgumentError(f"the handle of a queue is wanted, not a {type(handle).__name__}")


def _permit(ctx: KernelContext, reader: Reader) -> Callable[[bytes], None]:
    """What says whether a file may be read; names that are not opened may always be."""
    if reader.kind == "IdentityReader":
        return lambda work: None
    return lambda work: require_reading(ctx, os.fsdecode(work))


def _read_nowait(reader_handle: Any, queue_handle: Any, *, ctx: KernelContext) -> Any:
    _queue(queue_handle)
    return _reader(reader_handle).next_nowait()


@kernel("ReaderRead", "ReaderReadV2", heavy=False, nowait=_read_nowait)
async def reader_read(reader_handle: Any, queue_handle: Any, *, ctx: KernelContext) -> Record:
    """(key, value) of the next record, work being taken from the queue as it is needed."""
    reader = _reader(reader_handle)
    try:
        return await reader.next(_queue(queue_handle), _permit(ctx, reader))
    except OSError as error:
        raise translated(error, str(error.filename)) from error


@kernel("ReaderReadUpTo", "ReaderReadUpToV2", heavy=False)
async def reader_read_up_to(
    reader_handle: Any, queue_handle: Any, num_records: Any, *, ctx: KernelContext
) -> tuple[Array, Array]:
    """Keys and values of up to `num_records` (int64, rank 0) records of one piece of work."""
    reader = _reader(reader_handle)
    if getattr(num_records, "ndim", 0):
        raise InvalidArgumentError(f"num_records must be a scalar, not of shape {list(num_records.shape)}")
    if num_records <= 0:
        raise InvalidArgumentError(f"num_records must be positive, but is {int(num_records)}")
    try:
        keys, values = await reader.next_up_to(_queue(queue_handle), int(num_records), _permit(ctx, reader))
    except OSError as error:
        raise translated(error, str(error.filename)) from error
    return _strings(keys), _strings(values)


def _strings(values: list[bytes]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@kernel("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2", heavy=False)
def reader_num_records_produced(reader_handle: Any) -> Any:
    """How many records were read (int64, rank 0)."""
    return np.int64(_reader(reader_handle).records_produced)


@kernel("ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2", heavy=False)
def reader_num_work_units_completed(reader_handle: Any) -> Any:
    """How many pieces of work were read to their end (int64, rank 0)."""
    return np.int64(_reader(reader_handle).work_finished)


@kernel("ReaderSerializeState", "ReaderSerializeStateV2", heavy=False)
def reader_serialize_state(reader_handle: Any) -> bytes:
    """The reader's state, for `ReaderRestoreState`."""
    return _reader(reader_handle).serialize_state()


@kernel("ReaderRestoreState", "ReaderRestoreStateV2", heavy=False)
def reader_restore_state(reader_handle: Any, state: Value) -> None:
    """Bring a reader back to a state (string, rank 0) of one of its kind."""
    array = to_array(state)
    if array.ndim:
        raise InvalidArgumentError(f"Reader state must be scalar, but had shape: {list(array.shape)}")
    (value,) = array.reshape(-1).tolist()
    _reader(reader_handle).restore_state(value)


@kernel("ReaderReset", "ReaderResetV2", heavy=False)
def reader_reset(reader_handle: Any) -> None:
    """Bring a reader back to where it began."""
    _reader(reader_handle).reset()
