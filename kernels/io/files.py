"""Whole files in and out, and the names that match a pattern, as far as the configuration allows it.

All work happens on threads. A file is written aside and renamed, so that nobody sees half of it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import secrets
from typing import Any, Final

import trio

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError, PermissionDeniedError
from flowengine.kernels.common.file_access import path_of, require_reading, translated
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
    memory = ctx.memory

    def read() -> bytes:
        # In pieces: a device, or a pipe, may have no end, and nobody wants more when the step is over.
        parts: list[bytes] = []
        size = 0
        with open(path, "rb") as file:
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
    if ctx.file_access in ("none", "read"):
        raise PermissionDeniedError(
            f"writing {path!r} is not allowed: Config(file_access={ctx.file_access!r})"
        )

    def write() -> None:
        folder = os.path.dirname(path) or "."
        os.makedirs(folder, exist_ok=True)
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device is written as it is
            with open(path, "wb") as file:
                file.write(data)
            return
        aside = f"{path}.{secrets.token_hex(8)}.writing"
        try:
            with open(aside, "xb") as file:
                file.write(data)
            os.replace(aside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise

    try:
        await trio.to_thread.run_sync(write)
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
        found = await trio.to_thread.run_sync(matching, paths, abandon_on_cancel=True)
    except OSError as error:
        raise translated(error, paths[0]) from error
    return strings_like(found, (len(found),))


def matching(patterns: list[str]) -> list[bytes]:
    """The files that match any of the patterns, sorted. May block."""
    return sorted({os.fsencode(found) for pattern in patterns for found in _matching(pattern)})


def _matching(pattern: str) -> list[str]:
    """Paths that exist and match, part by part; folders that cannot be read have none."""
    found = ["/"] if pattern.startswith("/") else [""]
    for part in filter(None, pattern.split("/")):
        if not any(char in part for char in "*?["):
            found = [path for path in (os.path.join(base, part) for base in found) if os.path.lexists(path)]
            continue
        following: list[str] = []
        for base in found:
            try:
                names = os.listdir(base or ".")
            except OSError:
                continue
            following += [os.path.join(base, name) for name in names if fnmatch.fnmatchcase(name, part)]
        found = following
    return [path for path in found if path]
