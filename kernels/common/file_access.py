"""Reading files for a graph's ops, as far as the configuration allows it."""

from __future__ import annotations

import errno
import os
from typing import Any, Final

import trio

from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnknownError,
)
from flowengine.kernels.context import KernelContext

#: A full disk, an exhausted quota of the user, or a file larger than its file system allows.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def path_of(value: Any, what: str = "filename") -> str:
    """The path in a string tensor of one element, `file://` taken off; InvalidArgumentError for others."""
    if not isinstance(value, bytes):
        if getattr(value, "size", 0) != 1:
            raise InvalidArgumentError(
                f"{what} should be a single string, but has shape {list(getattr(value, 'shape', ()))}"
            )
        value = value.reshape(-1)[0]
    return os.fsdecode(value).removeprefix("file://")


def require_reading(ctx: KernelContext, path: str) -> None:
    """PermissionDeniedError where `Config(file_access=...)` forbids reading."""
    ctx.files.check_reading(path)


def require_writing(ctx: KernelContext, path: str) -> None:
    """PermissionDeniedError where `Config(file_access=...)` forbids writing."""
    ctx.files.check_writing(path)


def translated(error: OSError, path: str) -> Exception:
    """An error of the operating system as one of ours, with the path."""
    message = f"{path}: {error.strerror or error}"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFoundError(message)
    if isinstance(error, PermissionError):
        return PermissionDeniedError(message)
    if isinstance(error, IsADirectoryError):
        return FailedPreconditionError(message)
    if error.errno in _FULL:
        return ResourceExhaustedError(f"{message}")
    return UnknownError(message)


async def read_lines(ctx: KernelContext, path: str) -> list[bytes]:
    """The lines of a file without their ends, read on a thread; cancelled, the thread is left alone.

    Raises NotFoundError, PermissionDeniedError, or FailedPreconditionError for a directory.
    """
    require_reading(ctx, path)

    def read() -> list[bytes]:
        with ctx.files.open(path) as file:
            return [line.rstrip(b"\n").replace(b"\r", b"") for line in file]

    try:
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    except OSError as error:
        raise translated(error, path) from error
