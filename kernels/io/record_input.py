"""Random records of many files as one node, without a queue."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, BinaryIO

import trio

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.files.access import Files
from flowengine.ir.graph import Node
from flowengine.kernels.common.file_access import require_reading, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.io.files import matching
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.formatting import strings_like
from flowengine.resources.names import resource_name
from flowengine.resources.record_input import RecordInput
from flowengine.resources.records import checked_compression


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
