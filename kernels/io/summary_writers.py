"""Writers of event files, and what they write: each summary as one event, with step and time.

Events gather in memory and are written on a thread. A writer that was not created is NotFoundError.
"""

from __future__ import annotations

import os
import struct
import time
from typing import Any, Final

import trio

from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.ir.wire import bytes_field
from flowengine.kernels.common.file_access import path_of, require_writing, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io.summaries import histogram_summary
from flowengine.kernels.io.summary_fields import (
    double_field,
    is_message,
    number_field,
    tensor_fields,
    value_entry,
)
from flowengine.kernels.io.summary_media import audio_summary, image_summary
from flowengine.kernels.registry import kernel
from flowengine.resources.event_files import EventFile, SummaryWriter
from flowengine.resources.names import resource_name

_MASK64: Final = (1 << 64) - 1


@kernel("SummaryWriter", heavy=False)
def summary_writer(*, ctx: KernelContext, node: Node, container: bytes, shared_name: bytes) -> SummaryWriter:
    """The writer of this container and name; it writes nothing until it is created."""
    where, name = resource_name(container, shared_name, node.name)
    return ctx.resources.lookup_or_create(where, name, SummaryWriter, lambda: SummaryWriter(name))


def _checked(writer: Any) -> SummaryWriter:
    if isinstance(writer, SummaryWriter):
        return writer
    raise InvalidArgumentError(f"the handle of a summary writer is wanted, not a {type(writer).__name__}")


def _scalar(value: Any, what: str) -> Any:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"{what} must be scalar, but has shape {list(array.shape)}")
    return array.item()


@kernel("CreateSummaryFileWriter", heavy=False)
async def create_summary_file_writer(
    writer: Any,
    logdir: Value,
    max_queue: Any,
    flush_millis: Any,
    filename_suffix: Value,
    *,
    ctx: KernelContext,
) -> None:
    """Begin an event file in a folder, which is made; nothing happens where the writer has one.

    Raises PermissionDeniedError where the system or `Config(file_access=...)` forbids it.
    """
    target = _checked(writer)
    folder = path_of(_scalar(logdir, "logdir"), "logdir")
    suffix = os.fsdecode(_scalar(filename_suffix, "filename_suffix"))
    most, millis = int(_scalar(max_queue, "max_queue")), int(_scalar(flush_millis, "flush_millis"))
    if os.sep in suffix:
        raise InvalidArgumentError(f"filename_suffix must not lead to another folder, but is {suffix!r}")
    require_writing(ctx, folder)
    try:
        await target.open(folder, ctx.files, suffix=suffix, most=most, seconds=millis / 1000)
    except OSError as error:
        raise translated(error, folder) from error


async def _write(file: EventFile) -> None:
    try:
        await file.write()
    except OSError as error:
        raise translated(error, file.path) from error


@kernel("FlushSummaryWriter", heavy=False)
async def flush_summary_writer(writer: Any) -> None:
    """Have all events written that wait."""
    await _write(_checked(writer).file)


@kernel("CloseSummaryWriter", heavy=False)
async def close_summary_writer(writer: Any) -> None:
    """Write what waits, and close the file; the writer may be created anew."""
    target = _checked(writer)
    path = target.file.path
    try:
        await target.close()
    except OSError as error:
        raise translated(error, path) from error


def _event(step: Any, content: bytes) -> bytes:
    """An Event: time, step, and the one field that tells what happened."""
    number = int(_scalar(step, "step")) & _MASK64
    return double_field(1, time.time()) + number_field(2, number) + content


def _tag(tag: Value) -> bytes:
    text: bytes = _scalar(tag, "tag")
    return text


def _scalar_event(step: Any, tag: Value, value: Any) -> bytes:
    number = float(_scalar(value, "value"))
    return _event(step, bytes_field(5, value_entry(_tag(tag), b"\x15" + struct.pack("<f", number))))


def _histogram_event(step: Any, tag: Value, values: Array) -> bytes:
    return _event(step, bytes_field(5, histogram_summary(tag, values)))


