"""Whole files in and out, and the names that match a pattern, as far as the configuration allows it.

All work happens on threads. A file is written aside and renamed, so that nobody sees half of it.
"""

from __future__ import annotations

import os
from typing import Any, Final

import trio

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.files.access import Files
from flowengine.kernels.common.file_access import path_of, require_reading, require_writing, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.formatting import strings_like

#: Bytes of a file that are read at a time.
_PIECE: Final = 16 << 20


def _scalar(value: Value, what: str) -> bytes:
    array = to_array(value)
    if array.ndim:
        raise InvalidArgumentError(f"{what} tensor must be scalar, but had shape: {list(array.shape)}")
    text: bytes = array.item()
    return text


@kernel("ReadFile", heavy=False)
async def read_file(filename: Value, *, ctx: KernelContext) -> bytes:
    """The contents of a file (string, rank 0).

    Raises NotFoundError, PermissionDeniedError (also by configuration), or FailedPreconditionError for a
    directory.
    """
    path = path_of(_scalar(filename, "Input filename"))
    require_reading(ctx, path)

    is_over = False
    memory, files = ctx.memory, ctx.files

    def read() -> bytes:
        # In pieces: a device, or a pipe, may have no end, and nobody wants more when the step is over.
        parts: list[bytes] = []
        size = 0
        with files.open(path) as file:
            while not is_over and (part := file.read(_PIECE)):
                size += len(part)
                if memory is not None:
                    memory.check(2 * size)  # the pieces, and what they are joined to
                parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    try:
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    except OSError as error:
        raise translated(error, path) from error
    finally:
        is_over = True


@kernel("WriteFile", heavy=False)
async def write_file(filename: Value, contents: Value, *, ctx: KernelContext) -> None:
    """Write a file, making the folders that it needs; PermissionDeniedError where that is not allowed."""
    path = path_of(_scalar(filename, "Input filename"))
    data = _scalar(contents, "Contents")
    require_writing(ctx, path)
    try:
        await trio.to_thread.run_sync(ctx.files.write_whole, path, data)
    except OSError as error:
        raise translated(error, path) from error


@kernel("MatchingFiles", heavy=False)
async def matching_files(pattern: Value, *, ctx: KernelContext) -> Any:
    """The files that match any of the patterns, sorted (string [n]); `*` and `?` stop at a slash."""
    texts = to_array(pattern).reshape(-1).tolist()
    paths = [path_of(text, "pattern") for text in texts]
    for path in paths:
        require_reading(ctx, path)

    try:
        found = await trio.to_thread.run_sync(matching, paths, ctx.files, abandon_on_cancel=True)
    except OSError as error:
        raise translated(error, paths[0]) from error
    return strings_like(found, (len(found),))


def matching(patterns: list[str], files: Files) -> list[bytes]:
    """The files that match any of the patterns, sorted. May block."""
    return sorted({os.fsencode(found) for pattern in patterns for found in files.matching(pattern)})