def _image_event(step: Any, tag: Value, tensor: Array, bad_color: Array, most: int) -> bytes:
    return _event(step, bytes_field(5, image_summary(tag, to_array(tensor), most, to_array(bad_color))))


def _audio_event(step: Any, tag: Value, tensor: Array, sample_rate: Any, most: int) -> bytes:
    rate = float(_scalar(sample_rate, "sample_rate"))
    return _event(step, bytes_field(5, audio_summary(tag, to_array(tensor), rate, most)))


def _tensor_event(step: Any, tensor: Any, tag: Value, metadata: Value, dtype: DType) -> bytes:
    serialized: bytes = _scalar(metadata, "summary_metadata")
    content = bytes_field(8, tensor_fields(to_array(tensor), dtype))
    if serialized:
        content += bytes_field(9, serialized if is_message(serialized) else b"")
    return _event(step, bytes_field(5, value_entry(_tag(tag), content)))


def _messages(tensor: Value, what: str) -> list[bytes]:
    """The serialised messages of a tensor; InvalidArgumentError where one is none."""
    texts: list[bytes] = to_array(tensor).reshape(-1).tolist()
    for text in texts:
        if not is_message(text):
            raise InvalidArgumentError(f"Could not parse {what} of {len(text)} bytes")
    return texts


async def _write_soon(writer: Any, event: bytes) -> None:
    file = _checked(writer).file
    if file.add(event):
        await _write(file)


@kernel("WriteScalarSummary", heavy=False)
async def write_scalar_summary(writer: Any, step: Any, tag: Value, value: Any) -> None:
    """An event with one number."""
    await _write_soon(writer, _scalar_event(step, tag, value))


@kernel("WriteHistogramSummary")
async def write_histogram_summary(writer: Any, step: Any, tag: Value, values: Array) -> None:
    """An event with the histogram of all values; InvalidArgumentError for a NaN or an infinity."""
    await _write_soon(writer, _histogram_event(step, tag, values))


@kernel("WriteImageSummary")
async def write_image_summary(
    writer: Any, step: Any, tag: Value, tensor: Array, bad_color: Array, *, max_images: int
) -> None:
    """An event with the first images, as PNG."""
    event = await trio.to_thread.run_sync(_image_event, step, tag, tensor, bad_color, max_images)
    await _write_soon(writer, event)


@kernel("WriteAudioSummary")
async def write_audio_summary(
    writer: Any, step: Any, tag: Value, tensor: Array, sample_rate: Any, *, max_outputs: int
) -> None:
    """An event with the first sounds, as waves."""
    event = await trio.to_thread.run_sync(_audio_event, step, tag, tensor, sample_rate, max_outputs)
    await _write_soon(writer, event)


@kernel("WriteSummary")
async def write_summary(
    writer: Any, step: Any, tensor: Any, tag: Value, summary_metadata: Value, *, T: DType
) -> None:
    """An event with one tensor, and metadata of a plugin."""
    await _write_soon(writer, _tensor_event(step, tensor, tag, summary_metadata, T))


@kernel("WriteRawProtoSummary")
async def write_raw_proto_summary(writer: Any, step: Any, tensor: Value) -> None:
    """An event with all values of serialised Summaries."""
    await _write_soon(writer, _event(step, bytes_field(5, b"".join(_messages(tensor, "a Summary")))))


@kernel("WriteGraphSummary")
async def write_graph_summary(writer: Any, step: Any, tensor: Value) -> None:
    """An event with a serialised GraphDef."""
    text = _scalar(tensor, "tensor")
    _messages(tensor, "a GraphDef")
    await _write_soon(writer, _event(step, bytes_field(4, text)))


@kernel("ImportEvent")
async def import_event(writer: Any, event: Value) -> None:
    """A serialised Event as it is."""
    text = _scalar(event, "event")
    _messages(event, "an Event")
    await _write_soon(writer, text)
